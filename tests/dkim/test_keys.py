"""Which keys are taken, and what is published of them."""

import re
from base64 import b64decode

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from mta.dkim.keys import BadKey, new_key, read_key

CLOSED = serialization.BestAvailableEncryption(b"secret")


def rsa_key(bits: int, form: PrivateFormat = PrivateFormat.PKCS8) -> bytes:
    return rsa.generate_private_key(65537, bits).private_bytes(Encoding.PEM, form, NoEncryption())


def why(pem: bytes) -> str:
    with pytest.raises(BadKey) as caught:
        read_key("example.com/2026", pem)
    return str(caught.value)


def test_both_forms_of_rsa_and_ed25519_are_taken() -> None:
    for pem in (rsa_key(2048), rsa_key(2048, PrivateFormat.TraditionalOpenSSL), new_key("rsa")):
        assert read_key("example.com/2026", pem).algorithm == "rsa-sha256"
    assert read_key("example.com/2026", new_key("ed25519")).algorithm == "ed25519-sha256"


@pytest.mark.parametrize("bits", [1024, 2047, 4160])
def test_nbr03_rsa_of_another_length_is_refused(bits: int) -> None:
    assert why(rsa_key(bits)) == f"has {bits} bits: expected 2048 to 4096 (RFC 8301 section 3.2)"


def test_b43_what_is_no_private_key_is_named() -> None:
    public = Ed25519PrivateKey.generate().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    assert why(b"") == why(b" \n") == "is empty: expected a private key in PEM, RSA or Ed25519"
    assert why(public) == "is public: expected a private key in PEM, RSA or Ed25519"
    assert why(new_key("rsa")[:500]).startswith("is no key") and why(b"\xff\0").startswith("is no key")
    curve = ec.generate_private_key(ec.SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    assert why(curve).startswith("is of a kind that DKIM does not know")
    locked = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, CLOSED)
    assert why(locked) == "is encrypted: expected a key without a password"


def test_b43_neither_a_key_nor_an_error_shows_it() -> None:
    pem = new_key("rsa")
    secret = pem.split(b"\n")[1].decode()
    assert secret not in repr(read_key("example.com/2026", pem))
    assert secret not in why(pem[:-200])


def test_nbr04_the_record_is_a_line_of_strings_of_at_most_255_octets() -> None:
    key = read_key("example.com/2026", new_key("rsa"))
    line = key.zone_line
    assert line.startswith('2026._domainkey.example.com. IN TXT "v=DKIM1; k=rsa; p=') and "\n" not in line
    strings = re.findall(r'"([^"]*)"', line)
    assert "".join(strings) == key.record and max(map(len, strings)) <= 255
    short = read_key("example.com/2026ed", new_key("ed25519"))
    assert re.fullmatch(r"v=DKIM1; k=ed25519; p=[A-Za-z0-9+/]{43}=", short.record)
    assert len(b64decode(short.public)) == 32
