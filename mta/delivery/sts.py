"""The MTA-STS policies of the domains that we send to: found, kept in the spool, kept fresh (RFC 8461 sections 3, 5.1, 10).

Rules:
- The TXT record is asked for with each delivery, which the resolver remembers; another id than the one we have asks for the
  policy file. A policy that we have stays in force until its time is up, whatever is wrong with the record or the web
  server (section 3.3), or with the file that it now has; it ends by one of mode none.
- Without a policy that is in force mail goes out as if there were none. No mail waits for a web server for longer than
  `PATIENCE`, or again within `REST` of a failure; a fetch that takes longer goes on without it, for the mail that follows.
  Name servers that were slow to fail are not waited for again within `LOOKUP_REST`.
- A policy whose domain has had mail within `KEPT_FRESH` is fetched again about daily, also where the id is the same, so
  that it neither runs out nor hides a change that forgot the id.
- Bounded: what is remembered here of domains and policies, and how many are fetched at once.
"""

import asyncio
import json
from collections import OrderedDict
from dataclasses import dataclass, replace
from functools import lru_cache

from mta.model.address import AddressError, check_domain
from mta.model.events import Encrypted, Trouble
from mta.model.international import a_labels
from mta.model.tls import StsMode, StsPolicy, TlsPolicy, TlsResult
from mta.policy.sts import NoPolicy, parse_policy, policy_id
from mta.ports.names import Lookup, Resolver
from mta.ports.sts import Fetched, FetchPolicy
from mta.ports.system import Clock, Observer, Randomness
from mta.spool.base import Memory, Remembered, Spool, SpoolError

PATIENCE = 10.0
REST = 300.0
"""Seconds; the rest is what RFC 8461 section 3.3 suggests."""
SLOW, LOOKUP_REST = 1.0, 60.0
"""Seconds: a failure that took so long delays mail; it is remembered for no longer, as a policy may be missed for it."""
LOOK_INTERVAL = 3600.0
"""Seconds: how often it is looked for what is to be fetched again."""
REFRESH_AFTER = 22 * 3600.0
"""Seconds: two looks before a policy for one day ends."""
KEPT_FRESH = 30 * 86400.0
"""Seconds."""
USE_GRAIN = 86400.0
"""Seconds: a use is written down about once a day."""
FETCHES_AT_ONCE = 50
REFRESHES_AT_ONCE = 20
DOMAINS_KEPT = 10_000
OCTETS_KEPT = 4 * 2**20
"""In memory: domains; policies as they were published."""
NAMED_AT_MOST = 5
"""Domains that one warning names."""


@dataclass(frozen=True, slots=True)
class Held:
    """A policy that we have, as it was published; times in seconds since the epoch, `used_at` about when mail last asked."""

    id: str
    text: str
    fetched_at: float
    used_at: float
    policy: StsPolicy

    @property
    def expires_at(self) -> float:
        """Not so soon that each mail would have to fetch it again."""
        return self.fetched_at + max(self.policy.max_age, REST)

    def write(self) -> str:
        return json.dumps({"id": self.id, "text": self.text, "fetched_at": self.fetched_at, "used_at": self.used_at})


def read_held(value: str) -> Held | None:
    """None for what is not ours."""
    try:
        given = json.loads(value)
        times = float(given["fetched_at"]), float(given["used_at"])
        return Held(str(given["id"]), str(given["text"]), *times, parse_policy(str(given["text"])))
    except (ValueError, TypeError, KeyError):
        return None


class _Recent:
    """The policies (None: known to be none) of the domains that were asked for last, bounded in number and in octets."""

    def __init__(self) -> None:
        self._held: OrderedDict[str, Held | None] = OrderedDict()
        self._octets = 0

    def __contains__(self, domain: str) -> bool:
        return domain in self._held

    def get(self, domain: str) -> Held | None:
        held = self._held.get(domain)
        if domain in self._held:
            self._held.move_to_end(domain)
        return held

    def put(self, domain: str, held: Held | None) -> None:
        self._octets += _octets(held) - _octets(self._held.get(domain))
        self._held[domain] = held
        self._held.move_to_end(domain)
        while len(self._held) > DOMAINS_KEPT or self._octets > OCTETS_KEPT:
            self._octets -= _octets(self._held.popitem(last=False)[1])


def _octets(held: Held | None) -> int:
    return len(held.text) if held else 0


class PolicyStore:
    """A `ports.sts.StsPolicies`; `run` keeps what it has fresh. `allow_private` may be changed while it runs. For use on one
    event loop."""

    def __init__(
        self,
        spool: Spool,
        resolver: Resolver,
        fetch: FetchPolicy,
        clock: Clock,
        chance: Randomness,
        observer: Observer,
        *,
        allow_private: bool = False,
    ) -> None:
        self._spool, self._resolver, self._fetch = spool, resolver, fetch
        self._clock, self._chance, self._observer = clock, chance, observer
        self.allow_private = allow_private
        self._recent = _Recent()
        self._fetching: dict[str, asyncio.Task[Held | Fetched]] = {}
        self._resting: OrderedDict[str, float] = OrderedDict()
        """Domains whose policy, or record, can't be had or takes too long, and the loop's time until which nobody asks."""
        self._slots = asyncio.Semaphore(FETCHES_AT_ONCE)

    # ------------------------------------------------ what is in force
    async def of(self, domain: str) -> StsPolicy | None:
        name = _policy_domain(domain)
        if name is None:
            return None
        published = "" if self._rests(name) else await self._published(name)
        held = await self._held(name)
        if published and (held is None or held.id != published):
            held = await self._renewed(name, published) or await self._held(name)
        if held is None:
            return None
        await self._note_use(name, held)
        return held.policy if held.policy.mode is not StsMode.NONE else None

    def known(self, domain: str) -> StsPolicy | None:
        name = _policy_domain(domain)
        held = self._in_force(name) if name is not None else None
        return held.policy if held is not None and held.policy.mode is not StsMode.NONE else None

    async def _published(self, name: str) -> str:
        """The id in its record, "" where that has none, or can't be had."""
        began = _now()
        answer = await self._resolver.texts(f"_mta-sts.{name}")
        if answer.lookup is Lookup.TROUBLE and _now() - began >= SLOW:
            self._let_rest(name, LOOKUP_REST)
        return policy_id(answer.texts)

    async def _held(self, name: str) -> Held | None:
        """Never one whose time is up. Where the spool can't be read, what is known here counts."""
        if name not in self._recent:
            try:
                found = await self._spool.recall(Memory.STS_POLICY, [name], self._clock.now())
            except SpoolError:
                return None
            if name not in self._recent:  # else it came while this was looked up, and is newer
                self._recent.put(name, read_held(found[name].value) if name in found else None)
        return self._in_force(name)

    def _in_force(self, name: str) -> Held | None:
        held = self._recent.get(name)
        return held if held is not None and self._clock.now() < held.expires_at else None

    async def _note_use(self, name: str, held: Held) -> None:
        now = self._clock.now()
        if now - held.used_at >= USE_GRAIN:
            await self._keep(name, replace(held, used_at=now))

    async def _keep(self, name: str, held: Held) -> None:
        self._recent.put(name, held)
        try:
            await self._spool.remember(Memory.STS_POLICY, {name: held.write()}, held.expires_at, self._clock.now())
        except SpoolError as error:  # it is in force all the same, until a restart
            self._observer(Trouble("warning", f"the MTA-STS policy of {name} could not be kept", str(error)))

    # ------------------------------------------------ fetching
    def _let_rest(self, name: str, seconds: float = REST) -> None:
        self._resting[name] = _now() + seconds
        self._resting.move_to_end(name)

    def _rests(self, name: str) -> bool:
        now = _now()
        while self._resting and (len(self._resting) > DOMAINS_KEPT or next(iter(self._resting.values())) <= now):
            self._resting.popitem(last=False)
        return self._resting.get(name, now) > now

    async def _renewed(self, name: str, published: str) -> Held | None:
        """The new policy, if it comes in time and is good."""
        task = self._fetch_soon(name, published, self._clock.now())
        await asyncio.wait([task], timeout=PATIENCE)
        if not task.done():
            self._let_rest(name)
        outcome = task.result() if task.done() and not task.cancelled() else None
        return outcome if isinstance(outcome, Held) else None

    def _fetch_soon(self, name: str, published: str, used_at: float) -> asyncio.Task[Held | Fetched]:
        """One fetch for all who ask, which none of them ends."""
        task = self._fetching.get(name)
        if task is None:
            task = asyncio.create_task(self._fetch_new(name, published, used_at), name=f"mta-sts {name}")
            self._fetching[name] = task
            task.add_done_callback(lambda _: self._fetching.pop(name, None))
        return task

    async def _fetch_new(self, name: str, published: str, used_at: float) -> Held | Fetched:
        """Kept, or what is wrong with it, which is told and lets the domain rest."""
        async with self._slots:
            fetched = await self._fetch(name, self.allow_private)
        outcome = _read_new(fetched, published, self._clock.now(), used_at)
        if isinstance(outcome, Held):
            self._resting.pop(name, None)
            await self._keep(name, outcome)
        else:
            self._let_rest(name)
            policies = ((TlsPolicy.MTA_STS, ""),)
            self._observer(Encrypted(name, policies, outcome.result, f"mta-sts.{name}", "", outcome.detail))
        return outcome

    # ------------------------------------------------ keeping fresh
    async def run(self) -> None:
        """Until cancelled."""
        await asyncio.sleep(self._chance.uniform(0, LOOK_INTERVAL))
        while True:
            try:
                await self._refresh_all()
            except Exception as error:  # whatever it was, the policies that there are stay in force
                detail = f"{type(error).__name__}: {error}"
                self._observer(Trouble("warning", "MTA-STS policies could not be refreshed; trying again later", detail))
            await asyncio.sleep(LOOK_INTERVAL)

    async def _refresh_all(self) -> None:
        after, failures = "", list[str]()
        while page := await self._spool.memories(Memory.STS_POLICY, after, REFRESHES_AT_ONCE, self._clock.now()):
            failures += filter(None, await asyncio.gather(*map(self._refresh, page)))
            after = page[-1].name
        if failures:
            what = f"{len(failures)} MTA-STS policies could not be refreshed; they are in force until they end"
            self._observer(Trouble("warning", what, "; ".join(failures[:NAMED_AT_MOST])))

    async def _refresh(self, one: Remembered) -> str:
        """What went wrong, "" nothing; nobody misses a policy that says that there is none (section 3.3)."""
        held, now = read_held(one.value), self._clock.now()
        if held is None or now - held.fetched_at < REFRESH_AFTER or now - held.used_at >= KEPT_FRESH:
            return ""
        answer = await self._resolver.texts(f"_mta-sts.{one.name}")
        outcome = await self._fetch_soon(one.name, policy_id(answer.texts) or held.id, held.used_at)
        return "" if isinstance(outcome, Held) or held.policy.mode is StsMode.NONE else outcome.detail

    def close(self) -> None:
        """Ends what is being fetched."""
        for task in self._fetching.values():
            task.cancel()


def _read_new(fetched: Fetched, published: str, now: float, used_at: float) -> Held | Fetched:
    if fetched.result is not TlsResult.SUCCESS:
        return fetched
    try:
        return Held(published, fetched.text, now, used_at, parse_policy(fetched.text))
    except NoPolicy as flaw:
        return Fetched(TlsResult.STS_POLICY_INVALID, detail=f"not valid: {flaw}")


@lru_cache(maxsize=DOMAINS_KEPT)
def _policy_domain(domain: str) -> str | None:
    """In A-labels; None for what can't have a policy, such as an address literal."""
    try:
        name = a_labels(domain)
        check_domain(name)
    except (AddressError, ValueError):
        return None
    return None if name.startswith("[") or "." not in name else name


def _now() -> float:
    return asyncio.get_running_loop().time()
