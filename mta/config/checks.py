"""What the keys of a configuration say together: contradictions that refuse it, and what deserves a warning."""

import ipaddress
from collections import Counter
from collections.abc import Iterable, Iterator

from mta.config.model import Alerts, Config, Dkim, Submission
from mta.config.places import IpNetwork
from mta.config.problems import Problem
from mta.config.routes import route_contradictions, route_warnings
from mta.model.address import parse_address
from mta.model.door import Door, Scheme
from mta.model.units import duration_in_words
from mta.policy.destinations import matches

_PRIVATE = tuple(
    ipaddress.ip_network(text)
    for text in (
        "127.0.0.0/8",
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "169.254.0.0/16",
        "::1/128",
        "fc00::/7",
        "fe80::/10",
    )
)
"""Loopback, private and link-local networks; not the shared space of RFC 6598, where a provider\'s customers are."""
_LEADS_BACK = "{} leads back here: expected an address whose mail is kept elsewhere"
SMALLEST_LIMIT_OF_SIZE = 64 * 2**10
SMALLEST_LIMIT_OF_RECIPIENTS = 100
"""What a server must be able to take: RFC 5321 sections 4.5.3.1.7 and 4.5.3.1.8."""


def contradictions(config: Config) -> Iterator[Problem]:
    yield from _who_may_submit(config)
    yield from _client_rules(config)
    yield from _destination_tables(config)
    yield from _loops(config)
    yield from _repeated_doors(config.submission.listen)
    yield from _socket_clash(config)
    yield from _incomplete_tls(config.submission)
    yield from _untrusted_proxies(config.submission)
    yield from _repeated_keys(config.dkim)
    yield from route_contradictions(config)
    spool = config.spool
    if "content_retention" in spool.model_fields_set and spool.content_retention > spool.retention:
        limit = duration_in_words(spool.retention)
        yield Problem("spool.content_retention", f"expected at most spool.retention ({limit})")


def warnings(config: Config) -> Iterator[Problem]:
    if config.postmaster is None:
        yield Problem("postmaster", "not set: reports and alerts reach nobody (see `mta dead`), local mail is refused")
    yield from _submission_warnings(config)
    yield from _hostname_warnings(config.hostname)
    yield from _limit_warnings(config)
    yield from _limits_in_vain(config)
    yield from _health_warnings(config.alerts)
    yield from route_warnings(config)
    yield from _tls_report_warnings(config)
    if config.dns.nameservers:
        yield from dane_warnings(config, (host for host, _ in config.dns.nameservers))
    for mail_class, policy in config.classes.items():
        key = f"class.{mail_class.label}"
        if policy.warn_after >= policy.give_up_after:
            yield Problem(f"{key}.warn_after", 'not before give_up_after: no "delayed" notice will ever be sent')
        if policy.max_interval < policy.first_retry:
            yield Problem(f"{key}.max_interval", "below first_retry: every wait has this length")
        if policy.deadline >= policy.give_up_after:
            yield Problem(f"{key}.deadline", "not before give_up_after: it changes nothing")


def at_doors(config: Config, doors: Iterable[Door]) -> Iterator[Problem]:
    """What is wrong with who may submit where the daemon really listens: systemd's sockets take the place of `listen`, and a
    reload neither opens nor closes any."""
    real = config.submission.model_copy(update={"listen": tuple(doors)})
    yield from _who_may_submit(config.model_copy(update={"submission": real}))


# ---------------------------------------------------------------- who may submit
def _who_may_submit(config: Config) -> Iterator[Problem]:
    if not config.submission.i_know_this_is_an_open_relay:
        yield from _open_relay(config)
    yield from _who_may_log_in(config)


def _open_relay(config: Config) -> Iterator[Problem]:
    """Whoever may submit may send mail to everybody: no network of strangers, on no listener that they reach."""
    reachable = _reachable(config)
    for network in config.submission.allow:
        if network.prefixlen == 0:
            yield Problem("submission.allow", f'"{network}" would be an open relay: expected your own networks')
        elif reachable and not _is_own(network):
            yield Problem(
                "submission.allow",
                f'"{network}" would be an open relay on {", ".join(reachable)}: '
                "expected private networks or single addresses",
            )


def _reachable(config: Config) -> list[str]:
    """Where others than this machine come in."""
    reachable = [str(door) for door in config.submission.listen if not _is_on_this_machine(door)]
    if config.submission.proxy_protocol_from:
        reachable.append("the other side of a proxy (submission.proxy_protocol_from)")
    return reachable


def _has_tls(config: Config) -> bool:
    return config.submission.tls.certificate is not None


def _who_may_log_in(config: Config) -> Iterator[Problem]:
    """Where others than this machine come in, somebody is meant to; and no password in clear."""
    where = ", ".join(_reachable(config))
    if where and config.submission.users_file is None and not config.submission.allow:
        yield Problem("submission.listen", f"nobody may submit at {where}: expected users_file, or allow")
    if where and config.submission.users_file is not None and not _has_tls(config):
        advice = "expected a certificate for TLS"
        yield Problem("submission.users_file", f"passwords would cross the network in clear at {where}: {advice}")


def _client_rules(config: Config) -> Iterator[Problem]:
    for number, client in enumerate(config.submission.client, 1):
        if client.user is None and client.network is None:
            yield Problem("submission.client", f"the rule number {number} says not for whom: expected user, network or both")
        for burst, rate in (("burst", "messages"), ("recipients_burst", "recipients")):
            if getattr(client, burst) is not None and getattr(client, rate) is None:
                yield Problem("submission.client", f"{burst} says nothing without {rate}, in the rule number {number}")


def _destination_tables(config: Config) -> Iterator[Problem]:
    for number, table in enumerate(config.destination, 1):
        if table.burst is not None and table.rate is None:
            yield Problem("destination", f"burst says nothing without rate, in the table number {number}")


def _limits_in_vain(config: Config) -> Iterator[Problem]:
    """What goes by a relay has the relay's limits."""
    routes = [(route.match, route.via[0]) for route in config.route]
    for number, table in enumerate(config.destination, 1):
        keys = sorted({"max_sessions", "messages_per_session", "rate"} & table.model_fields_set)
        for pattern in table.match if keys else ():
            name = f"a{pattern[1:]}" if pattern.startswith("*.") else pattern
            relay = next((via for match, via in routes if pattern != "*" and matches(match, name)), None)
            if relay is not None:
                yield Problem(
                    "destination",
                    f"{', '.join(keys)} of the table number {number} say nothing for {pattern}, whose mail goes by {relay}: "
                    f'expected them in a table with match = "{relay.host}"',
                )


def _submission_warnings(config: Config) -> Iterator[Problem]:
    submission = config.submission
    if submission.i_know_this_is_an_open_relay and any(_open_relay(config)):
        yield Problem("submission.i_know_this_is_an_open_relay", "strangers may send mail to everybody by this server")
    yield from _no_way_for_programs(submission)
    named = [client.user for client in submission.client if client.user is not None]
    if named and submission.users_file is None:
        yield Problem("submission.client", f'without users_file nobody can be "{named[0]}"')
    if submission.users_file is not None and not _has_tls(config):
        yield Problem("submission.users_file", "nobody can log in without a certificate: passwords go inside TLS alone")
    reachable = _reachable(config)
    if reachable and submission.allow and submission.users_file is None and all(it.is_loopback for it in submission.allow):
        yield Problem("submission.allow", f"only this machine may submit: nobody else at {', '.join(reachable)}")


def _no_way_for_programs(submission: Submission) -> Iterator[Problem]:
    """A unix socket is never asked for TLS, nor for a PROXY header."""
    if any(door.scheme is Scheme.UNIX for door in submission.listen):
        return
    lost = "`mta sendmail` and programs on this machine can't submit"
    advice = 'expected a door for them in submission.listen, such as "unix:/run/mta/submit.sock"'
    if submission.tls.required:
        yield Problem("submission.tls.required", f"{lost} without TLS: {advice}")
    if any(network.is_loopback for network in submission.proxy_protocol_from):
        yield Problem("submission.proxy_protocol_from", f"{lost} without a PROXY header: {advice}")


def _is_on_this_machine(door: Door) -> bool:
    return door.scheme is Scheme.UNIX or ipaddress.ip_address(door.host).is_loopback


def _is_own(network: IpNetwork) -> bool:
    """One machine, or a network that no stranger is in."""
    ends = (network.network_address, network.broadcast_address)
    return network.num_addresses == 1 or any(all(end in private for end in ends) for private in _PRIVATE)


def _untrusted_proxies(submission: Submission) -> Iterator[Problem]:
    """Whoever may say PROXY may say that it is anybody."""
    for network in submission.proxy_protocol_from:
        if not _is_own(network):
            yield Problem(
                "submission.proxy_protocol_from",
                f'"{network}" could claim any address, which would be an open relay: '
                "expected private networks or single addresses",
            )


def _repeated_doors(doors: Iterable[Door]) -> Iterator[Problem]:
    """A port is one door, whatever is spoken there."""
    seen: set[tuple[object, ...]] = set()
    for door in doors:
        place = (door.host, door.port, door.path)
        if place in seen:
            yield Problem("submission.listen", f'"{door}" is given twice')
        seen.add(place)


def _socket_clash(config: Config) -> Iterator[Problem]:
    if config.control.socket in (door.path for door in config.submission.listen):
        yield Problem("submission.listen", f'"unix:{config.control.socket}" is control.socket: expected another path')


def _incomplete_tls(submission: Submission) -> Iterator[Problem]:
    given = submission.tls
    for key, other in (("certificate", given.key), ("key", given.certificate)):
        if other and not getattr(given, key):
            yield Problem(f"submission.tls.{key}", "missing: expected certificate and key")
    if given.certificate and given.key:
        return
    if given.required:
        yield Problem("submission.tls.required", "without certificate and key no client could begin TLS")
    for door in submission.listen:
        if door.scheme is Scheme.TLS:
            yield Problem("submission.listen", f'"{door}" needs certificate and key in [submission.tls]')


def _repeated_keys(tables: Iterable[Dkim]) -> Iterator[Problem]:
    """A record in DNS publishes one key."""
    counts = Counter((table.domain, table.selector) for table in tables)
    for domain, selector in (name for name, count in counts.items() if count > 1):
        yield Problem("dkim", f'the selector "{selector}" of {domain} is given twice: expected one for each key')


# ---------------------------------------------------------------- local mail
def _loops(config: Config) -> Iterator[Problem]:
    """Local mail goes to `[aliases]`, so nothing there may be local again; nor may the postmaster, who stands in for
    every alias that is missing."""
    for name, targets in config.aliases.items():
        for target in targets:
            if _is_local(config, target):
                yield Problem(f"aliases.{name}", _LEADS_BACK.format(target))
    if config.postmaster and _is_local(config, config.postmaster):
        yield Problem("postmaster", _LEADS_BACK.format(config.postmaster))


def _is_local(config: Config, address: str) -> bool:
    local = {"localhost", *config.local_domains, (config.hostname or "localhost").lower()}
    return parse_address(address).destination in local


# ---------------------------------------------------------------- warnings
def _hostname_warnings(hostname: str | None) -> Iterator[Problem]:
    if hostname is None:
        yield Problem("hostname", "not set: the machine's full name is asked for once at the start; better say it here")
    elif not hostname.startswith("[") and "." not in hostname:
        yield Problem("hostname", f'"{hostname}" is no full name: many servers refuse it (RFC 5321 section 4.1.1.1)')


def _limit_warnings(config: Config) -> Iterator[Problem]:
    if config.submission.max_message_size < SMALLEST_LIMIT_OF_SIZE:
        yield Problem("submission.max_message_size", 'below "64KiB" (RFC 5321 section 4.5.3.1.7)')
    if config.submission.max_recipients < SMALLEST_LIMIT_OF_RECIPIENTS:
        yield Problem("submission.max_recipients", "below 100 (RFC 5321 section 4.5.3.1.8)")


def dane_warnings(config: Config, nameservers: Iterable[str]) -> Iterator[Problem]:
    """DANE rests on what the name server says it has validated, and on the way to it (RFC 7672 section 2.1)."""
    if config.dns.trust_ad or any(ipaddress.ip_address(it.partition("%")[0]).is_loopback for it in nameservers):
        return
    why = "no name server is on this machine: expected a validating one there, or dns.trust_ad where the way to it is safe"
    for table in config.destination:
        if table.tls == "dane":
            yield Problem("destination.tls", f"mail to {', '.join(table.match)} waits until it fails: {why}")
    if config.tls.dane:
        yield Problem("tls.dane", f"DANE is not followed: {why}")


def _health_warnings(alerts: Alerts) -> Iterator[Problem]:
    for name in type(alerts.warning).model_fields:
        first, second = getattr(alerts.warning, name), getattr(alerts.critical, name)
        if first and second and second < first:
            yield Problem(f"alerts.critical.{name}", f"below alerts.warning.{name}: it is never only warned of")


def _tls_report_warnings(config: Config) -> Iterator[Problem]:
    """RFC 8460 section 3: a report without a signature of who reports is ignored."""
    if not config.tls.report or config.hostname is None:
        return
    own = f".{config.hostname.lower()}"
    if not any(own.endswith(f".{table.domain.lower()}") for table in config.dkim):
        yield Problem("tls.report", f"without [[dkim]] for {config.hostname} nobody heeds the reports (RFC 8460 section 3)")
