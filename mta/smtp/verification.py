"""Whom TLS is begun with: what a demand asks of the server's certificate, as OpenSSL wants it (RFC 3207 section 4.1, RFC
7435, RFC 8314 section 5.5)."""

import ssl
from functools import cached_property

from mta.model.tls import TlsDemand


class Contexts:
    """Shared by all sessions: reading the authorities' certificates takes its time."""

    def of(self, demand: TlsDemand) -> ssl.SSLContext:
        return self._verifying if demand.names else self._trusting

    @cached_property
    def _trusting(self) -> ssl.SSLContext:
        """Encrypts, trusts anyone."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context

    @cached_property
    def _verifying(self) -> ssl.SSLContext:
        """For the name that the handshake asks for, by an authority that the machine trusts; TLS 1.2 at least."""
        return ssl.create_default_context()
