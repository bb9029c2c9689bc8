"""What kind of thing a refusal is about, in the words of whoever has to do something about it.

Rules: a category never decides what is done with mail (Table A does); it says what a person would make of a reply.
"""

from enum import StrEnum


class Category(StrEnum):
    """Stored and shown by value; "" where nobody can tell."""

    UNKNOWN = ""
    NO_SUCH_USER = "no-such-user"
    NO_SUCH_DOMAIN = "no-such-domain"
    MAILBOX_FULL = "mailbox-full"
    MAILBOX_DISABLED = "mailbox-disabled"
    GREYLISTING = "greylisting"
    """Whoever is not known yet has to come again (RFC 6647)."""
    RATE_LIMITED = "rate-limited"
    TOO_MANY_CONNECTIONS = "too-many-connections"
    REPUTATION = "reputation"
    """Our address, or our name, is not trusted: blocklists, complaints, a missing or generic name."""
    POLICY = "policy"
    """Who the mail says it is from is not proven, or may not send it there."""
    CONTENT = "content"
    SIZE = "size"
    TLS = "tls"
    UNAVAILABLE = "unavailable"
    """The server, or the way to it, is not fit for work just now."""


IN_WORDS = {
    Category.NO_SUCH_USER: "there is no such mailbox",
    Category.NO_SUCH_DOMAIN: "the domain takes no mail",
    Category.MAILBOX_FULL: "the mailbox is full",
    Category.MAILBOX_DISABLED: "the mailbox is switched off",
    Category.GREYLISTING: "greylisting: strangers have to come again",
    Category.RATE_LIMITED: "it gets too much mail at once",
    Category.TOO_MANY_CONNECTIONS: "it has too many connections",
    Category.REPUTATION: "it does not trust our address or name",
    Category.POLICY: "it does not believe, or not allow, the sender",
    Category.CONTENT: "it does not like what is in the message",
    Category.SIZE: "the message is too large",
    Category.TLS: "encryption is wanted, or failed",
    Category.UNAVAILABLE: "the server is not available",
}
"""What stands behind "that is:"; none for UNKNOWN."""
