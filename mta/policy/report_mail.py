"""Mail to the postmaster: what failed (a report), and what needs a person (an alert).

Rules: safe text, in 7 bits on the wire; an entry a recipient, at most `ENTRY_LIMIT` entries, the others counted; what a
person can do stands beside what is wrong, and a command holds nothing from outside but a queue id. RFC 3834 section 5:
auto-generated.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mta.model.envelope import Kind
from mta.model.reply import Reply
from mta.model.text import safe_text
from mta.policy.compose import Stamp, date_time, head, octets, text_entity, wrapped

ENTRY_LIMIT = 200
_SERVERS_NAMED = 5


@dataclass(frozen=True, slots=True)
class Entry:
    """A recipient that is told of; `status` is in the interface's words, `at` when it was decided;
    `unwanted`: its sender asked not to be told (NOTIFY, RFC 3461 section 4.1); `distrusted`: it is told of for the server's
    sake, which does not trust us."""

    queue_id: str
    kind: Kind
    sender: str
    recipient: str
    subject: str
    at: float
    status: str
    doubts: int
    reply: Reply
    remote_host: str
    unwanted: bool = False
    distrusted: bool = False


def report_title(entries: Sequence[Entry]) -> str:
    return f"{_recipients(len(entries))} failed"


def alert_title(entries: Sequence[Entry]) -> str:
    titles = []
    distrusting = sum(entry.distrusted for entry in entries)
    if count := len(entries) - distrusting:
        titles.append(f"{_recipients(count)} {'needs' if count == 1 else 'need'} a person")
    if distrusting:
        titles.append("a server does not trust us" if distrusting == 1 else f"{distrusting} servers do not trust us")
    return ", ".join(titles)


def compose_report(entries: Sequence[Entry], to: str, stamp: Stamp) -> bytes:
    """Recipients that failed."""
    title = report_title(entries)
    opening = f"{title} at {stamp.hostname}. The sender of each was told, unless its entry says otherwise."
    closing = "`mta show` with a queue id tells all that is known of a message."
    return _compose(title, opening, [_entry(entry) for entry in entries], closing, to, stamp)


def compose_alert(entries: Sequence[Entry], to: str, stamp: Stamp) -> bytes:
    """Recipients that wait for a person: dead, or in doubt and held; and servers that do not trust us."""
    waiting = [entry for entry in entries if not entry.distrusted]
    distrusting = [entry for entry in entries if entry.distrusted]
    opening, closing = [], []
    if waiting:
        opening.append(f"{alert_title(waiting)} at {stamp.hostname}: nothing more is tried by itself.")
        closing.append(_OF_WAITING)
    if distrusting:
        opening.append(f"Servers refuse mail from {stamp.hostname} by its reputation: {_servers(distrusting)}.")
        closing.append(_OF_DISTRUST)
    told = [[*_entry(entry), *_remedies(entry)] for entry in (*waiting, *distrusting)]
    return _compose(alert_title(entries), " ".join(opening), told, " ".join(closing), to, stamp)


_OF_WAITING = (
    "`mta dead` lists all that needs a person. Where only one of several recipients of a message is meant, add"
    " --recipient with its address."
)
_OF_DISTRUST = (
    "Nobody else tells of a bad reputation. What a server refused for now is tried again by itself; what it refused for good"
    " went back to its sender. Its answer says what it holds against this mail system, and often where to ask: look whether"
    " something here sends what it should not, whether the address has a name that leads back to it, and have the address"
    " taken off the list. You hear of the same servers again in a day, if it goes on."
)


def _servers(entries: Sequence[Entry]) -> str:
    names = dict.fromkeys(safe_text(entry.remote_host or entry.recipient.rpartition("@")[2]) for entry in entries)
    shown = list(names)[:_SERVERS_NAMED]
    return ", ".join(shown) + (f" and {len(names) - len(shown)} more" if len(names) > len(shown) else "")


def _compose(title: str, opening: str, entries: Sequence[list[str]], closing: str, to: str, stamp: Stamp) -> bytes:
    lines = wrapped(opening)
    for entry in entries[:ENTRY_LIMIT]:
        lines += ["", *entry]
    if len(entries) > ENTRY_LIMIT:
        lines += ["", f"... and {len(entries) - ENTRY_LIMIT} more."]
    lines += ["", *wrapped(closing)]
    return octets([*head(stamp, to, title, "auto-generated"), *text_entity(lines)])


def _recipients(count: int) -> str:
    return "1 recipient" if count == 1 else f"{count} recipients"


def _entry(entry: Entry) -> list[str]:
    return [
        f"{entry.queue_id}  <{safe_text(entry.recipient)}>",
        *(line for name, value in _facts(entry) for line in wrapped(safe_text(value), f"  {name:9}", " " * 11)),
    ]


def _facts(entry: Entry) -> Iterator[tuple[str, str]]:
    yield "status:", entry.status
    yield "when:", date_time(entry.at)
    yield "sender:", f"<{entry.sender}>"
    if entry.subject:
        yield "subject:", entry.subject
    yield ("reply:" if entry.reply.code is not None else "found:"), str(entry.reply)
    if entry.remote_host:
        yield "server:", entry.remote_host
    if entry.doubts:
        yield "doubt:", f"may have been delivered: {entry.doubts} x sent whole without an answer that was read"
    if note := _untold(entry):
        yield "note:", note


def _untold(entry: Entry) -> str:
    if entry.kind is Kind.DSN:
        return "this was itself a delivery report, so the sender of the original does not know"
    if not entry.sender:
        return "it has no sender who could be told"
    return "its sender asked not to be told" if entry.unwanted else ""


def _remedies(entry: Entry) -> Iterator[str]:
    yield f"  mta show {entry.queue_id}                all that is known of it"
    if entry.status == "dead":
        yield f"  mta retry {entry.queue_id}               try it again"
    if entry.doubts:
        yield f"  mta resolve {entry.queue_id} --sent      it was delivered"
        yield f"  mta resolve {entry.queue_id} --resend    it was not: send it again"
