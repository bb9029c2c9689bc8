"""Crash at every commit of a message's life: the table says what is legal after each, with both answers to a doubt.

A crash is `os._exit` just before or just after a commit (`seam`); the next daemon starts as any other. The client submits
again under the same key, since it can't know. Nothing is lost; a copy goes out twice only where a doubt stands in the row.
"""

import asyncio
import contextlib
import signal
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.crash.seam import PREAMBLE, Point
from tests.e2e.reports import delivery_status
from tests.e2e.world import POSTMASTER, SENDER, World, no_surprise
from tests.spool.house import House
from tests.spool.invariants import check
from tests.support.daemon import until

AT_ONCE = 4
KEY = "order-1234-confirmation"


@dataclass(frozen=True)
class End:
    """Where a life ends. `status` None: forgotten; `copies` how often its content came to a final dot, `doubts` how often
    that was in doubt; `dsns` the actions of the DSNs that went out, `reports` the mails to the postmaster; `in_doubt`
    recipients, ours included, wait for a person."""

    status: str | None
    copies: int
    dsns: tuple[str, ...] = ()
    reports: int = 0
    doubts: int = 0
    in_doubt: int = 0


@dataclass(frozen=True)
class Life:
    """`commits` are all that an undisturbed life makes, in order; it ends as `end`, and so it must after a crash at any
    of them, but for what `doubted` says for `delivery.in_doubt` "retry" and "hold"."""

    commits: tuple[str, ...]
    end: End
    doubted: Mapping[tuple[str, Point], End] = field(default_factory=dict)
    script: Mapping[str, Any] = field(default_factory=dict)
    sender: str = SENDER
    postmaster: str = ""
    retention: str = "30d"


SENT = End("sent", copies=1)
FAILED = End("failed", copies=0, dsns=("failed",))
DEAD = End("dead", copies=2, dsns=("failed",))
REPORTED = End("failed", copies=0, reports=1)
WAITS = End("in_doubt", copies=0, dsns=("delayed",), doubts=1, in_doubt=1)
MARKED, UNSETTLED = Point("after", "mark mail"), Point("before", "settle mail")

LIVES = {
    "delivered": Life(
        ("accept mail", "mark mail", "settle mail"),
        SENT,
        {
            ("retry", MARKED): replace(SENT, doubts=1),
            ("retry", UNSETTLED): replace(SENT, copies=2, doubts=1),
            ("hold", MARKED): WAITS,
            ("hold", UNSETTLED): replace(WAITS, copies=1),
        },
    ),
    "forgotten": Life(("accept mail", "mark mail", "settle mail", "purge"), replace(SENT, status=None), retention="1s"),
    "bounced": Life(
        ("accept mail", "settle mail", "report dsn", "mark dsn", "settle dsn"),
        FAILED,
        {
            ("retry", Point("before", "settle dsn")): replace(FAILED, dsns=("failed", "failed")),
            ("hold", Point("after", "mark dsn")): replace(FAILED, dsns=(), in_doubt=1),
            ("hold", Point("before", "settle dsn")): replace(FAILED, in_doubt=1),
        },
        script={"RCPT": "550 5.1.1 no such user"},
    ),
    "reported": Life(
        ("accept mail", "settle mail", "report report", "mark report", "settle report"),
        REPORTED,
        {
            ("retry", Point("before", "settle report")): replace(REPORTED, reports=2),
            ("hold", Point("after", "mark report")): replace(REPORTED, reports=0, in_doubt=1),
            ("hold", Point("before", "settle report")): replace(REPORTED, in_doubt=1),
        },
        script={"RCPT": "550 5.1.1 no such user"},
        sender="",
        postmaster=POSTMASTER,
    ),
    "given up": Life(
        ("accept mail", "mark mail", "settle mail", "mark mail", "settle mail", "report dsn", "mark dsn", "settle dsn"),
        DEAD,
        {
            ("retry", MARKED): replace(DEAD, copies=1, doubts=1),
            ("retry", UNSETTLED): replace(DEAD, doubts=1),
            ("retry", Point("after", "mark mail", 2)): replace(DEAD, copies=1, doubts=1),
            ("retry", Point("before", "settle mail", 2)): replace(DEAD, doubts=1),
            ("hold", MARKED): WAITS,
            ("hold", UNSETTLED): replace(WAITS, copies=1),
            ("hold", Point("after", "mark mail", 2)): replace(WAITS, copies=1),
            ("hold", Point("before", "settle mail", 2)): replace(WAITS, copies=2),
            ("retry", Point("before", "settle dsn")): replace(DEAD, dsns=("failed", "failed")),
            ("hold", Point("after", "mark dsn")): replace(DEAD, dsns=(), in_doubt=1),
            ("hold", Point("before", "settle dsn")): replace(DEAD, in_doubt=1),
        },
        script={"FINAL": "451 4.3.0 try later"},
    ),
}


def points(life: Life) -> list[Point]:
    numbered = [(name, life.commits[: n + 1].count(name)) for n, name in enumerate(life.commits)]
    return [Point(side, name, nth) for name, nth in numbered for side in ("before", "after")]


def cases(life: Life) -> list[tuple[str, Point]]:
    """Each point once, with both policies where a doubt is left."""
    doubted = {point for _, point in life.doubted}
    return [(how, point) for point in points(life) for how in ("retry", "hold") if how == "hold" or point in doubted]


@contextlib.asynccontextmanager
async def prepared(life: Life, policy: str, environ: Mapping[str, str]) -> Any:
    """A world and its server, and a daemon with the seam that is not started yet."""
    with tempfile.TemporaryDirectory(prefix="mta-") as folder:
        async with World(Path(folder)) as world:
            mx = await world.mx("x.test", script=life.script)
            world.daemon.preamble, world.daemon.environ = PREAMBLE, dict(environ)
            world.configure("delivery", in_doubt=policy, in_doubt_delay="300ms")
            world.configure("class.normal", max_attempts=2, first_retry="100ms")
            world.configure("spool", retention=life.retention, content_retention="1s")
            world.configure("", **{"postmaster": POSTMASTER} if life.postmaster else {})
            if not life.postmaster:
                del world.daemon.config["postmaster"]
            yield world, mx


async def submitted(world: World, life: Life) -> str:
    """The reply, "" where the daemon ended instead."""
    try:
        return await world.daemon.reply("ann@x.test", sender=life.sender, headers=[f"Idempotency-Key: {KEY}"])
    except (ConnectionError, AssertionError):
        return ""


async def end_of(world: World, mx: Any) -> End:
    """As it is now."""
    counts = await world.daemon.counts()
    shown = await world.daemon.show(KEY)
    ours = shown["recipients"][0] if "recipients" in shown else None
    dsns = [delivery_status(it)[1]["Action"] for it in world.home.messages if SENDER in it.forward_paths]
    reports = [it for it in world.home.messages if POSTMASTER in it.forward_paths]
    return End(
        status=ours and ours["status"],
        copies=len(mx.messages),
        dsns=tuple(sorted(dsns)),
        reports=len(reports),
        doubts=ours["doubts"] if ours else 0,
        in_doubt=counts["in_doubt"],
    )


async def ends(world: World, mx: Any, expected: End) -> None:
    """Waits for the expected end, then lets the daemon finish what it has, and looks again."""
    found: list[End] = []

    async def there() -> bool:
        found[:] = [await end_of(world, mx)]
        counts = await world.daemon.counts()
        return found == [expected] and not counts["pending"] and not counts["sending"]

    try:
        await until(there)
    except AssertionError:
        raise AssertionError(f"ended as {found[0]}, not as {expected}") from None
    await world.daemon.stop()
    assert len(mx.messages) == expected.copies
    check(House(world.folder))


async def crashed(life: Life, policy: str, point: Point) -> None:
    expected = life.doubted.get((policy, point), life.end)
    async with prepared(life, policy, {"CRASH_AT": str(point)}) as (world, mx):
        with no_surprise(world.daemon):
            await world.daemon.start()
            first = await submitted(world, life)
            assert await world.daemon.exited() == -signal.SIGKILL
            world.daemon.environ = {}
            await world.daemon.start()
            if life.retention != "1s":  # else the key may be free again
                _resubmitted(first, await submitted(world, life), point, expected)
            await ends(world, mx, expected)


def _resubmitted(first: str, again: str, point: Point, expected: End) -> None:
    if point == Point("before", "accept mail"):
        assert not first
        assert again.startswith("250 2.0.0 Ok: queued as ")
        return
    duplicate, finished = again.startswith("250 2.0.0 Ok: duplicate of "), again.startswith("554 5.5.0 ")
    assert duplicate or (finished and expected.status in ("failed", "dead"))
    if first:
        assert first.split()[-1] in again


@pytest.mark.parametrize("name", LIVES)
async def test_b01_b58_an_undisturbed_life_makes_these_commits_and_no_others(name: str, tmp_path: Path) -> None:
    """So the table has every point."""
    life, record = LIVES[name], tmp_path / "commits"
    async with prepared(life, "hold", {"COMMITS": str(record)}) as (world, mx):
        await world.daemon.start()
        assert (await submitted(world, life)).startswith("250 ")
        await ends(world, mx, life.end)
    assert tuple(record.read_text().splitlines()) == life.commits


@pytest.mark.parametrize("name", LIVES)
async def test_b01_b57_b58_crashed_at_each_commit_a_life_ends_as_the_table_says(name: str) -> None:
    life, free, wrong = LIVES[name], asyncio.Semaphore(AT_ONCE), list[str]()
    wanted = [case for case in cases(life) if name != "forgotten" or case[1].commit == "purge"]

    async def one(policy: str, point: Point) -> None:
        async with free:
            try:
                await crashed(life, policy, point)
            except (AssertionError, TimeoutError) as error:
                wrong.append(f"{policy}, {point}: {error!r}")

    await asyncio.gather(*(one(*case) for case in wanted))
    assert not wrong, "\n".join(wrong)
