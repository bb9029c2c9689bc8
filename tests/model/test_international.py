"""Addresses beyond ASCII (RFC 6531 section 3.3): what parses where it may, and in which forms a mailbox is known."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta.model.address import AddressError, Flaw, parse_address, parse_domain
from mta.model.text import safe_text


@pytest.mark.parametrize(
    ("text", "kept", "sendable", "destination"),
    [
        ("jörg@example.org", "jörg@example.org", "jörg@example.org", "example.org"),
        ("jörg@BÜCHER.example", "jörg@bücher.example", "jörg@bücher.example", "xn--bcher-kva.example"),
        ("info@BÜCHER.example", "info@bücher.example", "info@xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("info@faß.example", "info@faß.example", "info@xn--fa-hia.example", "xn--fa-hia.example"),
        ("用户@例え。テスト", "用户@例え.テスト", "用户@例え.テスト", "xn--r8jz45g.xn--zckzah"),
        ('"jö rg"@example.org', '"jö rg"@example.org', '"jö rg"@example.org', "example.org"),
        ("a@XN--BCHER-KVA.example", "a@XN--BCHER-KVA.example", "a@XN--BCHER-KVA.example", "xn--bcher-kva.example"),
        ("a@[192.0.2.1]", "a@[192.0.2.1]", "a@[192.0.2.1]", "[192.0.2.1]"),
        ("ü" * 32 + "@example.org", "ü" * 32 + "@example.org", "ü" * 32 + "@example.org", "example.org"),
        ("jo\u0308rg@example.org", "jo\u0308rg@example.org", "jo\u0308rg@example.org", "example.org"),
        ("jörg", "jörg", "jörg", ""),
    ],
)
def test_b38_the_forms_of_a_mailbox(text: str, kept: str, sendable: str, destination: str) -> None:
    """Table B, IDN rows."""
    address = parse_address(text, utf8=True)
    assert (str(address), str(address.sendable), address.destination) == (kept, sendable, destination)
    assert parse_address(sendable, utf8=True).key == address.key


@pytest.mark.parametrize(
    ("text", "flaw"),
    [
        ("a\u202eb@example.org", Flaw.SYNTAX),  # turns the line around
        ("a\u2066b@example.org", Flaw.SYNTAX),
        ("a\u200db@example.org", Flaw.SYNTAX),  # shown as nothing
        ("a\ufe0fb@example.org", Flaw.SYNTAX),
        ("a\U000e0041b@example.org", Flaw.SYNTAX),
        ("a\u00a0b@example.org", Flaw.SYNTAX),
        ('"a\u3000b"@example.org', Flaw.SYNTAX),
        ("a\x85b@example.org", Flaw.SYNTAX),
        ("a\u2028b@example.org", Flaw.SYNTAX),
        ("a\uffffb@example.org", Flaw.SYNTAX),
        ("a\U0010fffeb@example.org", Flaw.SYNTAX),
        ("a\ud800b@example.org", Flaw.SYNTAX),
        ("ü\r\nRCPT TO:<b@example.org", Flaw.SYNTAX),
        ("ü" * 33 + "@example.org", Flaw.LOCAL_PART_LENGTH),
        ("a@☃.example", Flaw.DOMAIN),
        ("a@ü..example", Flaw.DOMAIN),
        ("a@ü_b.example", Flaw.DOMAIN),
        ("a@ü.example.", Flaw.DOMAIN),
        ("a@[ü]", Flaw.DOMAIN),
        ("a@" + "ü" * 60 + ".example", Flaw.DOMAIN),
        ("a@" + "ü." * 200 + "example", Flaw.DOMAIN),
        ("ü" * 32 + "@" + ".".join(["d" * 60] * 3) + ".example", Flaw.PATH_LENGTH),
    ],
)
def test_b25_what_is_no_address_in_utf8_either(text: str, flaw: Flaw) -> None:
    """Field case B54, ADR-10: no letter that a reader can't see, nothing that moves others."""
    with pytest.raises(AddressError) as caught:
        parse_address(text, utf8=True)
    assert caught.value.flaw is flaw


def test_adr14_non_ascii_is_refused_where_it_is_not_asked_for() -> None:
    with pytest.raises(AddressError) as caught:
        parse_address("jörg@example.org")
    assert caught.value.flaw is Flaw.NON_ASCII


@given(st.text(min_size=1, max_size=12))
def test_what_parses_is_safe_to_show_and_parses_again_in_the_form_it_is_sent_in(local_part: str) -> None:
    try:
        address = parse_address(f"{local_part}@Bücher.example", utf8=True)
    except AddressError:
        return
    assert safe_text(str(address)) == str(address)
    assert parse_address(str(address.sendable), utf8=True) == address.sendable


def test_a_domain_is_known_by_its_a_labels() -> None:
    assert parse_domain("Bücher.Example") == parse_domain("XN--BCHER-KVA.example") == "xn--bcher-kva.example"
