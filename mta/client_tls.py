"""The TLS that we begin with servers of others (RFC 9325).

Rules: TLS 1.2 at least, and no key exchange whose cost the server chooses: in finite-field Diffie-Hellman with groups of its
own (RFC 9325 section 4.1) one of 10,000 bits costs seconds, in which nobody else is heard.
"""

import ssl


def client_context() -> ssl.SSLContext:
    """It has no authorities yet; the certificate and its name are to be verified."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(":".join(it["name"] for it in context.get_ciphers() if it["kea"] == "kx-ecdhe"))
    return context
