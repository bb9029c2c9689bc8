"""Which addresses are not sent to any more, and what whoever submits mail to one hears. Pure.

Rules: an address is learned only from the server that keeps its mailboxes, for good, and at its own RCPT: what is refused
for a policy, for the content or for now says nothing about it (RFC 5321 section 4.2.5). What is remembered is readable by
whatever version comes later; what can't be read any more still stands.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

from mta.model.category import Category
from mta.model.instant import rfc3339
from mta.model.outcome import Phase
from mta.model.reply import Reply
from mta.model.text import ascii_text, safe_text

_OF_SENDER = re.compile(r"sender|return[- ]?path|mail from|call(?:back|out)", re.IGNORECASE)
"""A server that looks the sender up says at RCPT that there is no such user, and means another one."""
_DECIDED = "a person at this mail system decided so"


@dataclass(frozen=True, slots=True)
class Cause:
    """Why nothing is sent to an address: `reply` of `host` to the message `queue_id`; without one a person's `reason`."""

    reply: Reply | None = None
    host: str = ""
    queue_id: str = ""
    reason: str = ""

    @property
    def is_learned(self) -> bool:
        return self.reply is not None

    def written(self) -> str:
        """As it is remembered."""
        reply = self.reply and {"code": self.reply.code, "enhanced": self.reply.enhanced, "text": self.reply.text}
        return json.dumps({"reply": reply, "host": self.host, "queue_id": self.queue_id, "reason": self.reason})

    def __str__(self) -> str:
        if self.reply is None:
            return safe_text(self.reason) or _DECIDED
        return f"{safe_text(self.host) or 'its server'} said: {self.reply}"


def cause_of(written: str) -> Cause:
    """Of what is remembered; total."""
    try:
        found: Any = json.loads(written)
        said = found["reply"]
        reply = Reply(int(said["code"]), said["enhanced"], str(said["text"])) if said else None
        return Cause(reply, str(found["host"]), str(found["queue_id"]), str(found["reason"]))
    except (ValueError, KeyError, TypeError):
        return Cause()


def is_no_such_user(reply: Reply, phase: str, category: str) -> bool:
    """Whether a refusal for good tells that its recipient does not exist."""
    if (reply.code or 0) // 100 != 5 or phase != Phase.RCPT or _OF_SENDER.search(reply.text):
        return False
    return category == Category.NO_SUCH_USER


def refusal(address: str, since: float, cause: Cause) -> Reply:
    """What RCPT hears; `since` in seconds since the epoch."""
    text = f"<{address}>: nothing is sent to this address since {rfc3339(since)}: {cause}"
    return Reply(550, "5.1.1", ascii_text(text))
