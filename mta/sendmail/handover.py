"""A message from standard input handed over to the daemon, to all its recipients or to none.

Rules: it is read whole before the daemon hears of it; one recipient that is refused ends it (RSET), so that the caller
who mends that and calls again sends nothing twice. What the daemon is to be asked for but does not offer is told, not
dropped. SIZE, BODY and SMTPUTF8 are said by what the message is.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import BinaryIO

from mta.control.errors import Exit
from mta.model.address import AddressError, check_domain
from mta.model.door import Door
from mta.model.reply import Reply
from mta.policy.header import LIMIT, Section
from mta.sendmail.address_list import AddressListError, addresses
from mta.sendmail.arguments import Invocation
from mta.sendmail.doors import enter
from mta.sendmail.errors import NotTaken, bad_data
from mta.sendmail.header import author, completed, has_author, is_ascii, read_head, recipients
from mta.sendmail.letter import Letter, read_letter
from mta.sendmail.smtp import Lost, Session
from mta.sendmail.verdict import exit_code, recipients_exit_code

_OURSELVES = "localhost"
"""The name in EHLO: whoever calls is on the daemon's machine."""
_TOO_LARGE = 552
"""A reply to MAIL that is not about the sender."""
_NOT_TAKEN = "the message was NOT taken"


def hand_over(asked: Invocation, stream: BinaryIO, login: str, doors: list[Door]) -> None:
    """Raises `NotTaken`. `login` is the caller's name, the default sender."""
    sender = _sender(asked, login)
    named = _named(asked)
    try:
        letter = read_letter(stream, dot_ends=asked.dot_ends)
    except OSError as error:
        raise NotTaken(Exit.TRY_LATER, f"the message can't be read: {error.strerror or error}; {_NOT_TAKEN}") from None
    head = read_head(letter.start(LIMIT), complete=letter.size <= LIMIT)
    to = tuple(dict.fromkeys(chain(named, recipients(head) if asked.reads_recipients else ())))
    if not to:
        raise bad_data("no recipients: the message has none in To, Cc or Bcc")
    connection, door = enter(doors)
    session = Session(connection)
    try:
        _Handover(session, asked, letter, head, sender, to, login).run()
    except Lost as error:
        raise NotTaken(Exit.TRY_LATER, _loss(door, error)) from None
    finally:
        session.end()


def _sender(asked: Invocation, login: str) -> str:
    """The reverse-path, "" for the null one."""
    given = login if asked.sender is None else asked.sender.strip()
    if given in ("", "<>"):
        return ""
    try:
        found = list(addresses(given))
    except AddressListError as error:
        raise bad_data(f"the sender {error} (-f names another)") from None
    if len(found) != 1:
        raise bad_data(f"-f: expected one address, not {given}")
    return found[0]


def _named(asked: Invocation) -> list[str]:
    """The recipients among the arguments; each may be a list."""
    try:
        return [address for word in asked.recipients for address in addresses(word)]
    except AddressListError as error:
        raise bad_data(f"the recipient {error}") from None


def _loss(door: Door, error: Lost) -> str:
    if error.in_doubt:
        return f"mta at {door} was lost behind the message ({error}): it is not known whether it was taken"
    return f"mta at {door} was lost ({error}): {_NOT_TAKEN}; try again later"


@dataclass(slots=True)
class _Handover:
    """One transaction."""

    session: Session
    asked: Invocation
    letter: Letter
    head: Section
    sender: str
    recipients: tuple[str, ...]
    login: str

    def run(self) -> None:
        """Raises `NotTaken`, `Lost`."""
        self._expect(self.session.greeting(), "mta takes no mail from here")
        hello, (hostname, *offers) = self.session.hello(_OURSELVES)
        self._expect(hello, "mta takes no mail from here")
        offered = {offer.partition(" ")[0] for offer in offers}
        self._check_offer(offered)
        start = completed(self.head, self._added(hostname))
        size = len(start) + self.letter.size - self.head.length
        reply = self.session.command(self._mail(offered, size))
        refused = "the message" if reply.code == _TOO_LARGE else f"the sender {self.sender or '<>'}"
        self._expect(reply, f"{refused} was refused")
        self._name_recipients()
        reply = self.session.command("DATA")
        if reply.code == 354:
            reply = self.session.content(chain([start], self.letter.rest(self.head.length)))
        self._expect(reply, "the message was refused")

    def _expect(self, reply: Reply, otherwise: str) -> None:
        if reply.code is None or not 200 <= reply.code < 300:
            raise NotTaken(exit_code(reply), f"{otherwise}: {reply}")

    def _check_offer(self, offered: set[str]) -> None:
        asked = self.asked
        if (asked.notify or asked.ret or asked.envid) and "DSN" not in offered:
            raise NotTaken(Exit.UNAVAILABLE, f"-N, -R and -V need DSN, and mta does not offer it here: {_NOT_TAKEN}")
        if asked.body and "8BITMIME" not in offered:
            raise NotTaken(Exit.UNAVAILABLE, f"-B needs 8BITMIME, and mta does not offer it here: {_NOT_TAKEN}")

    def _added(self, hostname: str) -> bytes:
        """The fields that are missing."""
        key = f"Idempotency-Key: {self.asked.key}\r\n".encode("ascii") if self.asked.key else b""
        return key if has_author(self.head) else author(self.asked.full_name, self._author(hostname)) + key

    def _author(self, hostname: str) -> str:
        address = self.sender or self.login
        if "@" in address:
            return address
        try:
            check_domain(hostname)
        except AddressError:
            hostname = _OURSELVES
        return f"{address}@{hostname}"

    def _mail(self, offered: set[str], size: int) -> str:
        return " ".join([f"MAIL FROM:<{self.sender}>", *self._mail_parameters(offered, size)])

    def _mail_parameters(self, offered: set[str], size: int) -> Iterator[str]:
        if "SIZE" in offered:
            yield f"SIZE={size}"
        if "8BITMIME" in offered and (self.letter.eight_bit or self.asked.body):
            yield f"BODY={'8BITMIME' if self.letter.eight_bit else self.asked.body}"
        if "SMTPUTF8" in offered and not self._is_ascii:
            yield "SMTPUTF8"
        if self.asked.ret:
            yield f"RET={self.asked.ret}"
        if self.asked.envid:
            yield f"ENVID={self.asked.envid}"

    @property
    def _is_ascii(self) -> bool:
        """Of addresses and header."""
        return is_ascii(self.head) and self.sender.isascii() and all(map(str.isascii, self.recipients))

    def _name_recipients(self) -> None:
        notify = f" NOTIFY={self.asked.notify}" if self.asked.notify else ""
        replies = {to: self.session.command(f"RCPT TO:<{to}>{notify}") for to in self.recipients}
        refused = {to: reply for to, reply in replies.items() if reply.code is None or reply.code >= 300}
        if not refused:
            return
        with suppress(Lost):
            self.session.command("RSET")
        lines = [f"{to} was refused: {reply}" for to, reply in refused.items()]
        everybody = len(refused) == len(replies)
        others = [] if everybody else [f"{_NOT_TAKEN} for the other recipients either: nothing was sent"]
        raise NotTaken(recipients_exit_code(refused.values(), all_refused=everybody), *lines, *others)
