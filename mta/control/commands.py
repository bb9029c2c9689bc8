"""The daemon's commands: their names, options and arguments as data, and one parser for both doors.

The command line makes its options from `COMMANDS` and sends words; the socket gets words from anybody. Rules: options
stand anywhere among the arguments, as `--domain D` or `--domain=D`; `--` ends them; nothing is abbreviated, nothing is
given twice; a value that makes no sense is refused before anything is done.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from mta.control import values
from mta.control.errors import CommandError, Exit


class Refs(Enum):
    """How many messages a command names."""

    NONE = "none"
    ONE = "one"
    SOME = "some"
    OR_SCOPE = "some, or --domain, or --all"
    FILE = "no message: one file, by its absolute path"
    ADDRESS = "no message: one address"


@dataclass(frozen=True, slots=True)
class Option:
    """`read` makes the value of its text; without one it is a flag."""

    name: str
    help: str
    metavar: str = ""
    read: Callable[[str], object] | None = None


@dataclass(frozen=True, slots=True)
class Spec:
    """One command; `help` is one line for a person, `patience` the seconds within which each step of an answer comes."""

    name: str
    help: str
    refs: Refs = Refs.NONE
    options: tuple[Option, ...] = ()
    patience: float = 60.0


@dataclass(frozen=True, slots=True)
class Command:
    """A command that was parsed; options as their texts, which were found good, a flag's is ""."""

    name: str
    refs: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)


DAY = 86400.0
_RECIPIENT = Option("recipient", "only this recipient of the message", "ADDRESS", values.address)
_SCOPE = (
    _RECIPIENT,
    Option("domain", "everything for this destination", "DOMAIN", values.domain),
    Option("all", "everything"),
)
_CHECK = Option("check", "one line for monitoring; exit code 0: fine, 1: warning, 2: critical")
_FILTERS = (
    Option("status", "with a recipient that is pending, sending, in_doubt or held", "STATUS", values.status),
    Option("domain", "with a recipient at this destination", "DOMAIN", values.domain),
    Option("sender", 'from this sender ("" for bounces)', "ADDRESS", values.sender),
    Option("class", "urgent, normal or bulk", "CLASS", values.mail_class),
    Option("older-than", "accepted longer ago than, say, 90s, 5m, 4h or 5d", "DURATION", values.duration),
    Option("scheduled", "only what waits for its release: Deferred-Delivery, HOLDFOR, HOLDUNTIL"),
    Option("limit", "list at most so many (default 100)", "N", values.limit),
)
COMMANDS = {
    spec.name: spec
    for spec in (
        Spec("status", "How much waits, and where there is trouble.", Refs.NONE, (_CHECK,)),
        Spec("queue", "The messages that are not finished, the oldest first.", Refs.NONE, _FILTERS),
        Spec("show", "All that is known of one message.", Refs.ONE),
        Spec("retry", "Makes waiting messages due now.", Refs.OR_SCOPE, _SCOPE),
        Spec("hold", "Keeps messages, or all mail for a destination, from being sent.", Refs.OR_SCOPE, _SCOPE),
        Spec("release", "Lets go on what was held.", Refs.OR_SCOPE, _SCOPE),
        Spec("cancel", "Ends messages without a bounce.", Refs.SOME, (_RECIPIENT,)),
        Spec(
            "resend",
            "Submits a stored message again, as a new email with a key of its own.",
            Refs.ONE,
            (Option("key", "the name of the new email", "NEWKEY", values.key),),
        ),
        Spec(
            "dead",
            "The messages that need a person, and why.",
            Refs.NONE,
            (Option("seen", "you know what of this message could be told to nobody", "REF", values.ref),),
        ),
        Spec(
            "resolve",
            "Decides by hand what became of a message in doubt, or dead.",
            Refs.ONE,
            (
                _RECIPIENT,
                Option("sent", "it has arrived"),
                Option("resend", "it has not: send it again"),
            ),
        ),
        Spec("suppression list", "The addresses that nothing is sent to, and why."),
        Spec(
            "suppression add",
            "Sends nothing to an address from now on: who submits mail to it is told so.",
            Refs.ADDRESS,
            (
                Option("reason", "why, in words for whoever submits mail to it", "TEXT", values.reason),
                Option("for", "only for so long (30d, say); else until it is removed", "DURATION", values.lasting),
            ),
        ),
        Spec("suppression remove", "Sends mail to an address again.", Refs.ADDRESS),
        Spec("backup", "Copies the spool, at work as it is, to a new file.", Refs.FILE, patience=DAY),
    )
}


def parse_command(words: Sequence[str]) -> Command:
    """Raises `CommandError` (64) for what is no command."""
    if not words:
        raise usage(f"no command; there are {', '.join(COMMANDS)}")
    length = 2 if " ".join(words[:2]) in COMMANDS else 1
    spec = COMMANDS.get(" ".join(words[:length]))
    if spec is None:
        raise usage(f'unknown command "{words[0]}"; there are {", ".join(COMMANDS)}')
    command = _split(spec, words[length:])
    _check(spec, command)
    return command


def words_of(command: Command) -> list[str]:
    """The words that parse to `command`."""
    takes = {option.name for option in COMMANDS[command.name].options if option.read}
    words = command.name.split()
    words += (f"--{name}={text}" if name in takes else f"--{name}" for name, text in command.options.items())
    return [*words, "--", *command.refs] if command.refs else words


def usage(message: str) -> CommandError:
    return CommandError(Exit.USAGE, message)


def _split(spec: Spec, words: Sequence[str]) -> Command:
    refs: list[str] = []
    options: dict[str, str] = {}
    rest = list(reversed(words))
    while rest:
        word = rest.pop()
        if word == "--":
            refs += reversed(rest)
            break
        if not word.startswith("--"):
            refs.append(word)
            continue
        name, equals, text = word[2:].partition("=")
        if name in options:
            raise usage(f"{spec.name}: --{name} is given twice")
        options[name] = _text(spec, name, text if equals else None, rest)
    return Command(spec.name, tuple(refs), options)


def _text(spec: Spec, name: str, given: str | None, rest: list[str]) -> str:
    """The option's text, checked; one that is not joined to it by `=` is taken from `rest`."""
    option = next((option for option in spec.options if option.name == name), None)
    if option is None:
        known = ", ".join(f"--{option.name}" for option in spec.options) or "none"
        raise usage(f'{spec.name}: unknown option "--{name}"; known here: {known}')
    if option.read is None:
        if given is not None:
            raise usage(f"{spec.name}: --{name} takes no value")
        return ""
    if given is None and not rest:
        raise usage(f"{spec.name}: --{name} wants {option.metavar}")
    text = given if given is not None else rest.pop()
    try:
        option.read(text)
    except ValueError as error:
        raise usage(f'{spec.name}: --{name}: {error}, not "{text}"') from None
    return text


def _check(spec: Spec, command: Command) -> None:
    """How many messages and which scope, as `spec.refs` says."""
    count = len(command.refs)
    scopes = [name for name in ("domain", "all") if name in command.options] if spec.refs is Refs.OR_SCOPE else []
    if spec.refs is Refs.NONE and count:
        raise usage(f'{spec.name} takes no argument, not "{command.refs[0]}"')
    if spec.refs is Refs.ONE and count != 1:
        raise usage(f"{spec.name} wants one message: its queue id, its Message-ID in angle brackets, or its idempotency key")
    if spec.refs is Refs.FILE and (count != 1 or not command.refs[0].startswith("/") or "\0" in command.refs[0]):
        raise usage(f"{spec.name} wants one file, by its absolute path: the daemon has another current folder")
    if spec.refs is Refs.ADDRESS:
        _check_address(spec, command.refs)
    if spec.refs is Refs.SOME and not count:
        raise usage(f"{spec.name} wants messages: queue ids, Message-IDs in angle brackets, or idempotency keys")
    if spec.refs is Refs.OR_SCOPE and bool(count) + len(scopes) != 1:
        raise usage(f"{spec.name} wants either messages, or --domain DOMAIN, or --all")
    if "recipient" in command.options and not count:
        raise usage(f"{spec.name}: --recipient goes with a message")
    if spec.name == "resend" and "key" not in command.options:
        raise usage("resend wants --key NEWKEY: the name of the new email")
    if spec.name == "resolve" and ("sent" in command.options) == ("resend" in command.options):
        raise usage("resolve wants either --sent or --resend")


def _check_address(spec: Spec, given: Sequence[str]) -> None:
    if len(given) != 1:
        raise usage(f"{spec.name} wants one address")
    try:
        values.address(given[0])
    except ValueError as error:
        raise usage(f'{spec.name}: {error}, not "{given[0]}"') from None
