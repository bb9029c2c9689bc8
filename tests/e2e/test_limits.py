"""What receivers bear: connections and messages in a time, learned or configured (RTY-05, CLI-15, Table A 421)."""

import asyncio
import itertools
import signal
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.e2e.requests import taking
from tests.e2e.world import World
from tests.support.daemon import until
from tests.support.mx import Close, Connection, ScriptedMx, Step
from tests.support.postfix import Postfix

TOO_MANY = "421 4.7.0 mx.few.test Error: too many connections from you"


class Crowd:
    """Counts the connections that are open at some servers together, and refuses those that are more than `most`, in the
    order in which they come."""

    def __init__(self, most: int = 1000) -> None:
        self.most, self.peak, self.refused = most, 0, 0
        self._taken: list[Connection] = []

    def counts(self, mx: ScriptedMx) -> None:
        came = itertools.count()
        mx.script["BANNER"] = lambda line: self._greet(mx.connections[next(came)])

    def _greet(self, connection: Connection) -> Step:
        self._taken = [it for it in self._taken if not it.closed.is_set()]
        if len(self._taken) >= self.most:
            self.refused += 1
            return (TOO_MANY, Close())
        self._taken.append(connection)
        self.peak = max(self.peak, len(self._taken))
        return "220 mx.few.test ESMTP"


async def submitted(world: World, domain: str, count: int, **how: object) -> None:
    await asyncio.gather(*(world.daemon.submit(f"r{number}@{domain}", **how) for number in range(count)))


async def crowded(world: World, most: int, seconds: float = 0.05) -> tuple[Crowd, ScriptedMx]:
    crowd = Crowd(most)
    mx = await world.mx("few.test", script={"FINAL": taking(seconds)})
    crowd.counts(mx)
    return crowd, mx


async def limit_of(world: World, domain: str, why: str = "") -> dict:
    """What `status` says of it, as soon as it does, for that reason."""

    async def limit() -> dict:
        rows = (await world.daemon.json("status"))["destinations"]
        found = next((it["limit"] for it in rows if it["domain"] == domain), None) or {}
        return found if found.get("why", "").startswith(why) else {}

    return await until(limit)


async def test_421_beyond_three_connections_is_learned_and_all_mail_arrives(world: World) -> None:
    world.configure("lanes", urgent_reserve=0.0)
    world.configure("class.normal", first_retry="1s", max_interval="1s", give_up_after="1h")
    crowd, mx = await crowded(world, 3)
    await world.daemon.start()
    await submitted(world, "few.test", 80)
    await until(lambda: len(mx.messages) > 15)
    limit = await limit_of(world, "few.test", "learned")
    assert limit["cap"] <= 4 and "too many connections" in limit["learned_from"]
    assert "too many connections" in (await world.daemon.cli("status")).out
    before = crowd.refused
    await until(lambda: sum(it.code == 250 for it in mx.messages) == 80)
    assert crowd.peak == 3 and crowd.refused - before <= 1
    assert len(mx.messages) == 80, "nothing twice"

    await until(world.daemon.idle)
    await world.daemon.restart()
    before = crowd.refused
    await submitted(world, "few.test", 40)
    await until(lambda: sum(it.code == 250 for it in mx.messages) == 120)
    assert crowd.refused == before, "a restart remembers"


async def test_mail_that_found_a_crowd_waits_for_a_moment_and_is_no_failed_attempt(world: World) -> None:
    """Its schedule would let it wait for ten minutes; the destination does not rest."""
    world.configure("class.normal", first_retry="10m", max_interval="10m", give_up_after="1h")
    crowd, mx = await crowded(world, 2)
    await world.daemon.start()
    await submitted(world, "few.test", 12)
    await until(lambda: sum(it.code == 250 for it in mx.messages) == 12, 40)
    assert crowd.refused
    await until(world.daemon.idle)


async def test_421_of_a_server_that_is_down_is_no_crowd(world: World) -> None:
    mx = await world.mx("away.test", script={"BANNER": "421 4.3.2 not now"})
    await world.daemon.start()
    await submitted(world, "away.test", 10)
    await until(lambda: len(mx.connections) >= 3)
    with world.spool() as spool:  # looked at before it is up: of those it turned away in that moment others were at work
        assert spool.execute("SELECT count(*) FROM memories").fetchone() == (0,)
    mx.script.clear()
    await until(lambda: sum(it.code == 250 for it in mx.messages) == 10, 30)


async def test_domains_of_one_table_share_its_sessions(world: World) -> None:
    world.configure("", destination=[{"match": "*.all.test", "share": True, "max_sessions": 2}])
    crowd = Crowd()
    servers = [await world.mx(name, script={"FINAL": taking(0.03)}) for name in ("a.all.test", "b.all.test")]
    for mx in servers:
        crowd.counts(mx)
    await world.daemon.start()
    await submitted(world, "a.all.test", 25)
    await submitted(world, "b.all.test", 25)
    await until(lambda: sum(len(mx.messages) for mx in servers) == 50, 30)
    assert crowd.peak == 2


async def test_domains_with_the_same_servers_share_where_so_configured(world: World) -> None:
    world.configure("", destination=[{"match": ["a.test", "b.test", "c.test"], "share": "mx", "max_sessions": 2}])
    crowd, mx = await crowded(world, 1000, 0.03)
    for name in ("a.test", "b.test", "c.test"):
        world.dns.zones[name, "MX"] = ["10 mx1.few.test."]
    await world.daemon.start()
    for name in ("a.test", "b.test", "c.test"):
        await submitted(world, name, 20)
    limit = await limit_of(world, "a.test")
    await until(lambda: sum(it.code == 250 for it in mx.messages) == 60, 30)
    assert crowd.peak == 2
    assert limit["cap"] == 2 and limit["why"] == "configured"


async def test_a_session_carries_as_many_messages_as_its_table_says(world: World) -> None:
    """CLI-15."""
    world.configure("", destination=[{"match": "few.test", "max_sessions": 1, "messages_per_session": 3}])
    _, mx = await crowded(world, 1000, 0.0)
    await world.daemon.start()
    await submitted(world, "few.test", 10)
    await until(lambda: len(mx.messages) == 10)
    assert max(it.verbs.count("MAIL") for it in mx.connections) == 3


async def test_a_rate_is_kept_over_kill_and_holds_after_a_reload(world: World) -> None:
    rate = {"match": "few.test", "rate": "10/1s", "burst": 10}
    world.configure("", destination=[rate])
    arrived: list[float] = []
    mx = await world.mx("few.test")
    mx.script["FINAL"] = lambda line: arrived.append(time.time()) or "250 2.0.0 ok"
    await world.daemon.start()
    await submitted(world, "few.test", 90)
    await until(lambda: len(arrived) >= 25)
    limit = await limit_of(world, "few.test")
    assert limit["rate"] == "10/1s" and limit["next_message_at"]
    await world.daemon.restart(signal.SIGKILL)
    await until(lambda: len(arrived) >= 50)
    for n, start in enumerate(arrived):
        for span in (0.5, 1, 2, 4):
            assert sum(it <= start + span for it in arrived[n:]) <= 10 + 10 * span + 3, "3 for what the network delays"
    world.configure("", destination=[])
    await world.daemon.reload()
    at = time.time()
    await until(lambda: len(arrived) >= 90)
    assert time.time() - at < 3, "there is no rate any more"


@pytest.fixture
async def narrow_postfix(world: World) -> AsyncIterator[Postfix]:
    with tempfile.TemporaryDirectory(prefix="mta-postfix-") as folder:
        host = world.address()
        settings = (
            "smtpd_client_connection_count_limit = 3\nsmtpd_client_event_limit_exceptions =\n"
            "smtpd_data_restrictions = sleep 1\n"
        )
        async with Postfix(Path(folder), host, world.port, settings=settings) as postfix:
            Path(folder).chmod(0o755)
            world.route("real.test", host)
            yield postfix
            print(postfix.log)


@pytest.mark.postfix
@pytest.mark.root
async def test_postfix_s_own_limit_of_connections_is_learned(world: World, narrow_postfix: Postfix) -> None:
    """Its anvil counts; beyond three it answers 421 4.7.0."""
    world.configure("lanes", urgent_reserve=0.0)
    await world.daemon.start()
    await asyncio.gather(*(world.daemon.submit("ann@real.test") for _ in range(24)))
    limit = await limit_of(world, "real.test", "learned")
    assert limit["cap"] == 3 and "too many connections" in limit["learned_from"]
    before = narrow_postfix.log.count("too many connections")
    await until(lambda: len(narrow_postfix.mail("ann@real.test")) == 24, 40)
    assert narrow_postfix.log.count("too many connections") <= before + 1
    assert not world.daemon.logged("failed")
