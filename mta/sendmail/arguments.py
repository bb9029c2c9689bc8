"""The arguments of sendmail(8), as Postfix understands them.

Rules: values are glued or follow (`-fann@x`, `-f ann@x`), flags may be bundled (`-ti`), options may stand behind
recipients, `--` ends them. What only tunes another program is passed over; what would be another program's work (a
daemon, an alias database) is refused, and so is what nobody knows. Values that go into SMTP are checked here: no CR, LF
or NUL passes. RFC 3461 sections 4.1 to 4.4 (`-N`, `-R`, `-V`).
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from mta.sendmail.errors import misused

LONGEST_NAME = 200
"""Characters of a full name (`-F`)."""
LONGEST_ENVID = 100
"""Characters of an envelope identifier before it is encoded (RFC 3461 section 4.4)."""

_VALUED = frozenset("ABFLNORVXbefhopr")
_FLAGS = frozenset("GIUcimntv")
_LONG = frozenset({"config", "key"})
_KEY = re.compile(r"[!-~]{1,255}\Z")
_ENVID = re.compile(rf"[ -~]{{1,{LONGEST_ENVID}}}\Z")
_UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_NOTIFY = frozenset({"FAILURE", "DELAY", "SUCCESS"})
_ELSEWHERE = {
    "d": "the daemon is `mta serve`",
    "i": "aliases are in the configuration, [aliases]",
    "D": "the daemon is `mta serve`",
}

USAGE = """\
Usage: mta sendmail [OPTIONS] [RECIPIENT...] < message

The sendmail(8) interface: hands the message on standard input to the daemon.

  -t            recipients are also read from To, Cc and Bcc (Resent- ones, if there are any)
  -i, -oi       a line with a lone dot does not end the message
  -f, -r ADDR   the envelope's sender; <> is the null sender. Default: the user's login name
  -F NAME       the full name for a From field that is missing
  -N NEVER or FAILURE,DELAY,SUCCESS     when to tell the sender (DSN)
  -R FULL, HDRS -V ENVID                what a DSN returns, and its envelope identifier
  -B 7BIT, 8BITMIME                     the body's type
  -bm           hands over a message (the default)
  -bs           speaks SMTP on standard input and output
  -bp           lists the queue, as `mta queue`
  --key KEY     adds an Idempotency-Key field
  --config FILE the configuration; else $MTA_CONFIG, ./mta.toml or /etc/mta/mta.toml

Nothing is handed over unless every recipient is taken. Exit codes are those of sysexits.h.
"""


class Mode(Enum):
    DELIVER = "-bm"
    SMTP = "-bs"
    QUEUE = "-bp"
    RUN_QUEUE = "-q"
    HELP = "--help"


@dataclass(frozen=True, slots=True)
class Invocation:
    """What is asked for. `recipients` and `sender` as they were given, `sender` None for the default; `notify`, `ret`,
    `envid` (xtext) and `body` as SMTP parameters have them, "" for none."""

    mode: Mode = Mode.DELIVER
    recipients: tuple[str, ...] = ()
    reads_recipients: bool = False
    dot_ends: bool = True
    sender: str | None = None
    full_name: str = ""
    notify: str = ""
    ret: str = ""
    envid: str = ""
    body: str = ""
    key: str = ""
    config: str | None = None


def parse(words: Iterable[str]) -> Invocation:
    """Raises `NotTaken` (64)."""
    found, others = Invocation(), []
    for option, value in _options(deque(words)):
        if option:
            found = replace(found, **_meaning(option, value))
        else:
            others.append(value)
    found = replace(found, recipients=tuple(others))
    if found.mode is Mode.RUN_QUEUE and (others or found.reads_recipients):
        found = replace(found, mode=Mode.DELIVER)
    if found.mode is Mode.DELIVER and not (others or found.reads_recipients):
        raise misused("no recipients: name them as arguments, or give -t to take them from the message")
    return found


# ---------------------------------------------------------------- words
def _options(words: deque[str]) -> Iterator[tuple[str, str]]:
    """Each option with its value, "" for none; a recipient has no option."""
    while words:
        word = words.popleft()
        if word == "--":
            yield from (("", rest) for rest in words)
            return
        if word.startswith("--"):
            yield _long(word[2:], words)
        elif word.startswith("-") and word != "-":
            yield from _short(word[1:], words)
        else:
            yield "", word


def _long(word: str, words: deque[str]) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if name == "help" and not equals:
        return name, ""
    if name not in _LONG:
        raise misused(f"unknown option --{name} (see mta sendmail --help)")
    return name, value if equals else _next(f"--{name}", words)


def _short(letters: str, words: deque[str]) -> Iterator[tuple[str, str]]:
    while letters:
        option, letters = letters[0], letters[1:]
        if option == "q":  # its value is glued, or there is none
            yield option, letters
            return
        if option in _VALUED:
            yield option, letters or _next(f"-{option}", words)
            return
        if option not in _FLAGS:
            raise misused(f"unknown option -{option} (see mta sendmail --help)")
        yield option, ""


def _next(option: str, words: deque[str]) -> str:
    if not words:
        raise misused(f"{option} needs a value")
    return words.popleft()


# ---------------------------------------------------------------- meanings
def _meaning(option: str, value: str) -> dict[str, Any]:
    """What of the `Invocation` an option changes; nothing for what is passed over."""
    match option:
        case "t":
            return {"reads_recipients": True}
        case "i":
            return {"dot_ends": False}
        case "o":
            return {"dot_ends": False} if value == "i" else {}
        case "f" | "r":
            return {"sender": value}
        case "F":
            return {"full_name": _full_name(value)}
        case "N":
            return {"notify": _notify(value)}
        case "R":
            return {"ret": _one_of(option, value, "FULL", "HDRS")}
        case "V":
            return {"envid": _envid(value)}
        case "B":
            return {"body": _one_of(option, value, "7BIT", "8BITMIME")}
        case "b":
            return {"mode": _mode(value)}
        case "I":
            return {"mode": _mode("i")}
        case "q":
            return {"mode": Mode.RUN_QUEUE}
        case "X" if value.startswith("V"):
            raise misused("-XV (VERP) is not built")
        case "key":
            return {"key": _key(value)}
        case "config":
            return {"config": value}
        case "help":
            return {"mode": Mode.HELP}
    return {}


def _mode(value: str) -> Mode:
    modes = {"m": Mode.DELIVER, "s": Mode.SMTP, "p": Mode.QUEUE}
    if value not in modes:
        elsewhere = f": {_ELSEWHERE[value]}" if value in _ELSEWHERE else ""
        raise misused(f"-b{value} is not for this program{elsewhere}")
    return modes[value]


def _one_of(option: str, value: str, *known: str) -> str:
    if value.upper() not in known:
        raise misused(f"-{option}: expected {' or '.join(known)}, not {value}")
    return value.upper()


def _notify(value: str) -> str:
    asked = value.upper().split(",")
    if asked != ["NEVER"] and not (set(asked) <= _NOTIFY and len(set(asked)) == len(asked)):
        raise misused(f"-N: expected NEVER, or some of FAILURE,DELAY,SUCCESS, not {value}")
    return ",".join(asked)


def _envid(value: str) -> str:
    """As xtext (RFC 3461 section 4)."""
    if not _ENVID.match(value):
        raise misused(f"-V: expected 1 to {LONGEST_ENVID} printable ASCII characters")
    return re.sub(r"[ +=]", lambda match: f"+{ord(match.group()):02X}", value)


def _full_name(value: str) -> str:
    if _UNFIT.search(value) or len(value) > LONGEST_NAME:
        raise misused(f"-F: expected a name of at most {LONGEST_NAME} characters on one line")
    return value


def _key(value: str) -> str:
    if not _KEY.match(value):
        raise misused("--key: expected 1 to 255 printable ASCII characters without a blank")
    return value
