"""Table A: every cell, then the quirks, then what it comes to when no host is left."""

import pytest

from mta.model.envelope import ByMode, DeliverBy
from mta.model.outcome import Action, Change, Disposition, Observation, Phase, Ruling, Scope, Seen, Verdict
from mta.model.reply import Reply, finding
from mta.policy.classify import TABLE, Situation, classify
from mta.policy.exhausted import exhausted
from mta.policy.transaction import mail_parameters

SAMPLES = {
    "2yz": "252 fine",
    "3yz": "334 go on",
    "4yz": "450 later",
    "421": "421 closing",
    "5yz": "550 no",
    "554": "554 no",
    "521": "521 no mail here",
    "malformed": Seen.MALFORMED,
    "lost": Seen.LOST,
    "timeout": Seen.TIMEOUT,
}
EXPECTED = {
    Phase.BANNER: "220 hello", Phase.STARTTLS: "220 go", Phase.AUTH: "235 welcome", Phase.RCPT: "250 ok",
    Phase.DATA: "354 go", Phase.QUIT: "221 bye",
}  # fmt: skip
WITHOUT_REPLY = (Phase.CONNECT, Phase.TLS, Phase.BODY)

REPLIES = """
phase    | 2yz           | 3yz           | 4yz           | 421           | 5yz          | 554          | 521
connect  | -             | -             | -             | -             | -            | -            | -
banner   | GO            | NEXT 4.5.0    | NEXT 4.3.2    | NEXT 4.3.2    | NO 5.7.1     | NO 5.7.1     | NO 5.3.2
ehlo     | GO            | NEXT 4.5.0    | NEXT 4.3.2    | NEXT 4.3.2    | NO 5.7.1     | NO 5.7.1     | NO 5.3.2
helo     | GO            | NEXT 4.5.0    | NEXT 4.3.2    | NEXT 4.3.2    | NO 5.7.1     | NO 5.7.1     | NO 5.3.2
starttls | ANEW          | ANEW          | CLEAR         | NEXT 4.3.2    | CLEAR        | CLEAR        | CLEAR
tls      | -             | -             | -             | -             | -            | -            | -
ehlo-tls | GO            | NEXT 4.5.0    | NEXT 4.3.2    | NEXT 4.3.2    | NO 5.7.1     | NO 5.7.1     | NO 5.3.2
auth     | GO            | NEXT 4.5.0    | NEXT 4.7.0    | NEXT 4.3.2    | NEXT 4.7.8   | NEXT 4.7.8   | NEXT 4.7.8
mail     | GO            | NEXT 4.5.0    | NEXT 4.0.0    | NEXT 4.3.2    | FAIL_M 5.0.0 | FAIL_M 5.0.0 | FAIL_M 5.0.0
rcpt     | GO            | NEXT 4.5.0    | DEFER_R 4.0.0 | NEXT 4.3.2    | FAIL_R 5.0.0 | FAIL_R 5.0.0 | FAIL_R 5.0.0
data     | DEFER_D 4.5.0 | DEFER_D 4.5.0 | DEFER_R 4.0.0 | NEXT 4.3.2    | FAIL_M 5.0.0 | FAIL_M 5.0.0 | FAIL_M 5.0.0
body     | NEXT 4.5.0    | NEXT 4.5.0    | DEFER_R 4.0.0 | DEFER_D 4.3.2 | FAIL_M 5.0.0 | FAIL_M 5.0.0 | FAIL_M 5.0.0
bdat     | GO            | NEXT 4.5.0    | DEFER_R 4.0.0 | NEXT 4.3.2    | FAIL_M 5.0.0 | FAIL_M 5.0.0 | FAIL_M 5.0.0
final    | DELIVERED     | DOUBT 4.5.0   | DEFER_R 4.0.0 | DEFER_D 4.3.2 | FAIL_M 5.0.0 | FAIL_M 5.0.0 | FAIL_M 5.0.0
rset     | GO            | DROP 4.5.0    | DROP 4.5.0    | DROP 4.5.0    | DROP 4.5.0   | DROP 4.5.0   | DROP 4.5.0
quit     | DROP 4.5.0    | DROP 4.5.0    | DROP 4.5.0    | DROP 4.5.0    | DROP 4.5.0   | DROP 4.5.0   | DROP 4.5.0
"""
TROUBLE = """
phase    | malformed   | lost                | timeout
connect  | -           | NEXT 4.4.1          | NEXT 4.4.1
banner   | NEXT 4.5.0  | NEXT 4.4.2          | NEXT 4.4.2
ehlo     | NEXT 4.5.0  | SAME reconnect-helo | NEXT 4.4.2
helo     | NEXT 4.5.0  | NEXT 4.4.2          | NEXT 4.4.2
starttls | ANEW        | ANEW                | ANEW
tls      | ANEW        | ANEW                | ANEW
ehlo-tls | NEXT 4.5.0  | NEXT 4.4.2          | NEXT 4.4.2
auth     | NEXT 4.5.0  | NEXT 4.4.2          | NEXT 4.4.2
mail     | NEXT 4.5.0  | NEXT 4.4.2          | NEXT 4.4.2
rcpt     | NEXT 4.5.0  | NEXT 4.4.2          | NEXT 4.4.2
data     | NEXT 4.5.0  | NEXT 4.4.2          | NEXT 4.4.2
body     | NEXT 4.5.0  | NEXT 4.4.2          | NEXT 4.4.2
bdat     | NEXT 4.5.0  | NEXT 4.4.2          | NEXT 4.4.2
final    | DOUBT 4.5.0 | DOUBT 4.4.2         | DOUBT 4.4.2
rset     | DROP 4.5.0  | DROP 4.4.2          | DROP 4.4.2
quit     | DROP 4.5.0  | DROP 4.4.2          | DROP 4.4.2
"""
"""Table A in the simplest situation. "-": can't happen, no reply is read there. NO: NEXT with a permanent verdict on the
host. CLEAR: the same host on this connection without TLS; ANEW: over a new connection without TLS."""

MEANING = {
    "NEXT": (Action.NEXT, Disposition.TRANSIENT, Scope.SESSION, False),
    "NO": (Action.NEXT, Disposition.PERMANENT, Scope.SESSION, False),
    "DEFER_D": (Action.DEFER_D, Disposition.TRANSIENT, Scope.DESTINATION, False),
    "DEFER_R": (Action.DEFER_R, Disposition.TRANSIENT, Scope.RECIPIENT, False),
    "FAIL_R": (Action.FAIL_R, Disposition.PERMANENT, Scope.RECIPIENT, False),
    "FAIL_M": (Action.FAIL_M, Disposition.PERMANENT, Scope.TRANSACTION, False),
    "DOUBT": (Action.DOUBT, Disposition.TRANSIENT, Scope.TRANSACTION, True),
    "DROP": (Action.DROP, Disposition.TRANSIENT, Scope.SESSION, False),
}


def seen(phase: Phase, what: str | Seen) -> Observation:
    if isinstance(what, Seen):
        return Observation(phase, what, finding("4.0.0", what))
    code, _, text = what.partition(" ")
    first, _, rest = text.partition(" ")
    if first.count(".") == 2:
        return Observation(phase, Seen.REPLY, Reply(int(code), first, rest))
    return Observation(phase, Seen.REPLY, Reply(int(code), None, text))


def shown(ruling: Ruling) -> str:
    """A ruling in the words of the table; checks that its parts fit each other."""
    if ruling.action is Action.SAME:
        assert ruling.verdict is None and ruling.change is not None
        return {Change.CLEAR: "CLEAR", Change.RECONNECT_CLEAR: "ANEW"}.get(ruling.change, f"SAME {ruling.change}")
    assert ruling.change is None
    verdict = ruling.verdict
    if verdict is None:
        assert ruling.action is Action.GO
        return "GO"
    if verdict.disposition is Disposition.DELIVERED:
        assert (ruling.action, verdict.scope, verdict.status) == (Action.GO, Scope.TRANSACTION, "2.0.0")
        return "DELIVERED"
    parts = (ruling.action, verdict.disposition, verdict.scope, verdict.in_doubt)
    return f"{next(word for word, meaning in MEANING.items() if meaning == parts)} {verdict.status}"


def cells(table: str) -> list[tuple[Phase, str, str]]:
    head, *rows = ([cell.strip() for cell in line.split("|")] for line in table.strip().splitlines())
    return [(Phase(row[0]), name, cell) for row in rows for name, cell in zip(head[1:], row[1:], strict=True)]


CELLS = cells(REPLIES) + cells(TROUBLE)


def test_the_matrix_is_whole() -> None:
    assert len(CELLS) == len(TABLE) * len(SAMPLES) == 16 * 10
    assert {phase for phase, _, _ in CELLS} == set(TABLE)
    assert {name for _, name, _ in CELLS} == set(SAMPLES)


@pytest.mark.parametrize(("phase", "name", "cell"), CELLS)
def test_cell(phase: Phase, name: str, cell: str) -> None:
    observation = seen(phase, SAMPLES[name])
    ruling = classify(observation, Situation())
    if cell != "-":
        assert shown(ruling) == cell
    else:  # can't happen; if it did, it would cost this host, never the mail
        assert shown(ruling) in ("NEXT 4.5.0", "ANEW")
    if ruling.verdict is not None:
        assert (ruling.verdict.phase, ruling.verdict.reply) == (phase, observation.reply)


@pytest.mark.parametrize("phase", TABLE)
def test_what_is_expected_goes_on(phase: Phase) -> None:
    observation = (
        Observation(phase, Seen.REPLY) if phase in WITHOUT_REPLY else seen(phase, EXPECTED.get(phase, "250 2.0.0 ok"))
    )
    assert shown(classify(observation, Situation())) == ("DELIVERED" if phase is Phase.FINAL else "GO")


TLS = Situation(starttls_offered=True)
T = Situation(tls_required=True, starttls_offered=True)
PARAMETERS = Situation(parameters=True)
ONE_ACCEPTED = Situation(accepted=1)


def after(*changes: Change, **rest: bool) -> Situation:
    return Situation(repeated=frozenset(changes), **rest)


QUIRKS = [
    # EHLO
    (Phase.EHLO, "500 5.5.2 what?", Situation(), "SAME helo"),
    (Phase.EHLO, "502 no", Situation(), "SAME helo"),
    (Phase.EHLO, "504 no", after(Change.HELO), "NO 5.7.1"),
    (Phase.EHLO, "500 what?", T, "NEXT 4.7.10"),
    (Phase.EHLO, "550 5.7.27 your name", Situation(), "NO 5.7.27"),
    (Phase.EHLO, Seen.LOST, after(Change.RECONNECT_HELO), "NEXT 4.4.2"),
    (Phase.EHLO, Seen.LOST, T, "NEXT 4.4.2"),
    (Phase.EHLO_TLS, "500 what?", Situation(tls=True), "NO 5.7.1"),
    # STARTTLS and TLS where TLS is required, and the second time: B26, B27
    (Phase.STARTTLS, "454 4.7.0 not now", T, "NEXT 4.7.0"),
    (Phase.STARTTLS, "502 5.5.1 what?", T, "NEXT 4.7.10"),
    (Phase.STARTTLS, "554 no", T, "NEXT 4.7.10"),
    (Phase.STARTTLS, "250 ok", T, "NEXT 4.5.0"),
    (Phase.STARTTLS, Seen.MALFORMED, T, "NEXT 4.5.0"),
    (Phase.STARTTLS, Seen.TIMEOUT, T, "NEXT 4.4.2"),
    (Phase.STARTTLS, Seen.LOST, after(Change.RECONNECT_CLEAR), "NEXT 4.4.2"),
    (Phase.TLS, Seen.LOST, T, "NEXT 4.7.5"),
    (Phase.TLS, Seen.TIMEOUT, after(Change.RECONNECT_CLEAR), "NEXT 4.7.5"),
    # MAIL
    (Phase.MAIL, "451 4.3.5 broken", Situation(), "NEXT 4.3.5"),
    (Phase.MAIL, "455 4.5.4 not now", PARAMETERS, "SAME without-parameters"),
    (Phase.MAIL, "455 4.5.4 not now", Situation(), "NEXT 4.5.4"),
    (Phase.MAIL, "555 5.5.4 what?", PARAMETERS, "SAME without-parameters"),
    (Phase.MAIL, "501 what?", PARAMETERS, "SAME without-parameters"),
    (Phase.MAIL, "504 what?", PARAMETERS, "SAME without-parameters"),
    (Phase.MAIL, "555 5.5.4 what?", Situation(), "FAIL_M 5.5.4"),
    (Phase.MAIL, "501 5.1.7 bad", after(Change.WITHOUT_PARAMETERS, parameters=True), "FAIL_M 5.1.7"),
    (Phase.MAIL, "552 5.3.4 too big", Situation(), "FAIL_M 5.3.4"),
    (Phase.MAIL, "552 too big", Situation(), "FAIL_M 5.3.4"),
    (Phase.MAIL, "530 5.7.0 STARTTLS first", TLS, "SAME with-tls"),
    (Phase.MAIL, "530 Must issue a STARTTLS command first", TLS, "SAME with-tls"),
    (Phase.MAIL, "530 5.7.0 STARTTLS first", after(Change.WITH_TLS, starttls_offered=True), "NEXT 4.7.10"),
    (Phase.MAIL, "530 5.7.0 authenticate", Situation(starttls_offered=True, tls=True), "FAIL_M 5.7.0"),
    (Phase.MAIL, "530 5.7.0 STARTTLS first", Situation(starttls_offered=True, relay=True), "SAME with-tls"),
    (Phase.MAIL, "530 5.7.0 authenticate", Situation(starttls_offered=True, tls=True, relay=True), "NEXT 4.7.8"),
    (Phase.MAIL, "538 5.7.11 encrypt", Situation(relay=True), "NEXT 4.7.8"),
    (Phase.MAIL, "550 5.7.1 not this sender", Situation(relay=True), "FAIL_M 5.7.1"),
    (Phase.RCPT, "530 5.7.0 authenticate", Situation(relay=True), "NEXT 4.7.8"),
    (Phase.RCPT, "535 5.7.8 who?", Situation(relay=True), "NEXT 4.7.8"),
    (Phase.RCPT, "550 5.1.1 nobody", Situation(relay=True), "FAIL_R 5.1.1"),
    (Phase.DATA, "530 5.7.0 authenticate", Situation(relay=True), "NEXT 4.7.8"),
    (Phase.DATA, "530 5.7.0 authenticate", Situation(), "FAIL_M 5.7.0"),
    (Phase.AUTH, "454 4.7.0 later", Situation(relay=True), "NEXT 4.7.0"),
    (Phase.AUTH, "535 5.7.8 wrong", Situation(relay=True), "NEXT 4.7.8"),
    (Phase.AUTH, "535 wrong", Situation(relay=True), "NEXT 4.7.8"),
    (Phase.MAIL, "530 authenticate", Situation(), "FAIL_M 5.7.10"),
    (Phase.MAIL, "530 5.7.1 authenticate", TLS, "FAIL_M 5.7.1"),
    (Phase.MAIL, "538 encrypt", TLS, "FAIL_M 5.7.10"),
    (Phase.MAIL, "503 nested MAIL", Situation(), "SAME reset"),
    (Phase.MAIL, "503 nested MAIL", after(Change.RESET), "NEXT 4.5.0"),
    (Phase.MAIL, Seen.LOST, Situation(pipelined=True), "SAME unpipelined"),
    (Phase.MAIL, Seen.LOST, after(Change.UNPIPELINED, pipelined=True), "NEXT 4.4.2"),
    (Phase.MAIL, "599 an unknown one", Situation(), "FAIL_M 5.0.0"),
    # RCPT
    (Phase.RCPT, "251 will forward", Situation(), "GO"),
    (Phase.RCPT, "450 4.7.1 greylisted", Situation(), "DEFER_R 4.7.1"),  # Q14
    (Phase.RCPT, "452 4.5.3 too many", ONE_ACCEPTED, "SAME next-transaction"),
    (Phase.RCPT, "452 4.5.3 too many", Situation(), "DEFER_R 4.5.3"),
    (Phase.RCPT, "452 no room", ONE_ACCEPTED, "SAME next-transaction"),  # Q2
    (Phase.RCPT, "452 no room", Situation(), "DEFER_R 4.0.0"),
    (Phase.RCPT, "452 4.2.2 mailbox full", ONE_ACCEPTED, "DEFER_R 4.2.2"),
    (Phase.RCPT, "552 too many", ONE_ACCEPTED, "SAME next-transaction"),  # Q1
    (Phase.RCPT, "552 5.5.3 too many", ONE_ACCEPTED, "SAME next-transaction"),
    (Phase.RCPT, "552 5.2.2 mailbox full", ONE_ACCEPTED, "FAIL_R 5.2.2"),
    (Phase.RCPT, "552 5.3.4 too big", ONE_ACCEPTED, "FAIL_R 5.3.4"),
    (Phase.RCPT, "552 no", Situation(), "FAIL_R 5.0.0"),
    (Phase.RCPT, "556 no mail there", Situation(), "FAIL_R 5.1.10"),  # Q7
    (Phase.RCPT, "553 5.6.7 ASCII only", Situation(), "FAIL_R 5.6.7"),
    (Phase.RCPT, "554 5.7.1 relay access denied", Situation(), "FAIL_R 5.7.1"),
    (Phase.RCPT, "550 4.2.1 disabled", Situation(), "FAIL_R 5.0.0"),  # Q8
    (Phase.RCPT, "550 5.1.1 no such user", Situation(), "FAIL_R 5.1.1"),  # Q13
    (Phase.RCPT, "503 need MAIL command", Situation(), "NEXT 4.5.0"),  # B15: a shifted reply bounces nobody
    (Phase.RCPT, "530 5.7.0 STARTTLS first", TLS, "SAME with-tls"),
    (Phase.RCPT, "421 4.3.2 closing", ONE_ACCEPTED, "NEXT 4.3.2"),  # Q10
    (Phase.RCPT, "354 go", Situation(), "NEXT 4.5.0"),  # B13
    # DATA and after
    (Phase.DATA, "250 ok", ONE_ACCEPTED, "DEFER_D 4.5.0"),  # Q9, B13
    (Phase.DATA, "554 5.5.1 no valid recipients", Situation(), "FAIL_M 5.5.1"),
    (Phase.BODY, "552 too big", ONE_ACCEPTED, "FAIL_M 5.3.4"),
    (Phase.BDAT, "500 5.5.2 what?", ONE_ACCEPTED, "SAME with-data"),
    (Phase.BDAT, "502 5.5.1 what?", ONE_ACCEPTED, "SAME with-data"),
    (Phase.BDAT, "502 5.5.1 what?", after(Change.WITH_DATA), "FAIL_M 5.5.1"),
    (Phase.BDAT, "552 too big", ONE_ACCEPTED, "FAIL_M 5.3.4"),
    (Phase.FINAL, "552 5.3.4 too big", ONE_ACCEPTED, "FAIL_M 5.3.4"),
    (Phase.FINAL, "554 5.7.1 spam", ONE_ACCEPTED, "FAIL_M 5.7.1"),
    (Phase.FINAL, "452 4.3.1 no room", ONE_ACCEPTED, "DEFER_R 4.3.1"),
    (Phase.FINAL, "354 go", ONE_ACCEPTED, "DOUBT 4.5.0"),  # B13
    # greetings
    (Phase.BANNER, "554 5.7.26 blocked", Situation(), "NO 5.7.26"),  # Q3
    (Phase.BANNER, "421 4.7.0 too many connections", Situation(), "NEXT 4.7.0"),
]


@pytest.mark.parametrize(("phase", "what", "situation", "ruling"), QUIRKS)
def test_quirk(phase: Phase, what: str | Seen, situation: Situation, ruling: str) -> None:
    assert shown(classify(seen(phase, what), situation)) == ruling


@pytest.mark.parametrize("code", [None, 100, 199, 600, 999])
@pytest.mark.parametrize("phase", [it for it in TABLE if it not in (Phase.TLS, Phase.STARTTLS)])
def test_b12_a_code_that_is_none_fails_and_delivers_nothing(phase: Phase, code: int | None) -> None:
    ruling = classify(Observation(phase, Seen.REPLY, Reply(code, None, "")), Situation())
    assert ruling.verdict is not None
    assert ruling.verdict.disposition is Disposition.TRANSIENT


# ---------------------------------------------------------------- no host is left
def verdict(phase: Phase, what: str | Seen) -> Verdict:
    found = classify(seen(phase, what), after(Change.HELO)).verdict
    assert found is not None
    return found


BLOCKED = verdict(Phase.BANNER, "554 5.7.1 blocked")
NO_MAIL = verdict(Phase.BANNER, "521 no mail here")
UNREACHABLE = verdict(Phase.CONNECT, Seen.LOST)
BUSY = verdict(Phase.BANNER, "421 4.3.2 busy")
OUR_NAME = verdict(Phase.EHLO, "550 5.7.1 I don't like your name")


def summary(verdicts: list[Verdict], refusals: int = 0) -> tuple[Disposition, Scope, str, int | None, int]:
    result, count = exhausted(verdicts, refusals)
    return result.disposition, result.scope, result.status, result.reply.code, count


FAILED = (Disposition.PERMANENT, Scope.TRANSACTION)
DEFERRED = (Disposition.TRANSIENT, Scope.DESTINATION)


@pytest.mark.parametrize(
    ("refusals", "decision"), [(0, (*DEFERRED, "4.7.1")), (1, (*DEFERRED, "4.7.1")), (2, (*FAILED, "5.7.1"))]
)
def test_refusing_greetings_are_believed_at_the_third_attempt(
    refusals: int, decision: tuple[Disposition, Scope, str]
) -> None:
    assert summary([BLOCKED, BLOCKED], refusals) == (*decision, 554, refusals + 1)


def test_521_everywhere_is_believed_at_once() -> None:
    assert summary([NO_MAIL, NO_MAIL]) == (*FAILED, "5.3.2", 521, 1)


def test_521_beside_another_refusal_is_not() -> None:
    assert summary([NO_MAIL, BLOCKED]) == (*DEFERRED, "4.7.1", 554, 1)


@pytest.mark.parametrize("other", [UNREACHABLE, BUSY, OUR_NAME])
def test_one_host_that_does_not_refuse_ends_the_count(other: Verdict) -> None:
    assert summary([BLOCKED, other, BLOCKED], 2) == (*DEFERRED, "4.7.1", 554, 0)


def test_b53_a_refusal_of_our_name_never_fails_mail() -> None:
    assert summary([OUR_NAME, OUR_NAME], 7) == (*DEFERRED, "4.7.1", 550, 0)


def test_the_last_host_that_spoke_gives_the_status() -> None:
    assert summary([BUSY, UNREACHABLE]) == (*DEFERRED, "4.3.2", 421, 0)


def test_nobody_spoke() -> None:
    assert summary([UNREACHABLE]) == (*DEFERRED, "4.4.1", None, 0)


# ---------------------------------------------------------------- a deadline that a host would not keep
def _no_promise() -> Verdict:
    found = mail_parameters({}, 10, False, deliver_by=DeliverBy(100.0, ByMode.RETURN), now=1.0)
    assert isinstance(found, Verdict)
    return found


def test_dby_06_no_host_that_keeps_the_deadline_fails_at_once() -> None:
    assert summary([_no_promise(), _no_promise()], 1) == (*FAILED, "5.4.7", None, 0)


@pytest.mark.parametrize(("other", "status"), [(UNREACHABLE, "4.4.1"), (BUSY, "4.3.2"), (BLOCKED, "4.7.1")])
def test_dby_06_where_another_host_may_keep_it_later_it_waits(other: Verdict, status: str) -> None:
    """And the destination is not at fault: other mail goes on."""
    for verdicts in ([_no_promise(), other], [other, _no_promise()]):
        result, _ = exhausted(verdicts, 2)
        assert (result.disposition, result.scope, result.status) == (Disposition.TRANSIENT, Scope.TRANSACTION, status)


@pytest.mark.parametrize("code", [501, 504, 555])
def test_rcpt_parameters_are_left_out_once(code: int) -> None:
    """Table A: a 555 to NOTIFY that was our own idea fails no recipient."""
    observation = seen(Phase.RCPT, f"{code} 5.5.4 what is NOTIFY?")
    assert classify(observation, Situation(rcpt_parameters=True)).change is Change.WITHOUT_PARAMETERS
    again = Situation(rcpt_parameters=True, repeated=frozenset({Change.WITHOUT_PARAMETERS}))
    for situation in (Situation(), Situation(parameters=True), again):
        assert classify(observation, situation).action is Action.FAIL_R
