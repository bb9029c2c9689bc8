"""MAIL parameters and transaction sizes by what the server offers."""

import pytest

from mta.model.envelope import ByMode, DeliverBy
from mta.model.outcome import Disposition, Scope, Verdict
from mta.policy.transaction import (
    droppable,
    dsn_parameters,
    mail_parameters,
    no_time_left,
    rcpt_parameters,
    recipients_per_transaction,
    required_only,
    tells_relay,
    tells_success,
)

NOW = 1_800_000_000.0


def by(left: float, mode: ByMode, trace: bool = False) -> DeliverBy:
    return DeliverBy(NOW + left, mode, trace)


R, N, HANDOVER = ByMode.RETURN, ByMode.NOTIFY, ByMode.HANDOVER


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


@pytest.mark.parametrize(
    ("optional", "required"),
    [
        (("SIZE=1",), ("BODY=8BITMIME",)),
        (("MT-PRIORITY=4",), ()),
        (("SIZE=1", "BY=60;N", "MT-PRIORITY=0"), ("BODY=8BITMIME",)),
        (("BY=-5;NT",), ()),
        (("RET=FULL",), ("BODY=8BITMIME",)),
        (("SIZE=1", "ENVID=a+2Bb"), ()),
        ((), ("BY=60;R",)),
        (("SIZE=1",), ("BY=60;RT",)),
    ],
)
def test_what_may_be_left_out(optional: tuple[str, ...], required: tuple[str, ...]) -> None:
    """Table A, 555: never the promise of BY with mode R, nor what the content needs."""
    assert droppable((*optional, *required)) == bool(optional)
    assert not droppable(required)
    assert required_only((*optional, *required)) == required


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


# ---------------------------------------------------------------- deadlines and priorities
@pytest.mark.parametrize(
    ("announced", "deliver_by", "parameters"),
    [
        (None, None, ()),
        ("", None, ()),
        ("", by(60.9, R), ("BY=60;R",)),
        ("", by(60.9, R, trace=True), ("BY=60;RT",)),
        ("60", by(60.9, R), ("BY=60;R",)),
        ("soon", by(2, R), ("BY=2;R",)),
        ("", by(60.9, N), ("BY=60;N",)),
        ("600", by(60, N), ("BY=60;N",)),
        ("", by(-0.5, N, trace=True), ("BY=-1;NT",)),
        ("", by(4e9, N), ("BY=999999999;N",)),
        ("", by(-4e9, N), ("BY=-999999999;N",)),
        (None, by(60, N), ()),
        (None, by(60, HANDOVER), ()),
        ("", by(60, HANDOVER, trace=True), ()),
    ],
)
def test_dby_05_the_seconds_that_are_left_go_on(
    announced: str | None, deliver_by: DeliverBy | None, parameters: tuple[str, ...]
) -> None:
    extensions = {} if announced is None else {"DELIVERBY": announced}
    assert mail_parameters(extensions, 1000, False, deliver_by=deliver_by, now=NOW) == parameters


@pytest.mark.parametrize("extensions", [{}, {"DELIVERBY": "61"}, {"SIZE": "", "8BITMIME": ""}])
def test_dby_06_mode_r_never_goes_to_a_host_that_would_not_keep_it(extensions: dict[str, str]) -> None:
    """It is the host's matter: another one may do."""
    verdict = mail_parameters(extensions, 1000, False, deliver_by=by(60.9, R), now=NOW)
    assert isinstance(verdict, Verdict)
    assert (verdict.disposition, verdict.scope, verdict.status) == (Disposition.PERMANENT, Scope.SESSION, "5.4.7")


def test_what_the_content_needs_comes_before_the_deadline() -> None:
    """Where no host at all may take it, the verdict does not send it round."""
    verdict = mail_parameters({}, 1000, True, deliver_by=by(60, R), now=NOW)
    assert isinstance(verdict, Verdict)
    assert (verdict.scope, verdict.status) == (Scope.TRANSACTION, "5.6.3")


@pytest.mark.parametrize("priority", [-9, 0, 9])
def test_pri_04_a_host_with_the_extension_is_told_each_priority(priority: int) -> None:
    assert mail_parameters({"MT-PRIORITY": "MIXER"}, 9, False, priority=priority) == (f"MT-PRIORITY={priority}",)
    assert mail_parameters({}, 9, False, priority=priority) == ()


@pytest.mark.parametrize(
    ("extensions", "deliver_by", "asked", "told"),
    [
        ({"DSN": ""}, by(60, N), True, True),
        ({}, by(60, N), False, True),
        ({"DSN": "", "DELIVERBY": ""}, by(60, N), False, False),
        ({"DSN": "", "DELIVERBY": ""}, by(60, N, trace=True), False, True),
        ({"DSN": ""}, by(-1, N), False, False),
        ({"DSN": ""}, by(-1, N, trace=True), False, True),
        ({"DSN": ""}, by(60, HANDOVER), False, False),
        ({"DSN": ""}, by(60, HANDOVER, trace=True), False, True),
        ({"DELIVERBY": ""}, by(60, R), False, False),
        ({"DELIVERBY": ""}, by(60, R, trace=True), False, True),
        ({"DSN": ""}, None, False, False),
    ],
)
def test_dby_09_dby_10_who_gives_the_word(
    extensions: dict[str, str], deliver_by: DeliverBy | None, asked: bool, told: bool
) -> None:
    """The next server if it can, else we when we hand it over; with T we in any case."""
    assert rcpt_parameters(extensions, deliver_by, NOW) == (("NOTIFY=FAILURE,DELAY",) if asked else ())
    parameters = mail_parameters(extensions, 9, False, deliver_by=deliver_by, now=NOW)
    assert not isinstance(parameters, Verdict)
    assert tells_relay(deliver_by, parameters, NOW) is told


# ---------------------------------------------------------------- delivery status notifications
@pytest.mark.parametrize(
    ("ret", "envid", "parameters"),
    [
        ("", "", ()),
        ("FULL", "", ("RET=FULL",)),
        ("HDRS", "Q+2B1", ("RET=HDRS", "ENVID=Q+2B1")),
    ],
)
def test_dsn_04_what_was_asked_of_mail_goes_on_to_who_offers_dsn(ret: str, envid: str, parameters: tuple[str, ...]) -> None:
    assert dsn_parameters({"DSN": ""}, ret, envid) == parameters
    assert dsn_parameters({"SIZE": ""}, ret, envid) == ()


@pytest.mark.parametrize(
    ("notify", "orcpt", "parameters"),
    [
        ("", "", ()),
        ("NEVER", "", ("NOTIFY=NEVER",)),
        ("", "rfc822;A+2Bb@c.test", ("ORCPT=rfc822;A+2Bb@c.test",)),
        ("SUCCESS,DELAY", "x;y", ("NOTIFY=SUCCESS,DELAY", "ORCPT=x;y")),
    ],
)
def test_dsn_04_what_was_asked_of_rcpt_goes_on_and_nothing_is_made_up(
    notify: str, orcpt: str, parameters: tuple[str, ...]
) -> None:
    assert rcpt_parameters({"DSN": ""}, None, NOW, notify, orcpt) == parameters
    assert rcpt_parameters({"DSN": ""}, by(60, R), NOW, notify, orcpt) == parameters
    assert rcpt_parameters({}, None, NOW, notify, orcpt) == ()


@pytest.mark.parametrize(
    ("notify", "sent"),
    [
        ("", "FAILURE,DELAY"), ("NEVER", "NEVER"), ("SUCCESS", "SUCCESS,DELAY"), ("FAILURE", "FAILURE,DELAY"),
        ("SUCCESS,FAILURE,DELAY", "SUCCESS,FAILURE,DELAY"),
    ],
)  # fmt: skip
def test_dby_09_delay_is_added_for_a_deadline_that_nobody_else_keeps(notify: str, sent: str) -> None:
    assert rcpt_parameters({"DSN": ""}, by(60, N), NOW, notify) == (f"NOTIFY={sent}",)
    assert rcpt_parameters({"DSN": ""}, by(-1, N), NOW, "SUCCESS") == ("NOTIFY=SUCCESS",)
    assert rcpt_parameters({"DSN": "", "DELIVERBY": ""}, by(60, N), NOW, "SUCCESS") == ("NOTIFY=SUCCESS",)


@pytest.mark.parametrize(
    ("notify", "parameters", "told"),
    [
        ("SUCCESS", (), True),
        ("SUCCESS,FAILURE", ("ORCPT=x;y",), True),
        ("SUCCESS", ("NOTIFY=SUCCESS",), False),
        ("FAILURE", (), False),
        ("NEVER", (), False),
        ("", (), False),
    ],
)
def test_dsn_05_who_tells_of_a_success(notify: str, parameters: tuple[str, ...], told: bool) -> None:
    assert tells_success(notify, parameters) is told


def test_dby_09_a_deadline_that_had_to_be_dropped_is_not_passed_on() -> None:
    assert tells_relay(by(60, N), required_only(("SIZE=9", "BY=60;N")), NOW)


@pytest.mark.parametrize(
    ("deliver_by", "none"),
    [
        (None, False),
        (by(0.5, R), True),
        (by(1, R), False),
        (by(0.5, HANDOVER), False),
        (by(0, HANDOVER), True),
        (by(-5, N), False),
    ],
)
def test_b35_when_no_transaction_may_begin_any_more(deliver_by: DeliverBy | None, none: bool) -> None:
    assert no_time_left(deliver_by, NOW) is none
