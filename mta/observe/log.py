"""The log: one line for each fact, key=value (logfmt) or JSON (RFC 6409 section 5.2).

Rules: one fact is exactly one line of valid UTF-8 whatever a peer sent; what is empty is left out; the event names are
those of the timeline. A client that is refused over and over does not fill the disk: beyond `REFUSALS_PER_MINUTE` its
refusals are counted, and the count is logged with the next minute's first line.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Protocol

import msgspec

from mta.model.events import Accepted, Attempted, Encrypted, Fact, Ordered, Refused, Repeated, Reported, Settled, Trouble
from mta.model.queue_id import is_queue_id
from mta.model.reply import Reply
from mta.model.text import safe_text

REFUSALS_PER_MINUTE = 60
"""Lines for refusals to one client."""
_CLIENTS = 1000
"""Clients that are told apart within a minute; what goes beyond is counted as one."""

_needs_quotes = re.compile(r"[^!#-<>-\[\]-~]").search
"""All but printable ASCII, and of that blank, quote, equals sign and backslash."""
_ORDERS = {
    "retry": "retried",
    "hold": "held",
    "release": "released",
    "cancel": "cancelled",
    "resolve --sent": "resolved",
    "resolve --resend": "resolved",
    "suppression add": "suppressed",
    "suppression remove": "suppression_removed",
}
_REPORTS = {"dsn": "bounced", "report": "reported", "alert": "alerted", "tls-report": "tls_reported"}
_EVERY_MESSAGE = frozenset({"accepted", "sent"})
_NEEDS_A_LOOK = frozenset({"dead", "in_doubt"})
_NO_REPLY = Reply(None, None, "")

Value = str | int | float | None
Pairs = tuple[tuple[str, Value], ...]
"""Names and values of a line in order; a value that is None or "" is left out."""
Said = tuple[str, str, Pairs]
"""Level, event and details."""
Layout = Callable[[Pairs], str]


class Sink(Protocol):
    """Takes whole lines; neither raises nor blocks."""

    def __call__(self, line: bytes, soon: bool = False) -> None:
        """`soon`: a moment later is early enough."""
        ...

    def take_lost(self) -> int:
        """How many lines it could not take since the last call."""
        ...


class LogLines:
    """An observer that gives each fact to `sink` as a line with its line end. `now` is the wall clock (seconds since the
    epoch); `debug` lets debug details through."""

    def __init__(self, sink: Sink, now: Callable[[], float], layout: Layout, *, debug: bool) -> None:
        self._sink = sink
        self._now = now
        self._layout = layout
        self._debug = debug
        self._second, self._second_text = -1, ""
        self._minute = -1
        self._refusals: dict[str, int] = {}

    def __call__(self, fact: Fact) -> None:
        level, event, details = _said(fact)
        if level == "debug" and not self._debug:
            return
        now = self._now()
        if isinstance(fact, Refused) and not self._may_log(fact, now):
            return
        if lost := self._sink.take_lost():
            self._write(now, "warning", "log_lines_lost", (("count", lost),))
        self._write(now, level, event, details)

    def _write(self, now: float, level: str, event: str, details: Pairs) -> None:
        line = self._layout((("ts", self._timestamp(now)), ("level", level), ("event", event), *details))
        self._sink(f"{line}\n".encode(), event in _EVERY_MESSAGE)

    def _timestamp(self, now: float) -> str:
        """RFC 3339, UTC, milliseconds."""
        milliseconds = int(now * 1000)
        second, rest = divmod(milliseconds, 1000)
        if second != self._second:
            self._second = second
            self._second_text = timestamp(second)[:-5]
        return f"{self._second_text}.{rest:03}Z"

    def _may_log(self, refused: Refused, now: float) -> bool:
        minute = int(now // 60)
        if minute != self._minute:
            self._tell_suppressed(now)
            self._minute = minute
        client = refused.client if refused.client in self._refusals or len(self._refusals) < _CLIENTS else "others"
        count = self._refusals[client] = self._refusals.get(client, 0) + 1
        return count <= REFUSALS_PER_MINUTE

    def _tell_suppressed(self, now: float) -> None:
        refusals, self._refusals = self._refusals, {}
        for client, count in refusals.items():
            if count > REFUSALS_PER_MINUTE:
                more = count - REFUSALS_PER_MINUTE
                self._write(now, "warning", "refused_more", (("client", client), ("count", more)))


def timestamp(at: float) -> str:
    """RFC 3339, UTC, milliseconds."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def key_values(pairs: Pairs) -> str:
    """logfmt: a value that is not bare is quoted, with a backslash before quote and backslash."""
    words = []
    for key, value in pairs:
        if value is None or value == "":
            continue
        if isinstance(value, str) and _needs_quotes(value):
            value = _quoted(value)
        words.append(f"{key}={value}")
    return " ".join(words)


def _quoted(text: str) -> str:
    if not (text.isascii() and text.isprintable()):
        text = safe_text(text)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def json_object(pairs: Pairs) -> str:
    known = {
        key: safe_text(value) if isinstance(value, str) else value
        for key, value in pairs
        if value is not None and value != ""
    }
    return msgspec.json.encode(known).decode()


LAYOUTS: Mapping[str, Layout] = {"kv": key_values, "json": json_object}
"""By the configuration's `[log] format`."""


# ---------------------------------------------------------------- what a fact says
def _said(fact: Fact) -> Said:
    match fact:
        case Settled():
            return _settled(fact)
        case Accepted():
            return _accepted(fact)
        case Attempted():
            return _attempted(fact)
        case Encrypted():
            return _encrypted(fact)
        case Repeated():
            return _repeated(fact)
        case Refused():
            return _refused(fact)
        case Reported():
            return _reported(fact)
        case Ordered():
            return _ordered(fact)
        case Trouble():
            return _trouble(fact)


def _accepted(fact: Accepted) -> Said:
    details = (
        ("qid", fact.queue_id),
        ("key", fact.key),
        ("message_id", fact.message_id),
        ("sender", f"<{fact.sender}>"),
        ("recipients", fact.recipients),
        ("size", fact.size),
        ("class", fact.mail_class),
        ("kind", fact.kind),
        ("client", fact.client),
        ("user", fact.user),
        ("deliver_by", None if fact.deliver_by is None else timestamp(fact.deliver_by)),
        ("not_before", None if fact.not_before is None else timestamp(fact.not_before)),
    )
    return "info", "accepted", details


def _settled(fact: Settled) -> Said:
    reply = fact.reply or _NO_REPLY
    details = (
        ("qid", fact.queue_id),
        ("key", fact.key),
        ("recipient", fact.recipient),
        ("attempt", fact.attempt),
        ("host", fact.host),
        ("address", fact.address),
        ("tls", fact.tls),
        ("code", reply.code),
        ("enhanced", reply.enhanced),
        ("text", reply.text),
        ("category", fact.category),
        ("remote_id", fact.remote_id),
        ("delay", round(fact.delay, 3)),
        ("next_attempt_at", None if fact.next_attempt_at is None else timestamp(fact.next_attempt_at)),
    )
    return "warning" if fact.outcome in _NEEDS_A_LOOK else "info", fact.outcome, details


def _attempted(fact: Attempted) -> Said:
    details = (
        ("qid", fact.queue_id),
        ("key", fact.key),
        ("destination", fact.destination),
        ("host", fact.host),
        ("address", fact.address),
        ("phase", fact.phase),
        ("code", fact.reply.code),
        ("enhanced", fact.reply.enhanced),
        ("text", fact.reply.text),
    )
    return "info", "attempt", details


def _encrypted(fact: Encrypted) -> Said:
    details = (
        ("destination", fact.domain),
        ("server", fact.host),
        ("address", fact.address),
        ("policy", ",".join(policy for policy, _ in fact.policies)),
        ("result", fact.result.value),
        ("detail", fact.detail),
    )
    return "debug", "tls", details


def _repeated(fact: Repeated) -> Said:
    details = (
        ("qid", fact.queue_id),
        ("key", fact.key),
        ("answer", fact.answer),
        ("status", fact.status),
        ("client", fact.client),
    )
    return "info", "duplicate", details


def _refused(fact: Refused) -> Said:
    details = ("client", fact.client), ("user", fact.user), ("reply", fact.reply), ("reason", fact.reason)
    return "info", "refused", details


def _reported(fact: Reported) -> Said:
    details = (
        ("qid", fact.about),
        ("kind", fact.kind),
        ("report_qid", fact.queue_id),
        ("to", fact.to),
        ("recipients", fact.recipients),
    )
    return "info", _REPORTS.get(fact.kind, fact.kind), details


def _ordered(fact: Ordered) -> Said:
    details = (
        ("qid" if is_queue_id(fact.target) else "target", fact.target),
        ("recipient", fact.recipient),
        ("verb", fact.verb),
        ("outcome", fact.outcome),
    )
    return "info", _ORDERS.get(fact.verb, fact.verb), details


def _trouble(fact: Trouble) -> Said:
    details = ("what", fact.what), ("detail", fact.detail)
    return fact.severity, "daemon" if fact.severity == "info" else "trouble", details
