"""What a submission asks of DSNs: RET and ENVID of MAIL, NOTIFY and ORCPT of RCPT (RFC 3461 sections 4 and 5.1).

Rules: ENVID and ORCPT are kept as they were written, since they go on byte for byte (section 5.2.1); words are upper case.
What they decode to is text for a report, so it must be printable there. A mailbox that is named twice is told what either
naming asks for: NEVER only if both say so.
"""

import re
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from mta.model.envelope import NewRecipient
from mta.model.notify import NEVER, Of
from mta.model.reply import Reply
from mta.policy.commands import BAD_PARAMETER

OF_MAIL = frozenset({"RET", "ENVID"})
OF_RCPT = frozenset({"NOTIFY", "ORCPT"})

_RETURNS = ("FULL", "HDRS")
_XTEXT = re.compile(r"(?:[!-*,-<>-~]|\+[0-9A-F]{2})+\Z")
_HEX = re.compile(rb"\+([0-9A-F]{2})")
_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")
_TYPE = re.compile(r"[A-Za-z0-9!#$%&'*+/?^_`{|}~-]+\Z")


class MailAsks(Struct, frozen=True):
    """Of MAIL: `ret` and `envid` as in `NewMessage`."""

    ret: str = ""
    envid: str = ""


class RcptAsks(Struct, frozen=True):
    """Of RCPT: `notify` and `orcpt` as in `NewRecipient`."""

    notify: str = ""
    orcpt: str = ""


NOTHING = MailAsks()


def mail_asks(parameters: Mapping[str, str | None]) -> MailAsks | Reply:
    """Those of `OF_MAIL`, or the refusal."""
    if parameters.keys().isdisjoint(OF_MAIL):
        return NOTHING
    ret, envid = (parameters.get("RET", "") or "").upper(), parameters.get("ENVID", "") or ""
    bad_ret = "RET" in parameters and ret not in _RETURNS
    bad_envid = "ENVID" in parameters and not _is_printable_xtext(envid)
    return BAD_PARAMETER if bad_ret or bad_envid else MailAsks(ret, envid)


def rcpt_asks(parameters: Mapping[str, str | None]) -> RcptAsks | Reply:
    """Those of `OF_RCPT`, or the refusal."""
    notify = _notify(parameters["NOTIFY"]) if "NOTIFY" in parameters else ""
    orcpt = parameters.get("ORCPT", "") or ""
    if notify is None or ("ORCPT" in parameters and not _is_orcpt(orcpt)):
        return BAD_PARAMETER
    return RcptAsks(notify, orcpt)


def together(first: NewRecipient, second: NewRecipient) -> NewRecipient:
    """One mailbox that two RCPT have named. The first ORCPT is kept."""
    return replace(first, notify=_joined(first.notify, second.notify), orcpt=first.orcpt or second.orcpt)


def xtext_decoded(text: str) -> str:
    """What xtext stands for (RFC 3461 section 4); octets that are no UTF-8 become `\\xNN`."""
    return _octets(text).decode("utf-8", "backslashreplace")


# ---------------------------------------------------------------- values
def _notify(value: str | None) -> str | None:
    """In the one form that is kept; None for a value that is none."""
    words = (value or "").upper().split(",")
    if words == [NEVER]:
        return NEVER
    known = [of.value for of in Of if of in words]
    return ",".join(known) if len(known) == len(words) else None


def _joined(one: str, other: str) -> str:
    if NEVER in (one, other):
        return one if other == NEVER else other
    words = {*one.split(","), *other.split(",")} - {""}
    if one and other:
        return ",".join(of for of in Of if of in words)
    return ",".join(Of) if Of.SUCCESS in words else ""  # one has none: it asks for FAILURE and DELAY


def _is_orcpt(value: str) -> bool:
    kind, semicolon, address = value.partition(";")
    return bool(semicolon and _TYPE.match(kind)) and _is_printable_xtext(address)


def _is_printable_xtext(text: str) -> bool:
    return bool(_XTEXT.match(text)) and not _CONTROL.search(_octets(text))


def _octets(text: str) -> bytes:
    return _HEX.sub(lambda match: bytes.fromhex(match[1].decode()), text.encode("utf-8", "surrogateescape"))
