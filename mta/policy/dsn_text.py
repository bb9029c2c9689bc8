"""What a DSN says to a person: what happened to the message, for each recipient, what it means, what to do.

Rules: plain words before codes; a server's own words are quoted and marked as its own; whoever may have got the message
nevertheless is named, whatever else happened.
"""

from collections.abc import Iterator

from mta.model.category import Category
from mta.model.notify import Of, wants
from mta.model.outcome import Phase
from mta.model.text import safe_text
from mta.policy.compose import date_time, wrapped
from mta.policy.dsn import Dsn, DsnRecipient, Fate, status_of
from mta.policy.wisdom_table import TRUSTED

_MEANING = {
    "2.2": "The mailbox is full.",
    "4.1": "No mail server of this domain could be reached.",
    "4.3": "The name servers of this domain gave no usable answer.",
    "4.4": "The mail of this domain cannot be routed. Its administrator has to correct its DNS.",
    "4.6": "The mail goes round in a circle. An administrator has to correct where it is routed to.",
    "4.7": "It could not be delivered in the time it had.",
}
"""By the subject and detail of the status (RFC 3463 section 3)."""
_PERMANENT_MEANING = {
    "1.1": "There is no such mailbox. Check the address for typing mistakes.",
    "1.2": "There is no such domain. Check what stands behind the @.",
    "1.3": "The address is not written as the server expects it. Check it for typing mistakes.",
    "1.6": "The mailbox has moved. Ask its owner for the new address.",
    "1.10": "This domain says of itself that it takes no mail. Check what stands behind the @.",
    "2.1": "The mailbox is switched off. Its owner has to be reached in another way.",
    "2.2": "The mailbox is full. Send the message again when its owner has made room.",
    "2.3": "The message is too large for this mailbox. Send less at once, or a link.",
    "3.4": "The message is too large for this server. Send less at once, or a link.",
    "6.3": "The message has 8-bit text, which this server does not take. Send it as plain ASCII or as base64.",
    "6.7": "An address has letters beyond ASCII, which this server does not take. Ask for an address without them.",
    "6.9": "The header of the message has letters beyond ASCII, which this server does not take. Send it with them encoded.",
}
_BY_CATEGORY: dict[str, str] = {
    Category.NO_SUCH_USER: _PERMANENT_MEANING["1.1"],
    Category.NO_SUCH_DOMAIN: _PERMANENT_MEANING["1.10"],
    Category.MAILBOX_FULL: "The mailbox is full.",
    Category.MAILBOX_DISABLED: _PERMANENT_MEANING["2.1"],
    Category.GREYLISTING: "The server asks whom it does not know yet to come again later.",
    Category.RATE_LIMITED: "The server got more mail at once than it takes.",
    Category.TOO_MANY_CONNECTIONS: "The server had more connections than it takes.",
    Category.REPUTATION: "The server does not trust this mail system, whatever the message. The postmaster here has to see"
    " to that.",
    Category.POLICY: "The server does not believe that the message comes from whom it says, or takes none from there.",
    Category.CONTENT: "The server does not like something in the message: it may take it for spam, or for dangerous.",
    Category.SIZE: _PERMANENT_MEANING["3.4"],
    Category.TLS: "The server and this mail system found no way to encrypt the mail that both accept.",
    Category.UNAVAILABLE: "The server was not able to take mail.",
}
"""Where the status says nothing, only "policy", or something else than the server's words."""
_POLICY = "The server refused it by its own rules. Whoever runs that server can say why; quote its answer."

_REFUSED_IN: dict[str, str] = {
    Phase.MAIL: "refused the sender's address",
    Phase.RCPT: "refused this recipient",
    Phase.DATA: "refused the message before reading it",
    Phase.BODY: "refused the message",
    Phase.BDAT: "refused the message",
    Phase.FINAL: "refused the message after reading it",
}
_HEADLINE = {
    "failed": "not delivered",
    "delayed": "not delivered yet",
    "unknown": "may have been delivered",
    "relayed": "handed over",
}
_SUBJECT = {
    "failed": "Not delivered: your message to",
    "delayed": "Not delivered yet: your message to",
    "unknown": "May have been delivered: your message to",
    "relayed": "Handed over: your message to",
    "mixed": "Delivery problems: your message to",
}
_OPENING = {
    "failed": "Your message could not be delivered to {whom}. It will not be tried again.",
    "delayed": "Your message could not be delivered to {whom} yet. It is tried again; you need not do anything.",
    "unknown": "It is not known whether your message was delivered to {whom}. It is not sent again by itself.",
    "relayed": "Your message to {whom} was handed over to the next mail server.",
    "mixed": "Your message to {whom} met with problems, different ones for different recipients.",
}


_PLAIN_TENOR = {Fate.DELAYED: "delayed", Fate.RELAYED: "relayed"}
"""Whatever doubts there were."""


def subject(dsn: Dsn) -> str:
    count = len(dsn.recipients)
    whom = dsn.recipients[0].final_recipient if count == 1 else f"{count} recipients"
    return f"{_SUBJECT[_tenor(dsn)]} {whom}"


def body(dsn: Dsn, hostname: str) -> list[str]:
    """The lines of the text part; what comes from outside in it is safe, but need not be ASCII."""
    count = len(dsn.recipients)
    whom = "the recipient below" if count == 1 else f"the {count} recipients below"
    lines = wrapped(f"This is the mail system at {hostname}.")
    lines += ["", *wrapped(_OPENING[_tenor(dsn)].format(whom=whom)), "", *_particulars(dsn)]
    for recipient in dsn.recipients:
        lines += ["", *_account(recipient, dsn)]
    return [*lines, "", *wrapped(_closing(dsn))]


def _tenor(dsn: Dsn) -> str:
    tenors = {_tenor_for(recipient) for recipient in dsn.recipients}
    return tenors.pop() if len(tenors) == 1 else "mixed"


def _tenor_for(recipient: DsnRecipient) -> str:
    if recipient.fate in _PLAIN_TENOR:
        return _PLAIN_TENOR[recipient.fate]
    return "unknown" if recipient.fate is Fate.UNDECIDED or recipient.doubts else "failed"


def _particulars(dsn: Dsn) -> Iterator[str]:
    """Which message this is about."""
    if dsn.subject:
        yield from wrapped(safe_text(dsn.subject), "  Subject:     ", "               ")
    yield f"  Accepted:    {date_time(dsn.arrival_date)}"
    yield f"  Message-ID:  {safe_text(dsn.message_id, 300)}"
    yield f"  Queue id:    {dsn.queue_id}"


def _account(recipient: DsnRecipient, dsn: Dsn) -> Iterator[str]:
    """What happened to one recipient."""
    address, submitted_as = (safe_text(it, 300) for it in (recipient.final_recipient, recipient.submitted_as))
    submitted = f" (submitted as {submitted_as})" if submitted_as else ""
    yield f"<{address}>{submitted}: {_HEADLINE[_tenor_for(recipient)]}"
    yield from _cause(recipient)
    for sentence in _consequences(recipient, dsn):
        yield from wrapped(sentence, "    ")


def _cause(recipient: DsnRecipient) -> Iterator[str]:
    reply, host = recipient.reply, safe_text(recipient.remote_mta)
    if reply.code is None:
        yield from wrapped(_found(recipient), "    ")
        return
    server = f"The server {host}" if host else "The server"
    yield from wrapped(f"{server} {_deed(recipient)}", "    ")
    yield from wrapped(safe_text(str(reply)), "      ")


def _deed(recipient: DsnRecipient) -> str:
    """What the server did with it when it gave its reply."""
    if recipient.fate is Fate.RELAYED:
        return "took it. It said:"
    if recipient.fate is Fate.REFUSED:
        return f"{_REFUSED_IN.get(recipient.phase, 'refused the mail')}. It said:"
    return "said last:"


def _found(recipient: DsnRecipient) -> str:
    """What we found ourselves, where no server gave a reply."""
    text = safe_text(recipient.reply.text)
    if not text:
        return "No attempt came to a result."
    where = f" (server {safe_text(recipient.remote_mta)})" if recipient.remote_mta else ""
    return f"Found by this mail system{where}: {text}"


def _consequences(recipient: DsnRecipient, dsn: Dsn) -> Iterator[str]:
    """What it means and what to do, a sentence or two each."""
    if meaning := _meaning(recipient):
        yield meaning
    if recipient.fate is Fate.GIVEN_UP and recipient.attempts:
        yield f"Given up after {_times(recipient.attempts, 'attempt')}."
    if recipient.fate is Fate.DELAYED:
        told = "You will be told" if wants(recipient.notify, Of.FAILURE) else "As you asked, you will not be told"
        yield f"It is tried again until {date_time(dsn.will_retry_until)}. {told} if that fails."
    if recipient.fate is Fate.RELAYED:
        yield from _handed_over(dsn)
    elif recipient.doubts:
        yield (
            f"It may have been delivered: {_times(recipient.doubts, 'time')} the whole message went out and"
            " the connection ended before the server's answer came. Ask the recipient before you send it again."
        )
    if recipient.fate is Fate.UNDECIDED:
        yield "A person at this mail system decides whether it is sent again."


def _handed_over(dsn: Dsn) -> Iterator[str]:
    """It is not in the mailbox yet, and whoever asked for a time may wait for a word that never comes."""
    if dsn.deliver_by is not None:
        yield f"Whether it reaches the mailbox by {date_time(dsn.deliver_by)} is in that server's hands."
    yield "This mail system sends no further report about it."


def _meaning(recipient: DsnRecipient) -> str:
    status_class, _, detail = status_of(recipient).partition(".")
    if status_class == "2":
        return ""
    if recipient.category and TRUSTED.get(detail, recipient.category) != recipient.category:
        return _BY_CATEGORY.get(recipient.category, "")  # the words are right where the status is not
    known = (_PERMANENT_MEANING.get(detail) if status_class == "5" else None) or _MEANING.get(detail)
    policy = _POLICY if status_class == "5" and detail.startswith("7.") else ""
    return known or _BY_CATEGORY.get(recipient.category, policy)


def _times(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _attached(dsn: Dsn) -> str:
    """What comes with it, or why it does not; "" where nothing came back that could."""
    if dsn.original_message:
        return "Your message is attached."
    if not dsn.original_header and all(it.fate is Fate.UNDECIDED for it in dsn.recipients):
        return ""
    if not dsn.original_header:
        return "The message itself is not stored here any more, so its header is not attached."
    if dsn.withheld:
        return f"Only the header of your message is attached, not all of it: {dsn.withheld}."
    return "The header of your message is attached."


def _closing(dsn: Dsn) -> str:
    return f"{_attached(dsn)} For help, ask the postmaster of this mail system and quote the queue id.".lstrip()
