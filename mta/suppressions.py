"""Addresses that nothing is sent to: learned from servers that said "no such user", or named by a person.

Rules: they are in the spool, each until its time; whether there are any at all is known without it, so that they cost
nothing where there are none. What is learned never takes the place of what a person decided, and is forgotten when the
address takes mail again. Trouble with it never touches a delivery. Addresses of this machine are never among them: where
they lead is configured.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from mta.model.address import AddressError, parse_address
from mta.model.events import Trouble
from mta.model.lifecycle import Event
from mta.policy.acceptance import Locals
from mta.policy.destinations import Destinations
from mta.policy.suppression import Cause, cause_of, is_no_such_user
from mta.ports.system import Clock, Observer
from mta.spool.base import Claim, Memory, RecipientResult, Remembered, Spool, SpoolError, SpoolRefusal

KIND = Memory.SUPPRESSION
PAGE = 1000
"""Addresses that are read at a time."""


@dataclass(frozen=True, slots=True)
class SuppressionSettings:
    """`keep` in seconds; 0: none is learned. `destinations` tell which servers are relays."""

    keep: float
    locals: Locals
    destinations: Destinations


@dataclass(frozen=True, slots=True)
class Suppression:
    """`until` None: until it is taken back. Seconds since the epoch."""

    address: str
    since: float
    until: float | None
    cause: Cause


class Suppressions:
    """`settings` may be replaced."""

    def __init__(self, settings: SuppressionSettings, spool: Spool, clock: Clock, observer: Observer) -> None:
        self.settings = settings
        self._spool, self._clock, self._observer = spool, clock, observer
        self._any = False

    async def load(self) -> None:
        """To be called once, first. Raises `SpoolError`."""
        self._any = bool(await self._spool.memories(KIND, "", 1, self._clock.now()))

    @property
    def any(self) -> bool:
        """Whether there may be some; else nothing need be looked up."""
        return self._any

    async def find(self, addresses: Iterable[str]) -> Mapping[str, Suppression]:
        """Those of `addresses` that are suppressed, under the names given. Raises `SpoolError`."""
        keys = {address: _key(address) for address in addresses} if self._any else {}
        found = await self._recalled(keys.values())
        return {address: _suppression(found[key]) for address, key in keys.items() if key in found}

    async def _recalled(self, keys: Collection[str]) -> Mapping[str, Remembered]:
        return await self._spool.recall(KIND, keys, self._clock.now()) if keys else {}

    # ------------------------------------------------ what deliveries teach
    async def learn(self, claim: Claim, results: Sequence[RecipientResult]) -> None:
        """From what an attempt came to. Never raises for what the spool does."""
        if not (self._any or self.settings.keep):
            return
        addresses = {it.id: it.address for it in claim.recipients}
        try:
            told = [it for it in results if not self._is_relay(claim.destination, it.host)]
            await self._forget({addresses[it.recipient_id] for it in told if it.event is Event.DELIVERED})
            await self._remember(claim, {addresses[it.recipient_id]: it for it in told if self._teaches(it)})
        except SpoolError as error:
            self._observer(Trouble("warning", f"what {claim.queue_id} told of its recipients is not remembered", str(error)))

    def _is_relay(self, destination: str, host: str) -> bool:
        """Whether `host` takes mail on for others: then it knows nothing of their mailboxes."""
        relays = self.settings.destinations.route(destination).vias
        return any(it is not None and it.host == host.lower() for it in relays)

    def _teaches(self, result: RecipientResult) -> bool:
        if not self.settings.keep or result.event is not Event.REFUSED:
            return False
        return is_no_such_user(result.reply, result.phase, result.category)

    async def _forget(self, addresses: Collection[str]) -> None:
        found = await self.find(addresses)
        if taken_back := [address for address, it in found.items() if it.cause.is_learned]:
            await self._spool.forget(KIND, [_key(address) for address in taken_back], self._clock.now())
            for address in taken_back:
                self._observer(Trouble("info", f"mail is sent to {address} again: its server took some"))

    async def _remember(self, claim: Claim, refused: Mapping[str, RecipientResult]) -> None:
        if not refused:
            return
        decided = {address for address, it in (await self.find(refused)).items() if not it.cause.is_learned}
        causes = {it: Cause(one.reply, one.host, claim.queue_id) for it, one in refused.items() if it not in decided}
        now = self._clock.now()
        await self._put(causes, now + self.settings.keep, now)
        for address, cause in causes.items():
            self._observer(Trouble("info", f"nothing is sent to {address} for now", str(cause)))

    async def _put(self, causes: Mapping[str, Cause], until: float | None, now: float) -> None:
        values = {_key(address): cause.written() for address, cause in causes.items()}
        if values:
            self._any = True  # before it is there: whoever looks for it in between finds nothing, or it
            await self._spool.remember(KIND, values, until, now)

    # ------------------------------------------------ what persons decide
    async def add(self, address: str, reason: str, lasts: float | None) -> Suppression:
        """For `lasts` seconds, None: until it is taken back. Raises `SpoolRefusal`, `SpoolError`."""
        if self.settings.locals.is_local(parse_address(address, utf8=True).destination):
            raise SpoolRefusal(f"{address} is an address of this machine: [aliases] says where its mail goes")
        now = self._clock.now()
        made = Suppression(_key(address), now, None if lasts is None else now + lasts, Cause(reason=reason))
        await self._put({address: made.cause}, made.until, now)
        return made

    async def remove(self, address: str) -> bool:
        """Whether it was there. Raises `SpoolError`."""
        return bool(await self._spool.forget(KIND, [_key(address)], self._clock.now()))

    async def listed(self, limit: int) -> tuple[Sequence[Suppression], bool]:
        """In the order of their addresses, and whether there are more. Raises `SpoolError`."""
        found: list[Suppression] = []
        while len(found) <= limit:
            after = found[-1].address if found else ""
            page = await self._spool.memories(KIND, after, PAGE, self._clock.now())
            found += map(_suppression, page)
            if len(page) < PAGE:
                break
        return found[:limit], len(found) > limit


def _key(address: str) -> str:
    """Equal for the same mailbox."""
    try:
        return parse_address(address, utf8=True).key
    except AddressError:  # of a damaged row, say: then only the very same
        return address


def _suppression(it: Remembered) -> Suppression:
    return Suppression(it.name, it.at, it.expires_at, cause_of(it.value))
