"""MTA-STS policies."""

import pytest

from mta.model.tls import StsMode, StsPolicy
from mta.policy.sts import covers


@pytest.mark.parametrize(
    ("host", "may"),
    [
        ("mx1.example.net", True),
        ("MX1.Example.NET", True),
        ("a.b.example.net", False),
        ("example.net", False),
        ("evil.example.com", False),
        ("mail.example.org", True),
        ("x.mail.example.org", False),
    ],
)
def test_b29_a_pattern_stands_for_one_label(host: str, may: bool) -> None:
    policy = StsPolicy(StsMode.ENFORCE, ("*.example.net", "mail.example.org"), 86400.0)
    assert covers(policy, host) is may
