"""TLS for tests: a throw-away authority, a server's context, and a client inside TLS."""

import ssl
from functools import cache
from pathlib import Path

import trustme

NAME = "mail.out.test"


@cache
def authority() -> trustme.CA:
    return trustme.CA()


@cache
def server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority().issue_cert(NAME).configure_cert(context)
    return context


@cache
def issued_to(*names: str) -> ssl.SSLContext:
    """A server's TLS, with these names or addresses."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority().issue_cert(*names).configure_cert(context)
    return context


def trust_file(folder: Path) -> Path:
    """What SSL_CERT_FILE has to name for a program that is to trust the authority."""
    path = folder / "authority.pem"
    authority().cert_pem.write_to_path(path)
    return path


def client_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority().configure_trust(context)
    return context


def files(folder: Path) -> tuple[Path, Path]:
    """A certificate and its key."""
    issued = authority().issue_cert(NAME)
    certificate, key = folder / "cert.pem", folder / "key.pem"
    certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    key.touch(0o600)
    key.write_bytes(issued.private_key_pem.bytes())
    return certificate, key
