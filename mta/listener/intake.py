"""What happens behind the final dot: header fix-ups, the durable commit, and the reply that tells of it.

Rules: 250 only after the commit (RFC 5321 sections 4.2.5 and 6.1); trouble of our own is transient and told without its
inner text, which goes to the log under an error id (RFC 5321 section 4.2.1; RFC 3463 X.3.x); nothing here is undone
because a client has gone.
"""

from mta.listener.content import ContentDecoder
from mta.listener.long_lines import encoded
from mta.listener.settings import ListenerSettings
from mta.listener.transaction import Transaction
from mta.model.address import parse_address
from mta.model.envelope import ByMode, DeliverBy, Kind, NewMessage
from mta.model.events import Accepted, Refused, Repeated, Trouble
from mta.model.queue_id import RANDOM_BITS, queue_id
from mta.model.reply import Reply
from mta.policy import header, trace
from mta.policy.acceptance import ForwardPath
from mta.policy.author import author_domain
from mta.policy.fingerprint import fingerprint
from mta.policy.requests import Wish
from mta.policy.schedule import RetryPolicy
from mta.policy.suppression import refusal
from mta.policy.trace import Client, Prepared
from mta.ports.system import Clock, Entropy, Observer
from mta.spool.base import Clash, ContentBuffer, Earlier, Spool, SpoolFull
from mta.suppressions import Suppressions

ROOM_LOOK = 0.1
"""Seconds between two looks at how much room there is; whoever commits looks again."""

_FULL = Reply(452, "4.3.1", "Insufficient storage, try again later")
_KEY_REQUIRED = Reply(550, "5.7.0", "A message needs an Idempotency-Key header field here")


class Intake:
    """The way into the spool that all sessions share."""

    def __init__(
        self, spool: Spool, clock: Clock, entropy: Entropy, observer: Observer, suppressions: Suppressions | None = None
    ) -> None:
        self._spool = spool
        self._suppressions = suppressions
        self.now = clock.now
        """Seconds since the epoch."""
        self._chance = entropy.stream("queue id")
        self._errors = entropy.stream("error id")
        self._observer = observer
        self._room_seen_at = 0.0

    def buffer(self) -> ContentBuffer | Reply:
        """For a message of which nobody knows how large it is."""
        try:
            if not 0 <= (now := self.now()) - self._room_seen_at < ROOM_LOOK:
                self._spool.check_room(0)
                self._room_seen_at = now
            return self._spool.buffer()
        except Exception as error:
            return self.trouble(error)

    def no_room(self, octets: int) -> Reply | None:
        """Why a message of `octets` would be sent in vain; 0: nobody knows how many, so that is seen when they come."""
        try:
            if octets:
                self._spool.check_room(octets)
        except Exception as error:
            return self.trouble(error)
        return None

    def looks_up(self) -> bool:
        """Whether recipients have to be looked up, since nothing is sent to some."""
        return self._suppressions is not None and self._suppressions.any

    async def suppressed(self, path: ForwardPath) -> Reply | None:
        """Why nothing is sent to a recipient. Where a local address leads is its aliases' business. Never raises."""
        addresses = [it.address for it in path.recipients if not it.original]
        try:
            found = await self._suppressions.find(addresses) if self._suppressions else {}
        except Exception as error:
            return self.trouble(error)
        return next((refusal(name, it.since, it.cause) for name, it in found.items()), None)

    async def submit(
        self,
        transaction: Transaction,
        client: Client,
        decoder: ContentDecoder,
        content: ContentBuffer,
        settings: ListenerSettings,
    ) -> Reply:
        """The reply to the end of the content; never raises for what the spool does. Closes `content`, or gives it to the
        spool, which may still need it when the caller was cancelled."""
        if decoder.has_long_line and decoder.fault is None and decoder.error is None:
            legal = await self._encoded(decoder, content, utf8=transaction.requests.utf8)
            content.close()
            if isinstance(legal, Reply):
                return self._refused(legal, client)
            content = legal
        try:
            message = await self._examine(transaction, client, decoder, content, settings)
        except Exception as error:
            message = self.trouble(error)
        if isinstance(message, Reply):
            content.close()
            return self._refused(message, client)
        try:
            earlier = await self._spool.accept(message, content, message.accepted_at)
        except Exception as error:
            return self._refused(self.trouble(error), client)
        if earlier is not None:
            self._observer(Repeated(earlier.queue_id, message.key, earlier.clash.name.lower(), earlier.status, client.name))
            return _answer(earlier)
        self.tell_accepted(message, client.name)
        return Reply(250, "2.0.0", f"Ok: queued as {message.queue_id}")

    async def _encoded(self, decoder: ContentDecoder, content: ContentBuffer, *, utf8: bool) -> ContentBuffer | Reply:
        try:
            made = await encoded(content, self._spool.buffer, utf8=utf8)
        except Exception as error:
            return self.trouble(error)
        if isinstance(made, Reply):
            return made
        decoder.eight_bit = made.eight_bit  # of what will be sent
        return made.content

    async def _examine(
        self,
        transaction: Transaction,
        client: Client,
        decoder: ContentDecoder,
        content: ContentBuffer,
        settings: ListenerSettings,
    ) -> NewMessage | Reply:
        """The message, its content made ready for the spool; or why it is refused."""
        if flaw := self._flaw(decoder):
            return flaw
        arrival = self._arrival(transaction, client, settings)
        start = content.prefix(header.LIMIT)
        complete = len(start) == content.size
        prepared = trace.prepare(
            start,
            arrival,
            complete=complete,
            max_hold=settings.max_hold,
            strict=settings.header_checks == "strict",
            own_hops=settings.max_own_hops,
        )
        if isinstance(prepared, Reply):
            return prepared
        if refusal := _refusal(prepared, start, settings, complete=complete):
            return refusal
        if prepared.wish.past and not await self._is_known(prepared, client):
            return Reply(554, "5.6.0", f"Header field {prepared.wish.past} names a time that has passed")
        content.replace_prefix(prepared.length, prepared.by)
        if prepared.wish.asked is not None:
            self._tell_lowered(arrival, prepared.wish, client)
        return _message(transaction, arrival, prepared, content.size, decoder.eight_bit, settings)

    def _flaw(self, decoder: ContentDecoder) -> Reply | None:
        return self.trouble(decoder.error) if decoder.fault is None and decoder.error is not None else decoder.fault

    def flaw(self, decoder: ContentDecoder, client: Client) -> Reply | None:
        """What is wrong with content whose end has not come yet."""
        flaw = self._flaw(decoder)
        return self._refused(flaw, client) if flaw is not None else None

    async def _is_known(self, prepared: Prepared, client: Client) -> bool:
        """A program that submits again what it submitted in time hears of the duplicate, not of the time that has passed."""
        return bool(prepared.controls.key) and await self._spool.knows(prepared.controls.key, client.user)

    def new_id(self) -> tuple[str, float]:
        """A queue id, and the instant it is of."""
        now = self.now()
        return queue_id(int(now * 1000), self._chance.getrandbits(RANDOM_BITS)), now

    def _arrival(self, transaction: Transaction, client: Client, settings: ListenerSettings) -> trace.Arrival:
        name, now = self.new_id()
        return trace.Arrival(
            client=client,
            hostname=settings.hostname,
            queue_id=name,
            sole=transaction.sole or "",
            at=now,
            requests=transaction.requests,
            began_at=transaction.began_at,
            highest=transaction.highest,
        )

    def _tell_lowered(self, arrival: trace.Arrival, wish: Wish, client: Client) -> None:
        asked = wish.asked.label if wish.asked is not None else ""
        what = f"class {asked} of {arrival.queue_id} was lowered to {wish.mail_class.label}"
        self._observer(Trouble("info", what, f"by the rule for {client.user or client.name}"))

    def tell_accepted(self, message: NewMessage, client: str) -> None:
        self._observer(
            Accepted(
                queue_id=message.queue_id,
                key=message.key,
                message_id=message.message_id,
                sender=message.reverse_path,
                recipients=len(message.recipients),
                size=message.size,
                mail_class=message.mail_class.label,
                kind=message.kind,
                client=client,
                user=message.submitter,
                deliver_by=message.deliver_by.at if message.deliver_by is not None else None,
                not_before=message.not_before,
            )
        )

    # ------------------------------------------------ what goes wrong
    def trouble(self, error: Exception) -> Reply:
        """Reports trouble of our own under an id, and the reply that names no more than the id."""
        error_id = f"{self._errors.getrandbits(32):08x}"
        detail = f"{type(error).__name__}: {error}"
        self._observer(Trouble("error", f"submission failed (error {error_id})", detail))
        if isinstance(error, SpoolFull):
            return _FULL
        return Reply(451, "4.3.0", f"Internal trouble, try again later (error {error_id})")

    def _refused(self, reply: Reply, client: Client) -> Reply:
        self.turned_away(client.name, reply, "content", client.user)
        return reply

    def closed(self, client: str, why: str) -> None:
        """A client that nothing can be replied to."""
        self._observer(Refused(client, why, "connection"))

    def turned_away(self, client: str, reply: Reply, reason: str, user: str = "") -> None:
        self._observer(Refused(client, str(reply), reason, user))


def _refusal(prepared: Prepared, start: bytes, settings: ListenerSettings, *, complete: bool) -> Reply | None:
    """Of mail that we would sign for a domain which its client may not send for, and of mail without the key it needs."""
    if settings.signed and settings.rule.sender_domains:
        section = header.split_section(start, complete=complete)  # it was found good before
        if foreign := settings.rule.author_refusal(author_domain(section), settings.signed):
            return foreign
    return _KEY_REQUIRED if settings.require_key and not prepared.controls.key else None


def _message(
    transaction: Transaction,
    arrival: trace.Arrival,
    prepared: Prepared,
    size: int,
    eight_bit: bool,
    settings: ListenerSettings,
) -> NewMessage:
    wish = prepared.wish
    schedule = settings.schedules[wish.mail_class]
    start = max(arrival.at, wish.not_before or 0.0)  # RFC 4865 section 5.2.2
    is_named = bool(prepared.controls.key or settings.message_id_window)
    return NewMessage(
        queue_id=arrival.queue_id,
        message_id=prepared.message_id,
        reverse_path=transaction.reverse_path or "",
        recipients=tuple(transaction.recipients.values()),
        subject=header.shown_subject(prepared.subject),
        size=size,
        eight_bit=eight_bit,
        mail_class=wish.mail_class,
        kind=Kind.MAIL,
        accepted_at=arrival.at,
        expires_at=schedule.expires_at(start),
        warn_at=schedule.warn_at(start) if transaction.reverse_path else None,  # there is nobody to warn
        key=prepared.controls.key,
        fingerprint=_fingerprint(transaction, prepared.subject) if is_named else "",
        same_since=arrival.at - settings.message_id_window if settings.message_id_window else None,
        in_doubt=prepared.controls.in_doubt,
        priority=wish.priority or 0,
        deliver_by=wish.deliver_by or default_deadline(schedule, start),
        not_before=wish.not_before,
        hold_request=wish.hold_request,
        submitter=arrival.client.user,
        require_tls=transaction.requests.require_tls,
        tls_optional=prepared.controls.tls_optional and not transaction.requests.require_tls,
        ret=transaction.dsn.ret,
        envid=transaction.dsn.envid,
        utf8=not (prepared.by.isascii() and (transaction.reverse_path or "").isascii()),
        scope=arrival.client.user,  # two users' keys are two keys
    )


def default_deadline(schedule: RetryPolicy, start: float) -> DeliverBy | None:
    """That of its class, for a message without one of its own, counted from its release."""
    at = schedule.deliver_by_at(start)
    return None if at is None else DeliverBy(at, ByMode.HANDOVER)


def _fingerprint(transaction: Transaction, subject: str) -> str:
    """Over what was submitted, before aliases and suppression: they may change between two submissions."""
    mailboxes = {parse_address(it.original or it.address, utf8=True).key for it in transaction.recipients.values()}
    return fingerprint(transaction.reverse_path or "", mailboxes | transaction.suppressed, subject)


def _answer(earlier: Earlier) -> Reply:
    """What a client hears whose email was there before (interface.md section 3)."""
    name = earlier.queue_id
    if earlier.clash is Clash.DUPLICATE:
        return Reply(250, "2.0.0", f"Ok: duplicate of {name} ({earlier.status})")
    if earlier.clash is Clash.FINISHED:
        return Reply(554, "5.5.0", f"{name} has this idempotency key and is {earlier.status}: use a new key")
    return Reply(554, "5.5.0", f"{name} has this idempotency key, with another sender, recipients or Subject")
