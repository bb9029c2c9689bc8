"""Whether a server is who it has to be: its certificate against names and DANE records (RFC 6698 section 2.1, RFC 7671
section 5, RFC 7672 section 3, RFC 9525 section 6.3).

Rules: DANE-EE looks at the certificate, or its key, alone: name and dates say nothing (RFC 7672 section 3.1.1). DANE-TA
makes one certificate of the server's chain the authority, under which chain, dates and name are to be right (section
3.1.2). A name stands in the subject alternative names or nowhere; "*" is one whole leftmost label.
"""

import hashlib
import ipaddress
import ssl
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from cryptography import x509
from cryptography.x509.verification import Criticality, ExtensionPolicy, PolicyBuilder, Store, VerificationError

from mta.model.tls import Tlsa, TlsDemand, TlsResult

_TA, _EE = 2, 3
_SEQUENCE, _VERSION = 0x30, 0xA0
_DIGESTS = {1: hashlib.sha256, 2: hashlib.sha512}
_CHAIN_LIMIT = 10
"""Certificates of a chain that are looked at."""


class Unproven(Exception):
    """The server has not proved who it is; `result` is why in the words of RFC 8460, the text in ours."""

    def __init__(self, result: TlsResult, text: str) -> None:
        super().__init__(text)
        self.result = result


def chain_of(connection: ssl.SSLObject) -> list[bytes]:
    """The certificates that the server sent, its own first, in DER. Before Python 3.13 the standard library has them
    behind a private name alone; without it there is the server's own."""
    own = connection.getpeercert(True)
    if own is None:
        return []
    inner = getattr(connection, "_sslobj", None)
    found = getattr(connection, "get_unverified_chain", None) or getattr(inner, "get_unverified_chain", None)
    if found is None:
        return [own]
    chain = [it if isinstance(it, bytes) else ssl.PEM_cert_to_DER_cert(it.public_bytes()) for it in found() or ()]
    return chain[:_CHAIN_LIMIT] or [own]


def verify(demand: TlsDemand, chain: Sequence[bytes]) -> str:
    """How a server that sent `chain` has proved what `demand` asks: "dane", "pkix", or "" where nothing is asked. Its chain
    up to the system's authorities was verified in the handshake, where that is asked. Raises `Unproven`."""
    if not demand.verified:
        return ""
    if not chain:
        raise Unproven(TlsResult.CERTIFICATE_NOT_TRUSTED, "the server sent no certificate")
    try:
        return _by_dane(demand, chain) if demand.records else _by_name(demand.names, chain[0])
    except Unproven:
        raise
    except Exception as error:  # of a stranger's making; readers of certificates have many words for what they can't read
        raise Unproven(TlsResult.VALIDATION_FAILURE, f"the certificate can't be read: {error}") from None


# ---------------------------------------------------------------- names
def _by_name(names: Iterable[str], certificate: bytes) -> str:
    presented = list(_presented(x509.load_der_x509_certificate(certificate)))
    if any(_fits(name, it) for name in names for it in presented):
        return "pkix"
    shown = ", ".join(presented[:5]) or "no name"
    raise Unproven(TlsResult.CERTIFICATE_HOST_MISMATCH, f"the certificate is for {shown}, not for {' or '.join(names)}")


def _presented(certificate: x509.Certificate) -> Iterator[str]:
    """Domain names in lower case; IP addresses in brackets, as in an address literal."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return
    yield from (name.lower() for name in names.get_values_for_type(x509.DNSName))
    yield from (_literal(str(address)) for address in names.get_values_for_type(x509.IPAddress))


def _literal(text: str) -> str:
    """`text`, or where it is an IP address or a literal, the one form of it."""
    bare = text.strip("[]")
    try:
        return f"[{ipaddress.ip_address(bare[5:] if bare[:5].lower() == 'ipv6:' else bare)}]"
    except ValueError:
        return text.lower()


def _fits(wanted: str, presented: str) -> bool:
    """Either may have one "*" for its leftmost label, both at once only where they are the same."""
    wanted = _literal(wanted).rstrip(".")
    if wanted == presented:
        return True
    label, _, parent = presented.partition(".")
    first, _, rest = wanted.partition(".")
    if "[" in wanted or not parent or parent != rest:
        return False
    return (label == "*" and "*" not in first) or (first == "*" and "*" not in label)


# ---------------------------------------------------------------- DANE
def _by_dane(demand: TlsDemand, chain: Sequence[bytes]) -> str:
    if _fits_one(chain[0], [record for record in demand.records if record.usage == _EE]):
        return "dane"
    anchors = list(_anchors([record for record in demand.records if record.usage == _TA], chain[1:]))
    if not anchors:
        raise Unproven(TlsResult.VALIDATION_FAILURE, "no DANE record fits the certificate")
    try:
        _verify_below(anchors, chain, demand.names)
    except VerificationError as error:
        why = f"not valid under the authority of the DANE records: {error}"
        raise Unproven(TlsResult.VALIDATION_FAILURE, why) from None
    return "dane"


def _fits_one(certificate: bytes, records: Sequence[Tlsa]) -> bool:
    """Each form of the certificate is made once: there may be thousands of records."""
    kinds = {(record.selector, record.matching) for record in records}
    forms = {kind: _form(certificate, *kind) for kind in kinds}
    return any(forms[record.selector, record.matching] == record.data for record in records)


def _form(certificate: bytes, selector: int, matching: int) -> bytes:
    subject = key_of(certificate) if selector else certificate
    digest = _DIGESTS.get(matching)
    return digest(subject).digest() if digest else subject


def _anchors(records: Sequence[Tlsa], above: Sequence[bytes]) -> Iterator[x509.Certificate]:
    """The authorities that the records name: of those that the server sent, or whole in a record. One that can't be read is
    none, and does not spoil the others."""
    whole = [record.data for record in records if record.selector == record.matching == 0]
    found = [it for it in above if _fits_one(it, records)]
    for one in dict.fromkeys((*found, *whole)):
        with suppress(ValueError):
            yield x509.load_der_x509_certificate(one)


def _verify_below(anchors: list[x509.Certificate], chain: Sequence[bytes], names: Sequence[str]) -> None:
    """Under any of them, all at once: how many ways there are is the server's choice, how many are tried is the library's.
    Raises `VerificationError`. A private authority need not have what browsers want of a public one."""
    leaf, *above = map(x509.load_der_x509_certificate, chain)
    own = ExtensionPolicy.permit_all().require_present(x509.SubjectAlternativeName, Criticality.AGNOSTIC, None)
    issuer = ExtensionPolicy.permit_all().require_present(x509.BasicConstraints, Criticality.AGNOSTIC, None)
    policy = PolicyBuilder().store(Store(anchors)).extension_policies(ca_policy=issuer, ee_policy=own)
    failure = VerificationError("it has no name to be verified")
    for name in names:
        try:
            policy.build_server_verifier(x509.DNSName(name)).verify(leaf, above)
            return
        except (VerificationError, ValueError) as error:  # ValueError: no certificate can be for such a name
            failure = VerificationError(str(error))
    raise failure


def key_of(certificate: bytes) -> bytes:
    """The SubjectPublicKeyInfo of a certificate, octet for octet as it stands there (RFC 5280 section 4.1). Raises
    `ValueError`."""
    _, body, _ = _element(certificate, 0)
    _, at, _ = _element(certificate, body)
    tag, _, end = _element(certificate, at)
    at = end if tag == _VERSION else at
    for _ in range(5):  # serial number, signature, issuer, validity, subject
        _, _, at = _element(certificate, at)
    tag, _, end = _element(certificate, at)
    if tag != _SEQUENCE:
        raise ValueError("no public key where it should be")
    return certificate[at:end]


def _element(data: bytes, at: int) -> tuple[int, int, int]:
    """Of the DER element that begins at `at`: its tag, where its content begins, where it ends. Raises `ValueError`."""
    if at + 2 > len(data):
        raise ValueError("cut short")
    tag, length, begin = data[at], data[at + 1], at + 2
    if length & 0x80:
        count = length & 0x7F
        length, begin = int.from_bytes(data[begin : begin + count], "big"), begin + count
    if begin + length > len(data):
        raise ValueError("cut short")
    return tag, begin, begin + length
