"""Delivery status notifications as values, and their part for programs (RFC 3464, RFC 3461 section 6.3, RFC 2852 section 5,
RFC 4865 section 4.6). What is not ASCII in it has the forms of `dsn_utf8`.

Rules: a group for each recipient of one step. Nothing is invented: a field is there only if what it says is known.
`Diagnostic-Code` has type `smtp` only for a reply that a server gave; what we found ourselves has type `X-mta` (RFC 3464
section 2.3.6 leaves types that begin with X- to us). What was asked of DSNs is decoded. Status is that of the last real
problem with the class that fits the action (section 2.3.4), X.4.7 only where there was no problem but time.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from mta.model.reply import Reply
from mta.policy.compose import date_time, field, folded
from mta.policy.dsn_request import xtext_decoded
from mta.policy.dsn_utf8 import header_line, recipient_field

HEADER_LIMIT = 32 * 1024
"""Octets of the original's header section that go into a DSN."""
_STATUS = re.compile(r"([245])\.(\d{1,3}\.\d{1,3})\Z")


class Fate(Enum):
    """What became of a recipient."""

    REFUSED = "failed for good"
    GIVEN_UP = "attempts or age used up"
    DELAYED = "is tried again"
    UNDECIDED = "in doubt, and a person decides"
    RELAYED = "handed over, and to be told of"


_ACTION = {
    Fate.REFUSED: "failed",
    Fate.GIVEN_UP: "failed",
    Fate.DELAYED: "delayed",
    Fate.UNDECIDED: "delayed",
    Fate.RELAYED: "relayed",
}
_CLASSES = {Fate.REFUSED: "5", Fate.GIVEN_UP: "45", Fate.DELAYED: "4", Fate.UNDECIDED: "4", Fate.RELAYED: "2"}
"""The classes that go with the action; the first stands in for one that does not."""


@dataclass(frozen=True, slots=True)
class DsnRecipient:
    """`submitted_as` is the address that an alias replaced, else ""; `remote_mta` the host that was tried last, else "";
    `reply` its reply or our finding; `phase` the stage of the conversation it came in; `doubts` how often the final dot
    went out and its reply was not read; `orcpt` and `notify` as in `NewRecipient`."""

    final_recipient: str
    submitted_as: str
    fate: Fate
    reply: Reply
    remote_mta: str
    phase: str
    attempts: int
    doubts: int
    orcpt: str = ""
    notify: str = ""
    category: str = ""
    """What kind of refusal it was (`model.category`)."""


@dataclass(frozen=True, slots=True)
class Dsn:
    """What is told to `to` about one message. Times are seconds since the epoch; `original_header` are the lines of its
    `header_section`, none if the message is not stored any more or goes back whole: then `original_message` has its lines.
    `withheld` is why it does not, where that was asked for, else "" (`dsn_return`). `envid` is as in `NewMessage`;
    `deliver_by` its deadline; `future_release` the request that it be held, as it was made; `priority` is what the DSN
    inherits (RFC 6710 section 4.6)."""

    to: str
    queue_id: str
    message_id: str
    subject: str
    arrival_date: float
    will_retry_until: float
    recipients: tuple[DsnRecipient, ...]
    original_header: tuple[str, ...]
    deliver_by: float | None = None
    future_release: str = ""
    priority: int = 0
    envid: str = ""
    original_message: tuple[str, ...] = ()
    withheld: str = ""

    @property
    def native(self) -> bool:
        """Whether it takes SMTPUTF8 to reach the sender: then the DSN is UTF-8 too."""
        return not self.to.isascii()


def status_of(recipient: DsnRecipient) -> str:
    """The `Status` field: class by action, detail of the last real problem (RFC 3464 section 2.3.4, RFC 3463)."""
    classes, reply = _CLASSES[recipient.fate], recipient.reply
    if reply.code is None and not reply.enhanced:
        return f"{classes[0]}.4.7"
    match = _STATUS.match(reply.status)
    if match is not None and match[1] in classes:
        return match[0]
    return f"{classes[0]}.0.0" if match is None or match[1] == "2" else f"{classes[0]}.{match[2]}"


def delivery_status(dsn: Dsn, reporting_mta: str) -> list[str]:
    """The lines of the message/delivery-status entity: the message's fields, then a group for each recipient."""
    lines = [field("Original-Envelope-Id", xtext_decoded(dsn.envid))] if dsn.envid else []
    lines += [field("Reporting-MTA", f"dns; {reporting_mta}"), field("Arrival-Date", date_time(dsn.arrival_date))]
    if dsn.deliver_by is not None:
        lines.append(field("Deliver-By-Date", date_time(dsn.deliver_by)))
    if dsn.future_release:
        lines.append(field("Future-Release-Request", dsn.future_release))
    for recipient in dsn.recipients:
        lines += ["", *_group(recipient, dsn.will_retry_until, native=dsn.native)]
    return lines


def _group(recipient: DsnRecipient, will_retry_until: float, *, native: bool) -> Iterator[str]:
    if recipient.orcpt:
        address_type, _, address = recipient.orcpt.partition(";")
        yield field("Original-Recipient", f"{address_type}; {xtext_decoded(address)}")
    yield recipient_field("Final-Recipient", recipient.final_recipient, native=native)
    yield field("Action", _ACTION[recipient.fate])
    yield field("Status", status_of(recipient))
    if recipient.remote_mta:
        yield field("Remote-MTA", f"dns; {recipient.remote_mta}")
    yield from _diagnostic(recipient.reply)
    if recipient.fate is Fate.DELAYED:
        yield field("Will-Retry-Until", date_time(will_retry_until))


def _diagnostic(reply: Reply) -> list[str]:
    if reply.code is not None:
        return folded("Diagnostic-Code: smtp;", str(reply))
    return folded("Diagnostic-Code: X-mta;", reply.text) if reply.text else []


def header_section(content: bytes) -> tuple[str, ...]:
    """The lines of a message's header section, given its first octets: whole lines, as printable text, at most
    `HEADER_LIMIT` octets of them."""
    head, end, _ = (b"\n" + content.replace(b"\r\n", b"\n")).partition(b"\n\n")
    lines = head[1 : HEADER_LIMIT + 1].split(b"\n")
    if not end or len(head) > HEADER_LIMIT + 1:
        del lines[-1]  # may have been cut
    return tuple(header_line(line) for line in lines if line)
