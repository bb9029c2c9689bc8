"""What a client may submit: the rules of `[[submission.client]]`.

Rules: of several the first that fits decides, and without one everything is allowed. A sender, or a priority, is judged
as it was understood, not as it was written. A priority beyond what a client may use is lowered, never refused, and its
class with it. RFC 6409 sections 3.2, 4.3 and 6.1; RFC 6710 sections 4.1 and 5; RFC 4954 section 5 (the parameter AUTH).
"""

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass

from mta.model.address import IpAddress
from mta.model.envelope import MailClass
from mta.model.international import a_labels
from mta.model.reply import Reply
from mta.model.units import duration_in_words
from mta.policy.commands import BAD_PARAMETER, PathArgument
from mta.policy.rates import Rate
from mta.policy.requests import Wish, class_of

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

HIGHEST_PRIORITY = 9
_HIGHEST = {MailClass.URGENT: HIGHEST_PRIORITY, MailClass.NORMAL: 0, MailClass.BULK: -1}
_XTEXT = re.compile(r"(?:<>|(?:[!-*,-<>-~]|\+[0-9A-F]{2})+)\Z")

AUTH_REQUIRED = Reply(530, "5.7.0", "Authentication required")
SENDER_OK = Reply(250, "2.1.0", "Ok")
SENDER_REFUSED = Reply(550, "5.7.1", "You may not send from this domain")
AUTHOR_REFUSED = Reply(550, "5.7.1", "You may not write in the name of the domain in From: its mail is signed here")
NULL_SENDER_REFUSED = Reply(550, "5.7.1", "You may not send without a sender")


@dataclass(frozen=True, slots=True)
class ClientRule:
    """For whom: who authenticated as `user` ("": whoever) and comes from `network` (None: wherever). What: senders in
    `sender_domains` (in lower case and A-labels, `*.example.com` is what lies below; (): all), the null sender if
    `null_sender`; as many messages and recipients as the rates let through, for all whom the rule fits together; classes up
    to `highest_class`; sizes in octets; None: no other limit than everybody's."""

    user: str = ""
    network: Network | None = None
    sender_domains: tuple[str, ...] = ()
    null_sender: bool = True
    messages: Rate | None = None
    recipients: Rate | None = None
    highest_class: MailClass = MailClass.URGENT
    max_message_size: int | None = None
    max_recipients: int | None = None

    def fits(self, user: str, peer: IpAddress | None) -> bool:
        is_there = self.network is None or (peer is not None and peer in self.network)
        return is_there and self.user in ("", user)

    @property
    def highest_priority(self) -> int:
        return _HIGHEST[self.highest_class]

    def sender_refusal(self, reverse_path: str) -> Reply | None:
        """`reverse_path` is one that was parsed; "" is the null sender."""
        if not reverse_path:
            return None if self.null_sender else NULL_SENDER_REFUSED
        if not self.sender_domains:
            return None
        domain = a_labels(reverse_path.rpartition("@")[2])
        return None if any(_covers(it, domain) for it in self.sender_domains) else SENDER_REFUSED

    def author_refusal(self, author: str, signed: Iterable[str]) -> Reply | None:
        """`author` is the domain in From, `signed` are those that we have keys of, for what lies below them too: who may not
        send for a domain gets no signature of it either."""
        if not self.sender_domains or any(_covers(it, author) for it in self.sender_domains):
            return None
        return AUTHOR_REFUSED if any(f".{author}".endswith(f".{it}") for it in signed) else None


ANYTHING = ClientRule()


def rule_for(rules: Iterable[ClientRule], user: str, peer: IpAddress | None) -> ClientRule:
    """`user` "": nobody has authenticated; `peer` None: no address is known."""
    return next((rule for rule in rules if rule.fits(user, peer)), ANYTHING)


def _covers(pattern: str, domain: str) -> bool:
    return domain.endswith(pattern[1:]) if pattern.startswith("*.") else domain == pattern


# ---------------------------------------------------------------- rates
def too_often(rate: Rate, what: str) -> Reply:
    return Reply(450, "4.7.1", f"You may send {rate.amount} {what} in {duration_in_words(rate.period)}: try again later")


# ---------------------------------------------------------------- priorities
def welcome(priority: int | None, highest: int) -> Reply:
    """The reply to MAIL, which tells a priority that was asked for and lowered."""
    if priority is None or priority <= highest:
        return SENDER_OK
    return Reply(250, "2.3.6", f"{highest} is the new priority of the message: you may not use {priority}")


def lowered(wish: Wish, highest: int) -> Wish:
    """Its priority is at most `highest`, and its class that one's."""
    if highest >= HIGHEST_PRIORITY:
        return wish
    priority = None if wish.priority is None else min(wish.priority, highest)
    mail_class = max(wish.mail_class, class_of(highest))
    asked = wish.mail_class if wish.mail_class < mail_class else None
    return wish._replace(priority=priority, mail_class=mail_class, asked=asked)


# ---------------------------------------------------------------- the parameter AUTH
def without_auth(parsed: PathArgument) -> PathArgument | Reply:
    """A MAIL without its parameter AUTH: nobody here may speak for another, so it counts as `<>` (RFC 4954 section 5)."""
    if "AUTH" not in parsed.parameters:
        return parsed
    if not _XTEXT.match(parsed.parameters["AUTH"] or ""):
        return BAD_PARAMETER
    return PathArgument(parsed.path, {name: value for name, value in parsed.parameters.items() if name != "AUTH"})
