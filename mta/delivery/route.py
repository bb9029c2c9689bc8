"""Where to: from a destination to the addresses to try, in order (RFC 5321 section 5.1). Asks the Resolver; `policy.routing`
decides."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mta.model.outcome import Verdict
from mta.policy.routing import Candidate, RoutingRules, plan_candidates, plan_directly, plan_exchangers
from mta.ports import Randomness, Reachability, Resolver


@dataclass(slots=True)
class Router:
    """`rules` holds what never leads anywhere: our own names and addresses, private ones; they may be replaced."""

    resolver: Resolver
    reachability: Reachability
    rules: RoutingRules
    chance: Randomness
    routed: Callable[[str, Sequence[str]], None] = lambda destination, hosts: None
    """Is told the hosts of the best preference that there are for a destination."""

    async def candidates(self, destination: str) -> Sequence[Candidate] | Verdict:
        """The addresses to try, best first; never empty."""
        route = plan_directly(destination)
        if route is None:
            answer = await self.resolver.mail_exchangers(destination)
            route = plan_exchangers(destination, answer, self.rules, self.chance)
        if isinstance(route, Verdict):
            return route
        found = await asyncio.gather(*map(self.resolver.addresses, route.lookups))
        answers = {**route.answers, **dict(zip(route.lookups, found, strict=True))}
        reach = self.reachability(address for answer in answers.values() for address in answer.addresses)
        candidates = plan_candidates(route, answers, self.rules, reach)
        if not isinstance(candidates, Verdict):
            self.routed(destination, _best(candidates))
        return candidates


def _best(candidates: Sequence[Candidate]) -> list[str]:
    return [it.host for it in candidates if it.preference == candidates[0].preference]
