"""Mailbox addresses: what parses, what does not, and that nothing dangerous gets through."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mta.model.address import Address, AddressError, Flaw, parse_address, parse_literal, strip_source_route


@pytest.mark.parametrize(
    "text",
    [
        "a@b.example",
        "a+b.c/d=e@b-c.example",
        '"a b"@d.example',
        '"a\\"b"@d.example',
        '"x@y"@d.example',
        '""@d.example',
        '"a>b"@d.example',
        "a@[192.0.2.1]",
        "a@[IPv6:2001:db8::1]",
        "a@[ipv6:2001:db8::1]",
        "x" * 64 + "@b.example",
        "b@" + ".".join(["d" * 63, "e" * 63, "f" * 63, "g" * 50, "test"]),
        "b@xn--caf-dma.test",
        "Postmaster",
    ],
)
def test_adr07_adr10_adr12_an_address_keeps_the_form_it_was_given(text: str) -> None:
    assert str(parse_address(text)) == text


@pytest.mark.parametrize(
    ("text", "flaw"),
    [
        ("", Flaw.SYNTAX),
        ("@", Flaw.SYNTAX),
        ("@b.example", Flaw.SYNTAX),
        ("a b@d.example", Flaw.SYNTAX),
        (".a@d.example", Flaw.SYNTAX),
        ("a.@d.example", Flaw.SYNTAX),
        ("a..b@d.example", Flaw.SYNTAX),
        ("a(c)@d.example", Flaw.SYNTAX),
        ("a\rb@example.org", Flaw.SYNTAX),
        ('"a\nb"@example.org', Flaw.SYNTAX),
        ('"a"b@example.org', Flaw.SYNTAX),
        ('"a@example.org', Flaw.SYNTAX),
        (";id;", Flaw.SYNTAX),
        ("<a@b.example>", Flaw.SYNTAX),
        ("b@example.org> NOTIFY=NEVER", Flaw.DOMAIN),
        ("b@example.org>\r\nRCPT TO:<c@example.net", Flaw.DOMAIN),
        ("b@example.org\n", Flaw.DOMAIN),
        ("a@b@c.example", Flaw.DOMAIN),
        ("b@" + "a" * 64 + ".example.org", Flaw.DOMAIN),
        ("b@example..org", Flaw.DOMAIN),
        ("b@example.org.", Flaw.DOMAIN),
        ("b@-x.example.org", Flaw.DOMAIN),
        ("b@x-.example.org", Flaw.DOMAIN),
        ("b@a_b.example", Flaw.DOMAIN),
        ("b@", Flaw.DOMAIN),
        ("b@" + "a" * 250, Flaw.DOMAIN),
        ("b@☃.example", Flaw.NON_ASCII),
        ("bü@x.example", Flaw.NON_ASCII),
        ("x" * 65 + "@b.example", Flaw.LOCAL_PART_LENGTH),
        ("b@" + "a." * 127 + "example", Flaw.DOMAIN_LENGTH),
        ("x" * 60 + "@" + "a." * 96 + "aa", Flaw.PATH_LENGTH),
        ("a@[300.1.1.1]", Flaw.LITERAL),
        ("a@[1.2.3]", Flaw.LITERAL),
        ("a@[2001:db8::1]", Flaw.LITERAL),
        ("a@[IPv6:fe80::1%eth0]", Flaw.LITERAL),
        ("a@[IPv6:1.2.3.4]", Flaw.LITERAL),
        ("a@[1.2.3.4", Flaw.LITERAL),
        ("a@[x:y]", Flaw.LITERAL),
    ],
)
def test_b25_b54_what_is_no_address_is_refused_with_its_reason(text: str, flaw: Flaw) -> None:
    """ADR-08, ADR-10, ADR-11, ADR-12."""
    with pytest.raises(AddressError) as caught:
        parse_address(text)
    assert caught.value.flaw is flaw


@given(st.text(st.sampled_from('ab.@"\\<> \r\n\t\0,;:[]é%1'), max_size=30))
@example('"\\\r"@a.b')
def test_b54_what_parses_can_neither_end_a_path_nor_a_line(text: str) -> None:
    try:
        address = parse_address(text)
    except AddressError:
        return
    assert str(address) == text
    assert text.isprintable()
    assert text.isascii()
    outside_quotes = text[text.rindex('"') + 1 :] if text.startswith('"') else text
    assert not set(outside_quotes) & set("<> ,;")


@given(st.text(st.sampled_from('ab.@"\\ <'), max_size=12))
def test_adr07_least_quoting_is_the_same_mailbox(text: str) -> None:
    quoted = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"@D.example'
    address = parse_address(quoted)
    least = address.least_quoted
    assert least.key == address.key
    assert parse_address(str(least)) == least


@pytest.mark.parametrize(
    ("one", "other"),
    [('"bob"@d.example', "bob@D.EXAMPLE"), ('"a\\b"@d.example', "ab@d.example"), ('"a\\ b"@d.example', '"a b"@d.example')],
)
def test_adr07_adr16_the_same_mailbox_in_two_spellings(one: str, other: str) -> None:
    assert parse_address(one).key == parse_address(other).key


def test_adr16_the_case_of_a_local_part_makes_another_mailbox() -> None:
    assert parse_address("Bob@d.example").key != parse_address("bob@d.example").key
    assert parse_address("bob@D.Example").destination == "d.example"


def test_adr09_source_routes_are_dropped() -> None:
    assert strip_source_route("@h1.test,@h2.test:u@d.test") == "u@d.test"
    assert strip_source_route("u@d.test") == "u@d.test"
    for bad in ("@h1.test,:u@d.test", "@h1.test@h2.test:u@d.test", "@h1.test u@d.test", "@:u@d.test"):
        with pytest.raises(AddressError):
            strip_source_route(bad)


def test_literals_are_addresses() -> None:
    assert str(parse_literal("[192.0.2.1]")) == "192.0.2.1"
    assert str(parse_literal("[IPv6:2001:DB8::1]")) == "2001:db8::1"
    assert str(Address("a", "")) == "a"
