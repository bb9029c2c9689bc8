"""The listener's certificate, from its files to what sessions begin TLS with.

Rules: what can't be used is a `ConfigError` that names the file; what will disappoint clients is a warning: it is tried
out in memory, as a client would. TLS 1.2 at least (RFC 8314 section 4.1).
"""

import os
import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mta.app.credentials import hidden, open_to_others, secret_path
from mta.config.files import read_file
from mta.config.model import Config
from mta.config.problems import ConfigError, Problem

_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_TABLE = "submission.tls"
_NOT_ASCII = "ignore"
"""Only comments beside the certificates may be that."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """`context` None: there is none."""

    context: ssl.SSLContext | None = None
    warnings: tuple[Problem, ...] = ()


def read_certificate(config: Config, environ: Mapping[str, str]) -> Certificate:
    """What [submission.tls] names, as it is now. Raises `ConfigError`."""
    given = config.submission.tls
    if given.certificate is None or given.key is None:
        return Certificate()
    certificate, key = (secret_path(name, _TABLE, environ) for name in (given.certificate, given.key))
    text = _text(certificate, "certificate")
    if not _CERTIFICATE.search(text):
        raise ConfigError(str(certificate), [Problem(f"{_TABLE}.certificate", "has no certificate: expected a PEM file")])
    _text(key, "key")
    context = _context(certificate, key)
    return Certificate(context, (*open_to_others(key, f"{_TABLE}.key"), *_refused_by_clients(context, text)))


def certificate_warnings(config: Config, environ: Mapping[str, str]) -> tuple[Problem, ...]:
    """For whoever checks a configuration: credentials are there for the service alone. Raises `ConfigError`."""
    given = config.submission.tls
    if unseen := hidden((given.certificate, given.key), environ):
        return (Problem(_TABLE, f"{' and '.join(unseen)} can only be looked at by the service, not here"),)
    return read_certificate(config, environ).warnings


def _text(path: Path, key: str) -> str:
    try:
        return read_file(path).decode("ascii", _NOT_ASCII)
    except OSError as error:
        raise ConfigError(str(path), [Problem(f"{_TABLE}.{key}", f"can't be read: {error.strerror}")]) from None


def _context(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION  # costs us far more than the client that asks for it
    try:
        context.load_cert_chain(certificate, key, _no_password)
    except ssl.SSLError as error:
        raise ConfigError(str(certificate), [_why(error, key)]) from None
    except _Encrypted:
        raise ConfigError(str(key), [Problem(f"{_TABLE}.key", "is encrypted: expected a key without a password")]) from None
    return context


class _Encrypted(Exception):
    """A password is asked for, and nobody is there to type it."""


def _no_password() -> str:
    raise _Encrypted


def _why(error: ssl.SSLError, key: Path) -> Problem:
    if error.reason == "KEY_VALUES_MISMATCH":
        return Problem(_TABLE, f"the certificate is not that of the key {key}")
    found = (error.reason or "no PEM").replace("_", " ").lower()
    return Problem(_TABLE, f"certificate and key ({key}) can't be used: {found}; expected PEM files")


def _refused_by_clients(server: ssl.SSLContext, text: str) -> Iterator[Problem]:
    """A client that trusts who signed it still looks at its dates and its purpose."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        client.load_verify_locations(cadata="\n".join(_CERTIFICATE.findall(text)))
        _shake_hands(client, server)
    except ssl.SSLCertVerificationError as error:
        yield Problem(f"{_TABLE}.certificate", f"clients will refuse it: {error.verify_message}")
    except ssl.SSLError as error:
        yield Problem(f"{_TABLE}.certificate", f"no client can begin TLS with it: {error.reason or error}")


def _shake_hands(client: ssl.SSLContext, server: ssl.SSLContext) -> None:
    """In memory. Raises what the client finds wrong."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (client.wrap_bio(down, up), server.wrap_bio(up, down, server_side=True))
    for _ in range(4):  # a handshake of TLS 1.2 has four flights
        for end in ends:
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()


def system_certificate(config: Config) -> Certificate:
    """With this process's environment. Raises `ConfigError`."""
    return read_certificate(config, os.environ)
