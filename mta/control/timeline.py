"""One entry of a message's timeline as lines for a person.

What is not known here is shown as it stands: a spool may be older or newer than the program that asks.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from mta.control.words import clock
from mta.model.text import safe_text

Json = Mapping[str, Any]

_WORDS = {
    "accepted": "accepted: safe on disk",
    "attempt": "tried in vain, on to the next server",
    "deferred": "not taken for now",
    "in_doubt": "in doubt (sent, but no reply was read)",
    "sent": "sent",
    "failed": "failed for good",
    "dead": "given up",
    "held": "held",
    "released": "released",
    "cancelled": "cancelled",
    "resolved": "decided by a person",
    "bounced": "its sender was told",
    "duplicate": "submitted again under its key: nothing stored or sent",
}
_PHASES = {
    "route": "in the name service",
    "connect": "on connecting",
    "banner": "in its greeting",
    "tls": "in the TLS handshake",
    "ehlo-tls": "after EHLO inside TLS",
    "body": "while the content was sent",
    "final": "after the whole message",
}
"""Of the conversation with the remote server; the others are named by their command."""
_PLACED = frozenset(
    {"at", "event", "recipient", "attempt", "server", "address", "tls", "phase", "reply", "next_attempt_at"}
    | {"remote_id", "size", "destination"}
)
"""What has its own place in the lines, or stands above the timeline."""
_NAMES = {"dsn": "bounce", "count": "times so far:"}


def lines(entry: Json, *, whose: bool) -> Iterable[str]:
    """When and what in the first line, behind it what belongs to it, indented; `whose` names the recipient."""
    return (safe_text(line) for line in (_headline(entry, whose), *(f"    {line}" for line in _details(entry) if line)))


def _headline(entry: Json, whose: bool) -> str:
    """`2026-01-02 03:04:05Z  ann@example.org, attempt 1: not taken for now`"""
    attempt = f"attempt {entry['attempt']}" if entry.get("attempt") else ""
    subject = ", ".join(part for part in (entry["recipient"] if whose else "", attempt) if part)
    event = str(entry["event"])
    words = _WORDS.get(event, event)
    return f"{clock(entry['at']) or '(time unknown)'}  {subject + ': ' if subject else ''}{words}"


def _details(entry: Json) -> Iterable[str]:
    yield ", ".join(_where(entry))
    reply = entry.get("reply")
    yield reply_text(reply) if isinstance(reply, dict) else ""
    if entry.get("next_attempt_at"):
        yield f"next attempt {clock(str(entry['next_attempt_at']))}"
    rest = {name: value for name, value in entry.items() if name not in _PLACED and value not in (None, "")}
    yield ", ".join(f"{_NAMES.get(name, name.replace('_', ' '))} {value}" for name, value in rest.items())


def _where(entry: Json) -> Iterable[str]:
    """The server and the stage of the conversation."""
    if entry.get("server"):
        yield f"{entry['server']} [{entry.get('address') or 'no address'}]"
    if entry.get("tls"):
        yield str(entry["tls"])
    if phase := str(entry.get("phase") or ""):
        yield _PHASES.get(phase, f"after {phase.upper()}")


def reply_text(reply: Json) -> str:
    return " ".join(str(reply[part]) for part in ("code", "enhanced", "text") if reply.get(part))
