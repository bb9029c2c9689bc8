"""Who needs SMTPUTF8, and what a server that does not offer it gets."""

from dataclasses import dataclass

import pytest

from mta.model.outcome import Disposition, Scope, Verdict
from mta.model.reply import Reply
from mta.policy.commands import BAD_PARAMETER, parse_path_argument
from mta.policy.transaction import droppable, mail_parameters, required_only
from mta.policy.utf8 import Need, need, together

OFFERED = {"8BITMIME": "", "SMTPUTF8": ""}


@dataclass(frozen=True)
class To:
    address: str


ANN, JOERG = To("ann@example.org"), To("jörg@example.org")


@pytest.mark.parametrize(
    ("reverse_path", "recipients", "message", "found"),
    [
        ("a@b.example", [ANN], False, Need.NOTHING),
        ("", [ANN], False, Need.NOTHING),
        ("a@b.example", [ANN, JOERG], False, Need.ADDRESS),
        ("ä@b.example", [ANN], True, Need.ADDRESS),
        ("a@b.example", [ANN], True, Need.HEADER),
    ],
)
def test_b36_need_is_computed_from_what_is_sent(reverse_path: str, recipients: list[To], message: bool, found: Need) -> None:
    assert need(reverse_path, recipients, message=message) is found


@pytest.mark.parametrize(
    ("recipients", "message", "first"),
    [
        ([JOERG, ANN], False, [ANN]),
        ([JOERG], False, [JOERG]),
        ([JOERG, ANN], True, [JOERG, ANN]),
        ([ANN], False, [ANN]),
    ],
)
def test_b36_who_needs_nothing_goes_first(recipients: list[To], message: bool, first: list[To]) -> None:
    assert [*together(recipients, message=message)] == first


@pytest.mark.parametrize(("utf8", "status"), [(Need.ADDRESS, "5.6.7"), (Need.HEADER, "5.6.9")])
def test_cli13_a_host_without_it_is_passed_by(utf8: Need, status: str) -> None:
    """RFC 6531 section 3.5."""
    verdict = mail_parameters({"8BITMIME": ""}, 10, True, utf8=utf8)
    assert isinstance(verdict, Verdict)
    assert (verdict.disposition, verdict.scope, verdict.status) == (Disposition.PERMANENT, Scope.SESSION, status)


def test_the_parameter_is_said_where_it_is_needed_and_never_dropped() -> None:
    """Table A, MAIL 555."""
    asked = mail_parameters({**OFFERED, "SIZE": ""}, 10, True, utf8=Need.ADDRESS)
    assert asked == ("SIZE=10", "BODY=8BITMIME", "SMTPUTF8")
    assert mail_parameters(OFFERED, 10, False) == ()
    assert not droppable(("SMTPUTF8",))
    assert required_only(("SIZE=10", "SMTPUTF8")) == ("SMTPUTF8",)


@pytest.mark.parametrize(
    ("parameters", "utf8", "value"),
    [
        ("ORCPT=utf-8;jörg@example.org", True, "utf-8;j\\x{F6}rg@example.org"),
        ("orcpt=UTF-8;用户@example.org NOTIFY=NEVER", True, "UTF-8;\\x{7528}\\x{6237}@example.org"),
        ("ORCPT=utf-8;j\\x{F6}rg@example.org", True, "utf-8;j\\x{F6}rg@example.org"),
        ("ORCPT=rfc822;ann+2Bx@example.org", True, "rfc822;ann+2Bx@example.org"),
        ("ORCPT=utf-8;jörg@example.org", False, None),
        ("ORCPT=rfc822;jörg@example.org", True, None),
        ("ENVID=jörg", True, None),
    ],
)
def test_ext10_orcpt_in_utf8_is_kept_in_its_seven_bit_form(parameters: str, utf8: bool, value: str | None) -> None:
    """RFC 6533 section 3: who offers DSN and SMTPUTF8 takes both."""
    octets = f"TO:<a@example.org> {parameters}".encode().decode("latin-1")
    parsed = parse_path_argument(octets, "TO:", "5.1.3", utf8=utf8)
    found = parsed if isinstance(parsed, Reply) else parsed.parameters["ORCPT"]
    assert found == (BAD_PARAMETER if value is None else value)
