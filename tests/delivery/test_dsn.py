"""What is asked of DSNs on its way through a delivery: sent on, or honoured here (RFC 3461 section 5.2)."""

from pathlib import Path

import pytest

from mta.model.envelope import ByMode, DeliverBy, Notice
from tests.delivery.house import POLICY, House, house
from tests.support.mx import ScriptedMx

ASKS = {
    "a@example.org": ("SUCCESS,FAILURE", "rfc822;Ann+2Bx@Old.test"),
    "b@example.org": ("NEVER", ""),
    "c@example.org": ("", "x-id;4711"),
    "d@example.org": ("", ""),
}
DSN = ("PIPELINING", "DSN")


def one_mx(home: House) -> None:
    home.names.zones["example.org"] = [(10, "mx.example.org", "127.0.0.1")]


async def told(home: House) -> list[tuple[Notice, str]]:
    return [(notice, address[0]) for notice, address in await home.notices()]


async def test_dsn_04_dsn_05_a_server_with_dsn_is_asked_and_tells_itself(tmp_path: Path):
    """DSN-03: byte for byte."""
    async with ScriptedMx(extensions=DSN) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        await home.submit(*ASKS, ret="HDRS", envid="Q+2B1", asks=ASKS)
        await home.deliver()
        (message,) = mx.messages
        assert message.mail == "MAIL FROM:<shop@example.com> RET=HDRS ENVID=Q+2B1"
        assert message.rcpts == [
            "RCPT TO:<a@example.org> NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;Ann+2Bx@Old.test",
            "RCPT TO:<b@example.org> NOTIFY=NEVER",
            "RCPT TO:<c@example.org> ORCPT=x-id;4711",
            "RCPT TO:<d@example.org>",
        ]
        assert await home.notices() == []


async def test_dsn_05_where_dsn_is_not_offered_we_tell_who_asked_for_success(tmp_path: Path):
    """DSN-04: nothing of it is sent there."""
    async with ScriptedMx() as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        await home.submit(*ASKS, ret="FULL", envid="Q", asks=ASKS)
        await home.deliver()
        (message,) = mx.messages
        assert message.mail == "MAIL FROM:<shop@example.com> SIZE=25"
        assert message.rcpts == [f"RCPT TO:<{address}>" for address in ASKS]
        assert await told(home) == [(Notice.DSN_RELAYED, "a")]


@pytest.mark.parametrize("verb", ["MAIL", "RCPT"])
async def test_dsn_05_parameters_that_had_to_be_dropped_were_not_passed_on(tmp_path: Path, verb: str):
    """Table A, 555: the same server without them, and the duty is ours again."""
    async with ScriptedMx({verb: ["555 5.5.4 what?"]}, extensions=DSN) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        await home.submit("a@example.org", ret="FULL", envid="Q", asks=ASKS)
        await home.deliver()
        (message,) = [it for it in mx.messages if it.code == 250]
        assert (message.mail, message.rcpts) == ("MAIL FROM:<shop@example.com>", ["RCPT TO:<a@example.org>"])
        assert await told(home) == [(Notice.DSN_RELAYED, "a")]


async def test_dsn_05_what_was_refused_or_waits_was_not_relayed(tmp_path: Path):
    replies = ["550 5.1.1 no", "450 4.2.1 busy"]
    async with ScriptedMx({"RCPT": replies}) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        await home.submit("a@example.org", "b@example.org", asks=dict.fromkeys(ASKS, ("SUCCESS", "")))
        await home.deliver()
        assert await told(home) == [(Notice.REPORT, "a")]


async def test_dsn_06_who_does_not_want_to_hear_is_not_told(tmp_path: Path):
    """The postmaster is told in any case."""
    asks = {"a@example.org": ("NEVER", ""), "b@example.org": ("SUCCESS,DELAY", ""), "c@example.org": ("FAILURE", "")}
    async with ScriptedMx({"RCPT": ["550 5.1.1 no"] * 3}) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        await home.submit(*asks, asks=asks)
        await home.deliver()
        assert await told(home) == [
            (Notice.REPORT, "a"),
            (Notice.REPORT, "b"),
            (Notice.DSN_FAILED, "c"),
            (Notice.REPORT, "c"),
        ]


async def test_dsn_06_a_delay_is_told_to_who_wants_it(tmp_path: Path):
    asks = {"a@example.org": ("NEVER", ""), "b@example.org": ("FAILURE", ""), "c@example.org": ("DELAY", "")}
    async with ScriptedMx({"RCPT": ["450 4.2.1 busy"] * 4}) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        await home.submit(*asks, "d@example.org", asks=asks)
        home.clock.at += POLICY.warn_after + 1
        await home.deliver()
        assert await told(home) == [(Notice.DSN_DELAYED, "c"), (Notice.DSN_DELAYED, "d")]


@pytest.mark.parametrize("mode", [ByMode.HANDOVER, ByMode.NOTIFY])
async def test_dby_07_dby_08_a_deadline_that_passes_is_told_as_asked(tmp_path: Path, mode: ByMode):
    wanted = "FAILURE" if mode is ByMode.HANDOVER else "DELAY"
    notice = Notice.DSN_FAILED if mode is ByMode.HANDOVER else Notice.DSN_LATE
    asks = {"a@example.org": ("NEVER", ""), "b@example.org": ("SUCCESS", ""), "c@example.org": (wanted, "")}
    async with house(tmp_path, 1) as home:
        await home.submit(*asks, "d@example.org", asks=asks, deliver_by=DeliverBy(home.clock.now() + 60, mode))
        home.clock.at += 61
        assert await home.expire() == 1
        assert [it for it in await told(home) if it[0] is notice] == [(notice, "c"), (notice, "d")]


async def test_dby_09_mode_n_adds_delay_and_is_told_to_all_but_never(tmp_path: Path):
    async with ScriptedMx(extensions=DSN) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        await home.submit(*ASKS, asks=ASKS, deliver_by=DeliverBy(home.clock.now() + 60, ByMode.NOTIFY))
        await home.deliver()
        assert [line.split("> ")[1].split(" ")[0] for line in mx.messages[0].rcpts] == [
            "NOTIFY=SUCCESS,FAILURE,DELAY", "NOTIFY=NEVER", "NOTIFY=FAILURE,DELAY", "NOTIFY=FAILURE,DELAY",
        ]  # fmt: skip
        assert await told(home) == [(Notice.DSN_RELAYED, it) for it in "acd"]


async def test_dsn_07_the_null_path_is_never_told_and_its_words_go_on(tmp_path: Path):
    async with ScriptedMx() as plain, house(tmp_path, plain.port) as home:
        one_mx(home)
        await home.submit("a@example.org", sender="", asks=ASKS)
        await home.deliver()
        assert await home.notices() == []
    async with ScriptedMx(extensions=DSN) as mx, house(tmp_path / "..", mx.port) as home:
        one_mx(home)
        by = DeliverBy(home.clock.now() + 60, ByMode.NOTIFY)
        await home.submit("b@example.org", "d@example.org", sender="", asks=ASKS, deliver_by=by)
        await home.deliver()
        assert mx.messages[0].rcpts == ["RCPT TO:<b@example.org> NOTIFY=NEVER", "RCPT TO:<d@example.org>"]
