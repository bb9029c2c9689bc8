"""What a program or a web server is told of recipients that need a person: one JSON document. Pure.

Rules: version 1 keeps its names; times are RFC 3339 in UTC with milliseconds; null where there is nothing; plain ASCII, so
that nothing from outside is a control character.
"""

import json
from collections.abc import Sequence

from mta.model.instant import rfc3339
from mta.policy.wisdom import category
from mta.spool.base import DueNotice

VERSION = 1


def alert_document(hostname: str, at: float, notices: Sequence[DueNotice]) -> bytes:
    """`at` is now, in seconds since the epoch."""
    document = {
        "version": VERSION,
        "kind": "alert",
        "hostname": hostname,
        "at": rfc3339(at),
        "messages": [_message(notice) for notice in notices],
    }
    return json.dumps(document).encode("ascii") + b"\n"


def _message(notice: DueNotice) -> dict[str, object]:
    reply = notice.reply
    return {
        "queue_id": notice.queue_id,
        "message_id": notice.message_id or None,
        "idempotency_key": notice.key or None,
        "class": notice.mail_class.label,
        "sender": notice.reverse_path,
        "recipient": notice.recipient,
        "subject": notice.subject or None,
        "status": notice.status.value,
        "reply": {"code": reply.code, "enhanced": reply.enhanced, "text": reply.text},
        "category": category(reply, notice.phase).value or None,
        "remote_host": notice.remote_host or None,
        "attempts": notice.attempts,
        "doubts": notice.doubts,
        "at": rfc3339(notice.at),
    }
