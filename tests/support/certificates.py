"""Certificates that fit, and those that don't; and the TLSA records for them."""

import datetime
import hashlib
import ssl
from collections.abc import Sequence

import trustme
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from mta.model.tls import Tlsa

LONG_AGO = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)


def issued(authority: trustme.CA, *names: str, expired: bool = False) -> trustme.LeafCert:
    return authority.issue_cert(*names, not_after=LONG_AGO if expired else None, not_before=LONG_AGO)


def chain(leaf: trustme.LeafCert, *above: trustme.CA) -> list[bytes]:
    """In DER: the leaf, what its authority gave with it, and those `above`."""
    pems = [it.bytes() for it in leaf.cert_chain_pems] + [it.cert_pem.bytes() for it in above]
    return [x509.load_pem_x509_certificate(it).public_bytes(Encoding.DER) for it in pems]


def context(leaf: trustme.LeafCert, *above: trustme.CA) -> ssl.SSLContext:
    """A server's, that sends `chain(leaf, *above)`."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pems = [leaf.private_key_pem, *leaf.cert_chain_pems, *(it.cert_pem for it in above)]
    with trustme.Blob(b"".join(it.bytes() for it in pems)).tempfile() as path:
        made.load_cert_chain(path)
    return made


def tlsa(usage: int, selector: int, matching: int, certificate: bytes) -> Tlsa:
    """The record that a certificate fits."""
    key = x509.load_der_x509_certificate(certificate).public_key()
    data = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo) if selector else certificate
    digests = {1: hashlib.sha256, 2: hashlib.sha512}
    return Tlsa(usage, selector, matching, digests[matching](data).digest() if matching else data)


def in_zone(records: Sequence[Tlsa]) -> list[str]:
    """As a name server's zone has them."""
    return [f"{it.usage} {it.selector} {it.matching} {it.data.hex()}" for it in records]
