"""What a person's commands do, and the documents they answer with (interface.md sections 1 and 5)."""

import msgspec
import pytest

from mta.control.commands import parse_command
from mta.control.desk import Desk
from mta.control.errors import CommandError
from mta.control.state import DestinationState
from mta.control.views import Json
from mta.model.envelope import ByMode, DeliverBy, MailClass
from mta.model.events import Fact, Ordered
from mta.model.lifecycle import Event
from mta.model.reply import Reply
from mta.spool.base import Selection, SpoolError
from tests.control.conftest import NOW, Mailroom, Present


async def do(desk: Desk, *words: str) -> Json:
    """As a client sees it: through JSON."""
    return msgspec.json.decode(msgspec.json.encode(await desk.do(parse_command(words))), type=Json)


async def refused(desk: Desk, *words: str) -> CommandError:
    with pytest.raises(CommandError) as caught:
        await do(desk, *words)
    return caught.value


async def statuses(desk: Desk, queue_id: str) -> list[str]:
    return [recipient["status"] for recipient in (await do(desk, "show", queue_id))["recipients"]]


# ---------------------------------------------------------------- status
async def test_status_is_as_the_interface_pins_it(desk: Desk, mail: Mailroom, present: Present) -> None:
    for seconds in (41.24, 10, 5):
        await mail.accept("ann@example.org", at=NOW - seconds)
    await mail.accept("bob@example.net", mail_class=MailClass.BULK)
    present.at["example.org"] = DestinationState(1, NOW + 60, "451 4.3.0 try later")
    present.at["idle.example"] = DestinationState(2, None, "")
    present.lag = 1.23456
    document = await do(desk, "status")
    assert list(document)[:6] == ["version", "uptime_s", "hostname", "recipients", "classes", "destinations"]
    assert (document["version"], document["uptime_s"], document["hostname"]) == ("0.1.0", 12.5, "mail.example.com")
    assert list(document["recipients"]) == [
        "pending", "sending", "in_doubt", "sent", "failed", "dead", "held", "cancelled",
    ]  # fmt: skip
    assert document["recipients"]["pending"] == 4
    assert document["classes"] == {
        "urgent": {"pending": 0, "oldest_s": None},
        "normal": {"pending": 3, "oldest_s": 41.2},
        "bulk": {"pending": 1, "oldest_s": 0},
    }
    assert document["destinations"] == [
        {"domain": "example.org", "pending": 3, "sessions": 1, "suspended_until": "2026-01-02T03:05:05.678Z",
         "last_reply": "451 4.3.0 try later", "limit": None},
        {"domain": "example.net", "pending": 1, "sessions": 0, "suspended_until": None, "last_reply": None,
         "limit": None},
        {"domain": "idle.example", "pending": 0, "sessions": 2, "suspended_until": None, "last_reply": None,
         "limit": None},
    ]  # fmt: skip
    assert (document["sessions"], document["held"], document["damaged"], document["untold"]) == (3, [], 0, 0)
    assert document["loop_lag"] == 1.235


async def test_status_lists_fifty_destinations_the_most_waiting_first(desk: Desk, mail: Mailroom, present: Present) -> None:
    for number in range(60):
        await mail.accept(f"ann@d{number}.example")
    await mail.accept("bob@d7.example")
    present.at["idle.example"] = DestinationState(1, None, "")
    listed = (await do(desk, "status"))["destinations"]
    assert len(listed) == 50
    assert (listed[0]["domain"], listed[0]["pending"], listed[-1]["pending"]) == ("d7.example", 2, 1)


async def test_a_clock_that_stepped_back_makes_no_negative_age(desk: Desk, mail: Mailroom) -> None:
    await mail.accept(at=NOW + 100)
    assert (await do(desk, "status"))["classes"]["normal"] == {"pending": 1, "oldest_s": None}


# ---------------------------------------------------------------- queue, show, dead
async def test_show_is_as_the_interface_pins_it(desk: Desk, mail: Mailroom) -> None:
    queue_id = await mail.accept("ann@example.org", "bob@example.net")
    await mail.settle("example.org", Event.DELIVERED, Reply(250, "2.0.0", "Ok: queued as 4Q2x"), remote_id="4Q2x")
    document = await do(desk, "show", queue_id)
    assert list(document)[:13] == [
        "queue_id", "message_id", "idempotency_key", "sender", "subject", "size", "class", "accepted_at", "expires_at",
        "deliver_by", "not_before", "recipients", "timeline",
    ]  # fmt: skip
    assert document["accepted_at"] == "2026-01-02T03:04:05.678Z"
    assert (document["idempotency_key"], document["deliver_by"], document["not_before"]) == (None, None, None)
    assert (document["deliver_by_mode"], document["priority"]) == (None, 0)
    ann, bob = document["recipients"]
    assert list(ann)[:10] == [
        "address", "status", "attempts", "doubts", "next_attempt_at", "finished_at", "remote_host", "remote_address",
        "remote_id", "reply",
    ]  # fmt: skip
    assert ann["reply"] == {"code": 250, "enhanced": "2.0.0", "text": "Ok: queued as 4Q2x"}
    assert (ann["status"], ann["attempts"], ann["doubts"], ann["finished_at"]) == ("sent", 1, 0, document["accepted_at"])
    assert (ann["remote_host"], ann["remote_address"], ann["remote_id"]) == ("mx1.example.org", "192.0.2.1", "4Q2x")
    assert (bob["status"], bob["reply"], bob["remote_host"], bob["finished_at"]) == ("pending", None, None, None)
    assert [entry["event"] for entry in document["timeline"]] == ["accepted", "attempt", "sent"]
    sent = document["timeline"][-1]
    assert (sent["at"], sent["recipient"], sent["server"]) == (document["accepted_at"], "ann@example.org", "mx1.example.org")


async def test_a_deadline_and_a_release_are_shown(desk: Desk, mail: Mailroom) -> None:
    deadline = DeliverBy(NOW + 3600, ByMode.NOTIFY)
    queue_id = await mail.accept(deliver_by=deadline, not_before=NOW + 60, priority=4, mail_class=MailClass.URGENT)
    document = await do(desk, "show", queue_id)
    assert (document["deliver_by"], document["deliver_by_mode"]) == ("2026-01-02T04:04:05.678Z", "N")
    assert (document["not_before"], document["priority"]) == ("2026-01-02T03:05:05.678Z", 4)
    assert document["recipients"][0]["next_attempt_at"] == document["not_before"]


async def test_who_authenticated_is_shown(desk: Desk, mail: Mailroom) -> None:
    named, unnamed = await mail.accept(submitter="shop"), await mail.accept()
    assert (await do(desk, "show", named))["submitter"] == "shop"
    assert (await do(desk, "show", unnamed))["submitter"] is None


async def test_tls_09_what_a_message_asks_of_encryption_is_shown(desk: Desk, mail: Mailroom) -> None:
    required, optional = await mail.accept(require_tls=True), await mail.accept(tls_optional=True)
    for queue_id, found in ((required, (True, False)), (optional, (False, True))):
        document = await do(desk, "show", queue_id)
        assert (document["require_tls"], document["tls_optional"]) == found


async def test_what_is_scheduled_is_listed_alone(desk: Desk, mail: Mailroom, present: Present) -> None:
    """Until its release, or until a person wants it sent now; its age counts from its release."""
    await mail.accept("ann@example.org")
    later, now = [await mail.accept(not_before=NOW + 60, at=NOW - 60) for _ in range(2)]
    words = ("queue", "--status", "pending", "--scheduled")
    assert [message["queue_id"] for message in (await do(desk, *words))["messages"]] == [later, now]
    await do(desk, "retry", "--all")
    assert (await do(desk, *words))["total"] == 2
    await do(desk, "retry", now)
    assert [message["queue_id"] for message in (await do(desk, "queue", "--scheduled"))["messages"]] == [later]
    assert (await do(desk, "status"))["classes"]["normal"] == {"pending": 3, "oldest_s": 0}
    present.now += 61
    assert (await do(desk, *words))["total"] == 0


async def test_times_inside_the_timeline_are_times(desk: Desk, mail: Mailroom) -> None:
    queue_id = await mail.accept()
    await mail.settle("example.org", Event.DEFERRED, Reply(451, None, "later"), next_attempt_at=NOW + 60)
    document = await do(desk, "show", queue_id)
    assert document["timeline"][-1]["next_attempt_at"] == "2026-01-02T03:05:05.678Z"
    assert document["recipients"][0]["next_attempt_at"] == "2026-01-02T03:05:05.678Z"


async def test_a_ref_is_a_queue_id_or_a_message_id(desk: Desk, mail: Mailroom) -> None:
    queue_id = await mail.accept(message_id="<order 1@example.com>")
    assert (await do(desk, "show", "<order 1@example.com>"))["queue_id"] == queue_id


async def test_a_ref_that_fits_several_messages_is_refused_with_their_ids(desk: Desk, mail: Mailroom) -> None:
    ids = [await mail.accept(message_id="<same@example.com>") for _ in range(2)]
    error = await refused(desk, "show", "<same@example.com>")
    assert error.code == 65
    assert all(queue_id in error.message for queue_id in ids)


@pytest.mark.parametrize(
    "words", [("show", "X"), ("retry", "X"), ("cancel", "X"), ("resolve", "X", "--sent"), ("hold", "<x@y>")]
)
async def test_an_unknown_message_is_66(desk: Desk, words: tuple[str, ...]) -> None:
    error = await refused(desk, *words)
    assert error.code == 66
    assert words[1] in error.message


async def test_queue_lists_what_is_unfinished_by_every_filter(desk: Desk, mail: Mailroom) -> None:
    old = await mail.accept("ann@old.example", at=NOW - 3600)
    bulk = await mail.accept("bob@example.net", mail_class=MailClass.BULK, sender="")
    await mail.accept("eve@example.org")
    await mail.settle("example.org", Event.REFUSED, Reply(550, "5.1.1", "no"))
    held = await mail.accept("joe@held.example")
    await do(desk, "hold", held)

    async def listed(*options: str) -> list[str]:
        return [message["queue_id"] for message in (await do(desk, "queue", *options))["messages"]]

    assert await listed() == [old, bulk, held]
    assert await listed("--older-than", "30m") == [old]
    assert await listed("--class", "bulk") == [bulk]
    assert await listed("--sender", "<>") == [bulk]
    assert await listed("--sender=shop@example.com") == [old, held]
    assert await listed("--domain", "Example.NET") == [bulk]
    assert await listed("--status", "held") == [held]
    page = await do(desk, "queue", "--limit", "1")
    assert ([message["queue_id"] for message in page["messages"]], page["total"]) == ([old], 3)
    assert "timeline" not in page["messages"][0]


async def test_dead_lists_what_needs_a_person(desk: Desk, mail: Mailroom) -> None:
    dead = await mail.dead("ann@example.org")
    await mail.accept("bob@example.net")
    document = await do(desk, "dead")
    assert ([message["queue_id"] for message in document["messages"]], document["total"]) == ([dead], 1)


# ---------------------------------------------------------------- verbs
async def test_hold_release_and_cancel_change_a_message_and_are_told(desk: Desk, mail: Mailroom, facts: list[Fact]) -> None:
    queue_id = await mail.accept("ann@example.org", "bob@example.org")
    document = await do(desk, "hold", queue_id, "--recipient", "ann@EXAMPLE.org")
    assert document == {
        "changed": [
            {"queue_id": queue_id, "recipient": "ann@example.org", "before": "pending", "after": "held", "note": None}
        ],
        "total": 1,
    }
    assert await statuses(desk, queue_id) == ["held", "pending"]
    assert facts == [Ordered("hold", queue_id, "ann@example.org", "held")]
    await do(desk, "release", queue_id)
    assert await statuses(desk, queue_id) == ["pending", "pending"]
    await do(desk, "cancel", queue_id)
    assert await statuses(desk, queue_id) == ["cancelled", "cancelled"]


async def test_a_verb_that_does_not_apply_is_65_and_changes_nothing(desk: Desk, mail: Mailroom, facts: list[Fact]) -> None:
    waiting, dead = await mail.accept("ann@example.net"), await mail.dead("bob@example.org")
    for words in (("hold", waiting, dead), ("resolve", waiting, "--sent"), ("resolve", dead, "--sent"), ("release", dead)):
        assert (await refused(desk, *words)).code == 65
    assert (await refused(desk, "hold", waiting, "--recipient", "joe@example.net")).code == 65
    assert await statuses(desk, waiting) == ["pending"]
    assert not facts


async def test_a_dead_message_is_retried_or_resent(desk: Desk, mail: Mailroom) -> None:
    first, second = await mail.dead("ann@example.org"), await mail.dead("bob@example.net")
    await do(desk, "retry", first, second)
    assert await statuses(desk, first) == await statuses(desk, second) == ["pending"]


@pytest.mark.parametrize(("decision", "status"), [("--sent", "sent"), ("--resend", "pending")])
async def test_a_doubt_is_decided_by_a_person(desk: Desk, mail: Mailroom, decision: str, status: str) -> None:
    queue_id = await mail.accept()
    await mail.settle("example.org", Event.DOUBTED, Reply(None, "4.4.2", "connection lost"))
    await do(desk, "resolve", queue_id, decision)
    [recipient] = (await do(desk, "show", queue_id))["recipients"]
    assert (recipient["status"], recipient["doubts"]) == (status, 1)


async def test_a_destination_is_held_until_released(desk: Desk, mail: Mailroom) -> None:
    await mail.accept()
    assert await do(desk, "hold", "--domain", "Example.ORG") == {"domain": "example.org", "held": True}
    assert await do(desk, "hold", "--all") == {"domain": "*", "held": True}
    assert sorted((await do(desk, "status"))["held"]) == ["*", "example.org"]
    await do(desk, "release", "--all")
    await do(desk, "release", "--domain", "example.org")
    assert (await do(desk, "status"))["held"] == []
    assert (await refused(desk, "release", "--all")).code == 65


async def test_retry_of_a_destination_makes_its_mail_due(desk: Desk, mail: Mailroom, facts: list[Fact]) -> None:
    await mail.accept()
    await mail.settle("example.org", Event.DEFERRED, Reply(451, None, "later"), next_attempt_at=NOW + 3600)
    assert await mail.spool.claim("example.org", 1, NOW) is None
    await do(desk, "retry", "--domain", "example.org")
    assert await mail.spool.claim("example.org", 1, NOW) is not None
    assert isinstance(facts[-1], Ordered)
    assert (facts[-1].verb, facts[-1].target) == ("retry", "example.org")


async def test_a_retry_does_not_wait_for_the_destination_s_rest(desk: Desk, mail: Mailroom, present: Present) -> None:
    queue_id = await mail.accept("ann@example.org", "bob@example.net")
    await do(desk, "hold", queue_id, "--recipient", "bob@example.net")
    assert present.woken == []
    await do(desk, "retry", queue_id)
    assert present.woken == ["example.org"], "what is held is not due"
    await do(desk, "retry", "--domain", "example.org")
    assert present.woken == ["example.org"] * 2, "it was due already"
    present.at = {"example.net": DestinationState(0, NOW + 60, "")}
    await do(desk, "retry", "--all")
    assert present.woken[2:] == ["example.net"]


async def test_an_international_destination_is_known_by_either_of_its_names(
    desk: Desk, mail: Mailroom, present: Present
) -> None:
    known = "xn--bcher-kva.example"
    await mail.accept(f"ann@{known}")
    queue_id = await mail.accept(f"bob@{known}")
    assert (await do(desk, "queue", "--domain", "bücher.example"))["total"] == 2
    await do(desk, "retry", "--domain", "Bücher.example")
    await do(desk, "retry", queue_id)
    assert present.woken == [known] * 2
    assert await do(desk, "hold", "--domain", "bücher.example") == {"domain": known, "held": True}
    assert (await do(desk, "release", "--domain", known))["held"] is False


async def test_a_retry_of_a_utf8_address_wakes_its_destination(desk: Desk, mail: Mailroom, present: Present) -> None:
    address, known = "jürgen@bücher.example", "xn--bcher-kva.example"
    await do(desk, "retry", await mail.accept(address, destination=known))
    assert present.woken == [known]


async def test_what_is_being_sent_is_said_to_be_so(desk: Desk, mail: Mailroom) -> None:
    queue_id = await mail.accept()
    await mail.spool.claim("example.org", 1, NOW)
    [change] = (await do(desk, "cancel", queue_id))["changed"]
    assert (change["before"], change["after"]) == ("sending", "sending")
    assert "when the attempt ends unsent" in change["note"]


async def test_trouble_of_the_spool_is_try_again_later(desk: Desk, mail: Mailroom, monkeypatch: pytest.MonkeyPatch) -> None:
    queue_id = await mail.accept()

    async def fail(event: Event, selection: Selection, now: float) -> None:
        raise SpoolError("disk I/O error")

    monkeypatch.setattr(mail.spool, "order", fail)
    assert (await refused(desk, "retry", queue_id)).code == 75


async def test_a_person_s_retry_of_a_suppressed_address_is_done_and_noted(desk: Desk, mail: Mailroom) -> None:
    queue_id = await mail.dead("ann@example.org")
    await desk.do(parse_command(["suppression", "add", "ann@example.org", "--reason", "gone"]))
    [change] = (await desk.do(parse_command(["retry", queue_id])))["changed"]
    assert (change["after"], "suppressed" in change["note"]) == ("pending", True)
    await desk.do(parse_command(["suppression", "remove", "ann@example.org"]))
    [change] = (await desk.do(parse_command(["retry", queue_id])))["changed"]
    assert change["note"] == "due now"


@pytest.mark.parametrize(
    "words",
    [
        "",
        " add",
        " remove a@b.test c@d.test",
        " add a@b.test --reason=",
        " list x",
        " add a@b.test --for soon",
        " add a@b.test --for 0s",
        " add a b",
    ],
)
def test_a_wrong_order_about_suppressions_is_64(words: str) -> None:
    with pytest.raises(CommandError) as refused:
        parse_command(f"suppression{words}".split())
    assert refused.value.code == 64
