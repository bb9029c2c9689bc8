"""One entry of a message's timeline as a sentence.

What is not known here is shown as it stands: a spool may be older or newer than the program that asks.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from mta.control.words import clock
from mta.model.text import safe_text

Json = Mapping[str, Any]

_WORDS = {
    "accepted": "accepted: safe on disk",
    "attempt": "tried, and went on",
    "deferred": "not taken for now",
    "in_doubt": "in doubt: sent, but no reply was read",
    "sent": "sent",
    "failed": "failed for good",
    "dead": "given up",
    "held": "held",
    "released": "released",
    "cancelled": "cancelled",
    "resolved": "decided by a person",
    "bounced": "its sender was told",
    "duplicate": "submitted again: refused as a duplicate",
}
_OWN = frozenset({"at", "event", "recipient"})


def sentence(entry: Json) -> str:
    """`2026-01-02 03:04:05Z  ann@example.org  sent: server mx1.example.org, ...`"""
    event = str(entry["event"])
    details = ", ".join(_details(entry))
    parts = [clock(entry["at"]) or "(time unknown)", entry["recipient"] or "", _WORDS.get(event, event)]
    head = "  ".join(part for part in parts if part)
    return safe_text(f"{head}: {details}" if details else head)


def _details(entry: Json) -> Iterable[str]:
    for name, value in entry.items():
        if name in _OWN or value is None or value == "":
            continue
        if name == "reply" and isinstance(value, dict):
            said = " ".join(str(part) for part in (value.get("code"), value.get("enhanced"), value.get("text")) if part)
            yield f'reply "{said}"'
        elif name.endswith("_at"):
            yield f"{name.removesuffix('_at').replace('_', ' ')} {clock(str(value))}"
        else:
            yield f"{name.replace('_', ' ')} {value}"
