"""Whose domain a From field names."""

import pytest

from mta.policy.author import author_domain
from mta.policy.header import split_section


@pytest.mark.parametrize(
    ("text", "domain"),
    [
        ("ann@Example.COM", "example.com"),
        ("Ann <ann@example.com>", "example.com"),
        ("<ann@example.com>, eve@example.net", "example.com"),
        ("ann@example.com, Eve <eve@example.net>", "example.com"),
        ('"eve@example.net" <ann@example.com>', "example.com"),
        ("eve@example.net <ann@example.com>", "example.com"),
        ('"<eve@example.net>" <ann@example.com>', "example.com"),
        ("(eve@example.net) ann@example.com", "example.com"),
        ("ann@example.com (<eve@example.net>)", "example.com"),
        (r'"quo\"ted, <eve@example.net>" <ann@example.com>', "example.com"),
        ('"ann@home"@example.com', "example.com"),
        ("Staff: ann@example.com, eve@example.net;", "example.com"),
        ("<@relay.example:ann@example.com>", "example.com"),
        ("Ann :( <ann@example.com>", "example.com"),
        ("Ann\r\n <ann@\r\n example.com>", "example.com"),
        (", ann@example.com", "example.com"),
        ("Ann <ann@bücher.example>", "xn--bcher-kva.example"),
        ("ann@example.com.", "example.com"),
        ("root", ""),
        ("", ""),
        ("undisclosed:;", ""),
        ("Ann <>", ""),
        ("a@" + "ü" * 300, ""),
        ("(" * 50_000, ""),
        ('"' * 50_000, ""),
        ("\\" * 50_000, ""),
    ],
)
def test_it_is_that_of_the_first_mailbox(text: str, domain: str) -> None:
    section = split_section(f"From: {text}\r\n\r\n".encode(), complete=True)
    assert author_domain(section) == domain


def test_without_a_from_there_is_none() -> None:
    assert author_domain(split_section(b"To: ann@example.com\r\n\r\n", complete=True)) == ""
