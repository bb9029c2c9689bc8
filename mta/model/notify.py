"""What is to be told of a recipient, as NOTIFY says (RFC 3461 section 4.1).

Rules: without a NOTIFY failures are told and so are delays, which the RFC leaves to us; a success is told only to who asks.
"""

from enum import StrEnum

NEVER = "NEVER"


class Of(StrEnum):
    """NOTIFY's words but NEVER, in the order in which they are kept."""

    SUCCESS = "SUCCESS"
    FAILURE = "FAILURE"
    DELAY = "DELAY"


def wants(notify: str, of: Of) -> bool:
    """Whether the sender of a recipient with this NOTIFY (as in `NewRecipient`) is told `of` it."""
    return of in notify.split(",") if notify else of is not Of.SUCCESS
