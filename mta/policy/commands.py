"""The arguments of MAIL and RCPT as they are written: a path in angle brackets, then parameters.

Rules: the grammar is the RFC's, with nothing repaired and no blank where none is allowed; a quoted local part may hold
`>` and blanks; a flaw of the path and a flaw of the parameters have different enhanced codes. What a path or a parameter
means is `acceptance`'s to say. RFC 5321 sections 3.3, 4.1.1.11 and 4.1.2; RFC 6531 section 3.4.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from mta.model.address import AddressError, Flaw
from mta.model.reply import Reply
from mta.model.text import safe_text

_PATH = re.compile(r'<((?:[^<>"]|"(?:[^"\\]|\\.)*")*)>', re.DOTALL)
_PARAMETER = re.compile(r"([A-Za-z0-9][A-Za-z0-9-]*)(?:=([!-<>-~]+))?\Z")

_BLANKS = re.compile("[ \t]+")
_ORCPT = re.compile(r"(?<![^ \t])ORCPT=utf-8;[^ \t]+", re.IGNORECASE)
_BEYOND = re.compile(r"[^\x00-\x9f]")
_SHOWN = 400
"""Characters of an argument in the log."""

BAD_PARAMETER = Reply(501, "5.5.4", "Bad parameter")
BAD_PRIORITY = Reply(501, "5.5.2", "Bad parameter: expected MT-PRIORITY=-9 to 9, once")
"""RFC 6710 section 4.1 has a code of its own."""


class PathArgument(Struct, frozen=True):
    """`path` is what stands between the brackets; `parameters` has keywords in upper case, and None for one without a
    value."""

    path: str
    parameters: Mapping[str, str | None]


NO_PARAMETERS: Mapping[str, str | None] = MappingProxyType({})


def parse_path_argument(argument: str, prefix: str, status: str, *, utf8: bool = False) -> PathArgument | Reply:
    """The argument of MAIL (`prefix` "FROM:") or RCPT ("TO:"); `status` is the enhanced code for a path that is none.
    `utf8`: MAIL had SMTPUTF8."""
    match = _PATH.match(argument, len(prefix))
    if match is None or argument[: len(prefix)].upper() != prefix:
        return _no_path(argument, prefix, status)
    behind = argument[match.end() :]
    if not behind:
        return PathArgument(match[1], NO_PARAMETERS)
    if behind[0] not in " \t":
        return Reply(501, status, "Garbage behind the address")
    parameters = _parameters(_with_ascii_orcpt(behind) if utf8 else behind)
    return parameters if isinstance(parameters, Reply) else PathArgument(match[1], parameters)


def _no_path(argument: str, prefix: str, status: str) -> Reply:
    """Why there is none."""
    if argument[: len(prefix)].upper() != prefix:
        return Reply(501, "5.5.4", f"Syntax: {prefix}<address>")
    if argument.startswith((" ", "\t"), len(prefix)):
        return Reply(501, "5.5.2", f"No space is allowed after {prefix}")
    return Reply(501, status, "The address must stand in angle brackets")


def is_utf8_request(argument: str) -> bool:
    """Whether an argument of VRFY, not all of it ASCII, is UTF-8 and says so (RFC 6531 section 3.4)."""
    text, _, parameter = argument.rpartition(" ")
    try:
        return parameter.upper() == "SMTPUTF8" and decoded(text).isprintable()
    except AddressError:
        return False


def shown(argument: str) -> str:
    """An argument (octets, each as one character) as a person reads it in the log: enough of it for any path."""
    return safe_text(argument.encode("latin-1"), _SHOWN)


def decoded(path: str) -> str:
    """Octets, each as one character, read as UTF-8. Raises `AddressError`."""
    try:
        return path.encode("latin-1").decode("utf-8")
    except UnicodeError:
        raise AddressError(Flaw.ENCODING) from None


def _with_ascii_orcpt(parameters: str) -> str:
    """ORCPT may hold an address in UTF-8; the form for 7 bits says the same, to every server (RFC 6533 section 3)."""
    try:
        return _ORCPT.sub(lambda match: _BEYOND.sub(lambda it: f"\\x{{{ord(it[0]):02X}}}", decoded(match[0])), parameters)
    except AddressError:
        return parameters


def _parameters(text: str) -> Mapping[str, str | None] | Reply:
    """`SIZE=100 BODY=8BITMIME` -> {"SIZE": "100", "BODY": "8BITMIME"}; repeated or malformed ones are refused."""
    parameters: dict[str, str | None] = {}
    for word in _BLANKS.split(text.strip(" \t")):
        match = _PARAMETER.match(word)
        keyword = match[1].upper() if match else ""
        if match is None or keyword in parameters:
            return BAD_PRIORITY if word.partition("=")[0].upper() == "MT-PRIORITY" else BAD_PARAMETER
        parameters[keyword] = match[2]
    return parameters
