"""Where to: from a destination to the addresses to try, in order (RFC 5321 section 5.1). Asks the Resolver;
`policy.routing`, `policy.candidates` and, for the servers of a `[[route]]`, `policy.relays` decide."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from mta.model.outcome import Verdict
from mta.model.tls import TlsLevel
from mta.policy.candidates import Candidate, plan_candidates
from mta.policy.destinations import Destinations, Relay, RouteRule
from mta.policy.relays import Outcome, known_address, one_after_another, plan_relay
from mta.policy.routing import Route, RoutingRules, best_exchangers, plan_directly, plan_exchangers
from mta.ports.names import Resolver
from mta.ports.system import Randomness, Reachability

T = TypeVar("T")


@dataclass(slots=True)
class Router:
    """`rules` holds what never leads anywhere: our own names and addresses, private ones; `destinations` the routes that
    the configuration gives. Both may be replaced."""

    resolver: Resolver
    reachability: Reachability
    rules: RoutingRules
    chance: Randomness
    routed: Callable[[str, Sequence[str]], None] = lambda destination, hosts: None
    """Is told the hosts of the best preference that there are for a destination."""
    destinations: Destinations = field(default_factory=Destinations)

    def route(self, destination: str) -> RouteRule:
        return self.destinations.route(destination)

    def hop(self, destination: str) -> str:
        """Whose sessions its mail goes by, if one is at hand."""
        route = self.destinations.route(destination)
        first = route.vias[0]
        return destination if first is None else route.hop(first, self._level(destination))

    async def candidates(self, destination: str) -> Sequence[Candidate] | Verdict:
        """The addresses to try, best first; never empty. What is no mail domain is none to a relay either."""
        known = plan_directly(destination)
        if isinstance(known, Verdict):
            return known
        route = self.route(destination)
        ways = [self._by(destination, via) if via else self._directly(destination, known) for via in route.vias]
        return one_after_another(route, await _together(ways), self._level(destination))

    async def _by(self, destination: str, relay: Relay) -> Outcome:
        answer = known_address(relay) or await self.resolver.addresses(relay.host)
        reach = self.reachability(answer.addresses)
        return plan_relay(relay, self._level(destination), answer, self.rules, reach)

    def _level(self, destination: str) -> TlsLevel:
        return self.destinations.rule(destination).tls

    async def _directly(self, destination: str, known: Route | None) -> Outcome:
        route: Route | Verdict | None = known
        best: Sequence[str] = (destination,)
        if route is None:
            answer = await self.resolver.mail_exchangers(destination)
            best = best_exchangers(answer) or best
            route = plan_exchangers(destination, answer, self.rules, self.chance)
        if isinstance(route, Verdict):
            return route
        lookups = route.lookups
        found = await _together([self.resolver.addresses(host) for host in lookups])
        answers = {**route.answers, **dict(zip(lookups, found, strict=True))}
        reach = self.reachability(address for answer in answers.values() for address in answer.addresses)
        candidates = plan_candidates(route, answers, self.rules, reach)
        if not isinstance(candidates, Verdict):
            self.routed(destination, best)
        return candidates


async def _together(calls: Sequence[Coroutine[Any, Any, T]]) -> Sequence[T]:
    """What each comes to; a single one needs no task of its own."""
    return [await calls[0]] if len(calls) == 1 else await asyncio.gather(*calls)
