"""The stage that reports how encryption went (RFC 8460): it counts by day and policy domain, and after the day's end mails
the counts to the domains that ask for them.

Rules: counts are in memory for a minute, then in the spool, where they add up over restarts; a crash loses a minute of
them. A report goes in under a key of its day and domain before its counts go out, so each is sent once, also over a crash.
It is worth a day (section 5.5), and nobody is told where it fails. Nothing here stops for good, or delays mail.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from mta.model.address import parse_address
from mta.model.envelope import ByMode, DeliverBy, DoubtOrder, Kind, MailClass, NewMessage, NewRecipient
from mta.model.events import Encrypted, Fact, Reported, Trouble
from mta.model.queue_id import RANDOM_BITS, queue_id
from mta.model.reply import Reply
from mta.policy.acceptance import Locals
from mta.policy.compose import Stamp
from mta.policy.tls_report import (
    DAY,
    TlsReport,
    begin_of,
    compose_tls_report,
    contact,
    day_name,
    day_of,
    report_addresses,
)
from mta.policy.tls_tally import Tally, read_tally
from mta.ports.names import Lookup, Resolver
from mta.ports.system import Clock, Entropy, Observer
from mta.spool.base import Memory, Remembered, Spool, SpoolError

FLUSH_INTERVAL = 60.0
LOOK_INTERVAL = 600.0
SHORTEST_DELAY, LONGEST_DELAY = 2 * FLUSH_INTERVAL, 4 * 3600.0
"""Seconds after the day's end between which its reports go out: all is counted by then, and not all of the world's go out at
once."""
WORTH = 86400.0
KEPT = 3 * 86400.0
"""Seconds: for how long a report is tried; for how long counts wait for a name server."""
DOMAINS_COUNTED = 10_000
"""Of a minute; sessions with others are not counted."""
PAGE = 20
COUNTS, REPORTS = "counts of encryption can't be kept", "reports of encryption can't all be sent"


@dataclass(frozen=True, slots=True)
class TlsReportSettings:
    """`locals` says where mail to ourselves goes."""

    hostname: str
    postmaster: str | None
    locals: Locals


class TlsReports:
    """An observer by `observe`; `run` does the rest, `flush` is for the end. `settings` may be replaced while it runs."""

    def __init__(
        self,
        settings: TlsReportSettings,
        spool: Spool,
        resolver: Resolver,
        clock: Clock,
        entropy: Entropy,
        observer: Observer,
    ) -> None:
        self.settings = settings
        self._spool, self._resolver, self._clock, self._observer = spool, resolver, clock, observer
        self._chance = entropy.stream("tls reports")
        self._counted: dict[str, Tally] = {}
        self._flushing = asyncio.Lock()
        self._today, self._delay = 0, 0.0
        self._failing: set[str] = set()

    # ------------------------------------------------ counting
    def observe(self, fact: Fact) -> None:
        if not isinstance(fact, Encrypted):
            return
        name = f"{day_name(day_of(self._clock.now()))} {fact.domain}"
        if name in self._counted or len(self._counted) < DOMAINS_COUNTED:
            self._counted.setdefault(name, Tally()).count(fact)

    async def flush(self) -> None:
        """What was counted is in the spool. Raises `SpoolError`: then it is still here."""
        async with self._flushing:
            while batch := {name: self._counted.pop(name) for name in [*self._counted][:PAGE]}:
                try:
                    await self._add(batch)
                except SpoolError:
                    for name, tally in batch.items():
                        self._counted.setdefault(name, Tally()).add(tally)
                    raise

    async def _add(self, batch: dict[str, Tally]) -> None:
        now = self._clock.now()
        known = await self._spool.recall(Memory.TLS_RESULT, batch.keys(), now)
        sums = {name: read_tally(known[name].value) if name in known else Tally() for name in batch}
        for name, tally in batch.items():
            sums[name].add(tally)
        values = {name: tally.write() for name, tally in sums.items()}
        await self._spool.remember(Memory.TLS_RESULT, values, now + KEPT, now)

    # ------------------------------------------------ life
    async def run(self) -> None:
        """Until cancelled."""
        await asyncio.gather(self._flush_for_ever(), self._send_for_ever())

    async def _flush_for_ever(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_INTERVAL)
            flushing = asyncio.create_task(self._flush_quietly())
            await asyncio.shield(flushing)  # whoever ends this task waits for the lock in `flush`

    async def _flush_quietly(self) -> None:
        try:
            await self.flush()
        except SpoolError as error:
            self._tell_trouble(COUNTS, error)
        else:
            self._failing.discard(COUNTS)

    async def _send_for_ever(self) -> None:
        while True:
            try:
                await self._send_due()
            except Exception as error:  # whatever it was, the counts are still in the spool
                self._tell_trouble(REPORTS, error)
            else:
                self._failing.discard(REPORTS)
            await asyncio.sleep(LOOK_INTERVAL)

    def _tell_trouble(self, what: str, error: Exception) -> None:
        """Loud once: only the first failure of a row is told."""
        if what not in self._failing:
            self._observer(Trouble("warning", f"{what}; trying again later", f"{type(error).__name__}: {error}"))
        self._failing.add(what)

    # ------------------------------------------------ reporting
    async def _send_due(self) -> None:
        """The days are over in the order of their names, so the first that is not over ends the look. Raises the first
        failure when everything has been tried."""
        after, failures = "", list[BaseException]()
        while page := await self._spool.memories(Memory.TLS_RESULT, after, PAGE, self._clock.now()):
            due = [one for one in page if self._is_due(one.name)]
            failures += filter(None, await asyncio.gather(*map(self._send, due), return_exceptions=True))
            if len(due) < len(page):
                break
            after = page[-1].name
        for failure in failures:
            raise failure

    def _is_due(self, name: str) -> bool:
        now = self._clock.now()
        if day_of(now) != self._today:
            self._today, self._delay = day_of(now), self._chance.uniform(SHORTEST_DELAY, LONGEST_DELAY)
        return now >= begin_of(name.partition(" ")[0]) + DAY + self._delay

    async def _send(self, one: Remembered) -> None:
        day, _, domain = one.name.partition(" ")
        answer = await self._resolver.texts(f"_smtp._tls.{domain}")
        if answer.lookup is Lookup.TROUBLE:
            return
        wanted = report_addresses(answer.texts)
        if recipients := self._recipients(wanted):
            own, begins = self.settings, begin_of(day)
            who = contact(own.hostname, own.postmaster)
            report = TlsReport(domain, begins, who.rpartition("@")[2].lower(), who, read_tally(one.value))
            await self._insert(report, wanted, recipients)
        await self._spool.forget(Memory.TLS_RESULT, [one.name], self._clock.now())

    def _recipients(self, addresses: Sequence[str]) -> tuple[NewRecipient, ...]:
        resolved = [self.settings.locals.resolve(parse_address(address)) for address in addresses]
        found = {new.address: new for it in resolved if not isinstance(it, Reply) for new in it}
        return tuple(found.values())

    async def _insert(self, report: TlsReport, to: Sequence[str], recipients: tuple[NewRecipient, ...]) -> None:
        now, hostname = self._clock.now(), self.settings.hostname
        own_id = queue_id(int(now * 1000), self._chance.getrandbits(RANDOM_BITS))
        stamp = Stamp(hostname, now, f"<{own_id}@{hostname}>", f"=_{self._chance.getrandbits(96):024x}")
        content = compose_tls_report(report, to, stamp)
        message = NewMessage(
            queue_id=own_id,
            message_id=stamp.message_id,
            reverse_path="",
            recipients=recipients,
            subject=report.subject,
            size=len(content),
            eight_bit=False,
            mail_class=MailClass.BULK,
            kind=Kind.TLS_REPORT,
            accepted_at=now,
            expires_at=now + 2 * WORTH,  # the deadline comes first
            warn_at=None,
            key=f"tls-report:{day_name(report.begins)}:{report.domain}",
            scope=Kind.TLS_REPORT.value,
            in_doubt=DoubtOrder.RETRY,
            deliver_by=DeliverBy(now + WORTH, ByMode.HANDOVER),
            tls_optional=True,
        )
        buffer = self._spool.buffer()
        try:
            buffer.write(content)
            earlier = await self._spool.accept(message, buffer, now)
        except SpoolError:
            buffer.close()
            raise
        if earlier is None:
            self._observer(Reported(own_id, "", Kind.TLS_REPORT.value, ", ".join(to), len(recipients)))
