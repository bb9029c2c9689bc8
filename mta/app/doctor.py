"""What the doctor looks with: the real name service and network, and what the configuration says of ourselves."""

import asyncio
import os
from collections.abc import Awaitable, Iterator

from mta.app import settings
from mta.app.credentials import hidden
from mta.app.runtime import SystemEntropy, named_here
from mta.app.signing import read_keys
from mta.config.model import Config
from mta.delivery.route import Router
from mta.delivery.security import Security
from mta.dns.reachability import look, source_to
from mta.dns.resolver import DnsResolver
from mta.doctor.findings import Finding, Level
from mta.doctor.sender import (
    SigningKey,
    look_at_dkim,
    look_at_dmarc,
    look_at_name,
    look_at_spf,
    look_at_spf_record,
    mail_leaves_by,
    our_addresses,
)
from mta.doctor.way_out import WayOut
from mta.model.tls import OPPORTUNISTIC, StsPolicy, TlsResult
from mta.policy.candidates import Candidate
from mta.policy.destinations import Relay
from mta.policy.sts import NoPolicy, parse_policy, policy_id
from mta.policy.tls import NO_NEEDS, Plan, at_relay
from mta.ports.smtp import Timeouts
from mta.smtp.connector import SmtpConnector
from mta.sts.fetch import PolicyServers

TIME_LIMIT = 45.0
"""Seconds for each thing that is looked at; all are looked at together, once our own addresses are known."""
PATIENCE = 10.0
"""Seconds for each step of a conversation: a server that is slower is said to be."""
FAR_AWAY = ("192.0.2.1", "2001:db8::1")
"""The route there is the way out; nothing is sent."""
Look = Awaitable[list[Finding]]


class Doctor:
    """Looks at one configuration. Raises `ConfigError` where a key can't be read, or the machine has no name that could be
    used."""

    def __init__(self, config: Config) -> None:
        self._config = named_here(config)
        self._hostname = settings.hostname(self._config)
        self._resolver = DnsResolver(config.dns.nameservers, config.dns.timeout, config.dns.trust_ad)
        self._unseen = hidden((table.key for table in config.dkim), os.environ)
        seen = tuple(table for table in config.dkim if table.key not in self._unseen)
        keys = zip(seen, read_keys(config.model_copy(update={"dkim": seen}), os.environ).keys, strict=True)
        self._keys = [SigningKey(table.domain, table.selector, key.public) for table, key in keys]

    async def examine(self, destination: str) -> list[Finding]:
        """All there is to say of ourselves, and of `destination` ("": the postmaster's domain, if there is one)."""
        way_out = _in_time("the way out", self._way_out(destination))
        ours, theirs = await asyncio.gather(self._ourselves(), way_out)
        return ours + theirs

    async def _ourselves(self) -> list[Finding]:
        looks = self._seen_by_relay(relay) if (relay := self._relay()) else await self._seen_directly()
        for domain in self._sender_domains():
            looks.append(_in_time(f"DMARC of {domain}", _alone(look_at_dmarc(self._resolver, domain))))
        looks += (_in_time(f"DKIM of {key.domain}", _alone(look_at_dkim(self._resolver, key))) for key in self._keys)
        findings = [it for look in await asyncio.gather(*looks) for it in look]
        return [*findings, *self._keys_not_looked_at()]

    def _relay(self) -> Relay | None:
        """Where mail for anybody goes first."""
        return settings.destinations(self._config).route("anybody.invalid").vias[0]

    def _seen_by_relay(self, relay: Relay) -> list[Look]:
        looks = [_alone(_found(mail_leaves_by(relay)))]
        looks += (_alone(look_at_spf_record(self._resolver, it, relay)) for it in self._sender_domains())
        return [_in_time("SPF", it) for it in looks]

    async def _seen_directly(self) -> list[Look]:
        """At the addresses that this machine sends from."""
        resolver = self._resolver
        outward = [it for route in self._config.route for it in route.source] or [*filter(None, map(source_to, FAR_AWAY))]
        addresses, found = our_addresses(outward, (await resolver.addresses(self._hostname)).addresses)
        looks: list[Look] = [_alone(_found(it)) for it in found]
        looks.append(_in_time(f"the name {self._hostname}", look_at_name(resolver, self._hostname, addresses)))
        looks += (_in_time(f"SPF of {it}", look_at_spf(resolver, it, addresses)) for it in self._sender_domains())
        return looks

    def _keys_not_looked_at(self) -> Iterator[Finding]:
        if self._unseen:
            what = f"{' and '.join(self._unseen)} can only be looked at by the service, not here"
            yield Finding(Level.NOTE, "DKIM", what)
        elif not self._keys:
            advice = "make a key: `mta dkim keygen DOMAIN`"
            yield Finding(Level.WARNING, "DKIM", "nothing is signed: large receivers ask for it", advice)

    def _sender_domains(self) -> list[str]:
        """Those that mail is sent from, as far as the configuration says."""
        config = self._config
        given = [table.domain for table in config.dkim]
        given += [it for client in config.submission.client for it in client.sender_domains or () if it[:2] != "*."]
        given += [config.postmaster.rpartition("@")[2].lower()] if config.postmaster and not given else []
        return list(dict.fromkeys(given))

    async def _way_out(self, destination: str) -> list[Finding]:
        target = destination or (self._config.postmaster or "").rpartition("@")[2].lower()
        if not target:
            advice = "name a domain that you send to: `mta doctor DOMAIN`"
            return [Finding(Level.NOTE, "the way out", "not looked at", advice)]
        router = Router(self._resolver, look, settings.routing(self._config, ()), SystemEntropy().stream("routing"))
        router.destinations = settings.destinations(self._config)
        security = Security(self._resolver, self, settings.security(self._config), lambda _: None)

        async def plan(candidate: Candidate) -> Plan:
            if candidate.relay is not None:
                return at_relay(candidate.demand or OPPORTUNISTIC, candidate.host, NO_NEEDS)
            return await security.plan(target, candidate, candidate.port, NO_NEEDS)

        limits = Timeouts(connect=PATIENCE, greeting=PATIENCE, command=PATIENCE)
        way = WayOut(SmtpConnector(self._hostname, limits))
        return await way.look(target, await router.candidates(target), plan)

    async def of(self, domain: str) -> StsPolicy | None:
        """The policy as it is published now (`ports.sts.StsPolicies`)."""
        answer = await self._resolver.texts(f"_mta-sts.{domain}")
        if not self._config.tls.mta_sts or not policy_id(answer.texts):
            return None
        fetched = await PolicyServers(self._resolver, time_limit=PATIENCE)(
            domain, self._config.delivery.allow_private_addresses
        )
        try:
            return parse_policy(fetched.text) if fetched.result is TlsResult.SUCCESS else None
        except NoPolicy:
            return None

    def known(self, domain: str) -> StsPolicy | None:
        """Nothing is kept."""
        return None


async def _in_time(about: str, look: Awaitable[list[Finding]]) -> list[Finding]:
    try:
        async with asyncio.timeout(TIME_LIMIT):
            return await look
    except TimeoutError:
        return [Finding(Level.NOTE, about, f"could not be looked at within {TIME_LIMIT:g} s")]


async def _alone(look: Awaitable[Finding]) -> list[Finding]:
    return [await look]


async def _found(finding: Finding) -> Finding:
    return finding
