"""DSNs about mail beyond ASCII (DSN-16, EXT-10; RFC 6533)."""

import email.policy
from dataclasses import replace
from email import message_from_bytes
from email.message import EmailMessage
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta.policy.dsn import Dsn, header_section
from mta.policy.dsn_mail import compose_dsn
from mta.policy.dsn_utf8 import header_line, seven_bit
from tests.policy.dsn_cases import STAMP, dsn, recipient

HEADER = "From: Jörg <jörg@example.org>\r\nSubject: grüße\tund \u200dküsse\r\n\r\nBody\r\n".encode()
JOERG = recipient("jörg@bücher.example")


def parts(of: Dsn) -> tuple[EmailMessage, list[EmailMessage]]:
    message = cast(EmailMessage, message_from_bytes(compose_dsn(of, STAMP), policy=email.policy.default))
    assert not message.defects
    return message, cast(list[EmailMessage], list(message.iter_parts()))


def test_dsn16_b36_to_an_ascii_sender_all_of_it_is_seven_bit() -> None:
    """The header section is whole nevertheless, in an encoding (RFC 6533 section 4)."""
    of = replace(dsn(JOERG, recipient("ann@example.org")), original_header=header_section(HEADER))
    content = compose_dsn(of, STAMP)
    assert content.isascii()
    assert all(len(line) <= 78 for line in content.split(b"\r\n"))
    _, (text, status, header) = parts(of)
    assert "jörg@bücher.example" in text.get_content()
    assert status.get_content_type() == "message/delivery-status"
    assert b"\r\nFinal-Recipient: utf-8; j\\x{F6}rg@b\\x{FC}cher.example\r\n" in content
    assert b"\r\nFinal-Recipient: rfc822; ann@example.org\r\n" in content
    assert header.get_content_type() == "message/global-headers"
    assert header["Content-Transfer-Encoding"] == "quoted-printable"
    [inner] = [it for it in content.split(b"--" + STAMP.boundary.encode()) if b"global-headers" in it]
    assert b"Subject: gr=C3=BC=C3=9Fe\tund =E2=80=8Dk=C3=BCsse" in inner


def test_dsn16_the_subject_of_the_dsn_names_the_recipient() -> None:
    message, _ = parts(dsn(JOERG))
    assert message["Subject"] == "Not delivered: your message to jörg@bücher.example"
    assert b"Subject: =?utf-8?" in compose_dsn(dsn(JOERG), STAMP)


def test_dsn16_ext10_who_needs_smtputf8_gets_the_global_forms() -> None:
    of = replace(dsn(JOERG), to="shöp@example.com", original_header=header_section(HEADER))
    content = compose_dsn(of, STAMP)
    assert "\r\nTo: shöp@example.com\r\n".encode() in content
    assert b"\r\nContent-Type: message/global-delivery-status\r\nContent-Transfer-Encoding: 8bit\r\n\r\n" in content
    assert "\r\nFinal-Recipient: utf-8; jörg@bücher.example\r\n".encode() in content
    assert b"\r\nContent-Type: message/global-headers\r\nContent-Transfer-Encoding: 8bit\r\n\r\n" in content
    assert "\r\nSubject: grüße\tund \u200dküsse\r\n".encode() in content
    assert content.replace(b"\r\n", b"").count(b"\n") == 0


def test_dsn16_an_ascii_recipient_of_such_a_sender_has_its_own_type() -> None:
    of = replace(dsn(recipient("ann@example.org")), to="shöp@example.com")
    assert b"\r\nFinal-Recipient: rfc822; ann@example.org\r\n" in compose_dsn(of, STAMP)


@pytest.mark.parametrize(
    ("address", "form"),
    [
        ("jörg@example.org", "j\\x{F6}rg@example.org"),
        ("用户@example.org", "\\x{7528}\\x{6237}@example.org"),
        ("😀+tag=ü@example.org", "\\x{1F600}\\x{2B}tag\\x{3D}\\x{FC}@example.org"),
        ('"ü \\" x"@example.org', '"\\x{FC}\\x{20}\\x{5C}"\\x{20}x"@example.org'),
    ],
)
def test_dsn16_the_seven_bit_form(address: str, form: str) -> None:
    """RFC 6533 section 3, utf-8-addr-xtext."""
    assert seven_bit(address) == form


@given(st.binary(max_size=1200).filter(lambda line: b"\n" not in line and b"\r" not in line))
def test_dsn17_no_line_of_an_original_breaks_the_part(line: bytes) -> None:
    shown = header_line(line)
    assert len(shown.encode()) <= 998
    assert not any(character < " " and character != "\t" for character in shown)
