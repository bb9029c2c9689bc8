"""What submission adds to a message and takes out of it, and the trace that mail leaves behind.

Rules: one Received at the top; Message-ID and Date where they are missing or void; Bcc and what was meant for this daemon
out; nothing else is touched. Trace text from a client is filtered to what a domain or an address literal may hold. A
priority stands in one MT-Priority field, whoever gets the message: it is always sent in the same octets. RFC 5321 sections
4.4 and 7.2; RFC 6409 sections 8.2 and 8.3; RFC 5322 sections 2.1.1, 3.3 and 3.6; RFC 3848; RFC 6710 section 4.1; RFC
6758 sections 3.2 and 3.3.
"""

import re
from functools import cached_property

from msgspec import Struct

from mta.model.address import AddressError, IpAddress, check_domain
from mta.model.reply import Reply
from mta.policy import header, message_checks
from mta.policy.clients import HIGHEST_PRIORITY, lowered
from mta.policy.compose import date_time
from mta.policy.controls import CONTROL_FIELDS, NO_CONTROLS, Controls, read_controls
from mta.policy.header import HeaderError, Section
from mta.policy.requests import NO_REQUESTS, NO_WISH, PRIORITY, Requests, Wish, mt_priority, wish

_PRIORITY = PRIORITY.lower()
_LOOKED_AT = frozenset({"bcc", "resent-bcc", *CONTROL_FIELDS, "message-id", "date", _PRIORITY})
"""Fields that may not stay as they are: where nothing else is said, they go."""
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


class Client(Struct, frozen=True, dict=True):
    """Who submits: its address (None: not known) and its `name` in the log, whether it is at a unix socket, what it said in
    EHLO or HELO ("": nothing yet), whether that was inside TLS, and as whom it authenticated ("": nobody)."""

    peer: IpAddress | None
    name: str
    is_local: bool = False
    hello: str = ""
    extended: bool = False
    secure: bool = False
    user: str = ""

    @cached_property
    def source(self) -> str:
        """What stands behind `from`; where there is no address literal, a comment."""
        place = "unix socket" if self.is_local else _literal(self) if self.peer is not None else "unknown"
        return f"{hello_name(self.hello)} ({place})"

    @cached_property
    def protocols(self) -> tuple[str, str]:
        """What stands behind `with`, and that for a message in UTF-8 (RFC 3848, RFC 6531 section 4.3)."""
        suffix = f"{'S' * self.secure}{'A' * bool(self.user)}"
        return f"{'ESMTP' if self.extended else 'SMTP'}{suffix}", f"UTF8SMTP{suffix}"


def client_at(peer: IpAddress | None) -> Client:
    """One that has said nothing yet."""
    return Client(peer, "unknown" if peer is None else str(peer))


class Arrival(Struct, frozen=True):
    """How a message came in. `sole` is the one recipient of the transaction, or "" if there were several; `at` is seconds
    since the epoch; `queue_id` makes a Message-ID of ours different from every other. `requests` are those of MAIL, which
    was heard at `began_at`; a priority beyond `highest` is lowered to it."""

    client: Client
    hostname: str
    queue_id: str
    sole: str
    at: float
    requests: Requests = NO_REQUESTS
    began_at: float = 0.0
    highest: int = HIGHEST_PRIORITY


class Prepared(Struct, frozen=True):
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
    return Prepared(section.length, b"".join(lines), message_id, header.subject(section), NO_CONTROLS, NO_WISH)


def _rewritten(section: Section, arrival: Arrival, controls: Controls, wanted: Wish) -> Prepared:
    """Missing fields go behind the others, so that the Received fields stay together."""
    lines = [received(arrival)]
    message_id, is_dated = "", False
    keeps_priority = wanted.priority is not None and _states_once(section, wanted.priority)
    for it in section.fields:
        if it.name in _LOOKED_AT:
            if it.name == "message-id" and (found := header.message_id(it)):
                message_id = message_id or found
            elif it.name == "date" and it.text:
                is_dated = True
            elif it.name != _PRIORITY or not keeps_priority:
                continue
        lines.append(it.raw)
    if wanted.priority is not None and not keeps_priority:
        lines.append(f"{PRIORITY}: {wanted.priority}\r\n".encode("ascii"))
    if not message_id:
        message_id = f"<{arrival.queue_id}@{arrival.hostname}>"
        lines.append(f"Message-ID: {message_id}\r\n".encode("ascii"))
    if not is_dated:
        lines.append(f"Date: {date_time(arrival.at)}\r\n".encode("ascii"))
    if not section.closed:
        lines.append(b"\r\n")
    return Prepared(section.length, b"".join(lines), message_id, header.subject(section), controls, wanted)


def _states_once(section: Section, priority: int) -> bool:
    """Whether the content says the priority as it should."""
    return [mt_priority(field) for field in section.named(_PRIORITY)] == [priority]


def received(arrival: Arrival) -> bytes:
    """The trace field (RFC 5321 section 4.4), folded. It names no recipient that would make it more than ASCII: the header
    section would need SMTPUTF8 on its account alone."""
    recipient = f"\r\n\tfor <{arrival.sole}>" if arrival.sole and arrival.sole.isascii() else ""
    asked = arrival.requests.priority
    priority = f"\r\n\tPRIORITY {min(asked, arrival.highest)}" if asked is not None else ""
    protocol = arrival.client.protocols[arrival.requests.utf8]
    return (
        f"Received: from {arrival.client.source}\r\n"
        f"\tby {arrival.hostname} with {protocol} id {arrival.queue_id}{recipient}{priority};\r\n"
        f"\t{date_time(arrival.at)}\r\n"
    ).encode("ascii")


def hello_name(hello: str) -> str:
    """What a client called itself, as far as a trace field may hold it."""
    try:
        check_domain(hello)
    except AddressError:
        return _NO_NAME.sub("", hello)[:255] or "unknown"
    return hello


def _literal(client: Client) -> str:
    return f"[IPv6:{client.name}]" if ":" in client.name else f"[{client.name}]"


def remote_queue_id(text: str) -> str:
    """The remote server's own id in the text of its reply to the final dot (`Ok: queued as 4Q2x` -> `4Q2x`), "" where
    none is known to be there."""
    for pattern in _REMOTE_IDS:
        if match := pattern.search(text):
            return match.group(1)[:_REMOTE_ID_LIMIT].rstrip(".:")
    return ""
