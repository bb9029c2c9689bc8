"""The JSON documents of the control socket as plain text for a person.

Rules: one way of making text, for the socket and for the command line. Everything that came from outside is escaped here
again, and nothing is coloured. Times are UTC.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from textwrap import wrap
from typing import Any

from mta.control.commands import Command
from mta.control.timeline import lines, reply_text
from mta.control.words import WIDTH, clock, count, moment, span, table
from mta.model.category import IN_WORDS
from mta.model.text import safe_text

Json = Mapping[str, Any]

_ASK = "more: mta show QUEUEID"
_REMEDIES = {
    "dead": "given up: `mta retry QUEUEID` tries again",
    "in_doubt": "in doubt: `mta resolve QUEUEID --sent` if it arrived, `--resend` if not",
    "damaged": "damaged: `mta cancel QUEUEID` ends it",
    "untold": "told to nobody: `mta dead --seen QUEUEID` once you know of it",
    "unreported": "not reported: set postmaster, or `mta dead --seen QUEUEID` once you know of it",
}
"""By what a message is listed for."""
DESTINATIONS = 12
"""Lines of `status` for the destinations with the most waiting, so that what stands above them stays on the screen."""
REPLY = 100
"""Characters of a reply there."""
_OWN_MAIL = {"dsn": "a bounce", "report": "a report", "alert": "an alert"}
_DEADLINES = {
    "handover": "to be handed over by then, or it fails",
    "R": "to be delivered by then, or it fails",
    "N": "to be delivered by then, or the sender is told",
}


def render(command: str, document: Json) -> str:
    """Lines, each ended."""
    makers: dict[str, Callable[[Json], Iterable[str]]] = {
        "status": _status,
        "queue": _queue,
        "dead": _dead,
        "show": _show,
        "resend": _resend,
        "backup": _backup,
        "status --check": _check,
        "dead --seen": _seen,
        "suppression list": _suppressions,
        "suppression add": _suppressed,
        "suppression remove": _not_suppressed,
    }
    lines = makers.get(command, _changes)(document)
    return "".join(f"{line.rstrip()}\n" for line in lines)


def shown_as(command: Command) -> str:
    """What `render` calls the answer to `command`."""
    return next((f"{command.name} --{option}" for option in ("check", "seen") if option in command.options), command.name)


def _check(document: Json) -> Iterable[str]:
    found = document["health"]
    yield check_line(found["level"], found["reasons"])


def check_line(level: str, reasons: Sequence[str]) -> str:
    """One line, as monitoring plugins print it."""
    return safe_text(f"{level.upper()}: {'; '.join(reasons) or 'nothing waits too long, nothing needs a person'}")


def _resend(document: Json) -> Iterable[str]:
    yield f"queued as {safe_text(document['queue_id'])}, a new email made of {safe_text(document['resend_of'])}"
    for address in document.get("suppressed", ()):
        yield f"{safe_text(address)} is tried all the same: it is suppressed, see `mta suppression list`"


def _seen(document: Json) -> Iterable[str]:
    yield f"{safe_text(document['seen'])}: noted that you know of it; it is listed no more for that"


def _backup(document: Json) -> Iterable[str]:
    yield f"the spool was copied to {safe_text(document['file'])} ({count(document['size'], 'octet')})"


# ---------------------------------------------------------------- suppressions
def _suppressions(document: Json) -> Iterable[str]:
    for it in document["suppressions"]:
        yield _standing_order(it)
        yield f"    {safe_text(_cause(it))}"
    if not document["suppressions"]:
        yield "nothing is suppressed"
    if document["more"]:
        yield "there are more"


def _standing_order(it: Json) -> str:
    until = f"until {clock(it['until'])}" if it["until"] else "until it is removed"
    return f"{safe_text(it['address'])}: nothing is sent to it since {clock(it['since'])}, {until}"


def _cause(it: Json) -> str:
    if it["reply"]:
        return f"{it['remote_host'] or 'its server'} said of {it['queue_id'] or 'a message'}: {reply_text(it['reply'])}"
    return it["reason"] or "a person decided so"


def _suppressed(document: Json) -> Iterable[str]:
    yield _standing_order(document["added"])


def _not_suppressed(document: Json) -> Iterable[str]:
    yield f"{safe_text(document['removed'])}: mail is sent to it again"


# ---------------------------------------------------------------- status
def _status(document: Json) -> Iterable[str]:
    sessions = count(document["sessions"], "session")
    yield f"mta {document['version']} on {safe_text(document['hostname'])}, up {span(document['uptime_s'])}, {sessions}"
    yield ""
    yield from _needing(document)
    counts = document["recipients"].items()
    yield "recipients  " + ", ".join(f"{number} {status}" for status, number in counts if number or status == "pending")
    for name, found in document["classes"].items():
        oldest = f", the oldest for {span(found['oldest_s'])}" if found["oldest_s"] is not None else ""
        yield f"{name:10}  {found['pending']} waiting{oldest}"
    rates = ", ".join(f"{rate:g} {safe_text(name)}" for name, rate in document["rates"].items() if rate)
    if rates:
        yield from wrap(f"last minute {rates}", WIDTH, subsequent_indent=" " * 12)
    if lag := document["loop_lag"]:
        yield f"loop lag    up to {moment(lag)} within the last minute"
    kinds = ", ".join(f"{number} {safe_text(name)}" for name, number in document.get("categories", {}).items())
    if kinds:
        yield from wrap(f"refusals    {kinds} (since the start)", WIDTH, subsequent_indent=" " * 12)
    yield from _destinations(document["destinations"])


def _needing(document: Json) -> Iterable[str]:
    """What a person should see to, or has ordered."""
    found = document["health"]
    heads = (safe_text(found["level"]), *[""] * len(found["reasons"]))
    yield from (f"{head:12}{safe_text(reason)}" for head, reason in zip(heads, found["reasons"], strict=False))
    if document["held"]:
        orders = (_held(safe_text(name)) for name in document["held"])
        yield f"held        {', '.join(orders)}"


def _held(target: str) -> str:
    """A standing order, and what lifts it."""
    return "everything (mta release --all)" if target == "*" else f"{target} (mta release --domain {target})"


def _destinations(found: Sequence[Json]) -> Iterable[str]:
    if not found:
        return
    rows = found[:DESTINATIONS]
    yield ""
    yield from table(
        ("DESTINATION", "WAITING", "SESSIONS", "RESTS UNTIL", "LAST REPLY"),
        (
            (
                row["domain"],
                row["pending"],
                row["sessions"],
                clock(row["suspended_until"])[11:],
                safe_text(row["last_reply"] or "", REPLY),
            )
            for row in rows
        ),
    )
    if len(found) > len(rows):
        yield "more: mta status --json"
    limited = [(row["domain"], words) for row in rows if row["limit"] and (words := _limits(row["limit"]))]
    if limited:
        yield ""
        yield from table(("DESTINATION", "LIMITS"), limited)


def _limits(limit: Json) -> str:
    """What is not as everywhere; "" where nothing is."""
    parts = []
    if limit["why"] != "default":
        parts.append(f"{limit['allowed']} of at most {count(limit['cap'], 'session')} ({limit['why']})")
    if limit["rate"]:
        after = f", the next at {clock(limit['next_message_at'])[11:]}" if limit["next_message_at"] else ""
        parts.append(f"messages {limit['rate']}{after}")
    if limit["shared_as"]:
        parts.append(f"shared as {limit['shared_as']}")
    if limit["learned_from"]:
        parts.append(f"it said: {limit['learned_from']}")
    return "; ".join(parts)


# ---------------------------------------------------------------- lists
def _queue(document: Json) -> Iterable[str]:
    if not document["messages"]:
        yield "nothing waits"
        return
    heads = table(
        ("QUEUE ID", "ACCEPTED", "CLASS", "SIZE", "SENDER"),
        (
            (it["queue_id"], clock(it["accepted_at"]), it["class"], it["size"], it["sender"] or "<>")
            for it in document["messages"]
        ),
    )
    for head, message in zip(heads, ({"recipients": ()}, *document["messages"]), strict=True):
        yield head
        for recipient in message["recipients"]:
            yield from _standing(recipient, "    ", message["not_before"])
    yield _shown(document)


def _dead(document: Json) -> Iterable[str]:
    if not document["messages"]:
        yield "nothing needs a person"
        return
    for message in document["messages"]:
        yield f"{message['queue_id']}  {safe_text(message['sender'] or '<>')}  {_quoted(message['subject'])}"
        if message["damaged"]:
            yield f"    damaged: {safe_text(message['damaged'])}"
        if "untold" in _causes(message):
            yield f"    {_untold(message)}"
        if "unreported" in _causes(message):
            yield "    its failure could be reported to nobody: no postmaster is set"
        for recipient in message["recipients"]:
            if recipient["status"] in ("dead", "failed", "in_doubt", "held") or recipient["doubts"]:
                yield from _standing(recipient, "    ")
    yield _shown(document)
    causes = frozenset[str]().union(*map(_causes, document["messages"]))
    yield from (remedy for cause, remedy in _REMEDIES.items() if cause in causes)
    yield "what is finished and stays as it is leaves this list with spool.retention"


def _causes(message: Json) -> frozenset[str]:
    """Why a message needs a person. Without a postmaster what was to be reported is listed too, so that is the reason where
    there is no other."""
    statuses = {recipient["status"] for recipient in message["recipients"]}
    waits = any(it["status"] == "in_doubt" and not it["next_attempt_at"] for it in message["recipients"])
    found = {name for name in ("damaged", "untold") if message[name]}
    found |= {"dead"} & statuses | ({"in_doubt"} if waits else set())
    return frozenset(found or {"unreported"})


def _untold(message: Json) -> str:
    if own := _OWN_MAIL.get(message["kind"]):
        return f"{own} that could not be delivered: whom it was for was not told"
    return "its failure could be told to nobody"


def _shown(document: Json) -> str:
    shown, total = len(document["messages"]), document["total"]
    return f"{count(total, 'message')}" + (f", {shown} of them shown" if shown < total else "") + f"; {_ASK}"


# ---------------------------------------------------------------- show
def _show(document: Json) -> Iterable[str]:
    yield f"{document['queue_id']}  {_quoted(document['subject'])}"
    for name, value in _facts(document):
        yield f"  {name:12}{safe_text(str(value))}"
    yield ""
    for recipient in document["recipients"]:
        yield from _standing(recipient, not_before=document["not_before"])
    yield ""
    for entry in document["timeline"]:
        yield from lines(entry, whose=len(document["recipients"]) > 1)


def _facts(document: Json) -> Iterable[tuple[str, object]]:
    yield "from", document["sender"] or "<> (a bounce or report)"
    if document.get("submitter"):
        yield "submitter", document["submitter"]
    yield "Message-ID", document["message_id"] or "none"
    if document["idempotency_key"]:
        yield "key", document["idempotency_key"]
    yield "class", document["class"] + (f" (MT-PRIORITY {document['priority']})" if document["priority"] else "")
    yield "size", count(document["size"], "octet")
    yield "accepted", clock(document["accepted_at"])
    if document["not_before"]:
        yield "not before", clock(document["not_before"])
    if document["deliver_by"]:
        yield "deadline", f"{clock(document['deliver_by'])}, {_DEADLINES.get(document['deliver_by_mode'], '')}"
    if asked := [f"{name.upper()}={document[name]}" for name in ("ret", "envid") if document[name]]:
        yield "DSN", " ".join(asked)
    if document.get("require_tls"):
        yield "encryption", "REQUIRETLS: verified, and on to servers alone that hold to it too"
    elif document.get("tls_optional"):
        yield "encryption", "TLS-Required: No, so what its receivers demand of encryption keeps it from nobody"
    if any(recipient["finished_at"] is None for recipient in document["recipients"]):
        yield "gives up", clock(document["expires_at"])
    if document["damaged"]:
        yield "damaged", document["damaged"]


def _standing(recipient: Json, indent: str = "", not_before: str | None = None) -> Iterable[str]:
    """Where one recipient stands; below it the server that was spoken to, and what was heard last. `not_before`: its
    message's release."""
    head = f"{recipient['address']}: {recipient['status']}"
    if recipient["attempts"]:
        head += f" after {count(recipient['attempts'], 'attempt')}"
    if recipient["doubts"] > (recipient["status"] == "in_doubt"):
        head += f", in doubt {count(recipient['doubts'], 'time')}"
    if recipient["held_by_order"]:
        head += f", held with all mail{_of_order(recipient['held_by_order'])}"
    elif recipient["next_attempt_at"]:
        waits_for_release = recipient["next_attempt_at"] == not_before and not recipient["attempts"]
        head += f", {'scheduled for' if waits_for_release else 'next'} {clock(recipient['next_attempt_at'])}"
    elif recipient["status"] == "in_doubt":
        head += ", waits for a person"
    yield indent + safe_text(head)
    if asked := [f"{name.upper()}={recipient[name]}" for name in ("notify", "orcpt") if recipient[name]]:
        yield f"{indent}    " + safe_text(" ".join(asked))
    if recipient["remote_host"]:
        queued = f", there queued as {recipient['remote_id']}" if recipient["remote_id"] else ""
        yield f"{indent}    " + safe_text(f"{recipient['remote_host']} [{recipient['remote_address']}]{queued}")
    if recipient["reply"]:
        yield f"{indent}    " + safe_text(reply_text(recipient["reply"]))
    if recipient.get("category"):
        yield f"{indent}    that is: {safe_text(_kind(recipient['category']))}"


def _kind(category: str) -> str:
    """In words, or as it stands: a daemon may know more kinds than the program that asks."""
    known = {it.value: words for it, words in IN_WORDS.items()}
    return f"{known[category]} ({category})" if category in known else category


def _of_order(target: str) -> str:
    return "" if target == "*" else f" for {target}"


def _quoted(subject: str | None) -> str:
    return f'"{safe_text(subject)}"' if subject else "(no subject)"


# ---------------------------------------------------------------- what a verb did
def _changes(document: Json) -> Iterable[str]:
    if "held" in document:
        domain = safe_text(document["domain"])
        what, scope = ("everything", "--all") if domain == "*" else (f"all mail for {domain}", f"--domain {domain}")
        yield f"{what} is held until `mta release {scope}`" if document["held"] else f"the order to hold {what} is lifted"
        return
    for change in document["changed"]:
        names = " ".join(name for name in (change["queue_id"], change["recipient"]) if name)
        yield safe_text(f"{names}: {_change(change)}")
    if not document["changed"]:
        yield "nothing to do"
    if document["total"] > len(document["changed"]):
        yield f"and {document['total'] - len(document['changed'])} more"


def _change(change: Json) -> str:
    moved = change["after"] if change["before"] == change["after"] else f"{change['before']} -> {change['after']}"
    return f"{moved} ({change['note']})" if change["note"] else moved
