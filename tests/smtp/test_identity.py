"""A server's chain against names and DANE records: TLS-04, RFC 7671 section 5, RFC 7672 section 3, RFC 9525 section 6.3."""

import time

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from mta.model.tls import OPPORTUNISTIC, Tlsa, TlsDemand, TlsPolicy, TlsResult
from mta.smtp.identity import Unproven, key_of, verify
from tests.support.certificates import LONG_AGO, chain, issued, tlsa

HOST = "mx.example.test"
KINDS = [(selector, matching) for selector in (0, 1) for matching in (0, 1, 2)]
ROOT = trustme.CA()
BELOW = ROOT.create_child_ca()


def dane(*records: Tlsa, names: tuple[str, ...] = (HOST,)) -> TlsDemand:
    return TlsDemand(TlsPolicy.DANE, required=True, names=names, records=records, server_name=HOST)


def unproven(demand: TlsDemand, sent: list[bytes]) -> TlsResult:
    with pytest.raises(Unproven) as caught:
        verify(demand, sent)
    assert str(caught.value)
    return caught.value.result


# ---------------------------------------------------------------- DANE-EE
@pytest.mark.parametrize(("selector", "matching"), KINDS)
def test_tls_04_dane_ee_in_each_form_name_and_expiry_ignored(selector: int, matching: int) -> None:
    sent = chain(issued(trustme.CA(), "another.example", expired=True))
    assert verify(dane(tlsa(3, selector, matching, sent[0])), sent) == "dane"


@pytest.mark.parametrize(("selector", "matching"), KINDS)
def test_dane_ee_of_another_certificate(selector: int, matching: int) -> None:
    other = chain(issued(ROOT, HOST))[0]
    assert unproven(dane(tlsa(3, selector, matching, other)), chain(issued(ROOT, HOST))) is TlsResult.VALIDATION_FAILURE


def test_one_of_several_records_is_enough() -> None:
    """A key is changed without a gap (RFC 7671 section 8.1)."""
    sent, other = chain(issued(ROOT, HOST)), chain(issued(ROOT, HOST))
    assert verify(dane(tlsa(3, 1, 1, other[0]), tlsa(2, 0, 1, other[0]), tlsa(3, 1, 2, sent[0])), sent) == "dane"


@pytest.mark.parametrize("algorithm", ["RSA", "ECDSA"])
def test_the_key_is_found_octet_for_octet(algorithm: str) -> None:
    leaf = ROOT.issue_cert(HOST, key_type=trustme.KeyType[algorithm])
    sent = chain(leaf)[0]
    assert key_of(sent) == tlsa(3, 1, 0, sent).data


@pytest.mark.parametrize("cut", [0, 1, 3, 4, 40, 200])
def test_a_certificate_that_is_cut_short_is_no_crash(cut: int) -> None:
    sent = chain(issued(ROOT, HOST))
    assert unproven(dane(tlsa(3, 1, 1, sent[0])), [sent[0][:cut]]) is TlsResult.VALIDATION_FAILURE
    assert unproven(TlsDemand(names=(HOST,)), [sent[0][:cut]]) is TlsResult.VALIDATION_FAILURE


def test_a_certificate_of_no_known_version_is_no_crash() -> None:
    sent = chain(issued(ROOT, HOST), ROOT)
    strange = sent[0].replace(b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x09", 1)
    assert strange != sent[0]
    assert unproven(TlsDemand(names=(HOST,)), [strange]) is TlsResult.VALIDATION_FAILURE
    assert unproven(dane(tlsa(2, 1, 1, sent[1])), [strange, sent[1]]) is TlsResult.VALIDATION_FAILURE
    assert verify(dane(Tlsa(3, 0, 0, strange)), [strange]) == "dane"


def test_a_name_that_no_certificate_can_be_for_does_not_spoil_the_others() -> None:
    sent = chain(issued(ROOT, HOST), ROOT)
    assert verify(dane(tlsa(2, 1, 1, sent[1]), names=("mx_1.example.test", HOST)), sent) == "dane"


# ---------------------------------------------------------------- DANE-TA
@pytest.mark.parametrize(("selector", "matching"), KINDS)
def test_tls_04_dane_ta_in_each_form(selector: int, matching: int) -> None:
    sent = chain(issued(ROOT, HOST), ROOT)
    assert verify(dane(tlsa(2, selector, matching, sent[1])), sent) == "dane"


def test_dane_ta_that_is_an_intermediate_or_above_one() -> None:
    leaf = issued(BELOW, HOST)
    sent = chain(leaf)
    assert len(sent) == 2
    assert verify(dane(tlsa(2, 1, 1, sent[1])), sent) == "dane"
    whole = chain(leaf, ROOT)
    assert verify(dane(tlsa(2, 0, 1, whole[2])), whole) == "dane"


def test_dane_ta_that_is_whole_in_the_record_need_not_be_sent() -> None:
    (root,) = chain(issued(ROOT, HOST), ROOT)[1:]
    assert verify(dane(tlsa(2, 0, 0, root)), chain(issued(ROOT, HOST))) == "dane"


def test_dane_ta_that_is_not_sent() -> None:
    (root,) = chain(issued(ROOT, HOST), ROOT)[1:]
    assert unproven(dane(tlsa(2, 0, 1, root)), chain(issued(ROOT, HOST))) is TlsResult.VALIDATION_FAILURE


def test_tls_04_dane_ta_wants_the_name() -> None:
    """Any of the reference names: the TLSA base domain, or the next hop (RFC 7672 section 3.2.3)."""
    sent = chain(issued(ROOT, "example.test"), ROOT)
    record = tlsa(2, 1, 1, sent[1])
    assert verify(dane(record, names=(HOST, "example.test")), sent) == "dane"
    assert unproven(dane(record), sent) is TlsResult.VALIDATION_FAILURE


def test_dane_ta_wants_a_certificate_that_has_not_expired() -> None:
    sent = chain(issued(ROOT, HOST, expired=True), ROOT)
    assert unproven(dane(tlsa(2, 1, 1, sent[1])), sent) is TlsResult.VALIDATION_FAILURE


def test_dane_ta_is_no_authority_for_what_another_has_signed() -> None:
    """The record's certificate is in the chain, and the leaf is not below it."""
    sent = [*chain(issued(trustme.CA(), HOST)), *chain(issued(ROOT, HOST), ROOT)[1:]]
    assert unproven(dane(tlsa(2, 1, 1, sent[1])), sent) is TlsResult.VALIDATION_FAILURE


def test_a_leaf_is_no_authority() -> None:
    """Nobody below the authority can make certificates of its own."""
    signer = issued(ROOT, "evil.example")
    signer_key = serialization.load_pem_private_key(signer.private_key_pem.bytes(), None)
    template = x509.load_der_x509_certificate(chain(issued(ROOT, HOST))[0])
    forged = (
        x509.CertificateBuilder(extensions=list(template.extensions))
        .subject_name(template.subject)
        .issuer_name(x509.load_der_x509_certificate(chain(signer)[0]).subject)
        .public_key(template.public_key())
        .serial_number(1)
        .not_valid_before(template.not_valid_before_utc)
        .not_valid_after(template.not_valid_after_utc)
        .sign(signer_key, hashes.SHA256())
    )
    sent = [forged.public_bytes(serialization.Encoding.DER), *chain(signer, ROOT)]
    for anchor in sent[1:]:
        assert unproven(dane(tlsa(2, 1, 1, anchor)), sent) is TlsResult.VALIDATION_FAILURE


# ---------------------------------------------------------------- names
@pytest.mark.parametrize(
    ("wanted", "names", "fits"),
    [
        ("mx.example.test", ("mx.example.test",), True),
        ("MX.Example.Test", ("mx.example.test",), True),
        ("mx.example.test", ("other.test", "*.example.test"), True),
        ("a.mx.example.test", ("*.example.test",), False),
        ("example.test", ("*.example.test",), False),
        ("mx.example.test", ("mx.example.test.evil.example",), False),
        ("mx.example.test", ("example.test",), False),
        ("*.example.test", ("mx.example.test",), True),
        ("*.example.test", ("a.mx.example.test",), False),
        ("*.example.test", ("*.example.test",), True),
        ("192.0.2.1", ("192.0.2.1",), True),
        ("[192.0.2.1]", ("192.0.2.1",), True),
        ("[IPv6:2001:db8::1]", ("2001:db8:0:0::1",), True),
        ("192.0.2.1", ("192.0.2.2",), False),
    ],
)
def test_names(wanted: str, names: tuple[str, ...], fits: bool) -> None:
    sent = chain(issued(ROOT, *names))
    if fits:
        assert verify(TlsDemand(names=(wanted,)), sent) == "pkix"
    else:
        assert unproven(TlsDemand(names=(wanted,)), sent) is TlsResult.CERTIFICATE_HOST_MISMATCH


def test_the_common_name_is_no_name() -> None:
    sent = chain(ROOT.issue_cert("other.test", common_name=HOST))
    assert unproven(TlsDemand(names=(HOST,)), sent) is TlsResult.CERTIFICATE_HOST_MISMATCH


def test_where_nothing_is_asked_nothing_is_looked_at() -> None:
    assert verify(OPPORTUNISTIC, []) == ""
    assert unproven(TlsDemand(names=(HOST,)), []) is TlsResult.CERTIFICATE_NOT_TRUSTED


# ---------------------------------------------------------------- hostile servers
def looping(intermediates: int) -> list[bytes]:
    """A leaf below authorities that all have signed each other, and one that has nothing to do with them."""
    key = ec.generate_private_key(ec.SECP256R1())
    loop = [_certificate("N", "N", key, number) for number in range(1, intermediates + 1)]
    return [_certificate(HOST, "N", key, 100), *loop, *chain(issued(ROOT, HOST), ROOT)[1:]]


def _certificate(subject: str, issuer: str, key: ec.EllipticCurvePrivateKey, number: int) -> bytes:
    names = [x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, it)]) for it in (subject, issuer)]
    is_leaf = subject != issuer
    made = (
        x509.CertificateBuilder(names[1], names[0], key.public_key(), number, LONG_AGO, LONG_AGO.replace(year=2090))
        .add_extension(x509.BasicConstraints(ca=not is_leaf, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.DER)


def test_a_chain_with_no_end_of_ways_is_not_gone_through() -> None:
    """Each of 7 may be followed by each, up to the longest chain that is looked at: that would be hours."""
    sent = looping(7)
    assert unproven(dane(tlsa(2, 0, 1, sent[-1]), names=(HOST, "example.test")), sent) is TlsResult.VALIDATION_FAILURE


def test_as_many_authorities_as_an_answer_holds_cost_what_one_does() -> None:
    sent, names = looping(7), (HOST, "example.test", "other.test")
    many = [tlsa(2, 0, 0, chain(issued(trustme.CA(), HOST), trustme.CA())[1]) for _ in range(100)]

    def spent(*records: Tlsa) -> float:
        start = time.process_time()
        assert unproven(dane(*records, names=names), sent) is TlsResult.VALIDATION_FAILURE
        return time.process_time() - start

    assert spent(*many) < 10 * spent(many[0])


def test_thousands_of_records_cost_one_digest() -> None:
    """64 KiB of records, of a certificate of 90 KB."""
    sent = [b"\x30" * 90_000]
    start = time.process_time()
    assert unproven(dane(*(Tlsa(3, 0, 2, number.to_bytes(64)) for number in range(800))), sent)
    assert time.process_time() - start < 0.05


def test_an_authority_that_can_not_be_read_does_not_spoil_the_others() -> None:
    sent = chain(issued(ROOT, HOST), ROOT)
    assert verify(dane(Tlsa(2, 0, 0, b"no certificate"), tlsa(2, 1, 1, sent[1])), sent) == "dane"
    assert verify(dane(Tlsa(2, 0, 0, b"no certificate"), tlsa(2, 0, 0, sent[1])), sent[:1]) == "dane"
