"""What MAIL, RCPT and BDAT have established so far (RFC 5321 section 3.3; RFC 3030 section 2)."""

from msgspec import Struct, field

from mta.listener.chunking import Chunks
from mta.model.envelope import NewRecipient
from mta.model.reply import Reply
from mta.policy.acceptance import TOO_MANY_RECIPIENTS, ForwardPath
from mta.policy.clients import HIGHEST_PRIORITY
from mta.policy.dsn_request import NOTHING, MailAsks, together
from mta.policy.requests import NO_REQUESTS, Requests


class Transaction(Struct):
    """`reverse_path` is None until MAIL was accepted, at `began_at` (seconds since the epoch) and with `requests` and
    what it asks of DSNs (`dsn`); `sole` is the one address that RCPT named, "" with several; `highest` is the highest
    priority that is allowed. `suppressed` are mailboxes that RCPT named in vain, since nothing is sent to them, by their
    `Address.key`. `chunks` is what BDAT has brought, `is_broken` says that a chunk is lost, and the message with
    it."""

    reverse_path: str | None = None
    requests: Requests = NO_REQUESTS
    began_at: float = 0.0
    sole: str | None = None
    dsn: MailAsks = NOTHING
    highest: int = HIGHEST_PRIORITY
    recipients: dict[tuple[str, str], NewRecipient] = field(default_factory=dict)
    suppressed: set[str] = field(default_factory=set)
    chunks: Chunks | None = None
    is_broken: bool = False

    def overflow(self, forward_path: ForwardPath, limit: int) -> Reply | None:
        """Why there is no room for the recipients of a RCPT."""
        if len(self.recipients) < limit or all(_mailbox(it) in self.recipients for it in forward_path.recipients):
            return None
        return TOO_MANY_RECIPIENTS

    def add(self, forward_path: ForwardPath) -> None:
        """The recipients of a RCPT, each mailbox once."""
        for recipient in forward_path.recipients:
            known = self.recipients.get(mailbox := _mailbox(recipient))
            self.recipients[mailbox] = together(known, recipient) if known else recipient
        self.sole = forward_path.address if self.sole in (None, forward_path.address) else ""

    def break_chunks(self) -> None:
        """A chunk is lost: so is what came before it, and what will come behind it."""
        self.is_broken = True
        self.discard()

    def discard(self) -> None:
        """The transaction ends without its content."""
        if self.chunks is not None:
            self.chunks.content.close()
            self.chunks = None


def _mailbox(recipient: NewRecipient) -> tuple[str, str]:
    """Equal for the same mailbox: the local part as it is, the domain in lower case."""
    return recipient.address.rpartition("@")[0], recipient.destination
