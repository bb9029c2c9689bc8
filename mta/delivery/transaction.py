"""One mail transaction on an open session (RFC 5321 section 3.3, RFC 2920, RFC 3030).

Rules: every reply is classified by itself; a recipient's verdict stands whatever comes later; the content is sent only
after a 354, or by BDAT, with at least one accepted recipient; the gate (`mark_in_doubt`) is passed before the final dot or
the last chunk. What is left without a verdict is the caller's to try elsewhere or again.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence

from msgspec import Struct
from msgspec.structs import replace

from mta.delivery.letter import Letter
from mta.model.envelope import Kind
from mta.model.outcome import Action, Change, Disposition, Observation, Phase, Ruling, Scope, Verdict
from mta.model.reply import finding
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

Mark = Callable[[Sequence[ClaimedRecipient], Session, str], Awaitable[None]]
"""The gate before the final dot, with the keys that signed the content: durable, or it raises."""


class Result(Struct, eq=False):
    """What a transaction came to. `verdicts` by recipient id; `later` are those the server wants in the next transaction;
    `host` is a verdict on the host itself (try the next one); `change` asks for the same host again."""

    verdicts: dict[int, Verdict] = {}
    later: list[ClaimedRecipient] = []
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
    of_rcpts = [rcpt_parameters(session.extensions, deadline, now, it.notify, it.orcpt) for it in recipients]
    return (*of_mail, *dsn_parameters(session.extensions, claim.ret, claim.envid)), tuple(of_rcpts)


class Transaction(Struct, eq=False):
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
    mark: Mark
    result: Result
    accepted: list[ClaimedRecipient] = []

    async def run(self) -> Result:
        session, result, extensions = self.session, self.result, self.session.extensions
        pipelined = "PIPELINING" in extensions and Change.UNPIPELINED not in self.changes
        chunked = goes_in_chunks(extensions, self.letter.size) and Change.WITH_DATA not in self.changes
        situation = Situation(
            parameters=droppable(self.parameters),
            pipelined=pipelined,
            starttls_offered="STARTTLS" in extensions,
            tls=bool(session.tls),
            repeated=self.changes,
            relay=self.relay,
        )
        replies = await session.envelope(
            self.claim.reverse_path,
            self.parameters,
            [it.address for it in self.recipients],
            pipelined=pipelined,
            rcpt_parameters=self.rcpt_parameters,
            chunked=chunked,
        )
        is_open = self._mail(replies, situation) and self._rcpts(replies, situation)
        if is_open and (chunked or self._data(replies, situation)):
            if self.accepted:
                result.content, content = True, self.letter.chunks()
                if chunked:
                    observation = await session.chunks(content, self._gate, pipelined=pipelined)
                else:
                    observation = await session.content(content, self._gate)
                self._concluded(observation, situation)
            elif not chunked:
                await session.no_content()
                result.open_transaction = False
        if not (result.verdicts or result.later or result.host or result.change):
            result.host = _senseless()
        return result

    def _gate(self) -> Awaitable[None]:
        return self.mark(self.accepted, self.session, self.letter.signed)

    # ------------------------------------------------ MAIL, RCPT, DATA
    def _mail(self, replies: EnvelopeReplies, situation: Situation) -> bool:
        """Whether the transaction is open."""
        ruling = classify(replies.mail, situation)
        if ruling.action is Action.GO:
            self.result.open_transaction = True
            return True
        self._apply(ruling, self.recipients)
        return False

    def _rcpts(self, replies: EnvelopeReplies, situation: Situation) -> bool:
        """Whether the session lives on; sorts the recipients."""
        for recipient, asked, observation in zip(self.recipients, self.rcpt_parameters, replies.rcpts, strict=False):
            of_rcpt = replace(situation, rcpt_parameters=bool(asked), accepted=len(self.accepted))
            ruling = classify(observation, of_rcpt)
            if ruling.action is Action.GO:
                self.accepted.append(recipient)
            elif ruling.change is Change.NEXT_TRANSACTION:
                self.result.later.append(recipient)
            else:
                self._apply(ruling, [recipient])
                if self.result.host or self.result.change:
                    return False
        return True

    def _data(self, replies: EnvelopeReplies, situation: Situation) -> bool:
        """Whether the server waits for content."""
        if replies.data is None:
            return False
        ruling = classify(replies.data, situation)
        if ruling.action is Action.GO:
            return True
        self._apply(ruling, self.accepted)
        return False

    def _concluded(self, observation: Observation, situation: Situation) -> None:
        if observation.phase is Phase.FINAL:
            self.result.open_transaction = False
        self._apply(classify(observation, situation), self.accepted)

    def _apply(self, ruling: Ruling, recipients: Sequence[ClaimedRecipient]) -> None:
        """A ruling reaches the recipients in its scope, or the host."""
        if ruling.action is Action.SAME:
            self.result.change = ruling.change
        elif ruling.action is Action.NEXT:
            self.result.host = ruling.verdict
        elif ruling.verdict is not None:
            for recipient in recipients:
                self.result.verdicts.setdefault(recipient.id, ruling.verdict)


def _senseless() -> Verdict:
    reply = finding("4.5.0", "the server's replies decide nothing about the recipients")
    return Verdict(Disposition.TRANSIENT, Scope.SESSION, "4.5.0", reply, Phase.DATA)
