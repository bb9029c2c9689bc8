"""What the doctor looks with: the real name service and network, and what the configuration says of ourselves."""

import socket
from collections.abc import Iterable

from mta.app import settings
from mta.app.runtime import SystemEntropy
from mta.config.load import named
from mta.config.model import Config
from mta.delivery.route import Router
from mta.dns.reachability import look, source_to
from mta.dns.resolver import DnsResolver
from mta.doctor.findings import Finding, Level
from mta.doctor.sender import SigningKey, look_at_dkim, look_at_dmarc, look_at_name, look_at_spf, our_addresses
from mta.doctor.way_out import WayOut
from mta.ports import Timeouts
from mta.smtp.connector import SmtpConnector

PATIENCE = 10.0
"""Seconds for each step of a conversation: a server that is slower is said to be."""
FAR_AWAY = ("192.0.2.1", "2001:db8::1")
"""The route there is the way out; nothing is sent."""


async def examine(config: Config, keys: Iterable[SigningKey], destination: str) -> list[Finding]:
    """All there is to say of ourselves, and of `destination` ("": the postmaster's domain, if there is one). Raises
    `ConfigError` where the machine has no name that could be used."""
    config = config if config.hostname else named(config, socket.getfqdn())
    resolver = DnsResolver(config.dns.nameservers, config.dns.timeout, config.dns.trust_ad)
    hostname = settings.hostname(config)
    outward = [it for it in map(source_to, FAR_AWAY) if it]
    addresses, found = our_addresses(outward, (await resolver.addresses(hostname)).addresses)
    findings = [*found, *await look_at_name(resolver, hostname, addresses)]
    for domain in _sender_domains(config):
        findings += await look_at_spf(resolver, domain, addresses)
        findings.append(await look_at_dmarc(resolver, domain))
    for key in keys:
        findings.append(await look_at_dkim(resolver, key))
    if not config.dkim:
        advice = "make a key: `mta dkim keygen DOMAIN`"
        findings.append(Finding(Level.WARNING, "DKIM", "nothing is signed: large receivers ask for it", advice))
    return findings + await _way_out(config, resolver, hostname, destination)


def _sender_domains(config: Config) -> list[str]:
    """Those that mail is sent from, as far as the configuration says."""
    given = [table.domain for table in config.dkim]
    given += [it for client in config.submission.client for it in client.sender_domains or () if not it.startswith("*.")]
    given += [config.postmaster.rpartition("@")[2].lower()] if config.postmaster and not given else []
    return list(dict.fromkeys(given))


async def _way_out(config: Config, resolver: DnsResolver, hostname: str, destination: str) -> list[Finding]:
    target = destination or (config.postmaster or "").rpartition("@")[2].lower()
    if not target:
        return [Finding(Level.NOTE, "the way out", "not looked at", "name a domain that you send to: `mta doctor DOMAIN`")]
    router = Router(resolver, look, settings.routing(config, ()), SystemEntropy().stream("routing"))
    limits = Timeouts(connect=PATIENCE, greeting=PATIENCE, command=PATIENCE)
    way = WayOut(SmtpConnector(hostname, limits))
    return await way.look(target, await router.candidates(target), config.delivery.port)

