"""Lines that are no command: after how many a session is ended, and how many each of them counts as.

Rules: a program that mistypes is heard further (RFC 5321 section 3.8), one that speaks another protocol is not. A web page
can make a browser on this machine send to a local port what the page likes, commands too, but a request of at least two
lines stands in front of them. In the hello of a TLS client whole lines can be hidden, by whoever chose what it resumes.
RFC 5321 section 7.8.
"""

import re

JUNK_LIMIT = 20
"""Unrecognized commands after which a session is ended."""

_REQUEST = re.compile(rb"(?:GET|HEAD|POST|PUT|DELETE|OPTIONS|PATCH|CONNECT|TRACE) ", re.IGNORECASE)
_HANDSHAKE = b"\x16\x03"


def weight(line: bytes) -> int:
    """Of a line that is no command, or of how it begins."""
    if line.startswith(_HANDSHAKE):
        return JUNK_LIMIT
    return JUNK_LIMIT - 1 if _REQUEST.match(line) else 1
