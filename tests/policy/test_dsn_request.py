"""What MAIL and RCPT ask of DSNs (conformance DSN-01, DSN-02, DSN-03, ADR-15)."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta.model.envelope import NewRecipient
from mta.model.notify import NEVER, Of, wants
from mta.model.reply import Reply
from mta.policy import acceptance
from mta.policy.acceptance import Locals, forward_path
from mta.policy.dsn_request import MailAsks, together, xtext_decoded
from tests.support.submission import NOW

LOCALS = Locals("mail.out.test", frozenset(), {"team": ("a@one.test", "b@two.test")}, None)


@dataclass(frozen=True, slots=True)
class Rules:
    locals: Locals = LOCALS
    max_message_size: int = 1000
    allow_private_addresses: bool = False
    max_hold: float = 60.0
    strict_deliver_by: bool = True


def mail(parameters: str, extended: bool = True) -> MailAsks | str:
    heard = acceptance.mail(f"FROM:<a@b.example> {parameters}".strip(), Rules(), extended=extended, now=NOW)
    return str(heard) if isinstance(heard, Reply) else heard.dsn


def rcpt(parameters: str, mailbox: str = "b@example.org", extended: bool = True) -> list[tuple[str, str]] | str:
    heard = forward_path(f"TO:<{mailbox}> {parameters}", Rules(), extended=extended)
    return str(heard) if isinstance(heard, Reply) else [(it.notify, it.orcpt) for it in heard.recipients]


# ---------------------------------------------------------------- MAIL
@pytest.mark.parametrize(
    ("parameters", "asks"),
    [
        ("", MailAsks()),
        ("RET=FULL", MailAsks("FULL")),
        ("ret=hdrs envid=QQ314159", MailAsks("HDRS", "QQ314159")),
        ("ENVID=x+2Bx+3D+20y SIZE=1", MailAsks("", "x+2Bx+3D+20y")),
        (f"ENVID={'e' * 100}", MailAsks("", "e" * 100)),
        (f"ENVID={'+41' * 200}", MailAsks("", "+41" * 200)),
    ],
)
def test_dsn_01_ret_and_envid_are_kept_as_they_are(parameters: str, asks: MailAsks) -> None:
    assert mail(parameters) == asks


@pytest.mark.parametrize(
    "parameters",
    [
        "RET", "RET=", "RET=BODY", "RET=FULL,HDRS", "RET=FULL RET=FULL", "RET=FULL ret=HDRS",
        "ENVID", "ENVID=", "ENVID=a ENVID=a", "ENVID=a+b", "ENVID=a+2", "ENVID=a+2b", "ENVID=a+", "ENVID=a=b", "ENVID=é",
        "ENVID=a+0D+0ABcc:+20x", "ENVID=+00", "ENVID=+7F",
    ],
)  # fmt: skip
def test_dsn_01_what_is_neither_is_refused(parameters: str) -> None:
    assert str(mail(parameters)).startswith("501 5.5.4")


# ---------------------------------------------------------------- RCPT
@pytest.mark.parametrize(
    ("parameters", "notify"),
    [
        ("NOTIFY=NEVER", "NEVER"),
        ("notify=never", "NEVER"),
        ("NOTIFY=success", "SUCCESS"),
        ("NOTIFY=DELAY,Failure", "FAILURE,DELAY"),
        ("NOTIFY=delay,failure,SUCCESS", "SUCCESS,FAILURE,DELAY"),
    ],
)
def test_dsn_02_notify_is_one_word_or_a_list(parameters: str, notify: str) -> None:
    assert rcpt(parameters) == [(notify, "")]


@pytest.mark.parametrize(
    "value",
    [
        "", "=", "=NEVER,DELAY", "=DELAY,NEVER", "=SOMETIMES", "=SUCCESS,", "=,SUCCESS", "=SUCCESS,,DELAY",
        "=SUCCESS,SUCCESS", "=NEVER,NEVER", "=SUCCESS NOTIFY=DELAY", "=NEVER notify=NEVER", "=SUCCESS;DELAY",
    ],
)  # fmt: skip
def test_dsn_02_what_is_no_notify_is_refused(value: str) -> None:
    assert str(rcpt(f"NOTIFY{value}")).startswith("501 5.5.4")


@pytest.mark.parametrize(
    "orcpt",
    ["rfc822;Ann+2Bx@Old.test", "RFC822;a", "x-400;/C+3Dno", "utf-8;\\x{E4}@b.test", f"rfc822;{'o' * 500}", "a;b;c"],
)
def test_dsn_03_orcpt_is_kept_as_it_is(orcpt: str) -> None:
    assert rcpt(f"ORCPT={orcpt} NOTIFY=NEVER") == [("NEVER", orcpt)]


@pytest.mark.parametrize(
    "value",
    [
        "", "=", "=rfc822", "=;a@b.test", "=rfc822;", "=rfc822;a+b", "=rfc822;a+2b@c", "=rfc822;a+2", "=rf(c;a", "=x.y;a",
        "=rfc822;a=b", "=rfc822;a+0Ab", "=rfc822;a ORCPT=rfc822;a",
    ],
)  # fmt: skip
def test_dsn_03_what_is_no_orcpt_is_refused(value: str) -> None:
    """Two hex digits in upper case behind each plus, and no way for a line to end in a report."""
    assert str(rcpt(f"ORCPT{value}")).startswith("501 5.5.4")


@pytest.mark.parametrize("parameter", ["RET=FULL", "ENVID=x", "NOTIFY=NEVER", "ORCPT=rfc822;a"])
def test_ext_03_each_has_its_command_and_needs_ehlo(parameter: str) -> None:
    of_mail = parameter.startswith(("RET", "ENVID"))
    assert str(mail(parameter)).startswith("555 5.5.4") != of_mail
    assert str(rcpt(parameter)).startswith("555 5.5.4") == of_mail
    assert str(mail(parameter, extended=False)).startswith("555 5.5.4")
    assert str(rcpt(parameter, extended=False)).startswith("555 5.5.4")


def test_dsn_03_each_target_of_an_alias_has_what_was_asked() -> None:
    assert rcpt("NOTIFY=SUCCESS ORCPT=rfc822;t", "team") == [("SUCCESS", "rfc822;t")] * 2
    assert rcpt("NOTIFY=NEVER", "team") == [("NEVER", "")] * 2


# ---------------------------------------------------------------- the same mailbox twice
@pytest.mark.parametrize(
    ("one", "other", "joined"),
    [
        ("", "", ""),
        ("NEVER", "NEVER", "NEVER"),
        ("NEVER", "", ""),
        ("NEVER", "DELAY", "DELAY"),
        ("SUCCESS", "DELAY", "SUCCESS,DELAY"),
        ("SUCCESS,FAILURE", "FAILURE,DELAY", "SUCCESS,FAILURE,DELAY"),
        ("", "FAILURE", ""),
        ("", "SUCCESS", "SUCCESS,FAILURE,DELAY"),
    ],
)
def test_adr_15_who_is_named_twice_is_told_what_either_asks_for(one: str, other: str, joined: str) -> None:
    for first, second in ((one, other), (other, one)):
        made = together(NewRecipient("a@b.test", "b.test", notify=first), NewRecipient("a@b.test", "b.test", notify=second))
        assert made.notify == joined


def test_adr_15_the_first_orcpt_is_kept() -> None:
    none, first, second = (NewRecipient("a@b.test", "b.test", orcpt=it) for it in ("", "rfc822;1", "rfc822;2"))
    assert together(first, second).orcpt == together(first, none).orcpt == together(none, first).orcpt == "rfc822;1"


# ---------------------------------------------------------------- what it means
@pytest.mark.parametrize(
    ("notify", "wanted"),
    [
        ("", {Of.FAILURE, Of.DELAY}),
        (NEVER, set()),
        ("SUCCESS", {Of.SUCCESS}),
        ("FAILURE,DELAY", {Of.FAILURE, Of.DELAY}),
        ("SUCCESS,FAILURE,DELAY", set(Of)),
    ],
)
def test_dsn_06_what_is_wanted(notify: str, wanted: set[Of]) -> None:
    assert {of for of in Of if wants(notify, of)} == wanted


@pytest.mark.parametrize(
    ("text", "decoded"),
    [("QQ314159", "QQ314159"), ("a+2Bb+3Dc+20d", "a+b=c d"), ("+C3+A9", "é"), ("+FF", "\\xff"), ("+2B+2B41", "++41")],
)
def test_dsn_11_xtext_is_decoded_once(text: str, decoded: str) -> None:
    assert xtext_decoded(text) == decoded


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=30))
def test_dsn_01_whatever_is_accepted_decodes_to_one_printable_line(text: str) -> None:
    for asked in (mail(f"ENVID={text}"), rcpt(f"ORCPT=x;{text}")):
        if not isinstance(asked, str):
            value = asked.envid if isinstance(asked, MailAsks) else asked[0][1]
            assert xtext_decoded(value).isprintable() or "\\x" in xtext_decoded(value)
