"""One mail transaction on an open session (RFC 5321 section 3.3, RFC 2920, RFC 3030).

Rules: every reply is classified by itself; a recipient's verdict stands whatever comes later; the content is sent only
after a 354, or by BDAT, with at least one accepted recipient; the gate (`mark_in_doubt`) is passed before the final dot or
the last chunk. What is left without a verdict is the caller's to try elsewhere or again.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field

from mta.delivery.letter import Letter
from mta.model.envelope import Kind
from mta.model.outcome import Action, Change, Observation, Phase, Ruling, Verdict
from mta.policy.classify import Situation, classify
from mta.policy.tls import requiretls
from mta.policy.transaction import (
    droppable,
    dsn_parameters,
    goes_in_chunks,
    mail_parameters,
    rcpt_parameters,
    required_only,
)
from mta.policy.utf8 import need
from mta.ports.smtp import EnvelopeReplies, Session
from mta.spool.base import Claim, ClaimedRecipient

Gate = Callable[[Sequence[ClaimedRecipient]], Awaitable[None]]


@dataclass(slots=True)
class Result:
    """What a transaction came to. `verdicts` by recipient id; `later` are those the server wants in the next transaction;
    `host` is a verdict on the host itself (try the next one); `change` asks for the same host again."""

    verdicts: dict[int, Verdict] = field(default_factory=dict)
    later: list[ClaimedRecipient] = field(default_factory=list)
    host: Verdict | None = None
    change: Change | None = None
    relayed: frozenset[int] = frozenset()
    """Ids of recipients whose sender is to be told if they are delivered here."""
    signed: str = ""
    content: bool = False
    """Content was sent, or some of it."""
    open_transaction: bool = False
    """MAIL was accepted and nothing ended the transaction: RSET before the next one."""


def parameters(
    claim: Claim,
    recipients: Sequence[ClaimedRecipient],
    letter: Letter,
    session: Session,
    changes: Collection[Change],
    now: float,
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]] | Verdict:
    """Those of MAIL and those of the RCPT of each recipient, as of `now`; or why this mail is not for this server."""
    of_mail = mail_parameters(
        session.extensions,
        letter.size,
        letter.eight_bit,
        priority=claim.priority,
        deliver_by=claim.deliver_by,
        now=now,
        utf8=need(claim.reverse_path, recipients, message=claim.utf8),
    )
    if isinstance(of_mail, Verdict):
        return of_mail
    if claim.require_tls:
        verified = bool(session.verified)
        required = requiretls(session.extensions, verified=verified, strict=claim.kind is not Kind.DSN)
        if isinstance(required, Verdict):
            return required
        of_mail = (*of_mail, *required)
    if Change.WITHOUT_PARAMETERS in changes:
        return required_only(of_mail), ((),) * len(recipients)
    deadline = claim.deliver_by if claim.reverse_path else None  # else there is nobody to give its word to
    of_rcpts = (rcpt_parameters(session.extensions, deadline, now, it.notify, it.orcpt) for it in recipients)
    return (*of_mail, *dsn_parameters(session.extensions, claim.ret, claim.envid)), tuple(of_rcpts)


@dataclass(slots=True)
class Transaction:
    """One try: recipients of one claim on one session."""

    claim: Claim
    letter: Letter
    session: Session
    recipients: Sequence[ClaimedRecipient]
    parameters: tuple[str, ...]
    rcpt_parameters: tuple[tuple[str, ...], ...]
    changes: frozenset[Change]
    relay: bool
    """The server is a relay of ours."""
    gate: Gate
    result: Result = field(default_factory=Result)
    accepted: list[ClaimedRecipient] = field(default_factory=list)

    async def run(self) -> Result:
        replies = await self.session.envelope(
            self.claim.reverse_path,
            self.parameters,
            [recipient.address for recipient in self.recipients],
            pipelined=self._pipelined,
            rcpt_parameters=self.rcpt_parameters,
            chunked=self._chunked,
        )
        if self._mail(replies) and self._rcpts(replies):
            await (self._chunks() if self._chunked else self._data(replies))
        return self.result

    @property
    def _pipelined(self) -> bool:
        return "PIPELINING" in self.session.extensions and Change.UNPIPELINED not in self.changes

    @property
    def _chunked(self) -> bool:
        return goes_in_chunks(self.session.extensions, self.letter.size) and Change.WITH_DATA not in self.changes

    def _ruling(self, observation: Observation, of_rcpt: Sequence[str] = ()) -> Ruling:
        situation = Situation(
            parameters=droppable(self.parameters),
            rcpt_parameters=bool(of_rcpt),
            pipelined=self._pipelined,
            accepted=len(self.accepted),
            starttls_offered="STARTTLS" in self.session.extensions,
            tls=bool(self.session.tls),
            repeated=self.changes,
            relay=self.relay,
        )
        return classify(observation, situation)

    # ------------------------------------------------ MAIL, RCPT, DATA
    def _mail(self, replies: EnvelopeReplies) -> bool:
        """Whether the transaction is open."""
        ruling = self._ruling(replies.mail)
        if ruling.action is Action.GO:
            self.result.open_transaction = True
            return True
        self._apply(ruling, self.recipients)
        return False

    def _rcpts(self, replies: EnvelopeReplies) -> bool:
        """Whether the session lives on; sorts the recipients."""
        for recipient, asked, observation in zip(self.recipients, self.rcpt_parameters, replies.rcpts, strict=False):
            ruling = self._ruling(observation, asked)
            if ruling.action is Action.GO:
                self.accepted.append(recipient)
            elif ruling.change is Change.NEXT_TRANSACTION:
                self.result.later.append(recipient)
            else:
                self._apply(ruling, [recipient])
                if self.result.host or self.result.change:
                    return False
        return True

    async def _data(self, replies: EnvelopeReplies) -> None:
        if replies.data is None:
            return
        ruling = self._ruling(replies.data)
        if ruling.action is not Action.GO:
            self._apply(ruling, self.accepted)
        elif self.accepted:
            await self._content()
        else:
            await self.session.no_content()
            self.result.open_transaction = False

    async def _content(self) -> None:
        self.result.content = True
        self._concluded(await self.session.content(self.letter.chunks(), lambda: self.gate(self.accepted)))

    async def _chunks(self) -> None:
        if not self.accepted:
            return
        self.result.content = True
        content, pipelined = self.letter.chunks(), self._pipelined
        self._concluded(await self.session.chunks(content, lambda: self.gate(self.accepted), pipelined=pipelined))

    def _concluded(self, observation: Observation) -> None:
        ruling = self._ruling(observation)
        if observation.phase is Phase.FINAL:
            self.result.open_transaction = False
        self._apply(ruling, self.accepted)

    def _apply(self, ruling: Ruling, recipients: Sequence[ClaimedRecipient]) -> None:
        """A ruling reaches the recipients in its scope, or the host."""
        if ruling.action is Action.SAME:
            self.result.change = ruling.change
        elif ruling.action is Action.NEXT:
            self.result.host = ruling.verdict
        elif ruling.verdict is not None:
            for recipient in recipients:
                self.result.verdicts.setdefault(recipient.id, ruling.verdict)

