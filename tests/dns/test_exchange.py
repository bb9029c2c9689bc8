"""What a response means, whatever is in it."""

import contextlib
import itertools
import time
from typing import Any

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

from mta.dns.exchange import ANSWER_LIMIT, make_question
from mta.dns.response import CHAIN_LIMIT, Response, parse, read
from mta.ports.names import Lookup

NAME = dns.name.from_text("example.test.")


def record_set(text: str) -> dns.rrset.RRset:
    owner, ttl, rdclass, kind, data = text.split(maxsplit=4)
    return dns.rrset.from_text(owner, int(ttl), rdclass, kind, data)


def octets(*records: str, flags: int = dns.flags.RA, rcode: int = 0, authority: str = "") -> bytes:
    made = dns.message.make_response(make_question(NAME, dns.rdatatype.MX))
    made.flags |= flags
    made.set_rcode(dns.rcode.Rcode(rcode))
    made.answer = [record_set(record) for record in records]
    made.authority = [record_set(authority)] if authority else []
    return made.to_wire()


def response(*records: str, **how: Any) -> Response:
    return parse(octets(*records, **how))


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
        *((response(rcode=rcode), Lookup.TROUBLE, None) for rcode in (1, 2, 4, 5, 6, 9, 16, 23)),
        (response("example.test. 60 IN MX 10 mx.test.", rcode=3), Lookup.TROUBLE, None),
        (response("example.test. 60 CH MX 10 mx.test."), Lookup.NODATA, None),
        (response("example.test. 60 IN MX 10 mx.test.", "example.test. 30 IN MX 20 mx2.test."), Lookup.FOUND, 30),
        (response(flags=0, authority="example.test. 60 IN NS ns.test."), Lookup.TROUBLE, None),
        (response(flags=dns.flags.RA | dns.flags.TC), Lookup.TROUBLE, None),
        (response(*aliases(CHAIN_LIMIT), f"a{CHAIN_LIMIT - 1}.test. 60 IN MX 1 mx.test."), Lookup.FOUND, 60),
        (response(*aliases(CHAIN_LIMIT + 1), f"a{CHAIN_LIMIT}.test. 60 IN MX 1 mx.test."), Lookup.TROUBLE, None),
    ],
)
def test_what_a_response_means(made: Response, lookup: Lookup, ttl: int | None) -> None:
    found = read(made)
    assert (found.lookup, found.ttl) == (lookup, ttl)


@given(st.data())
def test_a_damaged_response_raises_nothing_else_than_the_library_s_own_errors(data: st.DataObject) -> None:
    wire = bytearray(octets("example.test. 60 IN CNAME b.test.", "b.test. 60 IN MX 10 mx.test.", authority=SOA))
    for place in data.draw(st.lists(st.integers(2, len(wire) - 1), max_size=6)):
        wire[place] = data.draw(st.integers(0, 255))
    with contextlib.suppress(dns.exception.DNSException, ValueError):
        read(parse(bytes(wire)))


def test_the_same_text_twice_is_one() -> None:
    """Who counts records counts those of a set (RFC 2181 section 5)."""
    made = dns.message.make_response(make_question(NAME, dns.rdatatype.TXT))
    made.answer = [record_set(f'example.test. 60 IN TXT "{text}"') for text in ("a", "b", "a")]
    assert len(read(parse(made.to_wire())).records) == 2


def test_names_of_many_labels_cost_no_more_than_their_octets() -> None:
    """As many MX records of 110 labels each as an answer holds, with pointers: in dnspython's messages 5 seconds."""
    made = dns.message.make_response(make_question(NAME, dns.rdatatype.MX))
    head = made.to_wire()[:12]
    question = NAME.to_wire() + b"\x00\x0f\x00\x01"

    def record(data: bytes) -> bytes:
        return b"\xc0\x0c\x00\x0f\x00\x01\x00\x00\x0e\x10" + len(data).to_bytes(2) + b"\x00\x0a" + data[2:]

    place = 12 + len(question) + 14
    records = [record(bytes(2) + b"\x01a" * 110 + b"\0")]
    pointer = (0xC000 | place).to_bytes(2)
    records += [record(bytes(2) + b"\x04%04x" % number + pointer) for number in range((ANSWER_LIMIT - 400) // 21)]
    wire = head[:2] + b"\x81\x80\x00\x01" + len(records).to_bytes(2) + bytes(4) + question + b"".join(records)
    assert len(wire) <= ANSWER_LIMIT
    start = time.process_time()
    found = read(parse(wire))
    assert time.process_time() - start < 0.5
    assert (found.lookup, len(found.records)) == (Lookup.FOUND, len(records))
