"""What a response means, whatever is in it."""

import contextlib
import itertools

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdatatype
import dns.rrset
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta.dns.exchange import CHAIN_LIMIT, make_question, read
from mta.ports import Lookup

NAME = dns.name.from_text("example.test.")


def record_set(text: str) -> dns.rrset.RRset:
    owner, ttl, rdclass, kind, data = text.split(maxsplit=4)
    return dns.rrset.from_text(owner, int(ttl), rdclass, kind, data)


def response(*records: str, flags: int = dns.flags.RA, rcode: int = 0, authority: str = "") -> dns.message.Message:
    made = dns.message.make_response(make_question(NAME, dns.rdatatype.MX))
    made.flags |= flags
    made.set_rcode(dns.rcode.Rcode(rcode))
    made.answer = [record_set(record) for record in records]
    made.authority = [record_set(authority)] if authority else []
    return dns.message.from_wire(made.to_wire())


def aliases(count: int) -> list[str]:
    names = ["example.test.", *(f"a{i}.test." for i in range(count))]
    return [f"{one} 60 IN CNAME {other}" for one, other in itertools.pairwise(names)]


SOA = "test. 300 IN SOA ns.test. root.test. 1 2 3 4 77"


@pytest.mark.parametrize(
    ("made", "lookup", "ttl"),
    [
        (response("example.test. 60 IN MX 10 mx.test."), Lookup.FOUND, 60),
        (response("example.test. 60 IN CNAME b.test.", "b.test. 30 IN MX 10 mx.test."), Lookup.FOUND, 30),
        (response(), Lookup.NODATA, None),
        (response(authority=SOA), Lookup.NODATA, 77),
        (response("example.test. 60 IN CNAME b.test.", authority=SOA), Lookup.NODATA, 60),
        (response(rcode=3, authority=SOA), Lookup.NXDOMAIN, 77),
        (response(rcode=3), Lookup.NXDOMAIN, None),
        (response("example.test. 60 IN A 192.0.2.1"), Lookup.NODATA, None),
        *((response(rcode=rcode), Lookup.TROUBLE, None) for rcode in (1, 2, 4, 5, 6, 9, 23)),
        (response(flags=0, authority="example.test. 60 IN NS ns.test."), Lookup.TROUBLE, None),
        (response(flags=dns.flags.RA | dns.flags.TC), Lookup.TROUBLE, None),
        (response(*aliases(CHAIN_LIMIT), f"a{CHAIN_LIMIT - 1}.test. 60 IN MX 1 mx.test."), Lookup.FOUND, 60),
        (response(*aliases(CHAIN_LIMIT + 1), f"a{CHAIN_LIMIT}.test. 60 IN MX 1 mx.test."), Lookup.TROUBLE, None),
    ],
)
def test_what_a_response_means(made: dns.message.Message, lookup: Lookup, ttl: int | None) -> None:
    found = read(made)
    assert (found.lookup, found.ttl) == (lookup, ttl)


@given(st.data())
def test_a_damaged_response_raises_nothing_else_than_the_library_s_own_errors(data: st.DataObject) -> None:
    wire = bytearray(response("example.test. 60 IN CNAME b.test.", "b.test. 60 IN MX 10 mx.test.", authority=SOA).to_wire())
    for place in data.draw(st.lists(st.integers(2, len(wire) - 1), max_size=6)):
        wire[place] = data.draw(st.integers(0, 255))
    with contextlib.suppress(dns.exception.DNSException, ValueError):
        read(dns.message.from_wire(bytes(wire)))
