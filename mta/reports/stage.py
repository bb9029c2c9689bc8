"""The stage that tells: it reads marks from the spool and writes mail into it (RFC 5321 sections 4.4, 4.5.5, 6.1).

Rules: what is due is in the spool, never only here; a mail goes in and its marks go out in one commit, so each is told
once, also over a crash. DSNs go at once, one for each step. The postmaster hears of the first failure (since start, or
after a quiet interval) at once, of further ones collected. Nothing here stops for good: trouble with the spool is
waited out, and what can be told to nobody is counted. No "delayed" warning is made about a mail of ours, so none of
them is due for one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

from mta.doorbell import LOOK_INTERVAL, wait_for
from mta.model.address import AddressError, parse_address
from mta.model.envelope import Kind, MailClass, NewMessage, NewRecipient, Notice
from mta.model.events import Reported, Trouble
from mta.model.queue_id import RANDOM_BITS, queue_id
from mta.model.reply import Reply
from mta.policy.acceptance import Locals
from mta.policy.compose import Stamp
from mta.policy.dsn_return import NOT_LEGAL, octets_needed
from mta.policy.notices import DSN_NOTICES
from mta.policy.schedule import RetryPolicy
from mta.ports.system import Clock, Entropy, Observer
from mta.reports.drafts import Draft, collected_draft, dsn_draft, returns_whole
from mta.spool.base import DueNotice, Spool, SpoolError

_NOTICES = tuple(Notice)
FIRST_REST, LONGEST_REST = 1.0, 60.0
"""Seconds of rest after trouble with the spool; doubled each time."""
DSN_BATCH = 100
WHOLE_AT_ONCE = 4
"""DSNs that return a whole message and are being made: each takes a few times the message's size of memory."""
COLLECTED_LIMIT = 2000
"""Marks that one report or alert takes; more are left to the next."""


class Unaddressable(ValueError):
    """No mail can go to this address; the text says why."""


@dataclass(frozen=True, slots=True)
class ReportSettings:
    """`postmaster` None: what is for the postmaster stays in the spool. Intervals are seconds."""

    hostname: str
    postmaster: str | None
    report_interval: float
    alert_interval: float
    schedules: Mapping[MailClass, RetryPolicy]


@dataclass(slots=True)
class _Collection:
    """What the postmaster is told in one kind of mail; `open_at` is the loop's time from which the next may go."""

    kind: Kind
    notice: Notice
    interval: float
    open_at: float = float("-inf")


@dataclass(frozen=True, slots=True)
class _Mail:
    """A draft with its stamp and address: what goes into the spool."""

    draft: Draft
    message: NewMessage
    content: bytes


class Reports:
    """`run` does all the work."""

    def __init__(
        self,
        settings: ReportSettings,
        spool: Spool,
        locals: Locals,
        clock: Clock,
        entropy: Entropy,
        observer: Observer,
    ) -> None:
        self._settings = settings
        self._spool = spool
        self._locals = locals
        self._clock = clock
        self._chance = entropy.stream("reports")
        self._observer = observer
        self._rest = 0.0
        self._whole = asyncio.Semaphore(WHOLE_AT_ONCE)
        self._collections = (
            _Collection(Kind.ALERT, Notice.ALERT, settings.alert_interval),
            _Collection(Kind.REPORT, Notice.REPORT, settings.report_interval),
        )

    def reconfigure(self, settings: ReportSettings, locals: Locals) -> None:
        """New settings from now on; an interval that has begun goes on."""
        self._settings, self._locals = settings, locals
        for collection in self._collections:
            alert = collection.kind is Kind.ALERT
            collection.interval = settings.alert_interval if alert else settings.report_interval

    async def run(self) -> None:
        """Until cancelled."""
        bell = self._spool.doorbell.notices
        while True:
            bell.clear()
            try:
                await self._tell()
            except Exception as error:  # whatever it was, the marks are still in the spool
                await asyncio.sleep(self._rest_after(error))
            else:
                self._rest = 0.0
                await wait_for(bell, self._longest_wait())

    def _rest_after(self, error: Exception) -> float:
        """Loud once: only the first failure of a row is told."""
        if not self._rest:
            what = "reports cannot be written to the spool; they are tried again until they can"
            self._observer(Trouble("error", what, f"{type(error).__name__}: {error}"))
        self._rest = min(self._rest * 2, LONGEST_REST) or FIRST_REST
        return self._rest

    def _longest_wait(self) -> float:
        now = asyncio.get_running_loop().time()
        return min([LOOK_INTERVAL, *(it.open_at - now for it in self._collections if it.open_at > now)])

    async def _tell(self) -> None:
        """All that is due, alerts first; raises the first failure when everything has been tried."""
        if not await self._spool.notices(_NOTICES, 1, self._clock.now()):  # mostly so: one question for a look
            return
        failures = []
        if self._settings.postmaster:
            failures += [
                await _failure(partial(self._tell_postmaster, it, self._settings.postmaster)) for it in self._collections
            ]
        failures.append(await _failure(self._tell_senders))
        for failure in filter(None, failures):
            raise failure

    # ------------------------------------------------ the sender
    async def _tell_senders(self) -> None:
        while notices := await self._spool.notices(DSN_NOTICES, DSN_BATCH, self._clock.now()):
            steps: dict[int, list[DueNotice]] = {}
            for notice in notices:
                steps.setdefault(notice.step, []).append(notice)
            # together, so that they share the spool's commits
            failures = await asyncio.gather(*[_failure(partial(self._tell_sender, step)) for step in steps.values()])
            for failure in filter(None, failures):
                raise failure

    async def _tell_sender(self, step: Sequence[DueNotice]) -> None:
        whole = returns_whole(step)
        async with self._whole if whole else nullcontext():
            await self._tell_of(step, await self._beginning(step[0].queue_id, whole))

    async def _tell_of(self, step: Sequence[DueNotice], original: bytes) -> None:
        try:
            mail = self._dsn(step, original)
        except Exception as error:  # what can't be told must not keep the others back
            await self._tell_nobody(step, error)
        else:
            await self._insert(mail)

    def _dsn(self, step: Sequence[DueNotice], original: bytes) -> _Mail:
        """With the header alone where more fails: no message may be so made that its sender is not told."""
        try:
            return self._mail(dsn_draft(step, original))
        except Exception as error:
            if isinstance(error, Unaddressable) or not returns_whole(step):
                raise
            mail = self._mail(dsn_draft(step, original, withheld=NOT_LEGAL))
            what = f"{step[0].queue_id} can't be returned whole with its DSN; its header is"
            self._observer(Trouble("warning", what, f"{type(error).__name__}: {error}"))
            return mail

    async def _beginning(self, queue_id: str, whole: bool) -> bytes:
        """The first octets of the original, as many as a DSN may need; b"" if they are purged or damaged."""
        start, limit = bytearray(), octets_needed(whole)
        try:
            async for chunk in self._spool.content(queue_id):
                start += chunk[: limit - len(start)]
                if len(start) >= limit or (not whole and b"\r\n\r\n" in start):
                    break
        except SpoolError:
            return b""
        return bytes(start)

    # ------------------------------------------------ the postmaster
    async def _tell_postmaster(self, collection: _Collection, postmaster: str) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() < collection.open_at:
            return
        notices = await self._spool.notices([collection.notice], COLLECTED_LIMIT, self._clock.now())
        if not notices:
            return
        try:
            mail = self._mail(collected_draft(collection.kind, postmaster, notices))
        except Unaddressable as error:  # the marks stay, as without a postmaster
            self._observer(Trouble("warning", f"no {collection.kind} can be sent to the postmaster", str(error)))
        except Exception as error:  # as for a sender
            await self._tell_nobody(notices, error)
        else:
            await self._insert(mail)
        collection.open_at = loop.time() + collection.interval

    # ------------------------------------------------ the mail
    def _mail(self, draft: Draft) -> _Mail:
        """Stamped and addressed. Raises `Unaddressable`."""
        recipients = self._recipients(draft.to)
        now, hostname = self._clock.now(), self._settings.hostname
        own_id = queue_id(int(now * 1000), self._chance.getrandbits(RANDOM_BITS))
        stamp = Stamp(hostname, now, f"<{own_id}@{hostname}>", f"=_{self._chance.getrandbits(96):024x}")
        content = draft.compose(stamp)
        message = NewMessage(
            queue_id=own_id,
            message_id=stamp.message_id,
            reverse_path="",
            recipients=recipients,
            subject=draft.subject,
            size=len(content),
            eight_bit=not content.isascii(),
            utf8=not draft.to.isascii(),
            mail_class=draft.mail_class,
            kind=draft.kind,
            accepted_at=now,
            expires_at=self._settings.schedules[draft.mail_class].expires_at(now),
            warn_at=None,
            priority=draft.priority,
            require_tls=draft.require_tls,
        )
        return _Mail(draft, message, content)

    def _recipients(self, text: str) -> tuple[NewRecipient, ...]:
        try:
            resolved = self._locals.resolve(parse_address(text, utf8=True))
        except AddressError as error:
            raise Unaddressable(f"{text!r}: {error}") from None
        if isinstance(resolved, Reply):
            raise Unaddressable(f"{text!r}: {resolved}")
        return resolved

    async def _insert(self, mail: _Mail) -> None:
        told = [notice.id for notice in mail.draft.told]
        buffer = self._spool.buffer()
        try:
            buffer.write(mail.content)
            await self._spool.report(told, mail.message, buffer, mail.message.accepted_at)
        except SpoolError:
            buffer.close()
            raise
        draft = mail.draft
        self._observer(Reported(mail.message.queue_id, draft.about, draft.kind, draft.to, len(told)))

    async def _tell_nobody(self, notices: Sequence[DueNotice], error: Exception) -> None:
        """Takes the marks out: counted and shown as untold."""
        await self._spool.report([notice.id for notice in notices], None, None, self._clock.now())
        what = f"{notices[0].notice} about {notices[0].queue_id} can be told to nobody"
        severity = "warning" if isinstance(error, Unaddressable) else "error"
        self._observer(Trouble(severity, what, f"{type(error).__name__}: {error}"))


async def _failure(work: Callable[[], Awaitable[None]]) -> Exception | None:
    """What went wrong in `work`, so that the rest can be done first."""
    try:
        await work()
    except Exception as error:  # `run` is told of it
        return error
    return None
