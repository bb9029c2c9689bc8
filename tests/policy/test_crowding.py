"""What refuses us for too many sessions, and what does not (replies as servers send them)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta.model.outcome import Disposition, Phase, Scope, Verdict
from mta.model.reply import Reply
from mta.policy.crowding import PHASES, crowded


def verdict(code: int, enhanced: str | None, text: str, phase: Phase = Phase.BANNER) -> Verdict:
    disposition = Disposition.TRANSIENT if code < 500 else Disposition.PERMANENT
    reply = Reply(code, enhanced, text)
    return Verdict(disposition, Scope.SESSION, "4.3.2", reply, phase)


@pytest.mark.parametrize(
    ("code", "enhanced", "text"),
    [
        (421, "4.7.0", "mx.example.net Error: too many connections from 192.0.2.1"),
        (421, None, "Too many concurrent SMTP connections from this IP address; please try again later."),
        (421, None, "too many connections - try again later"),
        (421, "4.3.2", "Too many open connections."),
        (421, "4.3.2", "The maximum number of concurrent server connections has exceeded a limit, closing channel"),
        (421, "4.4.5", "Service unavailable, concurrency limit reached"),
        (421, "4.4.5", "Too many connections from your host."),
        (421, "4.3.2", "VPOP3 Too many connections from your IP address - try later"),
        (421, "4.7.0", "Too many concurrent sessions opened from this host"),
        (421, "4.7.0", "Too many SMTP sessions for this host"),
        (421, None, "Connection limit exceeded"),
        (451, "4.7.1", "too many sessions from 192.0.2.1"),
        (450, None, "maximum connections reached for your host"),
        (452, "4.4.5", "simultaneous connections from your network exceeded"),
        (554, None, "Too many connections"),
        (421, "4.3.2", "Service not available, closing transmission channel"),
        (421, None, "mx.example.net Service not available"),
        (421, "4.7.0", "Try again later, closing connection."),
        (421, None, ""),
    ],
)
def test_what_says_or_shows_that_there_are_too_many_sessions(code: int, enhanced: str | None, text: str) -> None:
    assert crowded(verdict(code, enhanced, text))


@pytest.mark.parametrize(
    ("code", "enhanced", "text", "phase"),
    [
        (421, "4.4.2", "mx.example.net Error: timeout exceeded", Phase.MAIL),
        (421, None, "SMTP command timeout - closing connection", Phase.BANNER),
        (421, "4.3.0", "Temporary system problem. Try again later", Phase.BANNER),
        (421, "4.3.2", "Service shutting down", Phase.BANNER),
        (421, None, "Greylisted, please come back later", Phase.RCPT),
        (421, "4.7.0", "[TSS04] Messages deferred due to unexpected volume or user complaints", Phase.MAIL),
        (421, None, "too many messages in this session", Phase.MAIL),
        (421, "4.7.0", "Too many errors", Phase.RCPT),
        (421, None, "IP address on a blocklist", Phase.BANNER),
        (421, None, "no reverse DNS for your host", Phase.BANNER),
        (450, "4.2.1", "The user is receiving mail at a rate that prevents additional messages", Phase.RCPT),
        (451, "4.7.1", "Greylisting in action", Phase.RCPT),
        (452, "4.5.3", "Too many recipients", Phase.RCPT),
        (450, "4.3.2", "try later", Phase.BANNER),
        (550, "5.7.1", "too many connections", Phase.RCPT),
        (421, "4.7.0", "too many connections", Phase.FINAL),
        (421, None, "too many connections", Phase.DATA),
    ],
)
def test_what_means_something_else(code: int, enhanced: str | None, text: str, phase: Phase) -> None:
    assert not crowded(verdict(code, enhanced, text, phase))


def test_a_session_that_has_carried_mail_may_have_done_its_share() -> None:
    assert not crowded(verdict(421, None, "bye", Phase.MAIL), fresh=False)
    assert crowded(verdict(421, None, "too many connections", Phase.MAIL), fresh=False)


@given(st.integers(200, 599), st.text(max_size=5000), st.sampled_from(sorted(PHASES)))
def test_any_text_is_read_in_no_time(code: int, text: str, phase: Phase) -> None:
    crowded(verdict(code, None, text, phase))
    crowded(verdict(code, None, "too many " + "a " * 300 + text, phase))
    crowded(verdict(code, None, "limit max sessions " * 300, phase))
