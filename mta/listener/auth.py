"""AUTH: what is said between the command and the credentials, a state machine without I/O.

Rules: base64 is taken as it is written down in RFC 4648, nothing beside it is passed over; what is no answer to a
challenge ends the exchange, and only that. Whether the credentials are good is somebody else's to say. RFC 4954 sections
4 and 6; RFC 4616 (PLAIN); LOGIN as draft-murchison-sasl-login has it.
"""

import base64
import binascii
from typing import NamedTuple

from mta.model.reply import Reply

MECHANISMS = ("PLAIN", "LOGIN")
FAILURES_LIMIT = 3
"""Failed authentications after which a session is ended."""

AUTHENTICATED = Reply(235, "2.7.0", "Authentication successful")
REFUSED = Reply(535, "5.7.8", "Authentication credentials invalid")
UNAVAILABLE = Reply(454, "4.7.0", "Authentication is not possible now, try again later")
ENCRYPTION_REQUIRED = Reply(538, "5.7.11", "Encryption required: begin TLS first")
TOO_LONG = Reply(500, "5.5.6", "Authentication line too long")
_SYNTAX = Reply(501, "5.5.4", "Syntax: AUTH mechanism [initial-response]")
_UNKNOWN = Reply(504, "5.5.4", "Unrecognized authentication mechanism")
_BAD_ANSWER = Reply(501, "5.5.2", "Cannot decode the response")
_CANCELLED = Reply(501, "5.7.0", "Authentication cancelled")


class Credentials(NamedTuple):
    """`identity` is whom `user` wants to act for, "" for itself."""

    user: str
    password: str
    identity: str = ""

    def __repr__(self) -> str:
        return f"Credentials of {self.user!r}"  # a password is shown nowhere


Step = Reply | Credentials
"""334 is a challenge: another line of the client's follows. Any other reply is the end, and so are credentials."""


class Exchange:
    """One AUTH command's."""

    def __init__(self, mechanism: str) -> None:
        self._is_plain = mechanism == "PLAIN"
        self._user: str | None = None

    def challenge(self) -> Reply:
        if self._is_plain:
            return Reply(334, None, "")
        asked = b"Username:" if self._user is None else b"Password:"
        return Reply(334, None, base64.b64encode(asked).decode())

    def hear(self, line: bytes | None) -> Step:
        """The client's next line; None is one that was too long."""
        if line is None:
            return TOO_LONG
        if line == b"*":
            return _CANCELLED
        text = _decoded(line)
        if text is None:
            return _BAD_ANSWER
        if self._is_plain:
            return _plain(text)
        if self._user is None:
            self._user = text
            return self.challenge()
        return Credentials(self._user, text)


def begin(argument: str) -> tuple[Exchange, Step] | Reply:
    """The argument of AUTH, inside TLS."""
    words = argument.split()
    if not 1 <= len(words) <= 2:
        return _SYNTAX
    mechanism = words[0].upper()
    if mechanism not in MECHANISMS:
        return _UNKNOWN
    exchange = Exchange(mechanism)
    if len(words) == 1:
        return exchange, exchange.challenge()
    initial = b"" if words[1] == "=" else words[1].encode("latin-1")  # RFC 4954 section 4: "=" is an empty response
    return exchange, exchange.hear(initial)


def names_password_mechanism(argument: str) -> bool:
    """Whether it asks for one that is taken inside TLS alone."""
    return argument.partition(" ")[0].upper() in MECHANISMS


def _decoded(line: bytes) -> str | None:
    """UTF-8 (RFC 4616 section 2). The library takes padding that nobody needs, so what was read is written down again."""
    try:
        octets = base64.b64decode(line, validate=True)
        return octets.decode("utf-8") if base64.b64encode(octets) == line else None
    except (binascii.Error, UnicodeDecodeError):
        return None


def _plain(text: str) -> Step:
    """`[identity] NUL user NUL password` (RFC 4616 section 2)."""
    parts = text.split("\0")
    if len(parts) != 3 or not parts[1] or not parts[2]:
        return _BAD_ANSWER
    return Credentials(parts[1], parts[2], parts[0])
