"""What an observation means: Table A, cell by cell (RFC 5321 sections 3.8, 4.2, 4.3.2, 4.5.3.2; RFC 1047; RFC 3030;
RFC 3207; RFC 7504).

Rules: the first digit decides about codes that are not named; a verdict is never revised by what comes later; a change
with the same host is asked for once; what can't happen is read as a malformed reply. A status is the server's own where
it fits both the reply's digit and what is decided, else the table's.
"""

from collections.abc import Callable, Mapping
from enum import IntEnum

from msgspec import Struct

from mta.model.outcome import Action, Change, Disposition, Observation, Phase, Ruling, Scope, Seen, Verdict
from mta.model.reply import Reply, finding


class Situation(Struct, frozen=True):
    """What a ruling depends on besides the observation. `parameters`: MAIL had optional ones, `rcpt_parameters`: so had
    RCPT; `accepted`: recipients of this transaction so far; `tls`: in use; `repeated`: changes already made with this host
    in this attempt; `relay`: the host is one of ours, by the configuration."""

    tls_required: bool = False
    parameters: bool = False
    rcpt_parameters: bool = False
    pipelined: bool = False
    accepted: int = 0
    starttls_offered: bool = False
    tls: bool = False
    repeated: frozenset[Change] = frozenset()
    relay: bool = False


class Column(IntEnum):
    """The columns of Table A, in its order."""

    EXPECTED = 0
    OTHER = 1
    """2yz or 3yz that is not the expected one."""
    TRANSIENT = 2
    CLOSING = 3
    """421"""
    PERMANENT = 4
    REFUSING = 5
    """554, 521"""
    MALFORMED = 6
    LOST = 7
    TIMEOUT = 8


EXPECTED: Mapping[Phase, frozenset[int]] = {
    Phase.BANNER: frozenset({220}),
    Phase.STARTTLS: frozenset({220}),
    Phase.AUTH: frozenset({235}),
    Phase.RCPT: frozenset({250, 251}),
    Phase.DATA: frozenset({354}),
    Phase.QUIT: frozenset({221}),
}
"""Elsewhere 250; CONNECT, TLS and BODY succeed without a reply."""

_BY_SEEN = {Seen.MALFORMED: Column.MALFORMED, Seen.LOST: Column.LOST, Seen.TIMEOUT: Column.TIMEOUT}
_BY_CODE = {421: Column.CLOSING, 521: Column.REFUSING, 554: Column.REFUSING}
_BY_DIGIT = {2: Column.OTHER, 3: Column.OTHER, 4: Column.TRANSIENT, 5: Column.PERMANENT}


def classify(observation: Observation, situation: Situation) -> Ruling:
    """The cell of Table A that `observation` falls into, applied."""
    reply = observation.reply
    code = reply.code or 0 if reply is not None else 0
    if observation.seen is not Seen.REPLY:
        column = _BY_SEEN[observation.seen]
    elif reply is None or code in EXPECTED.get(observation.phase, (250,)):
        column = Column.EXPECTED
    else:
        column = _BY_CODE.get(code) or _BY_DIGIT.get(code // 100, Column.MALFORMED)
    return TABLE[observation.phase][column](observation, situation)


# ---------------------------------------------------------------- cells
Rule = Callable[[Observation, Situation], Ruling]


def _reply(seen: Observation) -> Reply:
    return seen.reply if seen.reply is not None else finding("4.0.0", "no reply")


_DIGITS = {Disposition.DELIVERED: "2", Disposition.TRANSIENT: "4", Disposition.PERMANENT: "5"}


def _status(reply: Reply, disposition: Disposition, defaults: Mapping[int, str], default: str) -> str:
    digit = _DIGITS[disposition]
    if reply.code is not None and reply.enhanced and reply.enhanced[0] == digit == str(reply.code)[0]:
        return reply.enhanced
    return defaults.get(reply.code or 0, default)


def _decides(
    action: Action, disposition: Disposition, scope: Scope, default: str, by_code: Mapping[int, str] | None = None
) -> Rule:
    def rule(seen: Observation, situation: Situation) -> Ruling:
        reply = _reply(seen)
        status = _status(reply, disposition, by_code or {}, default)
        verdict = Verdict(disposition, scope, status, reply, seen.phase, in_doubt=action is Action.DOUBT)
        return Ruling(action, verdict=verdict)

    return rule


_GO = Ruling(Action.GO)


def _go(seen: Observation, situation: Situation) -> Ruling:
    return _GO


def _next(status: str) -> Rule:
    return _decides(Action.NEXT, Disposition.TRANSIENT, Scope.SESSION, status)


def _doubt(status: str) -> Rule:
    return _decides(Action.DOUBT, Disposition.TRANSIENT, Scope.TRANSACTION, status)


def _once(change: Change, otherwise: Rule) -> Rule:
    """The same host again with `change`, unless that was done already."""

    def rule(seen: Observation, situation: Situation) -> Ruling:
        return otherwise(seen, situation) if change in situation.repeated else Ruling(Action.SAME, change)

    return rule


def _unless_tls_required(rule: Rule, otherwise: Rule) -> Rule:
    return lambda seen, situation: (otherwise if situation.tls_required else rule)(seen, situation)


def _by_digit(of_2yz: Rule, of_3yz: Rule) -> Rule:
    return lambda seen, situation: (of_2yz if (_reply(seen).code or 0) < 300 else of_3yz)(seen, situation)


def _by_code(rules: Mapping[int, Rule], otherwise: Rule) -> Rule:
    return lambda seen, situation: rules.get(_reply(seen).code or 0, otherwise)(seen, situation)


_BUSY = _next("4.3.2")
_GARBLED = _next("4.5.0")
_GONE = _next("4.4.2")
_IMPOSSIBLE = _GARBLED
_DEFER_R = _decides(Action.DEFER_R, Disposition.TRANSIENT, Scope.RECIPIENT, "4.0.0")
_DELIVERED = _decides(Action.GO, Disposition.DELIVERED, Scope.TRANSACTION, "2.0.0")
_FAIL_R = _decides(Action.FAIL_R, Disposition.PERMANENT, Scope.RECIPIENT, "5.0.0", {556: "5.1.10"})
_FAIL_M = _decides(
    Action.FAIL_M, Disposition.PERMANENT, Scope.TRANSACTION, "5.0.0", {530: "5.7.10", 538: "5.7.10", 552: "5.3.4"}
)
_REFUSED = _decides(Action.NEXT, Disposition.PERMANENT, Scope.SESSION, "5.7.1", {521: "5.3.2"})
"""By the host, or at least by this one: `exhausted` decides when all have done so."""

# EHLO, STARTTLS, TLS
_NO_EHLO = _unless_tls_required(_once(Change.HELO, _REFUSED), _next("4.7.10"))
_EHLO_LOST = _unless_tls_required(_once(Change.RECONNECT_HELO, _GONE), _GONE)


def _clear(seen: Observation, situation: Situation) -> Ruling:
    return Ruling(Action.SAME, Change.CLEAR)


def _in_clear_anew(status: str) -> Rule:
    return _unless_tls_required(_once(Change.RECONNECT_CLEAR, _next(status)), _next(status))


# AUTH
NO_LOGIN = "4.7.8"
_NO_LOGIN = _next(NO_LOGIN)
"""A relay that does not take us for who we are has said nothing about the mail: a password may be changed."""
_WHO_WE_ARE = (530, 535, 538)


def _unless_relay(otherwise: Rule) -> Rule:
    return lambda seen, situation: (_NO_LOGIN if situation.relay else otherwise)(seen, situation)


def _about_mail(otherwise: Rule) -> Rule:
    """`otherwise`, where it is not about who we are."""
    return _by_code(dict.fromkeys(_WHO_WE_ARE, _unless_relay(otherwise)), otherwise)


# MAIL, RCPT
def _tls_demanded(seen: Observation, situation: Situation) -> Ruling:
    """530: TLS where it is offered and meant, else what we can't satisfy (quirk Q6). TLS that was tried for it and did
    not come about may do so later."""
    enhanced = _reply(seen).enhanced
    meant = enhanced is None or enhanced.endswith(".7.0")
    if meant and situation.starttls_offered and not situation.tls:
        return _once(Change.WITH_TLS, _next("4.7.10"))(seen, situation)
    return _unless_relay(_FAIL_M)(seen, situation)


def _without_parameters(otherwise: Rule) -> Rule:
    again = _once(Change.WITHOUT_PARAMETERS, otherwise)
    return lambda seen, situation: (again if situation.parameters else otherwise)(seen, situation)


def _without_rcpt_parameters(seen: Observation, situation: Situation) -> Ruling:
    return (_once(Change.WITHOUT_PARAMETERS, _FAIL_R) if situation.rcpt_parameters else _FAIL_R)(seen, situation)


def _mail_lost(seen: Observation, situation: Situation) -> Ruling:
    return (_once(Change.UNPIPELINED, _GONE) if situation.pipelined else _GONE)(seen, situation)


def _perhaps_too_many(otherwise: Rule) -> Rule:
    """452 and 552 behind an accepted recipient mean that the rest is to come in the next transaction (RFC 5321 section
    4.5.3.1.10, quirks Q1 and Q2), unless the enhanced code says something else."""

    def rule(seen: Observation, situation: Situation) -> Ruling:
        enhanced = _reply(seen).enhanced
        if situation.accepted and (enhanced is None or enhanced.endswith(".5.3")):
            return Ruling(Action.SAME, Change.NEXT_TRANSACTION)
        return otherwise(seen, situation)

    return rule


_MAIL_REFUSED = _by_code(
    {
        501: _without_parameters(_FAIL_M),
        503: _once(Change.RESET, _GARBLED),
        504: _without_parameters(_FAIL_M),
        530: _tls_demanded,
        555: _without_parameters(_FAIL_M),
    },
    _about_mail(_FAIL_M),
)
_MAIL_DEFERRED = _by_code({455: _without_parameters(_next("4.0.0"))}, _next("4.0.0"))
_RCPT_REFUSED = _by_code(
    {
        501: _without_rcpt_parameters,
        503: _GARBLED,
        504: _without_rcpt_parameters,
        530: _tls_demanded,
        552: _perhaps_too_many(_FAIL_R),
        555: _without_rcpt_parameters,
    },
    _about_mail(_FAIL_R),
)
_RCPT_DEFERRED = _by_code({452: _perhaps_too_many(_DEFER_R)}, _DEFER_R)

# DATA, FINAL
_NOT_ASKED_FOR = _decides(Action.DEFER_D, Disposition.TRANSIENT, Scope.DESTINATION, "4.5.0")
_CHUNK_REFUSED = _by_code(dict.fromkeys((500, 502), _once(Change.WITH_DATA, _FAIL_M)), _FAIL_M)
"""Who does not know BDAT has read the chunk as commands: of that connection nothing can be believed any more."""
_GOING_DOWN = _decides(Action.DEFER_D, Disposition.TRANSIENT, Scope.DESTINATION, "4.3.2")

# RSET, QUIT
_DROP = _decides(Action.DROP, Disposition.TRANSIENT, Scope.SESSION, "4.5.0")
_DROP_GONE = _decides(Action.DROP, Disposition.TRANSIENT, Scope.SESSION, "4.4.2")

# ---------------------------------------------------------------- Table A
Row = tuple[Rule, Rule, Rule, Rule, Rule, Rule, Rule, Rule, Rule]
_2YZ = _by_digit(_go, _GARBLED)
_EHLO_REFUSED = _by_code(dict.fromkeys((500, 501, 502, 504), _NO_EHLO), _REFUSED)
_IN_CLEAR_NOW = _unless_tls_required(_clear, _next("4.7.10"))
_TLS_FAILED = _in_clear_anew("4.7.5")

TABLE: Mapping[Phase, Row] = {
    Phase.CONNECT: (_go, *(_IMPOSSIBLE,) * 6, _next("4.4.1"), _next("4.4.1")),
    Phase.BANNER: (_go, _2YZ, _BUSY, _BUSY, _REFUSED, _REFUSED, _GARBLED, _GONE, _GONE),
    Phase.EHLO: (_go, _2YZ, _BUSY, _BUSY, _EHLO_REFUSED, _REFUSED, _GARBLED, _EHLO_LOST, _GONE),
    Phase.HELO: (_go, _2YZ, _BUSY, _BUSY, _REFUSED, _REFUSED, _GARBLED, _GONE, _GONE),
    Phase.STARTTLS: (
        _go,
        _in_clear_anew("4.5.0"),
        _unless_tls_required(_clear, _next("4.7.0")),
        _BUSY,
        _IN_CLEAR_NOW,
        _IN_CLEAR_NOW,
        _in_clear_anew("4.5.0"),
        _in_clear_anew("4.4.2"),
        _in_clear_anew("4.4.2"),
    ),
    Phase.TLS: (_go, *(_TLS_FAILED,) * 8),
    Phase.EHLO_TLS: (_go, _2YZ, _BUSY, _BUSY, _REFUSED, _REFUSED, _GARBLED, _GONE, _GONE),
    Phase.AUTH: (_go, _2YZ, _next("4.7.0"), _BUSY, _NO_LOGIN, _NO_LOGIN, _GARBLED, _GONE, _GONE),
    Phase.MAIL: (_go, _2YZ, _MAIL_DEFERRED, _BUSY, _MAIL_REFUSED, _FAIL_M, _GARBLED, _mail_lost, _GONE),
    Phase.RCPT: (_go, _2YZ, _RCPT_DEFERRED, _BUSY, _RCPT_REFUSED, _FAIL_R, _GARBLED, _GONE, _GONE),
    Phase.DATA: (_go, _NOT_ASKED_FOR, _DEFER_R, _BUSY, _about_mail(_FAIL_M), _FAIL_M, _GARBLED, _GONE, _GONE),
    Phase.BODY: (_go, _GARBLED, _DEFER_R, _GOING_DOWN, _FAIL_M, _FAIL_M, _GARBLED, _GONE, _GONE),
    Phase.BDAT: (_go, _2YZ, _DEFER_R, _BUSY, _CHUNK_REFUSED, _FAIL_M, _GARBLED, _GONE, _GONE),
    Phase.FINAL: (
        _DELIVERED,
        _by_digit(_DELIVERED, _doubt("4.5.0")),
        _DEFER_R,
        _GOING_DOWN,
        _FAIL_M,
        _FAIL_M,
        _doubt("4.5.0"),
        _doubt("4.4.2"),
        _doubt("4.4.2"),
    ),
    Phase.RSET: (_go, _by_digit(_go, _DROP), _DROP, _DROP, _DROP, _DROP, _DROP, _DROP_GONE, _DROP_GONE),
    Phase.QUIT: (_go, _DROP, _DROP, _DROP, _DROP, _DROP, _DROP, _DROP_GONE, _DROP_GONE),
}
"""By phase, one rule for each column. A 5yz to DATA where no recipient was accepted fails nobody: each has its own
verdict."""
