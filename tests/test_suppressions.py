"""Addresses that nothing is sent to, over a real spool: learned, kept, expired, forgotten, decided by a person."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mta.doorbell import Doorbell
from mta.model.envelope import DoubtOrder, Kind, MailClass
from mta.model.events import Fact, Trouble
from mta.model.lifecycle import Event, Status
from mta.model.reply import Reply, parse_reply
from mta.policy.acceptance import Locals
from mta.policy.destinations import Destinations, Relay, RouteRule
from mta.policy.wisdom import category
from mta.spool.base import Claim, ClaimedRecipient, DoubtPolicy, RecipientResult, SpoolError, SpoolRefusal
from mta.spool.connection import connect_inline
from mta.spool.sqlite import open_sqlite
from mta.suppressions import Suppressions, SuppressionSettings

DAY = 86400.0
UNKNOWN = parse_reply(550, ["5.1.1 User unknown"])
OK = parse_reply(250, ["2.0.0 Ok"])
LOCALS = Locals("mail.example.com", frozenset({"example.com"}), {}, "postmaster@example.com")
DIRECT = Destinations()
RELAYED = Destinations(routes=(RouteRule(("*",), (Relay("relay.example.net", 587), None)),))


class Hands:
    def __init__(self, at: float = 1_800_000_000.0) -> None:
        self.at = at

    def now(self) -> float:
        return self.at


def claim_for(*addresses: str) -> Claim:
    recipients = tuple(
        ClaimedRecipient(number, it, Status.PENDING, 0, 0, 0, False, "", "", None) for number, it in enumerate(addresses)
    )
    return Claim(1, "06ABCDEFGHJKMN00", "", "", DoubtOrder.DEFAULT, "shop@example.com", MailClass.NORMAL, Kind.MAIL, 10,
                 False, 0.0, 1.0, None, "example.org", recipients)  # fmt: skip


def came_to(number: int, reply: Reply, phase: str = "rcpt", host: str = "mx1.example.org") -> RecipientResult:
    event = {2: Event.DELIVERED, 4: Event.DEFERRED, 5: Event.REFUSED}[(reply.code or 0) // 100]
    kind = category(reply, phase)
    return RecipientResult(number, event, reply, phase=phase, host=host, category=kind)


class Store:
    def __init__(self, suppressions: Suppressions, clock: Hands, facts: list[Fact]) -> None:
        self.suppressions, self.clock, self.facts = suppressions, clock, facts

    async def learn(self, address: str, reply: Reply, **more: str) -> None:
        await self.suppressions.learn(claim_for(address), [came_to(0, reply, **more)])

    async def has(self, address: str) -> bool:
        return address in await self.suppressions.find([address])


@asynccontextmanager
async def store(folder: Path, keep: float = 30 * DAY, destinations: Destinations = DIRECT) -> AsyncIterator[Store]:
    clock, facts = Hands(), list[Fact]()
    doubts = DoubtPolicy(True, 0)
    spool, _ = await open_sqlite(
        folder / "spool.db", doubts=doubts, now=clock.now(), doorbell=Doorbell(), connect=connect_inline
    )
    made = Suppressions(SuppressionSettings(keep, LOCALS, destinations), spool, clock, facts.append)
    await made.load()
    try:
        yield Store(made, clock, facts)
    finally:
        await spool.close()


async def test_an_address_that_does_not_exist_is_remembered_for_its_time(tmp_path: Path) -> None:
    async with store(tmp_path) as it:
        assert not it.suppressions.any
        await it.learn("Ann@Example.ORG", UNKNOWN)
        assert it.suppressions.any
        [found] = (await it.suppressions.find(["Ann@example.org", "bob@example.org"])).values()
        cause = found.cause
        assert (cause.reply, cause.host, cause.queue_id) == (UNKNOWN, "mx1.example.org", "06ABCDEFGHJKMN00")
        it.clock.at += 30 * DAY - 1
        assert await it.has("Ann@example.org")
        it.clock.at += 2
        assert not await it.has("Ann@example.org")


async def test_a_restart_keeps_them(tmp_path: Path) -> None:
    async with store(tmp_path) as it:
        await it.learn("ann@example.org", UNKNOWN)
    async with store(tmp_path, keep=0) as it:
        assert it.suppressions.any
        assert await it.has("ann@example.org")


@pytest.mark.parametrize(
    "teach",
    [
        lambda it: it.learn("ann@example.org", parse_reply(450, ["4.1.1 User unknown"])),
        lambda it: it.learn("ann@example.org", parse_reply(550, ["5.7.1 blocked by SPF"])),
        lambda it: it.learn("ann@example.org", UNKNOWN, phase="final"),
        lambda it: it.learn("ann@example.org", UNKNOWN, host="relay.example.net"),
    ],
    ids=["for now", "policy", "after the dot", "a relay"],
)
async def test_nothing_else_teaches(tmp_path: Path, teach: Callable[[Store], object]) -> None:
    async with store(tmp_path, destinations=RELAYED) as it:
        await teach(it)  # type: ignore[misc]  # a coroutine of `learn`
        assert not it.suppressions.any
        await it.learn("ann@example.org", UNKNOWN)  # straight from its server, the relay's fallback
        await it.learn("ann@example.org", OK, phase="final", host="relay.example.net")
        assert await it.has("ann@example.org"), "what a relay takes is not in the mailbox yet"


async def test_nothing_is_learned_where_it_is_off(tmp_path: Path) -> None:
    async with store(tmp_path, keep=0) as it:
        await it.learn("ann@example.org", UNKNOWN)
        assert not it.suppressions.any


async def test_what_takes_mail_again_is_forgotten(tmp_path: Path) -> None:
    async with store(tmp_path) as it:
        await it.learn("ann@example.org", UNKNOWN)
        await it.learn("ann@example.org", OK, phase="final")
        assert not await it.has("ann@example.org")
        assert any(isinstance(fact, Trouble) and "again" in fact.what for fact in it.facts)


async def test_what_a_person_decided_stands_whatever_servers_say(tmp_path: Path) -> None:
    async with store(tmp_path, keep=0) as it:
        await it.suppressions.add("ann@example.org", "she asked for it", None)
        it.suppressions.settings = SuppressionSettings(DAY, LOCALS, Destinations())
        await it.learn("ann@example.org", UNKNOWN)
        await it.learn("ann@example.org", OK, phase="final")
        it.clock.at += 1000 * DAY
        [found] = (await it.suppressions.find(["ann@example.org"])).values()
        assert (found.cause.reason, found.until) == ("she asked for it", None)
        assert await it.suppressions.remove("ANN@example.org") is False, "another mailbox"
        assert await it.suppressions.remove("ann@EXAMPLE.org")
        assert not await it.suppressions.remove("ann@example.org")


async def test_a_person_s_may_have_a_time(tmp_path: Path) -> None:
    async with store(tmp_path) as it:
        await it.suppressions.add("ann@example.org", "", DAY)
        assert await it.has("ann@example.org")
        it.clock.at += DAY + 1
        assert not await it.has("ann@example.org")


@pytest.mark.parametrize("address", ["postmaster@mail.example.com", "root@localhost", "ann@example.com", "root"])
async def test_an_address_of_this_machine_is_never_one(tmp_path: Path, address: str) -> None:
    async with store(tmp_path) as it:
        with pytest.raises(SpoolRefusal, match="this machine"):
            await it.suppressions.add(address, "", None)


async def test_the_list_is_in_order_and_says_when_there_are_more(tmp_path: Path) -> None:
    async with store(tmp_path) as it:
        for name in ("c", "a", "b"):
            await it.suppressions.add(f"{name}@example.org", "", None)
        found, more = await it.suppressions.listed(2)
        assert ([one.address for one in found], more) == (["a@example.org", "b@example.org"], True)
        found, more = await it.suppressions.listed(3)
        assert (len(found), more) == (3, False)


async def test_trouble_with_the_spool_touches_no_delivery(tmp_path: Path) -> None:
    async with store(tmp_path) as it:
        await it.suppressions.add("ann@example.org", "", None)

        async def broken(*_: object) -> None:
            raise SpoolError("disk I/O error")

        it.suppressions._spool.recall = broken  # type: ignore[method-assign]  # a failure on order
        await it.learn("ann@example.org", OK, phase="final")
        assert any(isinstance(fact, Trouble) and fact.severity == "warning" for fact in it.facts)
