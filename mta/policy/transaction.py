"""What a transaction may say to this server: MAIL and RCPT parameters, recipients at a time (RFC 5321 section 4.1.1.11,
RFC 1870, RFC 2852 section 4.1.4, RFC 3030, RFC 3461 section 5.2, RFC 6152, RFC 6531 section 3.5, RFC 6710 section 4.2,
RFC 9422).

Rules: a parameter is sent only where its keyword is offered; content that the server can't take is refused here, before
MAIL, and so is a deadline that it would not keep; a limit that is malformed is none.
"""

import math
import re
from collections.abc import Mapping, Sequence

from mta.model.envelope import ByMode, DeliverBy
from mta.model.notify import NEVER, Of, wants
from mta.model.outcome import Disposition, Phase, Scope, Verdict
from mta.model.reply import finding
from mta.policy.utf8 import Need

RECIPIENTS = 100
"""Per transaction, unless the server takes fewer (RFC 5321 section 4.5.3.1.8)."""

CHUNKED_FROM = 64 * 1024
"""Octets. Chunks save looking at every line, and cost a round trip: the last one is sent when those before it were accepted.
What is smaller is at the other end before that."""

_NUMBER = re.compile(r"[0-9]{1,20}\Z")
_RCPTMAX = re.compile(r"(?:.* )?RCPTMAX=([1-9][0-9]{0,5})(?: .*)?\Z", re.IGNORECASE)
_DROPPABLE = re.compile(r"SIZE=|RET=|ENVID=|MT-PRIORITY=|BY=-?[0-9]+;N")
_LONGEST_BY = 999_999_999
"""Seconds; the grammar has nine digits (RFC 2852 section 4)."""


def mail_parameters(
    extensions: Mapping[str, str],
    size: int,
    eight_bit: bool,
    *,
    priority: int = 0,
    deliver_by: DeliverBy | None = None,
    now: float = 0.0,
    utf8: Need = Need.NOTHING,
) -> tuple[str, ...] | Verdict:
    """The parameters of MAIL for content of `size` octets, as of `now`; or why it is not for this server: 5.3.4 larger
    than its limit (RFC 1870 section 6), 5.6.3 eight-bit where 8BITMIME is not offered (RFC 6152 section 3); or, with scope
    SESSION, not for this host: 5.4.7, it would not keep the deadline (RFC 2852 section 4.1.4.1); 5.6.7 or 5.6.9, it does not
    offer SMTPUTF8, for which there is a `utf8` need."""
    offered = extensions.get("SIZE", "")
    limit = int(offered) if _NUMBER.match(offered) else 0  # 0: none (RFC 1870 section 4)
    if limit and size > limit:
        return _refusal("5.3.4", f"the message has {size} octets, the server takes {limit}")
    if utf8 is not Need.NOTHING and "SMTPUTF8" not in extensions:
        return _refusal(utf8.status, f"{utf8.value}, and the server does not offer SMTPUTF8", Scope.SESSION)
    if eight_bit and "8BITMIME" not in extensions:
        return seven_bit_alone()
    if deliver_by is not None and (unkept := _unkept(extensions, deliver_by, now)):
        return _refusal("5.4.7", unkept, Scope.SESSION)
    promised = deliver_by is not None and deliver_by.mode is not ByMode.HANDOVER and "DELIVERBY" in extensions
    return (
        *((f"SIZE={size}",) if "SIZE" in extensions else ()),
        *(("BODY=8BITMIME",) if eight_bit else ()),
        *(("SMTPUTF8",) if utf8 is not Need.NOTHING else ()),
        *((_by(deliver_by, now),) if deliver_by is not None and promised else ()),
        *((f"MT-PRIORITY={priority}",) if "MT-PRIORITY" in extensions else ()),
    )


def seven_bit_alone(obstacle: str = "") -> Verdict:
    """A server without 8BITMIME and 8-bit content, which can't be made 7-bit because of `obstacle`."""
    text = "the message has 8-bit content, the server takes 7-bit alone"
    return _refusal("5.6.3", f"{text}, and it has what can't be converted: {obstacle}" if obstacle else text)


def dsn_parameters(extensions: Mapping[str, str], ret: str, envid: str) -> tuple[str, ...]:
    """Those of MAIL that ask of DSNs, exactly as they were received (RFC 3461 section 5.2.1); `ret` and `envid` as in
    `NewMessage`."""
    if "DSN" not in extensions:
        return ()
    return (*((f"RET={ret}",) if ret else ()), *((f"ENVID={envid}",) if envid else ()))


def rcpt_parameters(
    extensions: Mapping[str, str], deliver_by: DeliverBy | None, now: float, notify: str = "", orcpt: str = ""
) -> tuple[str, ...]:
    """Those of one RCPT: what was received of it (RFC 3461 section 5.2.1); and where the word that a deadline asks for can
    be had from the next server alone, it is asked for (RFC 2852 section 4.1.4.2)."""
    if "DSN" not in extensions:
        return ()
    asks = deliver_by is not None and deliver_by.mode is ByMode.NOTIFY and now < deliver_by.at
    if asks and "DELIVERBY" not in extensions:
        notify = _with_delay(notify)
    return (*((f"NOTIFY={notify}",) if notify else ()), *((f"ORCPT={orcpt}",) if orcpt else ()))


def _with_delay(notify: str) -> str:
    if notify == NEVER:
        return notify
    return ",".join(of for of in Of if of is Of.DELAY or wants(notify, of))


def tells_success(notify: str, parameters: Sequence[str]) -> bool:
    """Whether the sender is told of a delivery with these parameters of RCPT: who takes it was not told that a success is
    asked for (RFC 3461 section 5.2.2)."""
    return wants(notify, Of.SUCCESS) and not any(it.startswith("NOTIFY=") for it in parameters)


def tells_relay(deliver_by: DeliverBy | None, parameters: Sequence[str], now: float) -> bool:
    """Whether the sender is told of a delivery with these parameters of MAIL: each is to be traced, or nobody behind us
    will give the word that was asked for (RFC 2852 sections 4.1.4 and 4.1.4.2)."""
    if deliver_by is None:
        return False
    passed_on = any(it.startswith("BY=") for it in parameters)
    return deliver_by.trace or (deliver_by.mode is ByMode.NOTIFY and now < deliver_by.at and not passed_on)


def no_time_left(deliver_by: DeliverBy | None, now: float) -> bool:
    """Whether no transaction may be begun any more. BY has whole seconds, and none with mode R is illegal (RFC 2852 section
    4)."""
    if deliver_by is None or not deliver_by.fails:
        return False
    left = deliver_by.at - now
    return left < 1 if deliver_by.mode is ByMode.RETURN else left <= 0


def droppable(parameters: Sequence[str]) -> bool:
    """Whether some of them may be left out (Table A, 555)."""
    return any(map(_DROPPABLE.match, parameters))


def required_only(parameters: Sequence[str]) -> tuple[str, ...]:
    """Those without which the content may not be sent."""
    return tuple(it for it in parameters if not _DROPPABLE.match(it))


def recipients_per_transaction(extensions: Mapping[str, str]) -> int:
    """How many RCPT go into one transaction; RFC 9422's RCPTMAX where it is lower."""
    match = _RCPTMAX.match(extensions["LIMITS"]) if "LIMITS" in extensions else None
    return min(int(match[1]), RECIPIENTS) if match else RECIPIENTS


def goes_in_chunks(extensions: Mapping[str, str], size: int) -> bool:
    """Whether content of `size` octets goes by BDAT (RFC 3030): neither end has to look at each line then."""
    return "CHUNKING" in extensions and size > CHUNKED_FROM


def _unkept(extensions: Mapping[str, str], deliver_by: DeliverBy, now: float) -> str:
    """Why the server would not keep a deadline of mode R, "" if it would. What it announces is the least it takes (RFC 2852
    section 2)."""
    if deliver_by.mode is not ByMode.RETURN:
        return ""
    if "DELIVERBY" not in extensions:
        return "the server does not offer DELIVERBY, so it can't be held to the time asked for"
    least = extensions["DELIVERBY"]
    left = math.floor(deliver_by.at - now)
    if _NUMBER.match(least) and int(least) > left:
        return f"{left} s are left of the time asked for, the server needs {int(least)} s"
    return ""


def _by(deliver_by: DeliverBy, now: float) -> str:
    left = max(-_LONGEST_BY, min(math.floor(deliver_by.at - now), _LONGEST_BY))
    return f"BY={left};{deliver_by.mode}{'T' if deliver_by.trace else ''}"


def _refusal(status: str, text: str, scope: Scope = Scope.TRANSACTION) -> Verdict:
    return Verdict(Disposition.PERMANENT, scope, status, finding(status, text), Phase.MAIL)
