"""The way to a server, and what becomes of it when a machine ends."""

import asyncio

import pytest

from tests.sim.conftest import Lab
from tests.sim.network import TCP_GIVES_UP, Route
from tests.sim.test_network import HOUR, PLACE, Recorder, after, connected


# ---------------------------------------------------------------- the way there
@pytest.mark.parametrize(
    ("answer", "error", "seconds"),
    [("refused", ConnectionRefusedError, 0.04), ("unreachable", OSError, 0.04), ("silent", TimeoutError, TCP_GIVES_UP)],
)
def test_a_connection_that_does_not_come_about(lab: Lab, answer: str, error: type[OSError], seconds: float) -> None:
    lab.network.listen(Recorder, *PLACE)
    lab.network.route = lambda machine, place: Route(answer)
    before = lab.loop.time()
    with pytest.raises(error):
        lab.run(lab.loop.create_connection(Recorder, *PLACE))
    assert lab.loop.time() - before == pytest.approx(seconds)
    assert not lab.network.ends


def test_nobody_listens(lab: Lab) -> None:
    lab.network.listen(Recorder, *PLACE).close()
    with pytest.raises(ConnectionRefusedError):
        lab.run(lab.loop.create_connection(Recorder, *PLACE))


def test_a_route_is_asked_for_with_the_machine_and_the_place(lab: Lab) -> None:
    asked: list[object] = []
    lab.network.listen(Recorder, *PLACE)
    lab.network.route = lambda *route: asked.append(route) or Route()
    machine = lab.machine()

    async def both() -> None:
        await lab.loop.create_connection(Recorder, *PLACE)
        await lab.spawn(machine, lab.loop.create_connection(Recorder, *PLACE))

    lab.run(both())
    assert asked == [(None, PLACE), (machine, PLACE)]


# ---------------------------------------------------------------- the end of a machine
def test_a_crash_resets_the_machines_connections(lab: Lab) -> None:
    machine = lab.machine()
    pair = connected(lab, server=machine)
    machine.crash()
    after(lab, 1)
    assert isinstance(pair.near.error, ConnectionResetError)
    assert pair.far.events == ["made"]
    assert not lab.network.ends


def test_a_power_cut_is_silent_until_the_machine_is_up(lab: Lab) -> None:
    machine = lab.machine(silently=True)
    pair = connected(lab, server=machine)
    machine.crash()
    pair.near.transport.write(b"are you there?")
    after(lab, HOUR)
    assert pair.near.events == ["made"]
    lab.network.reset_all(lab.unaware)
    after(lab, 1)
    assert isinstance(pair.near.error, ConnectionResetError)
    assert not pair.far.read


def test_a_crashed_machine_listens_no_more(lab: Lab) -> None:
    machine = lab.machine()
    lab.on(machine, lab.network.listen, Recorder, *PLACE)
    machine.crash()
    with pytest.raises(ConnectionRefusedError):
        lab.run(lab.loop.create_connection(Recorder, *PLACE))


@pytest.mark.parametrize("count", [1, 3])
def test_a_crash_at_a_send_comes_before_it(lab: Lab, count: int) -> None:
    machine = lab.machine()
    pair = connected(lab, server=machine)

    async def talk() -> None:
        for _ in range(5):
            pair.far.transport.write(b"x")
            await asyncio.sleep(1)

    async def both() -> None:
        machine.armed = ("send", count)
        lab.spawn(machine, talk())
        await asyncio.sleep(60)

    lab.run(both())
    assert pair.near.read == b"x" * (count - 1)
    assert isinstance(pair.near.error, ConnectionResetError)
