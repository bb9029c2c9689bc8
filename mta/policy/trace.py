"""What submission adds to a message and takes out of it, and the trace that mail leaves behind.

Rules: one Received at the top; Message-ID and Date where they are missing or void; Bcc and what was meant for this daemon
out; nothing else is touched. Trace text from a client is filtered to what a domain or an address literal may hold. A
priority stands in one MT-Priority field, whoever gets the message: it is always sent in the same octets. RFC 5321 sections
4.4 and 7.2; RFC 6409 sections 8.2 and 8.3; RFC 5322 sections 2.1.1, 3.3 and 3.6; RFC 3848; RFC 6710 section 4.1; RFC
6758 sections 3.2 and 3.3.
"""

import re
from typing import NamedTuple

from mta.model.address import AddressError, IpAddress, check_domain
from mta.model.reply import Reply
from mta.policy import header, message_checks
from mta.policy.clients import HIGHEST_PRIORITY, lowered
from mta.policy.compose import date_time
from mta.policy.controls import CONTROL_FIELDS, Controls, read_controls
from mta.policy.header import HeaderError, Section
from mta.policy.requests import NO_REQUESTS, PRIORITY, Requests, Wish, mt_priority, wish

_REMOVED = frozenset({"bcc", "resent-bcc", *CONTROL_FIELDS})
_LOOKED_AT = frozenset({*_REMOVED, "message-id", "date", PRIORITY.lower()})
_NO_NAME = re.compile(r"[^A-Za-z0-9.:\[\]-]")
_REMOTE_ID_LIMIT = 200
_ID = r"([A-Za-z0-9][^\s<>\[\](),;]*)"
_REMOTE_IDS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b(?:queued as|queued with id|duplicate of)\s*:?\s*<?{_ID}",  # Postfix, Stalwart, ours
        rf"\bid=<?{_ID}",  # Exim
        rf"\bInternalId={_ID}",  # Exchange
        rf"\bMessage queued \({_ID}",  # Haraka
        rf"(?<!\S){_ID}:? message accepted for delivery",  # OpenSMTPD, sendmail
        r"\bok:? (\d+ qp \d+)",  # qmail
        rf"(?<!\S){_ID} - gsmtp",  # Gmail
        r"^ok[:.]? ([A-Za-z0-9][\w.+/=-]{11,})$",  # Amazon, Courier
    )
)


class Arrival(NamedTuple):
    """How a message came in. `hello` is what the client said in EHLO or HELO, inside TLS if `secure`, authenticated as
    `user` ("": not at all); `peer` its address (None: not known), `local`: at a unix socket; `sole`
    the one recipient of the transaction, or "" if there were several; `at` is seconds since the epoch; `queue_id` makes a
    Message-ID of ours different from every other. `requests` are those of MAIL, which was heard at `began_at`; a priority
    beyond `highest` is lowered to it."""

    hello: str
    extended: bool
    peer: IpAddress | None
    hostname: str
    queue_id: str
    sole: str
    at: float
    requests: Requests = NO_REQUESTS
    began_at: float = 0.0
    secure: bool = False
    user: str = ""
    local: bool = False
    highest: int = HIGHEST_PRIORITY

    @property
    def protocol(self) -> str:
        """What stands behind `with` (RFC 3848, RFC 6531 section 4.3)."""
        name = "UTF8SMTP" if self.requests.utf8 else "ESMTP" if self.extended else "SMTP"
        return f"{name}{'S' * self.secure}{'A' * bool(self.user)}"


class Prepared(NamedTuple):
    """The first `length` octets of the content become `by`. `subject` is as it was given, on one line."""

    length: int
    by: bytes
    message_id: str
    subject: str
    controls: Controls
    wish: Wish


def prepare(
    start: bytes, arrival: Arrival, *, complete: bool, max_hold: float, strict: bool = True, own_hops: int = 10
) -> Prepared | Reply:
    """What is to become of a message that begins with `start` (all of it, if `complete`, else the first
    `header.LIMIT` octets), or why it is refused. `max_hold`: seconds for which it may be held back; `strict`: it must be
    what RFC 5322 says; `own_hops`: so many Received fields of ours are a loop."""
    try:
        section = header.read_section(start, complete=complete, utf8=arrival.requests.utf8)
        wanted = lowered(wish(section, arrival.requests, arrival.began_at, max_hold), arrival.highest)
        controls = read_controls(section)
    except HeaderError as error:
        return error.reply
    if refusal := message_checks.loop(section, arrival.hostname, own_hops):
        return refusal
    if strict and (refusal := message_checks.flaw(section, start)):
        return refusal
    return _rewritten(section, arrival, controls, wanted)


def renew(start: bytes, message_id: str, at: float, *, complete: bool) -> Prepared | Reply:
    """A message that was sent before as a new one: a fresh Message-ID and Date, all else as it was."""
    try:
        section = header.read_section(start, complete=complete, utf8=True)  # as it was taken
    except HeaderError as error:
        return error.reply
    lines = [field.raw for field in section.fields if field.name not in ("message-id", "date")]
    lines += [f"Message-ID: {message_id}\r\nDate: {date_time(at)}\r\n".encode("ascii")]
    return Prepared(section.length, b"".join(lines), message_id, header.subject(section), Controls(), Wish())


def _rewritten(section: Section, arrival: Arrival, controls: Controls, wanted: Wish) -> Prepared:
    """Missing fields go behind the others, so that the Received fields stay together."""
    known = next(filter(None, map(header.message_id, section.named("message-id"))), "")
    message_id = known or f"<{arrival.queue_id}@{arrival.hostname}>"
    lines = [received(arrival)]
    keeps = _states_once(section, wanted.priority)
    lines += [it.raw for it in section.fields if it.name not in _LOOKED_AT or not _is_dropped(it, keeps_priority=keeps)]
    if wanted.priority is not None and not keeps:
        lines.append(f"{PRIORITY}: {wanted.priority}\r\n".encode("ascii"))
    if not known:
        lines.append(f"Message-ID: {message_id}\r\n".encode("ascii"))
    if not any(field.text for field in section.named("date")):
        lines.append(f"Date: {date_time(arrival.at)}\r\n".encode("ascii"))
    if not section.closed:
        lines.append(b"\r\n")
    return Prepared(section.length, b"".join(lines), message_id, header.subject(section), controls, wanted)


def _states_once(section: Section, priority: int | None) -> bool:
    """Whether the content says the priority as it should."""
    return [mt_priority(field) for field in section.named(PRIORITY.lower())] == [priority]


def _is_dropped(field: header.Field, *, keeps_priority: bool) -> bool:
    if field.name == PRIORITY.lower():
        return not keeps_priority
    if field.name == "message-id":
        return not header.message_id(field)
    return field.name in _REMOVED or (field.name == "date" and not field.text)


def received(arrival: Arrival) -> bytes:
    """The trace field (RFC 5321 section 4.4), folded. It names no recipient that would make it more than ASCII: the header
    section would need SMTPUTF8 on its account alone."""
    recipient = f"\r\n\tfor <{arrival.sole}>" if arrival.sole and arrival.sole.isascii() else ""
    asked = arrival.requests.priority
    priority = f"\r\n\tPRIORITY {min(asked, arrival.highest)}" if asked is not None else ""
    return (
        f"Received: from {hello_name(arrival.hello)} ({_place(arrival)})\r\n"
        f"\tby {arrival.hostname} with {arrival.protocol} id {arrival.queue_id}{recipient}{priority};\r\n"
        f"\t{date_time(arrival.at)}\r\n"
    ).encode("ascii")


def hello_name(hello: str) -> str:
    """What a client called itself, as far as a trace field may hold it."""
    try:
        check_domain(hello)
    except AddressError:
        return _NO_NAME.sub("", hello)[:255] or "unknown"
    return hello


def _place(arrival: Arrival) -> str:
    """An address literal; what has none stands as a comment."""
    return "unix socket" if arrival.local else _literal(arrival.peer)


def _literal(peer: IpAddress | None) -> str:
    if peer is None:
        return "unknown"
    return f"[IPv6:{peer}]" if peer.version == 6 else f"[{peer}]"


def remote_queue_id(text: str) -> str:
    """The remote server's own id in the text of its reply to the final dot (`Ok: queued as 4Q2x` -> `4Q2x`), "" where
    none is known to be there."""
    for pattern in _REMOTE_IDS:
        if match := pattern.search(text):
            return match.group(1)[:_REMOTE_ID_LIMIT].rstrip(".:")
    return ""
