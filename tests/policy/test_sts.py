"""MTA-STS: what is a record, what is a policy, and which mail servers it covers."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta.model.tls import StsMode, StsPolicy
from mta.policy.sts import LONGEST_AGE, NoPolicy, covers, parse_policy, policy_id

ENFORCE = "version: STSv1\r\nmode: enforce\r\nmx: *.example.net\r\nmx: mail.example.org\r\nmax_age: 86400\r\n"


@pytest.mark.parametrize(
    ("host", "may"),
    [
        ("mx1.example.net", True),
        ("MX1.Example.NET", True),
        ("a.b.example.net", False),
        ("example.net", False),
        (".example.net", False),
        ("evil.example.com", False),
        ("mail.example.org", True),
        ("x.mail.example.org", False),
    ],
)
def test_b29_a_pattern_stands_for_one_label(host: str, may: bool) -> None:
    policy = StsPolicy(StsMode.ENFORCE, ("*.example.net", "mail.example.org"), 86400.0)
    assert covers(policy, host) is may


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (["v=STSv1; id=20260101T000000Z;"], "20260101T000000Z"),
        (["v=STSv1;id=1"], "1"),
        (["v=STSv1 ; x-note=a.b:c ; id=2"], "2"),
        (["v=spf1 -all", "v=STSv1; id=3;"], "3"),
        (["v=STSv1; id=4; id=5"], "4"),
        ([], ""),
        (["v=STSv1; id=1", "v=STSv1; id=1"], ""),
        (["v=STSv1;"], ""),
        (["v=STSv1; id="], ""),
        (["v=STSv1; id=" + "1" * 33], ""),
        (["v=STSv1; id=a-b"], ""),
        (["v=STSv1; ID=1"], ""),
        (["v=stsv1; id=1"], ""),
        (["v=STSv2; id=1"], ""),
        ([" v=STSv1; id=1"], ""),
        (["v=STSv1; id=1; nonsense"], ""),
        (["v=STSv1; id=1;; x=y"], ""),
    ],
)
def test_tls_06_one_valid_record_says_that_there_is_a_policy(texts: list[str], found: str) -> None:
    """TLS-06; RFC 8461 section 3.1: several, or one that is not valid, are none."""
    assert policy_id(texts) == found


def test_a_policy_is_read() -> None:
    policy = parse_policy(ENFORCE)
    assert policy == StsPolicy(
        StsMode.ENFORCE,
        ("*.example.net", "mail.example.org"),
        86400.0,
        ("version: STSv1", "mode: enforce", "mx: *.example.net", "mx: mail.example.org", "max_age: 86400"),
    )
    assert parse_policy(ENFORCE.replace("\r\n", "\n").rstrip()) == policy


@pytest.mark.parametrize(
    ("lines", "mode", "mx", "age"),
    [
        ("mode:testing \nmx:\tmx.example.org\nmax_age:0", StsMode.TESTING, ("mx.example.org",), 0),
        ("mode: none\nmax_age: 60", StsMode.NONE, (), 60),
        ("mode: enforce\nmode: none\nmx: a.test\nmax_age: 1\nmax_age: 2", StsMode.ENFORCE, ("a.test",), 1),
        ("mode: enforce\nmx: a.test\nmax_age: 9999999999", StsMode.ENFORCE, ("a.test",), LONGEST_AGE),
        ("x-new: thing\n\nnonsense\nmode: enforce\nmx: a.test\nmax_age: 1", StsMode.ENFORCE, ("a.test",), 1),
        ("mode: enforce\nmx: MX.Bücher.Example\nmx: \u212aing.example\nmx: *.XN--Bcher-kva.example.\nmax_age: 1",
         StsMode.ENFORCE, ("*.xn--bcher-kva.example",), 1),
        ("mode: enforce\nmx: a.test\nmx: a.test\nmax_age: 1", StsMode.ENFORCE, ("a.test",), 1),
    ],
)  # fmt: skip
def test_policies_in_their_variety(lines: str, mode: StsMode, mx: tuple[str, ...], age: float) -> None:
    policy = parse_policy(f"version: STSv1\n{lines}\n")
    assert (policy.mode, policy.mx, policy.max_age) == (mode, mx, age)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<html>version: STSv1</html>",
        ENFORCE.replace("STSv1", "STSv2"),
        ENFORCE.replace("version", "Version"),
        ENFORCE.replace("enforce", "Enforce"),
        ENFORCE.replace("mode", "mood"),
        ENFORCE.replace("max_age", "max-age"),
        ENFORCE.replace("86400", "-1"),
        ENFORCE.replace("86400", "1d"),
        ENFORCE.replace("86400", "8640000000000"),
        ENFORCE.replace("86400", "٣٦٠٠"),
    ],
)
def test_what_is_no_policy(text: str) -> None:
    with pytest.raises(NoPolicy):
        parse_policy(text)


@pytest.mark.parametrize("mode", ["enforce", "testing"])
def test_b29_a_policy_without_mx_is_none_at_all(mode: str) -> None:
    """B29: a misspelt key (postfix-tlspol #95) must not leave a policy that no server can satisfy."""
    with pytest.raises(NoPolicy, match="no mx"):
        parse_policy(f"version: STSv1\nmode: {mode}\nnmx: mx.example.net\nmax_age: 86400\n")


@pytest.mark.parametrize(
    "pattern", ["192.0.2.1", "[192.0.2.1]", "2001:db8::1", "[IPv6:2001:db8::1]", "*", "*.", "mx.*.test", ""]
)
def test_b29_what_is_no_name_matches_nothing_and_spoils_nothing(pattern: str) -> None:
    policy = parse_policy(f"version: STSv1\nmode: enforce\nmx: {pattern}\nmx: mx.example.net\nmax_age: 86400\n")
    assert policy.mx == ("mx.example.net",)
    alone = parse_policy(f"version: STSv1\nmode: enforce\nmx: {pattern}\nmax_age: 86400\n")
    assert not any(covers(alone, host) for host in (pattern, "mx.example.net", "192.0.2.1", "mx.a.test", "test"))


_WORDS = st.sampled_from(
    ["version: ", "STSv1", "mode: enforce", "mx: ", "*.", "max_age: 1", "\r\n", "\n", "v=STSv1;", "id=", "ß.", "xn--"]
)


@given(st.lists(_WORDS | st.text(max_size=5), max_size=30).map("".join))
def test_b29_whatever_is_published_is_a_policy_or_none(text: str) -> None:
    policy_id([text])
    with contextlib.suppress(NoPolicy):
        policy = parse_policy("version: STSv1\nmode: enforce\nmax_age: 1\nmx: a.test\n" + text)
        assert policy.mx[0] == "a.test"
        assert all(name.isascii() and name == name.lower() for name in policy.mx)
