"""What a response means, whatever is in it."""

import contextlib
import itertools
import time
from typing import Any

import dns.exception
import dns.flags
import dns.ipv6
import dns.message
import dns.name
import dns.rcode
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.rrset
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta.dns.data import AAAA, MX, PTR, TLSA, TXT, A
from mta.dns.exchange import ANSWER_LIMIT, PAYLOAD, in_octets
from mta.dns.names import absolute_name
from mta.dns.response import CHAIN_LIMIT, Finding, Question, is_response, read
from mta.model.tls import Tlsa
from mta.ports.names import Lookup, MailExchanger

NAME = dns.name.from_text("example.test.")
NUMBER = 4711


def question(kind: int = MX, name: str = "example.test") -> Question:
    return Question(absolute_name(name), kind)


def asked(kind: int = MX, name: str = "example.test") -> dns.message.Message:
    return dns.message.from_wire(in_octets(NUMBER, question(kind, name)))


def record_set(text: str) -> dns.rrset.RRset:
    owner, ttl, rdclass, kind, data = text.split(maxsplit=4)
    return dns.rrset.from_text(owner, int(ttl), rdclass, kind, data)


def octets(*records: str, flags: int = dns.flags.RA, rcode: int = 0, authority: str = "") -> bytes:
    made = dns.message.make_response(asked())
    made.flags |= flags
    made.set_rcode(dns.rcode.Rcode(rcode))
    made.answer = [record_set(record) for record in records]
    made.authority = [record_set(authority)] if authority else []
    return made.to_wire()


def response(*records: str, **how: Any) -> Finding:
    return read(octets(*records, **how), question())


def aliases(count: int) -> list[str]:
    names = ["example.test.", *(f"a{i}.test." for i in range(count))]
    return [f"{one} 60 IN CNAME {other}" for one, other in itertools.pairwise(names)]


SOA = "test. 300 IN SOA ns.test. root.test. 1 2 3 4 77"


@pytest.mark.parametrize(
    ("found", "lookup", "ttl"),
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
def test_what_a_response_means(found: Finding, lookup: Lookup, ttl: int | None) -> None:
    assert (found.lookup, found.ttl) == (lookup, ttl)


@given(st.data())
def test_a_damaged_response_raises_nothing_but_what_it_says(data: st.DataObject) -> None:
    wire = bytearray(octets("example.test. 60 IN CNAME b.test.", "b.test. 60 IN MX 10 mx.test.", authority=SOA))
    for place in data.draw(st.lists(st.integers(2, len(wire) - 1), max_size=6)):
        wire[place] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ValueError):
        read(bytes(wire), question())


def test_the_same_text_twice_is_one() -> None:
    """Who counts records counts those of a set (RFC 2181 section 5)."""
    made = dns.message.make_response(asked(TXT))
    made.answer = [record_set(f'example.test. 60 IN TXT "{text}"') for text in ("a", "b", "a")]
    assert read(made.to_wire(), question(TXT)).records == ("a", "b")


def test_names_of_many_labels_cost_no_more_than_their_octets() -> None:
    """As many MX records of 110 labels each as an answer holds, with pointers: in dnspython's messages 5 seconds."""
    made = dns.message.make_response(asked())
    head = made.to_wire()[:12]
    said = NAME.to_wire() + b"\x00\x0f\x00\x01"

    def record(data: bytes) -> bytes:
        return b"\xc0\x0c\x00\x0f\x00\x01\x00\x00\x0e\x10" + len(data).to_bytes(2) + b"\x00\x0a" + data[2:]

    place = 12 + len(said) + 14
    records = [record(bytes(2) + b"\x01a" * 110 + b"\0")]
    pointer = (0xC000 | place).to_bytes(2)
    records += [record(bytes(2) + b"\x04%04x" % number + pointer) for number in range((ANSWER_LIMIT - 400) // 21)]
    wire = head[:2] + b"\x81\x80\x00\x01" + len(records).to_bytes(2) + bytes(4) + said + b"".join(records)
    assert len(wire) <= ANSWER_LIMIT
    start = time.process_time()
    found = read(wire, question())
    assert time.process_time() - start < 0.5
    assert (found.lookup, len(found.records)) == (Lookup.FOUND, len(records))


def test_a_chain_of_pointers_is_no_name() -> None:
    """As many as an answer holds, and as many records whose owners are at its end."""
    said = NAME.to_wire() + b"\x00\x0f\x00\x01"
    place = 12 + len(said) + 11
    chain = b"\xc0\x0c" + b"".join((0xC000 | it).to_bytes(2) for it in range(place, place + 2 * 4000, 2))
    fixed = b"\x00\x63\x00\x01" + bytes(4)  # of a type that nobody asked for
    records = [b"\0" + fixed + len(chain).to_bytes(2) + chain]
    records += [(0xC000 | place + len(chain) - 2).to_bytes(2) + fixed + bytes(2)] * 600
    wire = NUMBER.to_bytes(2) + b"\x81\x80\x00\x01" + len(records).to_bytes(2) + bytes(4) + said + b"".join(records)
    assert len(wire) <= ANSWER_LIMIT
    start = time.process_time()
    with pytest.raises(ValueError, match="too long"):
        read(wire, question())
    assert time.process_time() - start < 0.1


# ---------------------------------------------------------------- as dnspython has it
LABELS = st.binary(min_size=1, max_size=63) | st.from_regex(rb"[A-Za-z0-9_-]{1,12}", fullmatch=True)


@st.composite
def names(draw: st.DrawFn) -> dns.name.Name:
    labels = draw(st.lists(LABELS, max_size=5))
    while sum(map(len, labels)) + len(labels) > 254:
        labels.pop()
    return dns.name.Name([*labels, b""])


def text_of(name: dns.name.Name) -> str:
    return "" if name == dns.name.root else name.canonicalize().to_text(omit_final_dot=True)


OCTET = st.integers(0, 255)
DIGESTS = {1: 32, 2: 64}
"""Octets by matching type (RFC 6698 section 2.1.3); dnspython takes no others."""
DATA: dict[int, st.SearchStrategy[Any]] = {
    A: st.ip_addresses(v=4).map(str),
    AAAA: st.ip_addresses(v=6).map(lambda it: dns.ipv6.inet_ntoa(it.packed)),
    MX: st.builds(lambda number, name: (number, name), st.integers(0, 65535), names()),
    PTR: names(),
    TXT: st.lists(st.binary(max_size=255), min_size=1, max_size=3),
    TLSA: st.builds(
        lambda *of, data: (*of, data[: DIGESTS.get(of[2])]), OCTET, OCTET, OCTET, data=st.binary(min_size=64, max_size=70)
    ),
}


def as_theirs(kind: int, data: Any) -> dns.rdata.Rdata:
    values = data if kind in (MX, TLSA) else (data,)
    made = dns.rdata.get_rdata_class(dns.rdataclass.IN, dns.rdatatype.RdataType(kind))
    return made(dns.rdataclass.IN, dns.rdatatype.RdataType(kind), *values)  # type: ignore[no-any-return]


def as_ours(kind: int, data: Any) -> Any:
    match kind:
        case 15:
            return MailExchanger(data[0], text_of(data[1]))
        case 12:
            return text_of(data)
        case 16:
            return b"".join(data).decode("utf-8", "backslashreplace")
        case 52:
            return Tlsa(*data)
    return data


@given(st.sampled_from([MX, A, AAAA, TXT, TLSA, PTR]), st.integers(0, 65535))
def test_a_question_is_dnspython_s(kind: int, number: int) -> None:
    query = dns.message.make_query(NAME, dns.rdatatype.RdataType(kind), use_edns=0, payload=PAYLOAD, id=number)
    query.flags |= dns.flags.AD
    assert in_octets(number, question(kind)) == query.to_wire()


@given(st.data(), st.sampled_from([MX, A, AAAA, TXT, TLSA, PTR]))
def test_the_data_of_records_are_dnspython_s(data: st.DataObject, kind: int) -> None:
    """Names among them, with its pointers."""
    given_data = data.draw(st.lists(DATA[kind], min_size=1, max_size=4))
    made = dns.message.make_response(asked(kind))
    made.answer = [dns.rrset.from_rdata(NAME, 60, as_theirs(kind, it)) for it in given_data]
    found = read(made.to_wire(), question(kind))
    assert found.records == tuple(dict.fromkeys(as_ours(kind, it) for it in given_data))


@given(st.data())
def test_what_dnspython_can_read_can_be_read(data: st.DataObject) -> None:
    """And is a response to the question where it says so."""
    wire = bytearray(octets("example.test. 60 IN CNAME b.test.", "b.test. 60 IN MX 10 mx.test.", authority=SOA))
    for place in data.draw(st.lists(st.integers(0, len(wire) - 1), max_size=2)):
        wire[place] = data.draw(OCTET | st.sampled_from([0, 1, 192]))
    try:
        theirs = dns.message.from_wire(bytes(wire))
    except (dns.exception.DNSException, ValueError):
        return
    answers = asked().is_response(theirs)  # type: ignore[no-untyped-call]
    assert is_response(bytes(wire), NUMBER, question()) is answers
    if answers:
        read(bytes(wire), question())


def test_a_question_in_another_case_is_the_same() -> None:
    made = dns.message.make_response(asked())
    wire = made.to_wire()
    assert is_response(wire.replace(b"example", b"eXaMPle"), NUMBER, question())
    assert not is_response(wire.replace(b"example", b"exbmple"), NUMBER, question())
    assert not is_response(wire, NUMBER + 1, question())
    assert not is_response(wire[:20], NUMBER, question())
    assert not is_response(in_octets(NUMBER, question()), NUMBER, question())
