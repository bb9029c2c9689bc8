"""The documents as text for a person."""

import re
from dataclasses import replace

import pytest

from mta.control.commands import COMMANDS, Command, parse_command, words_of
from mta.control.desk import Desk
from mta.control.errors import CommandError, Exit
from mta.control.health import HealthRules, Limits
from mta.control.render import render, shown_as
from mta.control.state import DestinationState, LimitState
from mta.control.words import span
from mta.model.envelope import ByMode, DeliverBy, Kind, MailClass, Notice
from mta.model.events import Fact, Ordered
from mta.model.lifecycle import Event
from mta.model.reply import Reply
from tests.control.conftest import NOW, Mailroom, Present


async def text(desk: Desk, *words: str) -> str:
    command = parse_command(words)
    return render(shown_as(command), await desk.do(command))


async def test_status_reads_as_a_person_would_say_it(desk: Desk, mail: Mailroom, present: Present) -> None:
    await mail.accept("ann@example.org", at=NOW - 7500, mail_class=MailClass.BULK)
    await desk.do(parse_command(["hold", "--domain", "example.net"]))
    present.up = 90061
    present.lag = 0.0123
    present.at["example.org"] = DestinationState(1, NOW + 60, "451 4.3.0 try later")
    assert (await text(desk, "status")).splitlines() == [
        "mta 0.1.0 on mail.example.com, up 1 d 1 h, 1 session",
        "",
        "held        example.net (mta release --domain example.net)",
        "recipients  1 pending",
        "urgent      0 waiting",
        "normal      0 waiting",
        "bulk        1 waiting, the oldest for 2 h 5 min",
        "last minute 3 accepted",
        "loop lag    up to 12 ms within the last minute",
        "refusals    2 mailbox-full (since the start)",
        "",
        "DESTINATION  WAITING  SESSIONS  RESTS UNTIL  LAST REPLY",
        "example.org  1        1         03:05:05Z    451 4.3.0 try later",
    ]


async def test_status_begins_with_what_a_person_should_see_to(desk: Desk, mail: Mailroom) -> None:
    desk = replace(desk, health=lambda: HealthRules(critical=Limits(pending=1), postmaster=False))
    await mail.dead("bob@example.net")
    await mail.accept("ann@example.org")
    assert (await text(desk, "status")).splitlines()[1:6] == [
        "",
        "critical    1 recipient waiting (limit 1)",
        "            1 recipient given up (mta dead)",
        "            no postmaster who gets reports and alerts",
        "recipients  1 pending, 1 dead",
    ]


async def test_status_keeps_its_head_on_the_screen(desk: Desk, mail: Mailroom, present: Present) -> None:
    for number in range(60):
        await mail.accept(f"ann@d{number}.example")
    await mail.accept("bob@d7.example")
    present.at["d7.example"] = DestinationState(1, None, "451 4.7.1 " + "x" * 500)
    lines = (await text(desk, "status")).splitlines()
    assert len(lines) <= 24
    assert all(len(line) < 160 for line in lines)
    assert lines[-13].split()[:3] == ["d7.example", "2", "1"]
    assert lines[-1] == "more: mta status --json"


async def test_an_idle_daemon_s_lists_say_so(desk: Desk) -> None:
    assert await text(desk, "queue") == "nothing waits\n"
    assert await text(desk, "dead") == "nothing needs a person\n"
    assert await text(desk, "retry", "--all") == "nothing to do\n"


async def test_queue_says_of_each_recipient_where_it_stands_and_why(desk: Desk, mail: Mailroom) -> None:
    queue_id = await mail.accept("ann@example.org", "bob@example.net", sender="")
    await mail.accept("joe@example.com")
    await mail.settle("example.net", Event.DEFERRED, Reply(451, "4.7.1", "greylisted"), next_attempt_at=NOW)
    assert (await text(desk, "queue", "--limit", "1")).splitlines() == [
        "QUEUE ID          ACCEPTED              CLASS   SIZE  SENDER",
        f"{queue_id}  2026-01-02 03:04:05Z  normal  19    <>",
        "    ann@example.org: pending, next 2026-01-02 03:04:05Z",
        "    bob@example.net: pending after 1 attempt, next 2026-01-02 03:04:05Z",
        "        mx1.example.org [192.0.2.1]",
        "        451 4.7.1 greylisted",
        "2 messages, 1 of them shown; more: mta show QUEUEID",
    ]


async def test_when_a_message_is_to_be_sent_is_told(desk: Desk, mail: Mailroom) -> None:
    await mail.accept(not_before=NOW + 60, deliver_by=DeliverBy(NOW + 90, ByMode.HANDOVER), priority=-2)
    assert "    ann@example.org: pending, scheduled for 2026-01-02 03:05:05Z" in (await text(desk, "queue")).splitlines()
    [queue_id] = await mail.spool.find("<1@example.com>")
    shown = (await text(desk, "show", queue_id)).splitlines()
    assert {
        "  class       normal (MT-PRIORITY -2)",
        "  not before  2026-01-02 03:05:05Z",
        "  deadline    2026-01-02 03:05:35Z, to be handed over by then, or it fails",
        "ann@example.org: pending, scheduled for 2026-01-02 03:05:05Z",
    } <= set(shown)


async def test_who_authenticated_is_told(desk: Desk, mail: Mailroom) -> None:
    queue_id = await mail.accept(submitter="shop")
    assert "  submitter   shop" in (await text(desk, "show", queue_id)).splitlines()


async def test_show_tells_the_story(desk: Desk, mail: Mailroom) -> None:
    queue_id = await mail.accept("ann@example.org")
    await mail.settle("example.org", Event.DEFERRED, Reply(451, "4.7.1", "greylisted"), next_attempt_at=NOW)
    await mail.settle("example.org", Event.DELIVERED, Reply(250, "2.0.0", "Ok: queued as 4Q2x"), remote_id="4Q2x")
    shown = (await text(desk, "show", queue_id)).splitlines()
    assert shown[0] == f'{queue_id}  "Your order"'
    trial = [
        "2026-01-02 03:04:05Z  tried in vain, on to the next server",
        "    mx0.example.org [192.0.2.9], on connecting",
        "    4.4.1 connection refused",
    ]
    place = shown.index("ann@example.org: sent after 2 attempts")
    assert shown[place:] == [
        "ann@example.org: sent after 2 attempts",
        "    mx1.example.org [192.0.2.1], there queued as 4Q2x",
        "    250 2.0.0 Ok: queued as 4Q2x",
        "",
        "2026-01-02 03:04:05Z  accepted: safe on disk",
        *trial,
        "2026-01-02 03:04:05Z  attempt 1: not taken for now",
        "    mx1.example.org [192.0.2.1]",
        "    451 4.7.1 greylisted",
        "    next attempt 2026-01-02 03:04:05Z",
        *trial,
        "2026-01-02 03:04:05Z  attempt 2: sent",
        "    mx1.example.org [192.0.2.1]",
        "    250 2.0.0 Ok: queued as 4Q2x",
    ]


async def test_show_names_each_of_several_recipients(desk: Desk, mail: Mailroom) -> None:
    queue_id = await mail.accept("ann@example.org", "bob@example.net")
    await mail.settle("example.net", Event.DELIVERED, Reply(250, "2.0.0", "Ok"))
    assert "2026-01-02 03:04:05Z  bob@example.net, attempt 1: sent" in (await text(desk, "show", queue_id)).splitlines()


async def test_dead_says_why(desk: Desk, mail: Mailroom) -> None:
    queue_id = await mail.dead("ann@example.org")
    shown = await text(desk, "dead")
    assert queue_id in shown
    assert "ann@example.org: dead after 1 attempt" in shown
    assert "451 4.3.0 try" in shown


async def test_what_could_be_told_to_nobody_is_listed_as_that_until_a_person_has_seen_it(
    desk: Desk, mail: Mailroom, facts: list[Fact]
) -> None:
    queue_id = await mail.accept()
    await mail.settle("example.org", Event.REFUSED, Reply(550, "5.1.1", "no such user"), notices=[Notice.DSN_FAILED])
    marks = await mail.spool.notices([Notice.DSN_FAILED], 10, NOW)
    await mail.spool.report([mark.id for mark in marks], None, None, NOW)
    shown = await text(desk, "dead")
    assert "    its failure could be told to nobody\n" in shown
    assert "told to nobody: `mta dead --seen QUEUEID` once you know of it\n" in shown
    assert "mta retry" not in shown
    check = ("status", "--check")
    assert await text(desk, *check) == "WARNING: 1 failure could be told to nobody (mta dead)\n"
    assert "it is listed no more" in await text(desk, "dead", "--seen", queue_id)
    assert Ordered("dead --seen", queue_id, "", "seen") in facts
    assert await text(desk, "dead") == "nothing needs a person\n"
    assert await text(desk, *check) == "OK: nothing waits too long, nothing needs a person\n"
    assert "decided by a person\n    verb seen\n" in await text(desk, "show", queue_id)
    with pytest.raises(CommandError, match="could be told to nobody") as refused:
        await text(desk, "dead", "--seen", queue_id)
    assert refused.value.code == Exit.DATA


async def test_what_was_to_be_reported_to_a_postmaster_who_is_not_set_can_be_seen_too(desk: Desk, mail: Mailroom) -> None:
    desk = replace(desk, health=lambda: HealthRules(postmaster=False))
    queue_id = await mail.accept()
    await mail.settle("example.org", Event.REFUSED, Reply(550, "5.1.1", "no such user"), notices=[Notice.REPORT])
    shown = await text(desk, "dead")
    assert "    its failure could be reported to nobody: no postmaster is set\n" in shown
    assert "not reported: set postmaster, or `mta dead --seen QUEUEID` once you know of it\n" in shown
    await text(desk, "dead", "--seen", queue_id)
    assert await text(desk, "dead") == "nothing needs a person\n"


async def test_a_report_on_its_way_to_the_postmaster_is_not_taken_back(desk: Desk, mail: Mailroom) -> None:
    queue_id = await mail.accept()
    await mail.settle("example.org", Event.REFUSED, Reply(550, "5.1.1", "no such user"), notices=[Notice.REPORT])
    with pytest.raises(CommandError):
        await text(desk, "dead", "--seen", queue_id)
    assert len(await mail.spool.notices([Notice.REPORT], 10, NOW)) == 1


async def test_a_bounce_that_failed_says_that_it_is_one(desk: Desk, mail: Mailroom) -> None:
    await mail.accept(sender="", kind=Kind.DSN)
    await mail.settle("example.org", Event.REFUSED, Reply(550, "5.1.1", "no such user"))
    assert "    a bounce that could not be delivered: whom it was for was not told\n" in await text(desk, "dead")


async def test_each_standing_order_names_what_lifts_it(desk: Desk) -> None:
    await text(desk, "hold", "--all")
    await text(desk, "hold", "--domain", "example.net")
    held = "held        everything (mta release --all), example.net (mta release --domain example.net)"
    assert held in (await text(desk, "status")).splitlines()


async def test_status_says_what_limits_a_destination_and_why(desk: Desk, present: Present) -> None:
    plain = LimitState(allowed=5, cap=20)
    learned = LimitState(allowed=3, cap=3, learned="421 4.7.0 too many \x1b connections")
    rate = LimitState(allowed=2, cap=2, configured=True, rate="100/1m", next_at=NOW + 2, group="*shared:*.example.net")
    for name, limit in (("a.example", plain), ("b.example", learned), ("c.example.net", rate)):
        present.at[name] = DestinationState(1, None, "", limit)
    shown = (await text(desk, "status")).splitlines()
    assert shown[shown.index("") + 1 :][-3:] == [
        "DESTINATION    LIMITS",
        "b.example      3 of at most 3 sessions (learned); it said: 421 4.7.0 too many \\x1b connections",
        "c.example.net  2 of at most 2 sessions (configured); messages 100/1m, the next at 03:04:07Z; "
        "shared as *shared:*.example.net",
    ]
    found = {it["domain"]: it["limit"] for it in (await desk.do(parse_command(["status"])))["destinations"]}
    assert found["a.example"]["why"] == "default" and found["b.example"]["why"] == "learned"
    assert found["c.example.net"] == {
        "allowed": 2, "cap": 2, "why": "configured", "learned_from": None, "rate": "100/1m",
        "next_message_at": "2026-01-02T03:04:07.678Z", "shared_as": "*shared:*.example.net",
    }  # fmt: skip


async def test_verbs_say_what_they_did(desk: Desk, mail: Mailroom) -> None:
    queue_id = await mail.accept()
    assert await text(desk, "hold", queue_id) == f"{queue_id} ann@example.org: pending -> held\n"
    assert await text(desk, "hold", queue_id) == f"{queue_id} ann@example.org: held (nothing to do)\n"
    assert await text(desk, "hold", "--all") == "everything is held until `mta release --all`\n"
    assert await text(desk, "release", "--all") == "the order to hold everything is lifted\n"


async def test_B54_nothing_from_outside_reaches_the_terminal_raw(desk: Desk, mail: Mailroom, present: Present) -> None:
    evil = "\x1b[2J\x9b31m\r\n\u202egpj"
    queue_id = await mail.accept(subject=evil, message_id=f"<{evil}@example.com>")
    await mail.settle("example.org", Event.GAVE_UP, Reply(451, "4.3.0", evil), remote_id=evil, phase=evil, tls=evil)
    present.at["example.org"] = DestinationState(1, None, evil, LimitState(1, 1, learned=evil, group=evil))
    for words in (("status",), ("queue",), ("dead",), ("show", queue_id)):
        shown = await text(desk, *words)
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", shown)


def test_a_span_has_its_two_largest_units() -> None:
    assert [span(seconds) for seconds in (0, 0.9, 59, 60, 3600, 3725, 86400, 90061, 10**9)] == [
        "0 s", "0 s", "59 s", "1 min", "1 h", "1 h 2 min", "1 d", "1 d 1 h", "11574 d 1 h",
    ]  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_s_words_are_read_as_that_command(name: str, facts: list[Fact]) -> None:
    examples = {"sender": "", "status": "held", "class": "bulk", "older-than": "5m", "limit": "7", "domain": "example.org"}
    examples["scheduled"] = ""
    options = {"resolve": {"sent": ""}, "queue": examples, "retry": {"domain": "example.org"}, "hold": {"all": ""},
               "resend": {"key": "k-2"}, "suppression add": {"reason": "so it is", "for": "30d"}}.get(
        name, {}
    )
    refs = ("--x", "<a b@c>") if name in ("cancel", "release") else ("--x",) if name in ("show", "resolve", "resend") else ()
    if name == "backup":
        refs = ("/a folder/spool copy.db",)
    if name in ("suppression add", "suppression remove"):
        refs = ('"a b"@example.org',)
    command = Command(name, refs, options)
    assert parse_command(words_of(command)) == command
