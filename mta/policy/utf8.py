"""Who needs SMTPUTF8 (RFC 6531 sections 3.2 and 3.5).

Rules: need is computed from what is sent, never from what was announced; recipients that need it go apart from those that
do not, which any server takes. An address with an ASCII local part needs nothing: it is kept with A-labels
(`model.address.Address.sendable`).
"""

from collections.abc import Sequence
from enum import Enum
from typing import Protocol, TypeVar


class Need(Enum):
    """What of a transaction needs SMTPUTF8; the value is the reason in words."""

    NOTHING = ""
    ADDRESS = "the address of the sender or of a recipient is not ASCII"
    HEADER = "the header section of the message is not ASCII"

    @property
    def status(self) -> str:
        """Where it can't be had (RFC 6531 section 3.5)."""
        return "5.6.9" if self is Need.HEADER else "5.6.7"


class Addressed(Protocol):
    """A recipient."""

    @property
    def address(self) -> str: ...


_Recipient = TypeVar("_Recipient", bound=Addressed)


def need(reverse_path: str, recipients: Sequence[Addressed], *, message: bool) -> Need:
    """Of one transaction. `message`: the reverse-path or the header section needs it."""
    if not reverse_path.isascii():
        return Need.ADDRESS
    for one in recipients:
        if not one.address.isascii():
            return Need.ADDRESS
    return Need.HEADER if message else Need.NOTHING


def together(recipients: Sequence[_Recipient], *, message: bool) -> Sequence[_Recipient]:
    """Those of `recipients` that go into the next transaction: first those that need nothing, if the message doesn't."""
    if message:
        return recipients
    return [it for it in recipients if it.address.isascii()] or recipients
