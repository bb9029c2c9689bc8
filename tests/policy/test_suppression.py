"""Addresses that nothing is sent to: who is learned, what is remembered, what RCPT hears."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta.model.reply import Reply, finding, parse_reply
from mta.policy.suppression import Cause, cause_of, is_no_such_user, refusal
from mta.policy.wisdom import category

UNKNOWN = parse_reply(550, ["5.1.1 <ann@example.org>: User unknown"])


@pytest.mark.parametrize(
    ("reply", "phase", "learned"),
    [
        (UNKNOWN, "rcpt", True),
        (parse_reply(554, ["delivery error: dd This user doesn't have a yahoo.com account"]), "rcpt", True),
        (UNKNOWN, "final", False),
        (parse_reply(450, ["4.1.1 User unknown"]), "rcpt", False),
        (parse_reply(550, ["5.7.1 Client host blocked using zen.spamhaus.org"]), "rcpt", False),
        (parse_reply(550, ["5.1.1 sender is blocklisted"]), "rcpt", False),
        (parse_reply(552, ["5.2.2 mailbox full"]), "rcpt", False),
        (parse_reply(550, ["5.2.1 mailbox disabled"]), "rcpt", False),
        (parse_reply(550, ["5.1.0 <p@shop.test>: Sender address rejected: User unknown in virtual mailbox"]), "rcpt", False),
        (parse_reply(550, ["Verification failed for <pat@shop.test>", "No such user here", "Sender check"]), "rcpt", False),
        (parse_reply(550, ["no"]), "rcpt", False),
        (finding("5.1.1", "no such user"), "rcpt", False),
        (finding("5.1.2", "no such domain"), "route", False),
    ],
)
def test_only_a_server_that_knows_no_such_user_teaches(reply: Reply, phase: str, learned: bool) -> None:
    assert is_no_such_user(reply, phase, category(reply, phase)) is learned


def test_what_rcpt_hears_names_the_earlier_reply_and_since_when() -> None:
    heard = refusal("ann@example.org", 1_767_323_045.678, Cause(UNKNOWN, "mx1.example.org", "06ABCDEFGHJKMN00"))
    assert str(heard) == (
        "550 5.1.1 <ann@example.org>: nothing is sent to this address since 2026-01-02T03:04:05.678Z: mx1.example.org said:"
        " 550 5.1.1 <ann@example.org>: User unknown"
    )


def test_a_person_s_reason_is_told() -> None:
    assert str(refusal("ann@example.org", 0.0, Cause(reason="she asked for it"))).endswith("Z: she asked for it")
    assert str(refusal("ann@example.org", 0.0, Cause())).endswith("a person at this mail system decided so")


@given(st.text(max_size=80), st.text(max_size=80), st.text(max_size=300))
def test_what_rcpt_hears_fits_a_reply_line_whatever_a_server_said(address: str, host: str, text: str) -> None:
    heard = refusal(address, 0.0, Cause(parse_reply(550, [text]), host))
    assert heard.text.isascii()
    assert heard.text.isprintable()


@pytest.mark.parametrize("cause", [Cause(UNKNOWN, "mx1.example.org", "06ABCDEFGHJKMN00"), Cause(reason="\u263a"), Cause()])
def test_what_is_remembered_is_read_again(cause: Cause) -> None:
    assert cause_of(cause.written()) == cause


@given(st.text(max_size=60) | st.sampled_from(["{}", "[]", "null", "1", '{"reply": 1}', '{"reply": {"code": "x"}}']))
def test_what_can_t_be_read_still_stands(written: str) -> None:
    assert cause_of(written) == Cause()
