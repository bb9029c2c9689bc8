"""Whom a message is for is read off, never guessed."""

import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta.sendmail.address_list import AddressListError, addresses

GOOD = {
    "": [],
    " , ,": [],
    "ann@x.org": ["ann@x.org"],
    "root": ["root"],
    "ann, bob@x.org,,c@x.org,": ["ann", "bob@x.org", "c@x.org"],
    "Ann <ann@x.org>": ["ann@x.org"],
    "<ann@x.org>": ["ann@x.org"],
    '"Doe, Ann <a@b>" <ann@x.org>, b@y.org': ["ann@x.org", "b@y.org"],
    "J. Doe <j@x.org>": ["j@x.org"],
    "Ann [IT] <ann@x.org>": ["ann@x.org"],
    "ann@x.org <bob@x.org>": ["bob@x.org"],
    "ann@x.org (Ann, the (first))": ["ann@x.org"],
    "(\\) still a comment) ann@x.org": ["ann@x.org"],
    "friends: ann@x.org, Bob <b@x.org>;": ["ann@x.org", "b@x.org"],
    "undisclosed-recipients:;": [],
    "undisclosed-recipients: ;, ann@x.org": ["ann@x.org"],
    '"ann b"@x.org': ['"ann b"@x.org'],
    '"a\\"b, <c>"@x.org': ['"a\\"b, <c>"@x.org'],
    "ann@[192.0.2.1]": ["ann@[192.0.2.1]"],
    "ann@[IPv6:2001:db8::1]": ["ann@[IPv6:2001:db8::1]"],
    "<@a.org,@b.org:ann@x.org>": ["ann@x.org"],
    "=?utf-8?q?Bob=2C_eve=40x.org?= <bob@x.org>": ["bob@x.org"],
    "Ann\r\n <ann@x.org>,\r\n\tbob@x.org\r\n": ["ann@x.org", "bob@x.org"],
    "müller@x.org, ann@müller.example": ["müller@x.org", "ann@müller.example"],
    "Ann <>, ann@x.org": None,
    "<>": None,
    "ann@@x.org": None,
    "ann smith": None,
    "ann @ x.org": None,
    "ann@x.org bob@x.org": None,
    "ann@x.org; bob@x.org": None,
    "<ann@x.org": None,
    "ann@x.org>": None,
    "Ann <ann@x.org> junk": None,
    "Ann <ann@x.org> <bob@x.org>": None,
    "Ann <ann at x.org>": None,
    "a.@x.org": None,
    "ann@x.": None,
    "ann@-x.org": None,
    'ann"@x.org': None,
    "ann (@x.org": None,
    "ann)@x.org": None,
    "a\\b@x.org": None,
    "friends: ann@x.org": None,
    ": ann@x.org;": None,
    "a: b: c@x.org;;": None,
    "ann@x.org: bob@x.org;": None,
    "ann\x00@x.org": None,
    "ann\r@x.org": None,
    "ann\r\n@x.org": None,
    "ann\udcff@x.org": None,
    "mü\u202eller@x.org": None,
    "mü ller@x.org": None,
    "<mü<ller@x.org>": None,
}


@pytest.mark.parametrize("text", GOOD)
def test_B54_addresses_are_as_written_or_refused(text: str) -> None:
    if (expected := GOOD[text]) is None:
        with pytest.raises(AddressListError):
            list(addresses(text))
    else:
        assert list(addresses(text)) == expected


def test_the_entry_that_is_no_address_is_named_and_safe_to_print() -> None:
    with pytest.raises(AddressListError, match=r'"Bob <b@@x\\x1b>" is no address: bad'):
        list(addresses("ann@x.org, Bob <b@@x\x1b>, c@x.org"))


@given(st.text('ab@.,:;<>()"[]\\ \r\n\t=?ü\x00', max_size=30))
def test_no_text_breaks_it_and_what_comes_out_was_there(text: str) -> None:
    try:
        found = list(addresses(text))
    except AddressListError:
        return
    for address in found:
        assert address in text.replace("\r\n", "")
        assert not set(address) & set("\r\n\x00")


@pytest.mark.parametrize(
    "text", ["," * 300_000, "(" * 300_000, "a@x.org," * 40_000, '"' * 300_001, "<" * 300_000, "a:;" * 90_000]
)
def test_strangers_can_t_make_it_slow(text: str) -> None:
    started = time.process_time()
    with contextlib.suppress(AddressListError):
        list(addresses(text))
    assert time.process_time() - started < 5
