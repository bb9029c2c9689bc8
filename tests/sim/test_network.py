"""Connections as the kernel gives them, and what befalls them."""

import asyncio
from typing import Any

import pytest

from tests.sim.conftest import Lab
from tests.sim.loop import Machine
from tests.sim.network import HIGH_WATER, WINDOW, End, LineFault, Route

PLACE = ("192.0.2.25", 25)
HOUR = 3600.0


class Recorder(asyncio.Protocol):
    """Notes what happens to it, and when."""

    def __init__(self, *, stays_open: bool = False) -> None:
        self.read = bytearray()
        self.events: list[str] = []
        self.error: Exception | None = None
        self.ended_at = 0.0
        self._stays_open = stays_open

    def connection_made(self, transport: Any) -> None:
        self.transport: End = transport
        self.events.append("made")

    def data_received(self, data: bytes) -> None:
        assert data, "no data is no event"
        assert not self.transport.is_closing(), "data after the end"
        self.read += data

    def eof_received(self) -> bool:
        self.events.append("eof")
        return self._stays_open

    def connection_lost(self, exc: Exception | None) -> None:
        self.events.append("lost")
        self.error = exc
        self.ended_at = asyncio.get_running_loop().time()

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")


class Pair:
    """A connection between two recorders; `server` may be on a machine."""

    def __init__(self, lab: Lab, *, stays_open: bool = False) -> None:
        self._lab = lab
        self.near, self.far = Recorder(stays_open=stays_open), Recorder(stays_open=stays_open)

    async def open(self, server: Machine | None = None) -> "Pair":
        def listen() -> Any:
            return self._lab.network.listen(lambda: self.far, *PLACE)

        listening = listen() if server is None else self._lab.on(server, listen)
        await self._lab.loop.create_connection(lambda: self.near, *PLACE)
        await asyncio.sleep(1)
        listening.close()
        return self


def connected(lab: Lab, route: Route | None = None, *, stays_open: bool = False, server: Machine | None = None) -> Pair:
    if route is not None:
        lab.network.route = lambda machine, place: route
    return lab.run(Pair(lab, stays_open=stays_open).open(server))


def after(lab: Lab, seconds: float = 10.0) -> None:
    lab.run(asyncio.sleep(seconds))


def octets(size: int) -> bytes:
    return bytes(number * 31 % 251 for number in range(size))


# ---------------------------------------------------------------- octets
def test_octets_arrive_in_order_whatever_the_pieces(lab: Lab) -> None:
    pair, sent = connected(lab), octets(300_000)
    for start in range(0, len(sent), 7001):
        pair.near.transport.write(sent[start : start + 7001])
    pair.far.transport.writelines([b"back", b"wards"])
    after(lab)
    assert pair.far.read == sent
    assert pair.near.read == b"backwards"


def test_octets_take_their_time(lab: Lab) -> None:
    pair = connected(lab, Route(latency=2.0))
    pair.near.transport.write(b"hello")
    after(lab, 0.9)
    assert not pair.far.read
    after(lab, 3.0)
    assert pair.far.read == b"hello"


def test_each_end_knows_both_addresses(lab: Lab) -> None:
    pair = connected(lab)
    near, far = pair.near.transport, pair.far.transport
    assert near.get_extra_info("peername") == far.get_extra_info("sockname") == PLACE
    assert near.get_extra_info("sockname") == far.get_extra_info("peername")


# ---------------------------------------------------------------- faults of a line
@pytest.mark.parametrize("size", [1, 5000])
@pytest.mark.parametrize("at", [0, 1, 100, 4095, 4999])
def test_a_line_reset_at_an_octet_delivers_exactly_those_before_it(lab: Lab, at: int, size: int) -> None:
    pair, sent = connected(lab, Route(up=LineFault("reset", at))), octets(5000)
    for start in range(0, len(sent), size):
        pair.near.transport.write(sent[start : start + size])
    after(lab)
    assert pair.far.read == sent[:at]
    for one in (pair.near, pair.far):
        assert isinstance(one.error, ConnectionResetError)
        assert one.events[-1] == "lost"
    assert not lab.network.ends


def test_the_other_direction_has_its_own_fault(lab: Lab) -> None:
    pair = connected(lab, Route(down=LineFault("reset", 3)))
    pair.near.transport.write(b"all of it")
    after(lab)
    pair.far.transport.write(b"not all of it")
    after(lab)
    assert (pair.far.read, pair.near.read) == (b"all of it", b"not")


@pytest.mark.parametrize("end", ["write", "close", "abort", "eof"])
def test_a_line_silent_at_an_octet_tells_nobody(lab: Lab, end: str) -> None:
    pair = connected(lab, Route(up=LineFault("silent", 7)))
    pair.near.transport.write(b"before, after")
    match end:
        case "close":
            pair.near.transport.close()
        case "abort":
            pair.near.transport.abort()
        case "eof":
            pair.near.transport.write_eof()
    after(lab, HOUR)
    assert pair.far.read == b"before,"
    assert pair.far.events == ["made"]


def test_a_silent_line_stops_its_writer_in_the_end(lab: Lab) -> None:
    pair = connected(lab, Route(up=LineFault("silent", 0)))
    pair.near.transport.write(bytes(WINDOW + HIGH_WATER + 1))
    after(lab, HOUR)
    assert pair.near.events == ["made", "pause"]


def test_nobody_hears_over_a_silent_line_that_the_other_end_is_gone(lab: Lab) -> None:
    pair = connected(lab, Route(down=LineFault("silent", 0)))
    pair.far.transport.write(b"lost")
    pair.far.transport.abort()
    after(lab)
    pair.near.transport.write(b"are you there?")
    after(lab, HOUR)
    assert pair.near.events == ["made"]


def test_a_slow_line_delivers_everything_late(lab: Lab) -> None:
    pair, sent = connected(lab, Route(up=LineFault("slow", 1000))), octets(3000)
    pair.near.transport.write(sent[:900])
    after(lab, 1)
    assert pair.far.read == sent[:900]
    pair.near.transport.write(sent[900:])
    pair.near.transport.close()
    after(lab, 3)
    assert len(pair.far.read) <= 1000
    after(lab, 60)
    assert pair.far.read == sent
    assert pair.far.events[:2] == ["made", "eof"]


# ---------------------------------------------------------------- the end of a connection
def test_close_sends_what_is_in_the_buffer_and_then_ends(lab: Lab) -> None:
    pair, sent = connected(lab), octets(400_000)
    pair.near.transport.write(sent)
    pair.near.transport.close()
    pair.near.transport.write(b"too late")
    after(lab)
    assert pair.far.read == sent
    assert pair.near.error is pair.far.error is None
    assert (pair.near.events[-1], pair.far.events) == ("lost", ["made", "eof", "lost"])
    assert not lab.network.ends


def test_nothing_is_received_after_close(lab: Lab) -> None:
    pair = connected(lab)
    pair.far.transport.pause_reading()
    pair.near.transport.write(bytes(400_000))
    pair.near.transport.close()
    pair.far.transport.write(b"too late")
    after(lab)
    assert not pair.near.read
    pair.far.transport.resume_reading()
    after(lab)
    assert len(pair.far.read) == 400_000


@pytest.mark.parametrize("first", ["near", "far"])
def test_a_half_closed_connection_still_carries_the_other_half(lab: Lab, first: str) -> None:
    pair = connected(lab, stays_open=True)
    one, other = (pair.near, pair.far) if first == "near" else (pair.far, pair.near)
    one.transport.write(b"the last of mine")
    one.transport.write_eof()
    after(lab)
    assert (other.read, other.events) == (b"the last of mine", ["made", "eof"])
    other.transport.write(b"some more")
    after(lab)
    assert one.read == b"some more"
    other.transport.close()
    after(lab)
    assert one.events == ["made", "eof"]
    one.transport.close()
    after(lab)
    assert (one.events, other.events) == (["made", "eof", "lost"], ["made", "eof", "lost"])
    assert one.error is other.error is None
    assert not lab.network.ends


def test_a_protocol_that_does_not_stay_open_ends_with_the_end_of_file(lab: Lab) -> None:
    pair = connected(lab)
    pair.near.transport.write_eof()
    after(lab)
    assert pair.near.events == pair.far.events == ["made", "eof", "lost"]


def test_abort_resets_the_other_end_and_loses_what_was_not_sent(lab: Lab) -> None:
    pair = connected(lab)
    pair.near.transport.write(bytes(WINDOW + 5000))
    pair.near.transport.abort()
    after(lab)
    assert (pair.near.error, pair.near.events[-1]) == (None, "lost")
    assert isinstance(pair.far.error, ConnectionResetError)
    assert len(pair.far.read) == WINDOW


def test_who_writes_to_somebody_who_is_gone_is_reset(lab: Lab) -> None:
    pair = connected(lab, stays_open=True)
    pair.far.transport.close()
    after(lab)
    assert pair.near.events == ["made", "eof"]
    pair.near.transport.write(b"anybody?")
    after(lab)
    assert isinstance(pair.near.error, ConnectionResetError)


# ---------------------------------------------------------------- who reads slowly
def test_a_reader_that_pauses_stops_the_writer_and_one_that_goes_on_lets_it_go_on(lab: Lab) -> None:
    pair, sent = connected(lab), octets(500_000)
    pair.far.transport.pause_reading()
    assert not pair.far.transport.is_reading()
    pair.near.transport.write(sent)
    after(lab, HOUR)
    assert not pair.far.read
    assert pair.near.events == ["made", "pause"]
    assert pair.near.transport.get_write_buffer_size() == len(sent) - WINDOW
    pair.far.transport.resume_reading()
    after(lab, HOUR)
    assert pair.far.read == sent
    assert pair.near.events == ["made", "pause", "resume"]
    assert pair.near.transport.get_write_buffer_size() == 0


def test_limits_say_when_a_writer_is_stopped(lab: Lab) -> None:
    pair = connected(lab)
    pair.near.transport.set_write_buffer_limits(high=100)
    assert pair.near.transport.get_write_buffer_limits() == (25, 100)
    pair.far.transport.pause_reading()
    pair.near.transport.write(bytes(WINDOW + 100))
    assert pair.near.events == ["made"]
    pair.near.transport.write(b"!")
    assert pair.near.events == ["made", "pause"]
