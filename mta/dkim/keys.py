"""DKIM keys: private ones from PEM, what they sign, and the records that publish their public part.

Rules: RSA of 2048 to 4096 bits, Ed25519, nothing else; SHA-256 always. Signers must not use less than 1024 bits and should
use 2048 (RFC 8301 section 3.2), verifiers need not take more than 4096; we hold to what all of them take. No text says
anything of a key but its kind and length. RFC 6376 sections 3.3 and 3.6.1; RFC 8463 sections 3 and 4.
"""

import hashlib
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key

KeyType = Literal["rsa", "ed25519"]
SHORTEST, LONGEST = 2048, 4096
"""Bits of an RSA key."""
_STRING = 255
"""Octets of one string of a TXT record (RFC 1035 section 3.3)."""
_EXPECTED = "expected a private key in PEM, RSA or Ed25519"


class BadKey(ValueError):
    """Octets that are no key of ours; the text says why, and nothing of them."""


@dataclass(frozen=True, slots=True)
class Key:
    """`name` is "domain/selector" (`ports.system.Signer`); `public` as it stands in `p=`."""

    name: str
    type: KeyType
    public: str
    sign: Callable[[bytes], bytes] = field(repr=False)

    @property
    def algorithm(self) -> str:
        return f"{self.type}-sha256"

    @property
    def owner(self) -> str:
        """The name of the record that publishes it (RFC 6376 section 3.6.2.1)."""
        domain, _, selector = self.name.partition("/")
        return f"{selector}._domainkey.{domain}"

    @property
    def record(self) -> str:
        """What that record says."""
        return f"v=DKIM1; k={self.type}; p={self.public}"

    @property
    def zone_line(self) -> str:
        """The record as a line of a zone file."""
        strings = (self.record[start : start + _STRING] for start in range(0, len(self.record), _STRING))
        return " ".join((f"{self.owner}.", "IN TXT", *(f'"{it}"' for it in strings)))


def read_key(name: str, pem: bytes) -> Key:
    """Raises `BadKey`."""
    if not pem.strip():
        raise BadKey(f"is empty: {_EXPECTED}")
    try:
        found = serialization.load_pem_private_key(pem, None)
    except TypeError:
        raise BadKey("is encrypted: expected a key without a password") from None
    except (ValueError, UnsupportedAlgorithm):
        is_public = b"PUBLIC KEY-----" in pem or b"BEGIN CERTIFICATE-----" in pem
        raise BadKey(f"is public: {_EXPECTED}" if is_public else f"is no key: {_EXPECTED}") from None
    if isinstance(found, RSAPrivateKey):
        return _rsa(name, found)
    if isinstance(found, Ed25519PrivateKey):
        return _ed25519(name, found)
    raise BadKey(f"is of a kind that DKIM does not know: {_EXPECTED}")


def new_key(type: KeyType) -> bytes:
    """A private key in PEM."""
    made = generate_private_key(65537, SHORTEST) if type == "rsa" else Ed25519PrivateKey.generate()
    return made.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _rsa(name: str, key: RSAPrivateKey) -> Key:
    if not SHORTEST <= key.key_size <= LONGEST:
        raise BadKey(f"has {key.key_size} bits: expected {SHORTEST} to {LONGEST} (RFC 8301 section 3.2)")
    public = key.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    way, digest = padding.PKCS1v15(), hashes.SHA256()
    return Key(name, "rsa", b64encode(public).decode("ascii"), lambda data: key.sign(data, way, digest))


def _ed25519(name: str, key: Ed25519PrivateKey) -> Key:
    """Of the digest, not of the octets themselves (RFC 8463 section 3)."""
    public = key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return Key(name, "ed25519", b64encode(public).decode("ascii"), lambda data: key.sign(hashlib.sha256(data).digest()))
