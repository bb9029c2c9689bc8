"""Whether a domain that is taken for local has its mail elsewhere: then what is meant for others stays here. Asked of the
name service, so it is a warning and no more."""

import asyncio
from collections.abc import Iterable

from mta.config.model import Config
from mta.config.problems import Problem
from mta.dns.resolver import DnsResolver
from mta.dns.servers import system_servers
from mta.ports.names import Lookup, MxAnswer, Resolver

PATIENCE = 3.0
"""Seconds for each question, at most."""


def domains_elsewhere(config: Config) -> list[Problem]:
    """A warning for each local domain whose MX records name other hosts."""
    domains = [it.lower() for it in (*config.local_domains, config.hostname or "") if "." in it.strip("[]")]
    if not domains:
        return []
    resolver = DnsResolver(config.dns.nameservers, min(config.dns.timeout, PATIENCE))
    return asyncio.run(_ask(resolver, list(dict.fromkeys(domains)), config))


def system_addresses() -> list[str]:
    """Of the system's name servers."""
    return [address for address, _ in system_servers()]


async def _ask(resolver: Resolver, domains: list[str], config: Config) -> list[Problem]:
    answers = await asyncio.gather(*map(resolver.mail_exchangers, domains))
    own = {it.lower() for it in (config.hostname, "localhost") if it}
    return [_warning(domain, answer) for domain, answer in zip(domains, answers, strict=True) if _leads_away(answer, own)]


def _leads_away(answer: MxAnswer, own: Iterable[str]) -> bool:
    hosts = {exchanger.host.lower() for exchanger in answer.exchangers if exchanger.host}
    return answer.lookup is Lookup.FOUND and bool(hosts) and hosts.isdisjoint(own)


def _warning(domain: str, answer: MxAnswer) -> Problem:
    best = min(answer.exchangers, key=lambda it: it.preference).host
    return Problem("local_domains", f"{domain} has its mail at {best}; mail to it from here goes to [aliases] instead")
