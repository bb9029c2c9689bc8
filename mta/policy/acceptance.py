"""What is taken at MAIL and RCPT, and where local addresses lead.

Rules: what can never be delivered is refused at its command, with the exact code; what DNS says is nobody's business
here (accept and queue). An address without a domain, at localhost, at our own name or at a local domain belongs to the
aliases. An address is kept in the form that asks least of the servers behind us. RFC 5321 sections 2.3.5, 3.6.1, 4.1.1.2,
4.1.1.3 and 4.5.1; RFC 1870 sections 4 and 6.1; RFC 6152; RFC 6409 section 4.2; RFC 6531 sections 3.2 to 3.5. What the
parameters BY, HOLDFOR, HOLDUNTIL, MT-PRIORITY, REQUIRETLS and SMTPUTF8 ask is read in `requests`, what RET, ENVID, NOTIFY
and ORCPT ask in `dsn_request`.
"""

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from mta.model.address import Address, AddressError, Flaw, parse_address, parse_literal, strip_source_route
from mta.model.envelope import NewRecipient
from mta.model.reply import Reply
from mta.policy.clients import without_auth
from mta.policy.commands import BAD_PARAMETER, PathArgument, decoded, parse_path_argument
from mta.policy.dsn_request import NOTHING, OF_MAIL, OF_RCPT, MailAsks, RcptAsks, mail_asks, rcpt_asks
from mta.policy.networks import Standing, standing
from mta.policy.requests import NO_REQUESTS, PARAMETERS, Requests, mail_requests

_SIZE = re.compile(r"[0-9]{1,20}\Z")
_OFFERED = frozenset({"SIZE", "BODY", *PARAMETERS, *OF_MAIL})
_LOCALHOST = "localhost"
_POSTMASTER = "postmaster"

UNKNOWN_PARAMETER = Reply(555, "5.5.4", "Parameter not recognized or not implemented")
TOO_LARGE = Reply(552, "5.3.4", "Message is larger than the limit")
NO_LOCAL_MAILBOX = Reply(550, "5.1.1", "No such mailbox here: no alias and no postmaster is configured for it")
TOO_MANY_RECIPIENTS = Reply(452, "4.5.3", "Too many recipients")


@dataclass(frozen=True, slots=True)
class Locals:
    """Where local mail goes. `hostname` is our own name; `aliases` maps names in lower case, or "*" for all others, to
    full addresses; `postmaster` is a full address or None."""

    hostname: str
    local_domains: Container[str]
    aliases: Mapping[str, tuple[str, ...]]
    postmaster: str | None

    def is_local(self, domain: str) -> bool:
        """`domain` in lower case, "" for none."""
        return domain in ("", _LOCALHOST, self.hostname.lower()) or domain in self.local_domains

    def resolve(self, address: Address) -> tuple[NewRecipient, ...] | Reply:
        """The recipients that `address` stands for: itself, or what the aliases make of a local one."""
        if not self.is_local(address.destination):
            return (_recipient(address),)
        targets = self._targets(address.least_quoted.local_part.lower())
        if not targets:
            return NO_LOCAL_MAILBOX
        original = str(self.qualified(address))
        return tuple(_recipient(parse_address(target), original) for target in targets)

    def qualified(self, address: Address) -> Address:
        """An address of this machine under the name others know it by."""
        if address.destination in ("", _LOCALHOST):
            return Address(address.local_part, self.hostname)
        return address

    def _targets(self, name: str) -> tuple[str, ...]:
        if name in self.aliases:
            return self.aliases[name]
        if "*" in self.aliases and not (name == _POSTMASTER and self.postmaster):
            return self.aliases["*"]
        return (self.postmaster,) if self.postmaster else ()


def _recipient(address: Address, original: str = "") -> NewRecipient:
    """RCPT gets the least quoting (RFC 5321 section 4.1.2)."""
    return NewRecipient(str(address.least_quoted), address.destination, original)


class Rules(Protocol):
    """The settings that decide here."""

    @property
    def locals(self) -> Locals: ...
    @property
    def max_message_size(self) -> int: ...
    @property
    def allow_private_addresses(self) -> bool: ...
    @property
    def max_hold(self) -> float: ...
    @property
    def strict_deliver_by(self) -> bool: ...


class Mail(Struct, frozen=True):
    """An accepted MAIL: the sender ("" is the null path), what its parameters ask, and the octets that SIZE announces, 0
    for none."""

    reverse_path: str
    requests: Requests = NO_REQUESTS
    dsn: MailAsks = NOTHING
    size: int = 0


class ForwardPath(Struct, frozen=True):
    """An accepted RCPT: the address under its full name, and the recipients that it stands for."""

    address: str
    recipients: tuple[NewRecipient, ...]


def mail(argument: str, rules: Rules, *, extended: bool, now: float, offers_auth: bool = False) -> Mail | Reply:
    """What the argument of MAIL says, or why it is refused. `extended`: after EHLO; `now`: seconds since the epoch."""
    parsed = parse_path_argument(argument, "FROM:", "5.1.7")
    if offers_auth and not isinstance(parsed, Reply):
        parsed = without_auth(parsed)
    if isinstance(parsed, Reply):
        return parsed
    if not parsed.parameters:
        sender = _sender(parsed.path, rules, utf8=False)
        return sender if isinstance(sender, Reply) else Mail(sender)
    if refusal := _mail_refusal(parsed, rules, extended):
        return refusal
    requests = mail_requests(parsed.parameters, now, rules.max_hold, strict=rules.strict_deliver_by)
    if isinstance(requests, Reply):
        return requests
    dsn = mail_asks(parsed.parameters)
    if isinstance(dsn, Reply):
        return dsn
    sender = _sender(parsed.path, rules, utf8=requests.utf8)
    size = int(parsed.parameters.get("SIZE") or 0)
    return sender if isinstance(sender, Reply) else Mail(sender, requests, dsn, size)


def forward_path(argument: str, rules: Rules, *, extended: bool, utf8: bool = False) -> ForwardPath | Reply:
    """The recipient in the argument of RCPT, or why it is refused. `utf8`: MAIL had SMTPUTF8."""
    parsed = parse_path_argument(argument, "TO:", "5.1.3", utf8=utf8)
    if isinstance(parsed, Reply):
        return parsed
    dsn = _rcpt_asks(parsed, extended) if parsed.parameters else None
    if isinstance(dsn, Reply):
        return dsn
    address = _address(parsed.path, utf8=utf8, non_ascii=553, status="5.1.3")
    found = address if isinstance(address, Reply) else _routable(address, rules)
    if isinstance(found, Reply) or dsn is None:
        return found
    recipients = (replace(it, notify=dsn.notify, orcpt=dsn.orcpt) for it in found.recipients)
    return ForwardPath(found.address, tuple(recipients))


# ---------------------------------------------------------------- parameters
def _mail_refusal(parsed: PathArgument, rules: Rules, extended: bool) -> Reply | None:
    if not parsed.parameters.keys() <= (_OFFERED if extended else frozenset()):
        return UNKNOWN_PARAMETER
    if "BODY" in parsed.parameters and (parsed.parameters["BODY"] or "").upper() not in ("7BIT", "8BITMIME"):
        return BAD_PARAMETER
    return _size_refusal(parsed.parameters["SIZE"], rules.max_message_size) if "SIZE" in parsed.parameters else None


def _rcpt_asks(parsed: PathArgument, extended: bool) -> RcptAsks | Reply:
    if not parsed.parameters.keys() <= (OF_RCPT if extended else frozenset()):
        return UNKNOWN_PARAMETER
    return rcpt_asks(parsed.parameters)


def _size_refusal(size: str | None, limit: int) -> Reply | None:
    if size is None or not _SIZE.match(size):
        return BAD_PARAMETER
    return TOO_LARGE if int(size) > limit else None


# ---------------------------------------------------------------- addresses
def _sender(path: str, rules: Rules, *, utf8: bool) -> str | Reply:
    if not path:
        return ""
    address = _address(path, utf8=utf8, non_ascii=550, status="5.1.7")
    if isinstance(address, Reply):
        return address
    if _is_qualified(address):
        return str(address)
    if not rules.locals.is_local(address.destination):
        return Reply(554, "5.1.8", "The sender's domain is not fully qualified")
    return str(rules.locals.qualified(address))


def _routable(address: Address, rules: Rules) -> ForwardPath | Reply:
    if not rules.locals.is_local(address.destination):
        if not _is_qualified(address):
            return Reply(554, "5.1.2", "The domain is not fully qualified")
        if address.domain.startswith("[") and _is_barred(address, rules):
            return Reply(550, "5.7.1", "Mail to a private or special address is not relayed")
        return ForwardPath(str(address), (_recipient(address),))
    recipients = rules.locals.resolve(address)
    if isinstance(recipients, Reply):
        return recipients
    return ForwardPath(str(rules.locals.qualified(address)), recipients)


def _address(path: str, *, utf8: bool, non_ascii: int, status: str) -> Address | Reply:
    """The mailbox of a path (octets, each as one character), its source route dropped; else the refusal, with the code of
    RFC 6531 for octets that SMTPUTF8 would have to announce."""
    try:
        if utf8:
            return parse_address(strip_source_route(decoded(path)), utf8=True).sendable
        return parse_address(strip_source_route(path) if path.startswith("@") else path)
    except AddressError as error:
        if error.flaw is Flaw.NON_ASCII:
            return Reply(non_ascii, "5.6.7", "Address has non-ASCII characters, and MAIL had no SMTPUTF8")
        return Reply(501, status, error.flaw.value.capitalize())


def _is_qualified(address: Address) -> bool:
    """Whether its domain has more than a label, or is a literal."""
    return "." in address.domain or address.domain.startswith("[")


def _is_barred(address: Address, rules: Rules) -> bool:
    where = standing(parse_literal(address.domain))
    return where is Standing.NO_HOST or (where is Standing.PRIVATE and not rules.allow_private_addresses)
