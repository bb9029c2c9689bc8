"""The commands of a submission session and their answers: a state machine without I/O.

Rules: one answer for each command line, whatever went before; a command that is refused changes nothing, but for a
BDAT, whose octets are then missing; the extensions listed are those that work. RFC 5321 sections 3.3, 3.5.3, 4.1.1, 4.1.4,
4.2.4 and 4.3.2; RFC 1870; RFC 2034; RFC 2920 section 3.2; RFC 3207 section 4; RFC 6152; RFC 3030 section 2; RFC 2852 section
2; RFC 3461 section 3; RFC 4865 section 3; RFC 4954 sections 3 and 4; RFC 6531; RFC 6710 section 3; RFC 8689 section 4.1.
"""

import re
from collections.abc import Callable
from enum import Enum

from msgspec import Struct, structs

from mta.listener import auth
from mta.listener.chunking import BAD_CHUNK, Chunk, announced, announces_chunk
from mta.listener.gate import Permit
from mta.listener.inbox import TooLong
from mta.listener.junk import JUNK_LIMIT, weight
from mta.listener.replies import lines, wire
from mta.listener.transaction import Transaction
from mta.model.address import parse_address
from mta.model.reply import Reply
from mta.model.text import safe_text
from mta.policy.acceptance import ForwardPath, Mail, forward_path, mail
from mta.policy.clients import AUTH_REQUIRED, SENDER_OK, welcome
from mta.policy.commands import is_utf8_request, shown
from mta.policy.requests import announced_hold
from mta.policy.trace import Client

_NAME_SHOWN = 64
"""Characters of a name that failed."""
STRANGERS_CHUNK = 64 * 1024
"""Octets that one who may not submit is listened to for; a larger chunk would hold the session as long as it drips."""

_PRINTABLE = re.compile(r"[\t -~]*\Z")
_HELLO = Reply(250, None, "")
_BYE = Reply(221, "2.0.0", "Bye")
_OK = Reply(250, "2.0.0", "Ok")
_HELP = Reply(214, "2.0.0", "Commands: EHLO HELO MAIL RCPT DATA BDAT RSET NOOP VRFY EXPN HELP QUIT STARTTLS AUTH")
_CANNOT_VERIFY = Reply(252, "2.0.0", "Cannot verify, but a message will be accepted and delivery attempted")
_UNRECOGNIZED = Reply(500, "5.5.2", "Command not recognized")
_NOT_IMPLEMENTED = Reply(502, "5.5.1", "Command not implemented")
_TOO_LONG = Reply(500, "5.5.2", "Command line too long")
_NOT_ASCII = Reply(501, "5.5.2", "Argument has characters that are not printable ASCII")
_LINE_ENDS = Reply(500, "5.5.2", "Command not recognized: lines end with CR LF")
_BARE_LF = Reply(501, "5.5.2", "Argument has a bare LF: lines end with CR LF")
_NO_ARGUMENT = Reply(501, "5.5.4", "No argument is allowed")
_TLS_FIRST = Reply(530, "5.7.0", "Send STARTTLS first")
_REQUIRETLS_IN_CLEAR = Reply(530, "5.7.10", "REQUIRETLS is for mail that comes inside TLS: send STARTTLS first")
_NO_SERVICE = Reply(503, "5.5.1", "No mail is accepted from you here")


class Next(Enum):
    """What is due after an answer."""

    LISTEN = "more commands"
    CONTENT = "354 and the content"
    VERIFY = "the verdict on credentials"
    LOOK_UP = "whether mail is sent to the recipient"
    CHUNK = "the octets of a chunk, then the answer"
    CLOSE = "the end"
    TLS = "220 and the handshake"


class Answer(Struct, frozen=True):
    """`refused` is the reply, and what it refuses, where somebody will ask why mail is missing; `chunk` is what follows a
    BDAT."""

    octets: bytes
    then: Next = Next.LISTEN
    refused: tuple[Reply, str] | None = None
    chunk: Chunk | None = None


class Wanted(Struct, frozen=True):
    """A recipient that has to be looked up, and what RCPT said of it."""

    path: ForwardPath
    argument: str


_SENDER_TAKEN = Answer(wire(SENDER_OK))
_RECIPIENT_TAKEN = Answer(wire(Reply(250, "2.1.5", "Ok")))
_CONTENT = Answer(b"", Next.CONTENT)


class Conversation:
    """One client's, of whom `client` says what is known by now. `is_barred`: greeted with 554, it may only leave (RFC 5321
    section 3.1). `now` is the wall clock, seconds since the epoch; `room` says why there is none for so many octets.
    `offers_tls`: STARTTLS may make it secure (RFC 3207). `settings` are those for this client; with an `exchange` the next
    line is no command, but answers AUTH. `credentials` are what was said to AUTH, until `judged`; `wanted`
    is whom RCPT named, until `looked_up`, where `looks_up` says that there is need."""

    def __init__(
        self,
        client: Client,
        permit: Permit,
        now: Callable[[], float],
        *,
        is_barred: bool,
        offers_tls: bool = False,
        room: Callable[[int], Reply | None] = lambda _octets: None,
        looks_up: Callable[[], bool] = lambda: False,
    ) -> None:
        self.client = client
        self._permit = permit
        self.settings = permit.settings
        self._now = now
        self._room = room
        self._looks_up = looks_up
        self.wanted: Wanted | None = None
        self._is_barred = is_barred
        self._junk = 0
        self._offers_tls = offers_tls and not client.secure
        self.exchange: auth.Exchange | None = None
        self.credentials: auth.Credentials | None = None
        self.failures = 0
        self.transaction = Transaction()

    @property
    def may_submit(self) -> bool:
        """Whether it is trusted where it is, or has authenticated."""
        return self._permit.trusted or bool(self.client.user)

    def hear(self, line: bytes) -> Answer:
        """The answer to a command line without its CRLF."""
        if self.exchange is not None:
            return self._step(self.exchange.hear(line))
        verb, _, rest = line.decode("latin-1").rstrip(" \t").partition(" ")
        command = _COMMANDS.get(verb.upper())
        if command is None or "\0" in rest:
            return self._hear_other(line)
        argument = rest.strip(" \t")
        if self._is_barred and command is not Conversation._quit:
            return self._count_junk(_NO_SERVICE)
        if self._offers_tls and command not in _IN_CLEAR and self._is_too_early():
            return Answer(wire(_TLS_FIRST), refused=(_TLS_FIRST, verb.upper()))
        if "\n" in argument:
            return Answer(wire(_BARE_LF), refused=(_BARE_LF, verb.upper()))
        if command not in _HEAR_ALL and not _PRINTABLE.match(argument):
            return Answer(wire(_NOT_ASCII))
        return command(self, argument)

    def _hear_other(self, line: bytes) -> Answer:
        """What is none of `_COMMANDS`."""
        if announces_chunk(line):  # whatever is wrong with it, its octets are no commands
            return self._bdat(line)
        return self._count_junk(_LINE_ENDS if b"\n" in line else _UNRECOGNIZED, line)

    def hear_too_long(self, line: TooLong) -> Answer:
        if self.exchange is not None:
            return self._step(self.exchange.hear(None))
        if announces_chunk(line.begin):
            return self._bdat(None)
        return self._count_junk(auth.TOO_LONG if line.begin.upper() == b"AUTH " else _TOO_LONG, line.begin)

    def _is_too_early(self) -> bool:
        """TLS has to begin first."""
        return self._offers_tls and self.settings.tls_required

    def reset(self) -> None:
        self.transaction.discard()
        self.transaction = Transaction()

    def _count_junk(self, reply: Reply, line: bytes = b"") -> Answer:
        self._junk += weight(line)
        if self._junk < JUNK_LIMIT:
            return Answer(wire(reply))
        return Answer(wire(Reply(421, "4.7.0", f"{self.settings.hostname} Too many unrecognized commands")), Next.CLOSE)

    # ------------------------------------------------ session
    def _ehlo(self, argument: str) -> Answer:
        settings = self.settings
        hold = announced_hold(self._now(), settings.max_hold)
        extensions = ["PIPELINING", f"SIZE {settings.max_message_size}", "8BITMIME", "SMTPUTF8", "ENHANCEDSTATUSCODES"]
        extensions += ["CHUNKING", "DSN", "DELIVERBY", f"FUTURERELEASE {hold}", "MT-PRIORITY", "HELP"]
        if self._offers_tls:
            extensions.append("STARTTLS")
        if self.client.secure:
            extensions.append("REQUIRETLS")
        if self._offers_auth and not self.client.user:
            extensions.append(f"AUTH {' '.join(auth.MECHANISMS)}")
        return self._greet(argument, extensions)

    def _helo(self, argument: str) -> Answer:
        return self._greet(argument, [])

    def _greet(self, argument: str, extensions: list[str]) -> Answer:
        if not argument:
            return Answer(wire(Reply(501, "5.5.4", "The name of the client is missing")))
        self.client = structs.replace(self.client, hello=argument, extended=bool(extensions))
        self.reset()
        return Answer(lines(_HELLO, [self.settings.hostname, *extensions]))

    def _noop(self, _argument: str) -> Answer:
        return Answer(wire(_OK))

    def _help(self, _argument: str) -> Answer:
        return Answer(wire(_HELP))

    def _vrfy(self, argument: str) -> Answer:
        if not (_PRINTABLE.match(argument) or is_utf8_request(argument)):
            return Answer(wire(_NOT_ASCII))
        return Answer(wire(_CANNOT_VERIFY if argument else Reply(501, "5.5.4", "Syntax: VRFY address")))

    def _expn(self, _argument: str) -> Answer:
        return Answer(wire(_NOT_IMPLEMENTED))

    def _quit(self, argument: str) -> Answer:
        return Answer(wire(_NO_ARGUMENT)) if argument else Answer(wire(_BYE), Next.CLOSE)

    def _starttls(self, argument: str) -> Answer:
        if argument:
            return Answer(wire(_NO_ARGUMENT))
        if self.client.secure:
            return Answer(wire(Reply(503, "5.5.1", "TLS is on already")))
        if not self._offers_tls:
            return Answer(wire(_NOT_IMPLEMENTED))
        if self.transaction.reverse_path is not None:
            return Answer(wire(Reply(503, "5.5.1", "Not within a transaction")))
        return Answer(b"", Next.TLS)

    def began_tls(self) -> None:
        """The handshake is done: what was said in clear was never said (RFC 3207 section 4.2)."""
        self.client = structs.replace(self.client, secure=True, hello="", extended=False, user="")
        self._offers_tls = False
        self.reset()

    # ------------------------------------------------ who it is
    @property
    def _offers_auth(self) -> bool:
        return self.client.secure and bool(self.settings.users)

    def _auth(self, argument: str) -> Answer:
        if not self.settings.users:
            return self._count_junk(_UNRECOGNIZED)
        if refusal := self._auth_refusal(argument):
            return Answer(wire(refusal))
        begun = auth.begin(argument)
        if isinstance(begun, Reply):
            return Answer(wire(begun))
        self.exchange, step = begun
        return self._step(step)

    def _auth_refusal(self, argument: str) -> Reply | None:
        if not self.client.extended:
            return Reply(503, "5.5.1", "Send EHLO first")
        if self.client.user:
            return Reply(503, "5.5.1", "Already authenticated")
        if self.transaction.reverse_path is not None:
            return Reply(503, "5.5.1", "Not within a transaction")
        return auth.ENCRYPTION_REQUIRED if not self.client.secure and auth.names_password_mechanism(argument) else None

    def _step(self, step: auth.Step) -> Answer:
        if isinstance(step, auth.Credentials):
            self.exchange, self.credentials = None, step
            return Answer(b"", Next.VERIFY)
        if step.code != 334:
            self.exchange = None
        return Answer(wire(step))

    def judged(self, verdict: Reply) -> Answer:
        """The answer to `credentials` of which `verdict` is known."""
        name = safe_text(self.credentials.user if self.credentials else "", _NAME_SHOWN)
        self.credentials = None
        if verdict is auth.AUTHENTICATED:
            self.client = structs.replace(self.client, user=name)
            self._permit.become(name)
            self.settings = self._permit.settings
            return Answer(wire(verdict))
        self.failures += verdict.code in (421, 535)
        if self.failures >= auth.FAILURES_LIMIT:
            verdict = Reply(421, "4.7.0", f"{self.settings.hostname} Too many failed authentications")
        then = Next.CLOSE if verdict.code == 421 else Next.LISTEN
        return Answer(wire(verdict), then, refused=(verdict, f"AUTH as {name}"))

    # ------------------------------------------------ transaction
    def _mail(self, argument: str) -> Answer:
        if not self.client.hello:
            return Answer(wire(Reply(503, "5.5.1", "Send EHLO first")))
        if self.transaction.reverse_path is not None:
            return Answer(wire(Reply(503, "5.5.1", "Sender already given")))
        if not self._permit.renew():
            changed = Reply(421, "4.7.0", f"{self.settings.hostname} What you may do here has changed, connect again")
            return Answer(wire(changed), Next.CLOSE, refused=(changed, f"MAIL {shown(argument)}"))
        self.settings = self._permit.settings
        if not self.may_submit:
            return Answer(wire(AUTH_REQUIRED), refused=(AUTH_REQUIRED, f"MAIL {shown(argument)}"))
        now = self._now()
        heard = mail(argument, self.settings, extended=self.client.extended, now=now, offers_auth=self._offers_auth)
        if not isinstance(heard, Reply):
            heard = self._mail_refusal(heard) or heard
        if isinstance(heard, Reply):
            return Answer(wire(heard), refused=(heard, f"MAIL {shown(argument)}"))
        highest, priority = self._permit.highest, heard.requests.priority
        self.transaction = Transaction(heard.reverse_path, heard.requests, now, dsn=heard.dsn, highest=highest)
        return _SENDER_TAKEN if priority is None else Answer(wire(welcome(priority, highest)))

    def _mail_refusal(self, heard: Mail) -> Reply | None:
        """Of what is said well."""
        if heard.requests.require_tls and not self.client.secure:
            return _REQUIRETLS_IN_CLEAR
        return self._room(heard.size) or self._permit.mail_refusal(heard.reverse_path)

    def _rcpt(self, argument: str) -> Answer:
        if self.transaction.reverse_path is None:
            return Answer(wire(Reply(503, "5.5.1", "Send MAIL first")))
        if self.transaction.chunks is not None or self.transaction.is_broken:
            return Answer(wire(Reply(503, "5.5.1", "RCPT comes before BDAT")))
        utf8 = self.transaction.requests.utf8
        recipient = forward_path(argument, self.settings, extended=self.client.extended, utf8=utf8)
        if not isinstance(recipient, Reply):
            recipient = self.transaction.overflow(recipient, self.settings.max_recipients) or recipient
        if isinstance(recipient, Reply):
            return Answer(wire(recipient), refused=(recipient, f"RCPT {shown(argument)}"))
        if self._looks_up():
            self.wanted = Wanted(recipient, argument)
            return Answer(b"", Next.LOOK_UP)
        return self._admitted(recipient, argument)

    def looked_up(self, refusal: Reply | None) -> Answer:
        """The answer to the RCPT of whom was `wanted`."""
        wanted, self.wanted = self.wanted, None
        if wanted is None or refusal is not None:
            reply = refusal or Reply(503, "5.5.1", "Send RCPT first")
            if wanted is not None and reply.code == 550:
                self.transaction.suppressed.add(parse_address(wanted.path.address, utf8=True).key)
            return Answer(wire(reply), refused=(reply, f"RCPT {shown(wanted.argument if wanted else '')}"))
        return self._admitted(wanted.path, wanted.argument)

    def _admitted(self, path: ForwardPath, argument: str) -> Answer:
        if refusal := self._permit.recipient_refusal():
            return Answer(wire(refusal), refused=(refusal, f"RCPT {shown(argument)}"))
        self.transaction.add(path)
        return _RECIPIENT_TAKEN

    def _data(self, argument: str) -> Answer:
        if argument:
            return Answer(wire(_NO_ARGUMENT))
        if refusal := self._content_refusal():
            return Answer(wire(refusal))
        if self.transaction.chunks is not None:
            return Answer(wire(Reply(503, "5.5.1", "The message was begun with BDAT")))
        return _CONTENT

    def _bdat(self, line: bytes | None) -> Answer:
        """A chunk that can't be found in what follows is as lost as one that was refused."""
        if self._is_barred and (junk := self._count_junk(_NO_SERVICE)).then is Next.CLOSE:
            return junk
        chunk = None if line is None else announced(line[len("BDAT") :].decode("latin-1").strip(" \t"))
        if chunk is None:
            self.transaction.break_chunks()
            return Answer(wire(BAD_CHUNK if line is not None else _TOO_LONG))
        if not self.may_submit and chunk.size > STRANGERS_CHUNK:
            return Answer(wire(Reply(421, "4.7.0", f"{self.settings.hostname} Too large a chunk")), Next.CLOSE)
        return Answer(b"", Next.CHUNK, chunk=structs.replace(chunk, refusal=self._content_refusal()))

    def end_chunk(self, chunk: Chunk, reply: Reply) -> None:
        """A chunk was answered with `reply`."""
        if chunk.is_last and chunk.refusal is None:
            self.reset()
        elif reply.code != _OK.code:
            self.transaction.break_chunks()

    def _content_refusal(self) -> Reply | None:
        """Why no content can come now."""
        if self._is_barred:
            return _NO_SERVICE
        if self._is_too_early():
            return _TLS_FIRST
        if self.transaction.reverse_path is None:
            return Reply(503, "5.5.1", "Send MAIL first")
        if not self.transaction.recipients:
            return Reply(503, "5.5.1", "No valid recipients")
        return Reply(503, "5.5.1", "A chunk was refused, send RSET") if self.transaction.is_broken else None

    def _rset(self, argument: str) -> Answer:
        if argument:
            return Answer(wire(_NO_ARGUMENT))
        self.reset()
        return Answer(wire(_OK))


_COMMANDS: dict[str, Callable[[Conversation, str], Answer]] = {
    "EHLO": Conversation._ehlo,
    "HELO": Conversation._helo,
    "AUTH": Conversation._auth,
    "MAIL": Conversation._mail,
    "RCPT": Conversation._rcpt,
    "DATA": Conversation._data,
    "RSET": Conversation._rset,
    "NOOP": Conversation._noop,
    "VRFY": Conversation._vrfy,
    "EXPN": Conversation._expn,
    "HELP": Conversation._help,
    "QUIT": Conversation._quit,
    "STARTTLS": Conversation._starttls,
}
_IN_CLEAR = frozenset(_COMMANDS[verb] for verb in ("EHLO", "HELO", "NOOP", "QUIT", "STARTTLS"))
"""What is heard before TLS where that is required (RFC 3207 section 4)."""
_HEAR_ALL = frozenset({Conversation._mail, Conversation._rcpt, Conversation._vrfy})
"""Commands whose addresses may be more than ASCII, or have codes of their own for it (RFC 6531 sections 3.4 and 3.5)."""
