"""Does a person's commands: parsed words in, JSON documents out.

Rules: what was done is in the spool before it is answered, and is told as a fact. A REF that fits several messages is
refused with their ids, never guessed at. What goes wrong is a `CommandError` with the exit code of interface.md section 1.
"""

import asyncio
import errno
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mta.control import suppressions, values
from mta.control.commands import Command
from mta.control.errors import CommandError, Exit
from mta.control.health import HealthRules
from mta.control.state import DaemonState
from mta.control.views import CHANGES_SHOWN, Json, changes_document, message_document, status_document
from mta.model.address import parse_address
from mta.model.events import Ordered
from mta.model.lifecycle import Event, Status
from mta.ports.system import Clock, Observer
from mta.spool.base import Changed, Filter, MessageView, Selection, Spool, SpoolError, SpoolRefusal
from mta.suppressions import Suppressions

EVERYTHING = "*"
_DEAD_SHOWN = 1000
_SLICE = 100
"""Messages made into documents without a pause: the daemon's other work goes on in between."""
_WANT_A_TRY = frozenset({Event.RETRY, Event.RESOLVE_RESEND})
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_NO_PLACE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP})
_SUPPRESSED = "though it is suppressed: see `mta suppression list`"
_EVENTS = {"retry": Event.RETRY, "hold": Event.HOLD, "release": Event.RELEASE, "cancel": Event.CANCEL}

Resubmit = Callable[[MessageView, str], Awaitable[str]]
"""The new queue id. Raises `SpoolRefusal`."""


@dataclass(frozen=True, slots=True)
class Desk:
    """`hostname` and `version` are what `status` says, `health` by what it judges; `resubmit` submits a stored message
    again under a key."""

    spool: Spool
    state: DaemonState
    clock: Clock
    observer: Observer
    hostname: str
    version: str
    resubmit: Resubmit
    health: Callable[[], HealthRules]
    suppressions: Suppressions

    async def do(self, command: Command) -> Json:
        """Raises `CommandError`."""
        try:
            return await self._do(command)
        except SpoolRefusal as refusal:
            raise CommandError(Exit.DATA, str(refusal)) from None
        except SpoolError as error:
            raise CommandError(Exit.TRY_LATER, f"the spool is in trouble: {error}") from None

    async def _do(self, command: Command) -> Json:
        match command.name:
            case "status":
                return await self._status()
            case "queue":
                return await self._listed(await self.spool.queue(_filter(command, self.clock.now())))
            case "dead":
                return await self._dead(command)
            case "show":
                return await self._show(command.refs[0])
            case "hold" | "release" if not command.refs:
                return await self._standing(command)
            case "resend":
                return await self._resend(command)
            case "backup":
                return await self._backup(command.refs[0])
            case "suppression list" | "suppression add" | "suppression remove":
                return await suppressions.do(command, self.suppressions, self.observer)
            case _:
                return await self._order(command)

    async def _status(self) -> Json:
        now = self.clock.now()
        overview = await self.spool.overview(now)
        names = {"version": self.version, "hostname": self.hostname}
        return status_document(overview, self.state, self.health(), now=now, **names)

    async def _listed(self, found: tuple[Sequence[MessageView], int]) -> Json:
        views, total = found
        documents: list[Json] = []
        for start in range(0, len(views), _SLICE):
            documents += (message_document(view, timeline=False) for view in views[start : start + _SLICE])
            await asyncio.sleep(0)
        return {"messages": documents, "total": total}

    async def _dead(self, command: Command) -> Json:
        without = not self.health().postmaster  # then what was to be reported stays here
        if "seen" not in command.options:
            return await self._listed(await self.spool.needing_person(_DEAD_SHOWN, without))
        queue_id = await self._one(command.options["seen"])
        await self.spool.seen(queue_id, without, self.clock.now())
        self.observer(Ordered("dead --seen", queue_id, "", "seen"))
        return {"seen": queue_id}

    async def _show(self, ref: str) -> Json:
        return message_document(await self._view(ref), timeline=True)

    async def _view(self, ref: str) -> MessageView:
        view = await self.spool.show(await self._one(ref))
        if view is None:
            raise _unknown(ref)
        return view

    # ------------------------------------------------ verbs
    async def _standing(self, command: Command) -> Json:
        """`hold` and `release` of a destination, or of everything: an order that stands."""
        target = _domain(command) or EVERYTHING
        held = command.name == "hold"
        await self.spool.standing_hold(target, held, self.clock.now())
        self.observer(Ordered(command.name, target, "", "held" if held else "released"))
        return {"domain": target, "held": held}

    async def _order(self, command: Command) -> Json:
        ids = tuple(dict.fromkeys([await self._one(ref) for ref in command.refs]))
        selection = Selection(ids, command.options.get("recipient", ""), _domain(command))
        event = _event(command)
        changes = await self.spool.order(event, selection, self.clock.now())
        self._tell(command, selection, changes)
        if event in _WANT_A_TRY:
            self._wake(selection, changes)
            changes = await self._noted(changes)
        return changes_document(changes)

    async def _noted(self, changes: Sequence[Changed]) -> Sequence[Changed]:
        """That a person wants it outweighs that nothing is sent there; it is said all the same."""
        going = [it.address for it in changes if it.queue_id and it.after is Status.PENDING]
        found = await self.suppressions.find(going[:CHANGES_SHOWN])
        return [
            replace(it, note=", ".join(filter(None, (it.note, _SUPPRESSED)))) if it.address in found else it
            for it in changes
        ]

    async def _resend(self, command: Command) -> Json:
        view = await self._view(command.refs[0])
        made = await self.resubmit(view, command.options["key"])
        found = await self.suppressions.find(it.address for it in view.recipients)
        return {"queue_id": made, "resend_of": view.queue_id, "suppressed": list(found)}

    async def _backup(self, name: str) -> Json:
        try:
            size = await self.spool.backup(Path(name), self.clock.now())
        except OSError as error:
            raise _no_backup(name, error) from None
        except SpoolError as error:
            raise CommandError(Exit.TRY_LATER, f"no backup was made: {error}") from None
        return {"file": name, "size": size}

    def _tell(self, command: Command, selection: Selection, changes: Sequence[Changed]) -> None:
        """A fact for each recipient that was named, one for a whole destination."""
        if not selection.queue_ids:
            target = selection.destination or EVERYTHING
            self.observer(Ordered(command.name, target, "", f"{len(changes)} recipients"))
            return
        for change in changes:
            self.observer(Ordered(command.name, change.queue_id, change.address, change.note or change.after.value))

    def _wake(self, selection: Selection, changes: Sequence[Changed]) -> None:
        """What is due, now or before, does not wait for its destination's rest to end."""
        if selection.queue_ids:
            wanted = {parse_address(it.address, utf8=True).destination for it in changes if it.after is Status.PENDING}
        else:
            wanted = {selection.destination} if selection.destination else set(self.state.destinations())
        for destination in wanted:
            self.state.wake(destination)

    async def _one(self, ref: str) -> str:
        found = await self.spool.find(ref)
        if not found:
            raise _unknown(ref)
        if len(found) > 1:
            raise CommandError(Exit.DATA, f"{ref} fits {len(found)} messages, name one by its queue id: {', '.join(found)}")
        return found[0]


def _event(command: Command) -> Event:
    if command.name == "resolve":
        return Event.RESOLVE_SENT if "sent" in command.options else Event.RESOLVE_RESEND
    return _EVENTS[command.name]


def _filter(command: Command, now: float) -> Filter:
    """What `queue` is asked for."""
    given = command.options
    return Filter(
        status=values.status(given["status"]) if "status" in given else None,
        domain=_domain(command),
        sender=values.sender(given["sender"]) if "sender" in given else None,
        mail_class=values.mail_class(given["class"]) if "class" in given else None,
        older_than=now - values.duration(given["older-than"]) if "older-than" in given else None,
        limit=values.limit(given["limit"]) if "limit" in given else Filter().limit,
        scheduled_after=now if "scheduled" in given else None,
    )


def _domain(command: Command) -> str:
    """The destination that --domain names; "" without one."""
    return values.domain(command.options["domain"]) if "domain" in command.options else ""


def _no_backup(name: str, error: OSError) -> CommandError:
    reason = (error.strerror or str(error)).lower()
    if error.errno in _FORBIDDEN:
        return CommandError(Exit.NOT_PERMITTED, f"the daemon may not make {name} ({reason}): name a folder of its own user")
    return CommandError(Exit.DATA if error.errno in _NO_PLACE else Exit.TRY_LATER, f"{name} can't be made ({reason})")


def _unknown(ref: str) -> CommandError:
    return CommandError(Exit.NO_MESSAGE, f"no message {ref}")
