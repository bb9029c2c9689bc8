"""TLS-10: the counts, the report, and who wants it (RFC 8460)."""

import email
import email.policy
import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta.model.events import Encrypted
from mta.model.tls import TlsPolicy, TlsResult
from mta.policy.compose import Stamp
from mta.policy.tls_report import (
    TlsReport,
    begin_of,
    compose_tls_report,
    contact,
    day_name,
    day_of,
    document,
    report_addresses,
)
from mta.policy.tls_tally import FAILURES_KEPT, POLICIES_KEPT, Tally, read_tally

STS = "version: STSv1\nmode: enforce\nmx: mx.example.org\nmx: *.example.net\nmax_age: 86400"
DANE = "3 1 1 abcd"
BEGINS = 1_800_057_600
STAMP = Stamp("mail.example.com", 1_800_150_000.0, "<1@mail.example.com>", "=_b")


def encrypted(result: TlsResult = TlsResult.SUCCESS, *policies: tuple[TlsPolicy, str], **more: str) -> Encrypted:
    return Encrypted("example.org", policies, result, **{"host": "mx.example.org", "address": "192.0.2.1", **more})


def tally(*facts: Encrypted) -> Tally:
    counted = Tally()
    for fact in facts:
        counted.count(fact)
    return counted


def report(*facts: Encrypted) -> TlsReport:
    return TlsReport("example.org", BEGINS, "example.com", "postmaster@example.com", tally(*facts))


# ---------------------------------------------------------------- who wants it
@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (["v=TLSRPTv1; rua=mailto:tls@example.org"], ("tls@example.org",)),
        (["v=TLSRPTv1;rua=mailto:tls@example.org;"], ("tls@example.org",)),
        (["v=TLSRPTv1; x=y; rua=mailto:a@example.org , mailto:b@example.org"], ("a@example.org", "b@example.org")),
        (["v=TLSRPTv1; rua=https://example.org/r, MAILTO:a@example.org"], ("a@example.org",)),
        (["v=TLSRPTv1; rua=mailto:a%2Bb@example.org?subject=x"], ("a+b@example.org",)),
        (["v=spf1 -all", "v=TLSRPTv1; rua=mailto:a@example.org"], ("a@example.org",)),
        (["v=TLSRPTv1; rua=" + ",".join(f"mailto:{it}@example.org" for it in "abcaddd")],
         ("a@example.org", "b@example.org", "c@example.org")),
        (["v=TLSRPTv1; rua=https://example.org/r"], ()),
        (["v=TLSRPTv1; rua=mailto:a@example.org", "v=TLSRPTv1; rua=mailto:a@example.org"], ()),
        (["v=TLSRPTv2; rua=mailto:a@example.org"], ()),
        (["v=TLSRPTv1; rua="], ()),
        (["v=TLSRPTv1;"], ()),
        (["v=TLSRPTv1; rua=mailto:postmaster"], ()),
        (["v=TLSRPTv1; rua=mailto:root@localhost,mailto:root@[127.0.0.1]"], ()),
        (["v=TLSRPTv1; rua=mailto:a@example.org%0d%0aBcc:b@example.org"], ()),
        (["v=TLSRPTv1; rua=mailto:%3Ca@example.org%3E"], ()),
        ([], ()),
    ],
)  # fmt: skip
def test_tls_10_who_asks_for_reports(texts: list[str], found: tuple[str, ...]) -> None:
    assert report_addresses(texts) == found


@given(st.text(alphabet=st.characters(max_codepoint=0x2FF) | st.sampled_from("%,;:@?=\r\n"), max_size=60))
def test_tls_10_whatever_a_domain_asks_for_an_address_is_safe(text: str) -> None:
    for address in report_addresses([f"v=TLSRPTv1; rua=mailto:a@example.org,mailto:{text}"]):
        assert address.isascii() and address.isprintable() and "@" in address and "," not in address.partition('"')[0]


@pytest.mark.parametrize(
    ("postmaster", "who"),
    [
        ("postmaster@example.com", "postmaster@example.com"),
        ("ops@mail.example.com", "ops@mail.example.com"),
        ("me@elsewhere.example", "postmaster@mail.example.com"),
        ("me@ample.com", "postmaster@mail.example.com"),
        (None, "postmaster@mail.example.com"),
    ],
)
def test_who_answers_for_a_report_is_of_our_own_domain(postmaster: str | None, who: str) -> None:
    assert contact("mail.example.com", postmaster) == who


# ---------------------------------------------------------------- the counts
def test_tls_10_sessions_are_counted_by_policy_and_kind_of_failure() -> None:
    sts, dane = (TlsPolicy.MTA_STS, STS), (TlsPolicy.DANE, DANE)
    expired = encrypted(TlsResult.CERTIFICATE_EXPIRED, sts)
    content = json.loads(
        document(
            report(
                *[encrypted(TlsResult.SUCCESS, sts)] * 3,
                *[expired] * 2,
                encrypted(TlsResult.STARTTLS_NOT_SUPPORTED, dane, address="192.0.2.2", detail="no STARTTLS"),
                encrypted(TlsResult.SUCCESS, (TlsPolicy.OPPORTUNISTIC, "")),
                encrypted(TlsResult.STS_POLICY_FETCH_ERROR, (TlsPolicy.MTA_STS, ""), host="mta-sts.example.org", address=""),
            )
        )
    )
    assert content == {
        "organization-name": "example.com",
        "date-range": {"start-datetime": "2027-01-16T00:00:00Z", "end-datetime": "2027-01-16T23:59:59Z"},
        "contact-info": "postmaster@example.com",
        "report-id": "2027-01-16.example.org@example.com",
        "policies": [
            {
                "policy": {
                    "policy-type": "sts",
                    "policy-string": STS.split("\n"),
                    "policy-domain": "example.org",
                    "mx-host": ["mx.example.org", "*.example.net"],
                },
                "summary": {"total-successful-session-count": 3, "total-failure-session-count": 2},
                "failure-details": [
                    {
                        "result-type": "certificate-expired",
                        "receiving-mx-hostname": "mx.example.org",
                        "receiving-ip": "192.0.2.1",
                        "failed-session-count": 2,
                    }
                ],
            },
            {
                "policy": {"policy-type": "tlsa", "policy-string": [DANE], "policy-domain": "example.org"},
                "summary": {"total-successful-session-count": 0, "total-failure-session-count": 1},
                "failure-details": [
                    {
                        "result-type": "starttls-not-supported",
                        "receiving-mx-hostname": "mx.example.org",
                        "receiving-ip": "192.0.2.2",
                        "failed-session-count": 1,
                        "failure-reason-code": "no STARTTLS",
                    }
                ],
            },
            {
                "policy": {"policy-type": "no-policy-found", "policy-domain": "example.org"},
                "summary": {"total-successful-session-count": 1, "total-failure-session-count": 0},
            },
            {
                "policy": {"policy-type": "sts", "policy-domain": "example.org"},
                "summary": {"total-successful-session-count": 0, "total-failure-session-count": 1},
                "failure-details": [
                    {
                        "result-type": "sts-policy-fetch-error",
                        "receiving-mx-hostname": "mta-sts.example.org",
                        "failed-session-count": 1,
                    }
                ],
            },
        ],
    }


def test_a_session_under_two_policies_counts_for_both() -> None:
    both = tally(encrypted(TlsResult.SUCCESS, (TlsPolicy.DANE, DANE), (TlsPolicy.MTA_STS, STS)))
    assert {kind: one.successes for (kind, _), one in both.policies.items()} == {"tlsa": 1, "sts": 1}


def test_counts_are_written_read_and_added() -> None:
    one = tally(encrypted(), encrypted(TlsResult.VALIDATION_FAILURE, (TlsPolicy.MTA_STS, STS), detail='a "b"\x07'))
    again = read_tally(one.write())
    assert again == one
    again.add(one)
    failures = again.policies["sts", STS].failures
    assert (again.policies["no-policy-found", ""].successes, list(failures.values())) == (2, [2])


@pytest.mark.parametrize("value", ["", "{}", "1", "[1]", '[["sts", "", "x", []]]', '[["sts", "", 1, [["a"]]]]'])
def test_what_is_no_count_counts_nothing(value: str) -> None:
    assert read_tally(value) == Tally()


def test_what_a_domain_does_is_bounded_and_no_session_is_lost() -> None:
    failing = [
        encrypted(TlsResult.VALIDATION_FAILURE, (TlsPolicy.MTA_STS, STS), address="192.0.2.1", detail=str(number))
        for number in range(1000)
    ]
    counted = tally(*failing).policies["sts", STS].failures
    assert len(counted) == FAILURES_KEPT + 1
    assert sum(counted.values()) == 1000
    changing = [encrypted(TlsResult.SUCCESS, (TlsPolicy.MTA_STS, f"mx: {number}.test")) for number in range(1000)]
    policies = tally(*changing).policies
    assert len(policies) == POLICIES_KEPT + 1
    assert sum(it.successes for it in policies.values()) == 1000
    long = tally(encrypted(TlsResult.SUCCESS, (TlsPolicy.MTA_STS, "mx: x\n" * 20_000)))
    assert len(long.write()) < 10_000


def test_days_are_those_of_utc() -> None:
    assert day_of(BEGINS) == day_of(BEGINS + 86399.9) == BEGINS
    assert day_name(BEGINS) == "2027-01-16"
    assert begin_of("2027-01-16") == BEGINS


# ---------------------------------------------------------------- the mail
def test_tls_10_the_mail_is_what_receivers_sort_by() -> None:
    content = compose_tls_report(report(encrypted()), ("a@example.org", "b@example.org"), STAMP)
    assert content.isascii()
    assert max(map(len, content.split(b"\r\n"))) <= 998
    assert content.count(b"\n") == content.count(b"\r\n")
    mail = email.message_from_bytes(content, policy=email.policy.SMTP)
    assert mail["To"] == "a@example.org, b@example.org"
    assert mail["From"] == "Mail Delivery System <MAILER-DAEMON@mail.example.com>"
    assert mail["Subject"] == (
        "Report Domain: example.org Submitter: example.com Report-ID: <2027-01-16.example.org@example.com>"
    )
    assert (mail["TLS-Report-Domain"], mail["TLS-Report-Submitter"]) == ("example.org", "example.com")
    assert mail["TLS-Required"] == "No"
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail.get_content_type() == "multipart/report"
    assert mail.get_param("report-type") == "tlsrpt"
    text, attached = mail.iter_parts()
    assert text.get_content_type() == "text/plain"
    assert "example.org on 2027-01-16" in " ".join(text.get_content().split())
    assert attached.get_content_type() == "application/tlsrpt+gzip"
    assert attached.get_filename() == f"example.com!example.org!{BEGINS}!{BEGINS + 86399}.json.gz"
    assert gzip.decompress(attached.get_content()) == document(report(encrypted()))
    assert not mail.defects


def test_what_a_server_said_ends_no_line_of_the_mail_and_leaves_the_document_whole() -> None:
    said = encrypted(TlsResult.VALIDATION_FAILURE, (TlsPolicy.MTA_STS, "mx: a\r\nX: \x00ü"), detail='"}\r\n.\r\n\ud800')
    found = json.loads(document(report(said)))["policies"][0]
    assert found["policy"]["policy-string"] == ["mx: a\\x0d", "X: \\x00ü"]
    assert found["failure-details"][0]["failure-reason-code"] == '"}\\x0d\\x0a.\\x0d\\x0a\\ud800'
    assert compose_tls_report(report(said), ("a@example.org",), STAMP).isascii()


def test_equal_input_gives_equal_octets() -> None:
    assert compose_tls_report(report(encrypted()), ("a@example.org",), STAMP) == compose_tls_report(
        report(encrypted()), ("a@example.org",), STAMP
    )
