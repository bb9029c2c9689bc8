"""What a delivery is to the scheduler, and what it comes to."""

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from mta.model.envelope import MailClass
from mta.model.outcome import Verdict


class Crowded(Struct, frozen=True):
    """A server refused a connection of `hop` (as in `Sessions`) as one too many beside `others`, at least one, that were
    open; `reply` is what it said."""

    hop: str
    others: int
    reply: str


class DeliveryOutcome(Struct, frozen=True):
    """What a delivery came to, as far as its destination is concerned. `idle`: nothing was due. `trouble`: the verdict that
    befell the destination as a whole, on mail of `mail_class`; `rest` in seconds, where it is known how long. `contents`:
    how often content was sent. `hop` is where it was tried last, "" where the destination's mail usually goes."""

    idle: bool = False
    trouble: Verdict | None = None
    mail_class: MailClass = MailClass.NORMAL
    rest: float | None = None
    contents: int = 1
    hop: str = ""
    crowded: Crowded | None = None


class Deliver(Protocol):
    async def deliver(
        self, destination: str, mail_class: MailClass, claimed: Callable[[float | None], None]
    ) -> DeliveryOutcome:
        """Delivers the next claim of a class at `destination`; calls `claimed` when it has one, with the instant at which
        the next is due (`Claim.following`)."""
        ...

    async def tell_overdue(self, destination: str, verdict: Verdict) -> None:
        """Settles what can't wait any longer at a destination that rests after `verdict`."""
        ...
