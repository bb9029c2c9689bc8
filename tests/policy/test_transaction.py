"""MAIL parameters and transaction sizes by what the server offers."""

import pytest

from mta.model.outcome import Disposition, Scope, Verdict
from mta.policy.transaction import droppable, mail_parameters, recipients_per_transaction, required_only


@pytest.mark.parametrize(
    ("extensions", "eight_bit", "parameters"),
    [
        ({}, False, ()),
        ({"8BITMIME": ""}, False, ()),
        ({"8BITMIME": ""}, True, ("BODY=8BITMIME",)),
        ({"SIZE": ""}, False, ("SIZE=1000",)),
        ({"SIZE": "0"}, False, ("SIZE=1000",)),
        ({"SIZE": "1000"}, False, ("SIZE=1000",)),
        ({"SIZE": "lots"}, False, ("SIZE=1000",)),
        ({"SIZE": "9" * 4000}, False, ("SIZE=1000",)),
        ({"SIZE": "5000", "8BITMIME": ""}, True, ("SIZE=1000", "BODY=8BITMIME")),
    ],
)
def test_parameters_are_what_is_offered(extensions: dict[str, str], eight_bit: bool, parameters: tuple[str, ...]) -> None:
    """CLI-09, B37 (a)."""
    assert mail_parameters(extensions, 1000, eight_bit) == parameters


@pytest.mark.parametrize(
    ("extensions", "eight_bit", "status"),
    [({"SIZE": "999"}, False, "5.3.4"), ({"SIZE": "5000"}, True, "5.6.3"), ({}, True, "5.6.3")],
)
def test_b37_what_the_server_cannot_take_fails_before_mail(
    extensions: dict[str, str], eight_bit: bool, status: str
) -> None:
    """CLI-13, CLI-14."""
    verdict = mail_parameters(extensions, 1000, eight_bit)
    assert isinstance(verdict, Verdict)
    assert (verdict.disposition, verdict.scope, verdict.status) == (Disposition.PERMANENT, Scope.TRANSACTION, status)
    assert verdict.reply.code is None


def test_only_size_may_be_left_out() -> None:
    assert droppable(("SIZE=1", "BODY=8BITMIME"))
    assert not droppable(("BODY=8BITMIME",))
    assert required_only(("SIZE=1", "BODY=8BITMIME")) == ("BODY=8BITMIME",)


@pytest.mark.parametrize(
    ("limits", "recipients"),
    [
        (None, 100), ("RCPTMAX=20", 20), ("MAILMAX=5 RCPTMAX=7 X=1", 7), ("rcptmax=3", 3), ("RCPTMAX=1000", 100),
        ("RCPTMAX=0", 100), ("RCPTMAX=-1", 100), ("RCPTMAX=1x", 100), ("XRCPTMAX=5", 100), ("", 100),
    ],
)  # fmt: skip
def test_recipients_of_one_transaction(limits: str | None, recipients: int) -> None:
    """EXT-16: a malformed limit is none."""
    assert recipients_per_transaction({} if limits is None else {"LIMITS": limits}) == recipients
