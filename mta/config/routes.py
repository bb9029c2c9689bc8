"""What the `[[route]]` tables say together, and in words."""

import ipaddress
from collections.abc import Iterator, Sequence

from mta.config.model import Config, Route
from mta.config.problems import Problem
from mta.policy.destinations import Relay

_KEY = "route"


def route_contradictions(config: Config) -> Iterator[Problem]:
    for number, route in enumerate(config.route, 1):
        where = f"in the route number {number}"
        for via in _logins(route):
            if route.password is None:
                yield Problem(_KEY, f'"{via}" has a user: expected password, {where}')
        for via in filter(None, route.via):
            if _is_our_own(config, via):
                yield Problem(_KEY, f'"{via}" is one of submission.listen: mail would come back, {where}')
        if len({ipaddress.ip_address(it).version for it in route.source}) < len(route.source):
            yield Problem(_KEY, f"source has two addresses of one family: expected one of each at most, {where}")


def route_warnings(config: Config) -> Iterator[Problem]:
    for number, route in enumerate(config.route, 1):
        if route.password is not None and not _logins(route):
            yield Problem(_KEY, f"the route number {number} has a password, but no via with a user: nobody logs in")
        if covering := next((n for n, it in enumerate(config.route[: number - 1], 1) if "*" in it.match), 0):
            yield Problem(_KEY, f'the route number {number} never holds: "*" of number {covering} matches everything')


def in_words(vias: Sequence[Relay | None]) -> str:
    """Where mail of a route goes."""
    return ", else ".join(_relay_in_words(via) if via else "the servers of its domain (mx)" for via in vias)


def _relay_in_words(relay: Relay) -> str:
    if relay.user:
        return f"{relay}, logged in there as {relay.user} (inside TLS, with a certificate for {relay.host})"
    return f"{relay} ({'inside TLS' if relay.implicit_tls else 'inside TLS if it has it'})"


def _logins(route: Route) -> list[Relay]:
    return [via for via in route.via if via is not None and via.user]


def _is_our_own(config: Config, relay: Relay) -> bool:
    """As far as it shows here; what its name leads to is looked at with each mail."""
    host = "127.0.0.1" if relay.host == "localhost" else relay.host
    return any((door.host, door.port) == (host, relay.port) for door in config.submission.listen)
