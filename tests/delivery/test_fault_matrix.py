"""Table A through a whole delivery: the first of two servers misbehaves in one phase and one way; what was decided is
seen in what each server got and in what the spool holds afterwards."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mta.model.envelope import Notice
from mta.model.lifecycle import Status
from tests.delivery.house import BRISK, CONTENT, PATIENT, House, house
from tests.support.black_hole import black_hole
from tests.support.mx import EXTENSIONS, Close, ScriptedMx, Silence, Unread, server_tls


@dataclass(frozen=True)
class Expected:
    """`at`: the server that took the message (1, 2 or 0); `code` of the reply that is kept, None for a finding."""

    status: Status
    at: int
    code: int | None


def here(code: int | None = 250) -> Expected:
    return Expected(Status.SENT, 1, code)


THERE = Expected(Status.SENT, 2, 250)


def later(code: int | None) -> Expected:
    return Expected(Status.PENDING, 0, code)


def failed(code: int) -> Expected:
    return Expected(Status.FAILED, 0, code)


def doubt(code: int | None) -> Expected:
    return Expected(Status.IN_DOUBT, 0, code)


STEPS: dict[str, Any] = {
    "2yz": "252 2.0.0 fine",
    "3yz": "334 go on",
    "4yz": "450 4.2.0 later",
    "421": ("421 4.3.2 closing", Close()),
    "500": "500 5.5.2 what",
    "550": "550 5.7.1 no",
    "554": "554 5.7.1 no",
    "malformed": "hello world",
    "eof": Close(),
    "timeout": Silence(),
}
COLUMNS = tuple(STEPS)
ALL_THERE = dict.fromkeys(COLUMNS, THERE)
ALL_HERE = dict.fromkeys(COLUMNS, here())

MATRIX: dict[str, dict[str, Expected]] = {
    "BANNER": {**ALL_THERE, "2yz": here()},
    "EHLO": {**ALL_THERE, "2yz": here(), "500": here(), "eof": here()},
    "HELO": {**ALL_THERE, "2yz": here()},
    "STARTTLS": {**ALL_HERE, "421": THERE},
    "TLS": {"malformed": here(), "eof": here(), "timeout": here()},
    "EHLO_TLS": {**ALL_THERE, "2yz": here()},
    "MAIL": {**ALL_THERE, "2yz": here(), "500": failed(500), "550": failed(550), "554": failed(554)},
    "RCPT": {
        **ALL_THERE, "2yz": here(), "4yz": later(450), "500": failed(500), "550": failed(550), "554": failed(554),
    },
    "DATA": {
        **ALL_THERE, "2yz": later(252), "3yz": later(334), "4yz": later(450),
        "500": failed(500), "550": failed(550), "554": failed(554),
    },
    "BODY": {
        "4yz": later(450), "421": later(421), "500": failed(500), "550": failed(550), "554": failed(554),
        "eof": THERE, "timeout": THERE,
    },
    "BDAT": {
        **ALL_THERE, "2yz": here(), "4yz": later(450), "500": here(), "550": failed(550), "554": failed(554),
    },
    "FINAL": {
        "2yz": here(252), "3yz": doubt(334), "4yz": later(450), "421": later(421), "500": failed(500),
        "550": failed(550), "554": failed(554), "malformed": doubt(None), "eof": doubt(None), "timeout": doubt(None),
    },
    "QUIT": ALL_HERE,
}
MATRIX["LAST"] = MATRIX["FINAL"]  # fmt: skip
"""CONNECT and RSET have tests of their own below. TLS knows no replies; of BODY, what no server can do is left out."""

CASES = [pytest.param(phase, column, id=f"{phase}-{column}") for phase, row in MATRIX.items() for column in row]
BULKY = b"Subject: big\r\n\r\n" + (b"x" * 70 + b"\r\n") * 100_000
"""More than the sockets' buffers hold."""


def first_server(phase: str, step: Any) -> ScriptedMx:
    in_clear = b"250-mx.example.test\r\n250-PIPELINING\r\n250 STARTTLS\r\n"
    match phase:
        case "HELO":
            return ScriptedMx({"EHLO": "502 5.5.1 no", "HELO": step})
        case "STARTTLS" | "TLS":
            return ScriptedMx({phase: step}, tls=server_tls())
        case "EHLO_TLS":
            return ScriptedMx({"EHLO": [in_clear, step]}, tls=server_tls())
        case "BODY":
            return ScriptedMx({"BODY": Unread() if isinstance(step, Silence) else step})
        case "BDAT" | "LAST":
            stage = "FINAL" if phase == "LAST" else phase
            return ScriptedMx({stage: step}, extensions=(*EXTENSIONS, "CHUNKING"))
    return ScriptedMx({phase: step})


@pytest.mark.parametrize(("phase", "column"), CASES)
async def test_cell(phase: str, column: str, tmp_path: Path):
    step, expected = STEPS[column], MATRIX[phase][column]
    timeouts = BRISK if column == "timeout" else PATIENT
    content = BULKY if phase in ("BODY", "BDAT", "LAST") else CONTENT
    async with first_server(phase, step) as first, ScriptedMx(host="127.0.0.2", port=first.port) as second:
        async with house(tmp_path, first.port, timeouts=timeouts) as home:
            home.names.zones["example.org"] = [(10, "mx1.example.org", "127.0.0.1"), (20, "mx2.example.org", "127.0.0.2")]
            queue_id = await home.submit("ann@example.org", content=content)
            await home.deliver()
            taken = [bool(it.messages and it.messages[-1].code in (250, 252)) for it in (first, second)]
            await check(home, queue_id, expected)
    assert taken == [expected.at == 1, expected.at == 2]
    if expected.at != 2:
        assert not second.connections, "another host was tried although this one's word holds"


async def check(home: House, queue_id: str, expected: Expected) -> None:
    """What was recorded."""
    it = await home.recipient(queue_id)
    assert (it.status, it.reply and it.reply.code) == (expected.status, expected.code), it
    assert it.attempts == 1
    assert it.doubts == (expected.status is Status.IN_DOUBT)
    timeline = (await home.show(queue_id)).timeline
    tries = [entry.detail["server"] for entry in timeline if entry.event == "attempt"]
    assert tries == (["mx1.example.org"] if expected.at == 2 else []), "a host that was left is in the timeline, once"
    if expected.at:
        assert it.remote_host == f"mx{expected.at}.example.org"
        assert it.remote_id == ("MX123" if expected.code == 250 else "")
    assert (it.next_attempt_at is not None) == (expected.status in (Status.PENDING, Status.IN_DOUBT))
    owed = await home.spool.notices([Notice.DSN_FAILED, Notice.REPORT], 10, home.clock.now())
    marks = [it.notice for it in owed if it.queue_id == queue_id]
    assert len(marks) == (2 if expected.status is Status.FAILED else 0), "failed and report due are one commit"


# ---------------------------------------------------------------- CONNECT
async def test_connect_refused_goes_to_the_next_host(tmp_path: Path):
    async with ScriptedMx(host="127.0.0.2") as second, house(tmp_path, second.port) as home:
        home.names.zones["example.org"] = [(10, "mx1.example.org", "127.0.0.1"), (20, "mx2.example.org", "127.0.0.2")]
        queue_id = await home.submit("ann@example.org")
        await home.deliver()
        await check(home, queue_id, THERE)


async def test_connect_timeout_goes_to_the_next_host(tmp_path: Path):
    async with ScriptedMx(host="127.0.0.2") as second:
        with black_hole("127.0.0.1", second.port):
            async with house(tmp_path, second.port, timeouts=BRISK) as home:
                home.names.zones["example.org"] = [
                    (10, "mx1.example.org", "127.0.0.1"), (20, "mx2.example.org", "127.0.0.2"),
                ]  # fmt: skip
                queue_id = await home.submit("ann@example.org")
                await home.deliver()
                await check(home, queue_id, THERE)
                again = await home.submit("bob@example.org")
                started = asyncio.get_running_loop().time()
                await home.deliver()
                assert asyncio.get_running_loop().time() - started < BRISK.connect, "the black hole is remembered"
                assert (await home.recipient(again)).status is Status.SENT


# ---------------------------------------------------------------- RSET
@pytest.mark.parametrize("column", COLUMNS)
async def test_rset(column: str, tmp_path: Path):
    """The verdict stands; a session whose RSET went wrong is not used again, and that is nobody's failed attempt."""
    timeouts = BRISK if column == "timeout" else PATIENT
    async with ScriptedMx({"RCPT": ["550 5.1.1 no such user"], "RSET": STEPS[column]}) as mx:
        async with house(tmp_path, mx.port, timeouts=timeouts) as home:
            home.names.zones["example.org"] = [(10, "mx1.example.org", "127.0.0.1")]
            refused = await home.submit("nobody@example.org")
            await home.deliver()
            await check(home, refused, failed(550))
            sent = await home.submit("ann@example.org")
            await home.deliver()
            await check(home, sent, here())
    assert len(mx.connections) == (1 if column == "2yz" else 2)
