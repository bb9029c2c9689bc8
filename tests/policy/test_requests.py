"""When a message is to be sent: parameters of MAIL, header fields, and both."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta.model.envelope import ByMode, DeliverBy, MailClass
from mta.model.instant import rfc3339
from mta.model.reply import Reply
from mta.policy.header import HeaderError, read_section
from mta.policy.requests import NO_REQUESTS, SAME_INSTANT, Requests, Wish, announced_hold, mail_requests, wish

NOW = 1767323045.5  # 2026-01-02T03:04:05.5Z
DAY = 86400.0
DATE = "Fri, 2 Jan 2026 03:05:05 +0000"
AT_DATE = NOW + 59.5


def asked(*, strict: bool = True, **parameters: str | None) -> Requests | str:
    found = mail_requests({name.replace("_", "-"): value for name, value in parameters.items()}, NOW, DAY, strict=strict)
    return str(found) if isinstance(found, Reply) else found


def wanted(*fields: str, requests: Requests = NO_REQUESTS) -> Wish:
    section = read_section("".join(f"{field}\r\n" for field in fields).encode(), complete=True)
    return wish(section, requests, NOW, DAY)


def refusal(*fields: str, requests: Requests = NO_REQUESTS) -> str:
    with pytest.raises(HeaderError) as caught:
        wanted(*fields, requests=requests)
    return str(caught.value.reply)


# ---------------------------------------------------------------- parameters
@pytest.mark.parametrize(
    ("value", "deadline"),
    [
        ("120;R", DeliverBy(NOW + 120, ByMode.RETURN)),
        ("+120;r", DeliverBy(NOW + 120, ByMode.RETURN)),
        ("1;Rt", DeliverBy(NOW + 1, ByMode.RETURN, trace=True)),
        ("999999999;N", DeliverBy(NOW + 999_999_999, ByMode.NOTIFY)),
        ("0;N", DeliverBy(NOW, ByMode.NOTIFY)),
        ("-60;nT", DeliverBy(NOW - 60, ByMode.NOTIFY, trace=True)),
    ],
)
def test_dby01_dby04_a_deadline_counts_from_mail(value: str, deadline: DeliverBy) -> None:
    assert asked(BY=value) == Requests(deliver_by=deadline)


@pytest.mark.parametrize(
    "value", [None, "60", "60;", "60;X", "60;RR", "60;TR", ";R", "1000000000;N", "--1;N", "1.5;N", "0;R", "-1;R", "٣;N"]
)
def test_dby01_dby02_b35_a_bad_deadline_is_refused(value: str | None) -> None:
    assert str(asked(BY=value)).startswith("501 5.5.4 ")


def test_by_return_may_mean_handing_over() -> None:
    assert asked(BY="60;RT", strict=False) == Requests(deliver_by=DeliverBy(NOW + 60, ByMode.HANDOVER, trace=True))
    assert asked(BY="60;N", strict=False) == Requests(deliver_by=DeliverBy(NOW + 60, ByMode.NOTIFY))
    assert str(asked(BY="0;R", strict=False)).startswith("501")


@pytest.mark.parametrize(
    ("name", "value", "at"),
    [
        ("HOLDFOR", "1", NOW + 1),
        ("HOLDFOR", "86400", NOW + DAY),
        ("HOLDUNTIL", "2026-01-02T03:05:05Z", NOW + 59.5),
        ("HOLDUNTIL", "2026-01-02t03:05:05.25z", NOW + 59.75),
        ("HOLDUNTIL", "2026-01-02T05:05:05+02:00", NOW + 59.5),
        ("HOLDUNTIL", "2026-01-01T22:05:05.123456789-05:00", NOW + 59.623456),
    ],
)
def test_frl02_frl06_a_release_is_absolute_and_kept_as_it_was_asked_for(name: str, value: str, at: float) -> None:
    found = asked(**{name: value})
    assert isinstance(found, Requests)
    assert found.not_before == pytest.approx(at, abs=1e-5)
    assert found.hold_request == f"{'for' if name == 'HOLDFOR' else 'until'};{value}"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("HOLDFOR", value) for value in (None, "0", "01", "-1", "+1", "1s", "86401", "1000000000", "٣")),
        *(
            ("HOLDUNTIL", value)
            for value in (
                None, "never", "2026-01-02", "2026-01-02T03:05Z", "2026-01-02T03:05:05", "2026-01-02 03:05:05Z",
                "2026-02-30T03:05:05Z", "2026-01-02T24:00:00Z", "2026-01-02T03:05:05+99:00", "0000-01-01T00:00:00Z",
                "2026-01-02T03:04:05Z", "1999-01-01T00:00:00Z", "2026-01-03T03:04:06Z", "9999-12-31T23:59:59-23:59",
            )
        ),
    ],
)  # fmt: skip
def test_frl02_a_bad_release_is_refused(name: str, value: str | None) -> None:
    """Malformed, past, or beyond the limit."""
    assert str(asked(**{name: value})).startswith("501 5.5.4 ")


def test_frl02_frl04_what_contradicts_itself_is_refused() -> None:
    assert str(asked(HOLDFOR="1", HOLDUNTIL="2026-01-02T03:05:05Z")).startswith("501 5.5.4 ")
    assert str(asked(HOLDFOR="60", BY="60;N")).startswith("501 5.5.4 ")
    assert isinstance(asked(HOLDFOR="59", BY="60;N"), Requests)


def test_frl01_the_limit_is_announced_in_whole_seconds() -> None:
    assert announced_hold(NOW, DAY) == "86400 2026-01-03T03:04:05Z"
    assert announced_hold(NOW, 1.9) == "1 2026-01-02T03:04:07Z"


@pytest.mark.parametrize("value", ["-9", "-1", "0", "1", "9"])
def test_pri01_a_priority(value: str) -> None:
    assert asked(MT_PRIORITY=value) == Requests(priority=int(value))


@pytest.mark.parametrize("value", [None, "10", "+3", "03", "-0", "00", "high", "1.0", "٣"])
def test_pri01_a_bad_priority_has_a_code_of_its_own(value: str | None) -> None:
    assert str(asked(MT_PRIORITY=value)).startswith("501 5.5.2 ")


def test_nothing_asked_is_nothing() -> None:
    assert asked(SIZE="5", BODY="7BIT") == NO_REQUESTS


@given(st.sampled_from(["BY", "HOLDFOR", "HOLDUNTIL", "MT-PRIORITY"]), st.text(st.characters(exclude_categories=())))
def test_b54_no_value_raises(name: str, value: str) -> None:
    parameters: Mapping[str, str | None] = {name: value}
    assert isinstance(mail_requests(parameters, NOW, DAY, strict=True), Requests | Reply)


# ---------------------------------------------------------------- fields
@pytest.mark.parametrize(
    ("value", "at"),
    [
        ("10m", NOW + 600),
        (" 90s ", NOW + 90),
        ("(soon) 300ms", NOW + 0.3),
        (DATE, AT_DATE),
        ("2 Jan 2026 03:05:05 GMT", AT_DATE),
        ("2 Jan 2026 03:05:05 -0000", AT_DATE),
        ("fri,  02 jan 2026 05:05:05 +0200 (EET)", AT_DATE),
        ("Thu, 1 Jan 2026 22:05:05 EST", AT_DATE),
        ("Fri, 2 Jan 2026 03:05 Z", AT_DATE - 5),
        ("Sat, 3 Jan 2026 03:04:05 +0000", NOW + DAY - 0.5),
    ],
)
def test_b35_a_date_or_a_duration_from_mail(value: str, at: float) -> None:
    assert wanted(f"Latest-Delivery-Time: {value}") == Wish(deliver_by=DeliverBy(at, ByMode.HANDOVER))
    assert wanted(f"deferred-delivery: {value}") == Wish(not_before=at)


def test_a_deadline_may_be_as_good_as_none() -> None:
    found = wanted("Latest-Delivery-Time: Fri, 31 Dec 9999 23:59:59 +0000").deliver_by
    assert found is not None
    assert rfc3339(found.at) == "9999-12-31T23:59:59.000Z"


BAD_INSTANTS = [
    "", "never", "10", "-5s", "5 minutes", "Fri, 2 Jan 2026 03:05:05", "Fri, 2 Jan 26 03:05:05 +0000",
    "Fri, 2 Jan 2026 03:05:05 XYZ", "Fri, 32 Jan 2026 03:05:05 +0000", "Fri, 2 Jan 2026 25:05:05 +0000",
    "Fri, 2 Jan 2026 03:05:05 +9999", "Fri, 2 Foo 2026 03:05:05 +0000", "2026-01-02", f"{DATE} and so on", "9999d",
    "Fri, 31 Dec 9999 23:59:59 -0100", "((((" + "( " * 9000,
    "Fri, 2 Jan 0000 03:05:05 +0000", "Fri, 2 Jan 0027 03:05:05 +0000",
]  # fmt: skip


@pytest.mark.parametrize("name", ["Latest-Delivery-Time", "Deferred-Delivery"])
@pytest.mark.parametrize("value", BAD_INSTANTS)
def test_b35_a_bad_instant_is_refused_by_the_fields_name(name: str, value: str) -> None:
    said = refusal(f"{name}: {value}")
    assert said.startswith("554 5.6.0 ")
    assert name in said


@given(
    st.lists(
        st.sampled_from(["Fri", ",", " ", "2", "31", "Jan", "Feb", "2026", "9999", "23:59", ":60", "+0000", "-2359", "GMT",
                         "(x)", "5", "m", "9"]),
        max_size=12,
    ).map("".join)
)  # fmt: skip
def test_b54_no_field_raises_anything_but_its_refusal(value: str) -> None:
    for name in ("Latest-Delivery-Time", "Deferred-Delivery", "MT-Priority"):
        with suppress(HeaderError):
            assert isinstance(wanted(f"{name}: {value}"), Wish)


def test_b35_a_time_that_has_passed_is_told_as_such() -> None:
    before = format_datetime(datetime.fromtimestamp(NOW - 1, UTC))
    assert wanted(f"Latest-Delivery-Time: {before}").past == "Latest-Delivery-Time"
    assert wanted("Latest-Delivery-Time: 0s").past == "Latest-Delivery-Time"
    assert wanted(f"Deferred-Delivery: {before}").past == "Deferred-Delivery"
    assert wanted("Deferred-Delivery: 0s").past == ""


def test_frl02_frl04_a_release_must_be_possible() -> None:
    assert "Deferred-Delivery" in refusal("Deferred-Delivery: 2d")
    assert "Deferred-Delivery" in refusal("Deferred-Delivery: 10m", "Latest-Delivery-Time: 10m")
    by = DeliverBy(NOW + 60, ByMode.NOTIFY)
    assert "Deferred-Delivery" in refusal("Deferred-Delivery: 10m", requests=Requests(deliver_by=by))
    assert "Latest-Delivery-Time" in refusal("Latest-Delivery-Time: 1m", requests=Requests(not_before=NOW + 60))


@pytest.mark.parametrize(
    ("one", "same", "other"),
    [
        ("Latest-Delivery-Time: 60s", "Latest-Delivery-Time: 1m", "Latest-Delivery-Time: 2m"),
        ("Deferred-Delivery: 60s", "deferred-delivery: 1m", "Deferred-Delivery: 61s"),
        ("MT-Priority: 3", "mt-priority: (three) 3", "MT-Priority: 4"),
    ],
)
def test_pri05_a_field_given_twice_must_say_the_same(one: str, same: str, other: str) -> None:
    assert wanted(one, same) == wanted(one)
    said = refusal(one, other)
    assert said.startswith("554 5.6.0 ")
    assert one.partition(":")[0] in said


@pytest.mark.parametrize("other", ["MT-Priority: 10", "MT-Priority: +3", "MT-Priority:", "Priority: high"])
def test_a_bad_field_is_refused_also_where_a_parameter_decides(other: str) -> None:
    assert refusal(other, requests=Requests(priority=1)).startswith("554 5.6.0 Bad value in header field ")


# ---------------------------------------------------------------- both
def test_a_parameter_and_a_field_that_differ_are_a_mistake() -> None:
    by = Requests(deliver_by=DeliverBy(NOW + 60, ByMode.RETURN))
    assert "BY and header field Latest-Delivery-Time differ" in refusal("Latest-Delivery-Time: 66s", requests=by)
    notify = Requests(deliver_by=DeliverBy(NOW + 60, ByMode.NOTIFY))
    assert "BY and header field Latest-Delivery-Time differ" in refusal("Latest-Delivery-Time: 60s", requests=notify)
    hold_for = Requests(not_before=NOW + 60, hold_request="for;60")
    assert "HOLDFOR and header field Deferred-Delivery differ" in refusal("Deferred-Delivery: 1h", requests=hold_for)
    hold_until = Requests(not_before=NOW + 60, hold_request="until;2026-01-02T03:05:05Z")
    assert "HOLDUNTIL and header field Deferred-Delivery differ" in refusal("Deferred-Delivery: 54s", requests=hold_until)
    assert "MT-PRIORITY and header field MT-Priority differ" in refusal("MT-Priority: 4", requests=Requests(priority=5))


def test_where_they_agree_the_parameter_counts() -> None:
    deadline = DeliverBy(NOW + 60, ByMode.RETURN, trace=True)
    requests = Requests(3, deadline, NOW + 30, "for;30")
    earlier, later = f"{60 - SAME_INSTANT:g}s", f"{30 + SAME_INSTANT:g}s"
    fields = (f"Latest-Delivery-Time: {earlier}", f"Deferred-Delivery: {later}", "MT-Priority: 3")
    assert wanted(*fields, requests=requests) == Wish(3, MailClass.URGENT, deadline, NOW + 30, "for;30")


@pytest.mark.parametrize(
    ("priority", "fields", "mail_class"),
    [
        (1, ["Priority: non-urgent"], MailClass.URGENT),
        (0, ["Priority: urgent", "Precedence: bulk"], MailClass.NORMAL),
        (-1, ["Priority: urgent"], MailClass.BULK),
        (None, ["Priority: urgent", "Precedence: bulk"], MailClass.URGENT),
        (None, ["Importance: high", "X-Priority: 1"], MailClass.NORMAL),
    ],
)
def test_pri03_pri05_the_first_there_is_decides(priority: int | None, fields: list[str], mail_class: MailClass) -> None:
    """Importance never does."""
    assert wanted(*fields, requests=Requests(priority=priority)).mail_class is mail_class
