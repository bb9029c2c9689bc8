"""Does what a person orders about addresses that nothing is sent to: parsed words in, JSON documents out."""

from mta.control import values
from mta.control.commands import Command
from mta.control.errors import CommandError, Exit
from mta.control.views import Json, reply_document
from mta.model.events import Ordered
from mta.model.instant import rfc3339
from mta.ports.system import Observer
from mta.suppressions import Suppression, Suppressions


async def do(command: Command, suppressions: Suppressions, observer: Observer) -> Json:
    """Raises `CommandError`, `SpoolRefusal`, `SpoolError`."""
    if command.name == "suppression list":
        found, more = await suppressions.listed(values.LIMIT)
        return {"suppressions": [document(it) for it in found], "more": more}
    address = values.address(command.refs[0])
    if command.name == "suppression remove":
        if not await suppressions.remove(address):
            raise CommandError(Exit.NO_MESSAGE, f"{address} is not suppressed")
        observer(Ordered(command.name, address, "", "removed"))
        return {"removed": address}
    lasts = values.lasting(command.options["for"]) if "for" in command.options else None
    made = await suppressions.add(address, command.options.get("reason", ""), lasts)
    observer(Ordered(command.name, address, "", "suppressed"))
    return {"added": document(made)}


def document(it: Suppression) -> Json:
    return {
        "address": it.address,
        "since": rfc3339(it.since),
        "until": rfc3339(it.until),
        "learned": it.cause.is_learned,
        "reason": it.cause.reason or None,
        "reply": reply_document(it.cause.reply),
        "remote_host": it.cause.host or None,
        "queue_id": it.cause.queue_id or None,
    }
