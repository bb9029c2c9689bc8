"""Argument vectors of programs that call sendmail."""

import pytest

from mta.control.errors import Exit
from mta.sendmail.arguments import Invocation, Mode, parse
from mta.sendmail.errors import NotTaken

CALLERS = {
    "PHP mail()": (["-t", "-i"], Invocation(reads_recipients=True, dot_ends=False)),
    "PHP mail() with a fifth argument": (
        ["-t", "-i", "-fann@x.org"],
        Invocation(reads_recipients=True, dot_ends=False, sender="ann@x.org"),
    ),
    "git send-email": (
        ["-i", "ann@x.org", "bob@x.org"],
        Invocation(recipients=("ann@x.org", "bob@x.org"), dot_ends=False),
    ),
    "git send-email with an envelope sender": (
        ["-f", "me@x.org", "-i", "ann@x.org"],
        Invocation(recipients=("ann@x.org",), dot_ends=False, sender="me@x.org"),
    ),
    "cron": (
        ["-FCronDaemon", "-i", "-B8BITMIME", "-oem", "root"],
        Invocation(recipients=("root",), dot_ends=False, full_name="CronDaemon", body="8BITMIME"),
    ),
    "mail": (
        ["-i", "-r", "me@x.org", "--", "ann@x.org"],
        Invocation(recipients=("ann@x.org",), dot_ends=False, sender="me@x.org"),
    ),
    "mutt with DSN": (
        ["-oem", "-oi", "-f", "me@x.org", "-N", "failure,delay", "-R", "hdrs", "--", "ann@x.org"],
        Invocation(recipients=("ann@x.org",), dot_ends=False, sender="me@x.org", notify="FAILURE,DELAY", ret="HDRS"),
    ),
    "Perl's Mail::Send": (
        ["-oi", "-odb", "-t"],
        Invocation(reads_recipients=True, dot_ends=False),
    ),
    "Nagios": (["-ti"], Invocation(reads_recipients=True, dot_ends=False)),
    "options behind recipients": (
        ["ann@x.org", "-f", "me@x.org"],
        Invocation(recipients=("ann@x.org",), sender="me@x.org"),
    ),
    "what follows -- is no option": (["--", "-t", "--"], Invocation(recipients=("-t", "--"))),
    "the null sender": (["-f", "<>", "a@x.org"], Invocation(recipients=("a@x.org",), sender="<>")),
    "an empty sender": (["-f", "", "a@x.org"], Invocation(recipients=("a@x.org",), sender="")),
    "a key": (["--key", "order-1", "-t"], Invocation(reads_recipients=True, key="order-1")),
    "a configuration": (["--config=x.toml", "-t"], Invocation(reads_recipients=True, config="x.toml")),
}


@pytest.mark.parametrize("caller", CALLERS)
def test_what_callers_say_is_understood(caller: str) -> None:
    words, asked = CALLERS[caller]
    assert parse(words) == asked


@pytest.mark.parametrize(
    "word",
    ["-oem", "-oep", "-om", "-o7", "-em", "-m", "-n", "-v", "-U", "-G", "-c", "-Ac", "-Am", "-h3", "-Ltag", "-Xlog",
     "-OErrorMode=p", "-psmtp:host", "-bm"],
)  # fmt: skip
def test_what_tunes_another_program_is_passed_over(word: str) -> None:
    assert parse([word, "a@x.org"]) == Invocation(recipients=("a@x.org",))


@pytest.mark.parametrize(
    ("word", "mode"),
    [("-bs", Mode.SMTP), ("-bp", Mode.QUEUE), ("-q", Mode.RUN_QUEUE), ("-q15m", Mode.RUN_QUEUE)],
)
def test_other_modes_need_no_recipient(word: str, mode: Mode) -> None:
    assert parse([word]).mode is mode


def test_a_queue_run_does_not_swallow_a_message() -> None:
    assert parse(["-q", "a@x.org"]).mode is Mode.DELIVER


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "no recipients"),
        (["-i", "-oem"], "no recipients"),
        (["-bd"], "mta serve"),
        (["-bd", "-q15m"], "mta serve"),
        (["-bi"], r"\[aliases\]"),
        (["-I"], r"\[aliases\]"),
        (["-bt"], "-bt"),
        (["-bv", "a@x.org"], "-bv"),
        (["-bh"], "-bh"),
        (["-z", "a@x.org"], "unknown option -z"),
        (["--frob", "a@x.org"], "unknown option --frob"),
        (["a@x.org", "-f"], "-f needs a value"),
        (["-t", "--key"], "--key needs a value"),
        (["-t", "--key", "a b"], "--key"),
        (["-t", "--key", "a\r\nBcc: eve@x.org"], "--key"),
        (["-t", "-F", "Ann\r\nBcc: eve@x.org"], "-F"),
        (["-t", "-F", "Ann\udcff"], "-F"),
        (["-t", "-N", "sometimes"], "-N"),
        (["-t", "-N", "never,failure"], "-N"),
        (["-t", "-N", ""], "-N"),
        (["-t", "-R", "some"], "-R"),
        (["-t", "-V", "a\nb"], "-V"),
        (["-t", "-V", "x" * 101], "-V"),
        (["-t", "-B", "BINARYMIME"], "-B"),
        (["-t", "-XV"], "VERP"),
    ],
)
def test_B54_what_is_not_meant_for_it_is_64(words: list[str], says: str) -> None:
    with pytest.raises(NotTaken, match=says) as caught:
        parse(words)
    assert caught.value.code is Exit.USAGE


def test_DSN_03_an_envelope_identifier_becomes_xtext() -> None:
    assert parse(["-t", "-V", "a+b=c d"]).envid == "a+2Bb+3Dc+20d"
