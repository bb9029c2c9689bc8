"""What a handshake is begun with, for each kind of demand (RFC 7435, RFC 8461 section 4.2, RFC 8446, RFC 8996, RFC
9325).

Rules: a context is shared by all sessions with the same kind of demand; the chain is verified by OpenSSL in the handshake,
and the name if there is one; several names, patterns and DANE records by `identity` behind it.
"""

import ssl
from collections.abc import Callable
from functools import cached_property

from mta.client_tls import client_context
from mta.model.tls import TlsDemand, TlsResult

_RESULTS = {
    10: TlsResult.CERTIFICATE_EXPIRED,
    62: TlsResult.CERTIFICATE_HOST_MISMATCH,
    64: TlsResult.CERTIFICATE_HOST_MISMATCH,
}
"""By OpenSSL's X509_V_ERR; all others are a matter of trust."""

Trust = Callable[[ssl.SSLContext], object]
"""Gives a context its authorities."""


class Contexts:
    """`trust`: whom a certificate that is to be verified has to be from; the system's authorities without it."""

    def __init__(self, trust: Trust = ssl.SSLContext.load_default_certs) -> None:
        self._trust = trust

    def of(self, demand: TlsDemand) -> ssl.SSLContext:
        if demand.records or not demand.names:
            return self._unverified
        return self._named if _is_one_name(demand) else self._verifying

    @cached_property
    def _unverified(self) -> ssl.SSLContext:
        """Encrypts, trusts anyone."""
        context = client_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context

    @cached_property
    def _verifying(self) -> ssl.SSLContext:
        """For whatever name."""
        context = self._trusting_few()
        context.check_hostname = False
        return context

    @cached_property
    def _named(self) -> ssl.SSLContext:
        """For the name that is asked for."""
        return self._trusting_few()

    def _trusting_few(self) -> ssl.SSLContext:
        context = client_context()
        context.hostname_checks_common_name = False
        self._trust(context)
        return context


def _is_one_name(demand: TlsDemand) -> bool:
    """Whether the name that the certificate is to be for is the one that the handshake asks for."""
    return len(demand.names) == 1 and "*" not in demand.names[0] and demand.server_name in ("", *demand.names)


def failure(error: Exception | None) -> TlsResult | None:
    """What was wrong with a certificate, None where the handshake failed for another reason."""
    if not isinstance(error, ssl.SSLCertVerificationError):
        return None
    return _RESULTS.get(error.verify_code, TlsResult.CERTIFICATE_NOT_TRUSTED)


def reason(error: Exception | None) -> str:
    """Why a handshake has failed, "" where nothing says so."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is not valid: {error.verify_message}"
    return str(error or "")
