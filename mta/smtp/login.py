"""Logging in at a server (RFC 4954), by SASL PLAIN (RFC 4616) or the older LOGIN.

Rules: what is said here goes over TLS, which is the caller's to know; the password is in no text that leaves this module,
also where the server repeats it.
"""

from base64 import b64encode
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from mta.ports import LOGIN_MECHANISMS
from mta.smtp.replies import Answer

COMMAND_LIMIT = 512 - len("\r\n")
"""Octets of a command; where an initial response does not fit in, it comes after a 334 (RFC 4954 section 4)."""
_GO_ON = 334
_HIDDEN = b"[hidden]"

Say = Callable[[str], Awaitable[Answer]]
"""A line to the server; what it answered."""


async def log_in(say: Say, offered: str, user: str, password: str) -> Answer:
    """The last answer; `offered` are the words behind AUTH in the reply to EHLO."""
    words = offered.upper().split()
    mechanism = next((it for it in LOGIN_MECHANISMS if it in words), LOGIN_MECHANISMS[0])
    responses = [f"\0{user}\0{password}"] if mechanism == "PLAIN" else [user, password]
    lines = [b64encode(it.encode()).decode() for it in responses]
    whole = f"AUTH PLAIN {lines[0]}"
    at_once = mechanism == "PLAIN" and len(whole) <= COMMAND_LIMIT
    answer = await say(whole if at_once else f"AUTH {mechanism}")
    for line in () if at_once else lines:
        if answer.code != _GO_ON:
            break
        answer = await say(line)
    if answer.code == _GO_ON:  # it wants more than there is: the exchange is cancelled
        await say("*")
    secret = password.encode()
    return _without(answer, secret, b64encode(secret), *(line.encode() for line in lines))


def _without(answer: Answer, *secrets: bytes) -> Answer:
    lines = answer.lines
    for secret in filter(None, secrets):
        lines = tuple(line.replace(secret, _HIDDEN) for line in lines)
    return replace(answer, lines=lines)
