"""Log lines: one fact, one line, whatever a peer sent; the names of interface.md section 5."""

import json
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta.model.events import Accepted, Attempted, Encrypted, Fact, Ordered, Refused, Reported, Settled, Trouble
from mta.model.reply import Reply, parse_reply
from mta.model.text import safe_text
from mta.model.tls import TlsResult
from mta.observe.log import LAYOUTS, REFUSALS_PER_MINUTE, LogLines

AT = 1767323045.678
QID = "06ABCDEFGHJKMN00"
QUOTA = parse_reply(452, ["4.2.2 quota exceeded"])
TLS = "TLSv1.3 TLS_AES_256_GCM_SHA384"
DEFERRED = Settled(
    QID, "", "ann@example.org", "deferred", 2, "mx1.example.org", "192.0.2.1", TLS, QUOTA, "", AT + 60, 61.23456
)  # fmt: skip


class Lines:
    """A sink that keeps lines, and can have lost some."""

    def __init__(self) -> None:
        self.raw: list[bytes] = []
        self.lost = 0

    def __call__(self, line: bytes, soon: bool = False) -> None:
        self.raw.append(line)

    def take_lost(self) -> int:
        lost, self.lost = self.lost, 0
        return lost


def logged(
    *facts: Fact, layout: str = "kv", debug: bool = False, now: Callable[[], float] = lambda: AT, lost: int = 0
) -> list[str]:
    """The lines, each checked to be one."""
    lines = Lines()
    lines.lost = lost
    log = LogLines(lines, now, LAYOUTS[layout], debug=debug)
    for fact in facts:
        log(fact)
    texts = [raw.decode("utf-8") for raw in lines.raw]
    assert all(text.endswith("\n") and len(text.splitlines()) == 1 for text in texts)
    return [text.removesuffix("\n") for text in texts]


def test_a_settled_recipient_as_key_value():
    """NBR-08: queue id, recipient, server, address, TLS, attempt, reply."""
    assert logged(DEFERRED) == [
        "ts=2026-01-02T03:04:05.678Z level=info event=deferred qid=06ABCDEFGHJKMN00 recipient=ann@example.org attempt=2"
        ' host=mx1.example.org address=192.0.2.1 tls="TLSv1.3 TLS_AES_256_GCM_SHA384" code=452 enhanced=4.2.2'
        ' text="quota exceeded" delay=61.235 next_attempt_at=2026-01-02T03:05:05.678Z'
    ]


def test_a_settled_recipient_as_json():
    assert json.loads(logged(DEFERRED, layout="json")[0]) == {
        "ts": "2026-01-02T03:04:05.678Z",
        "level": "info",
        "event": "deferred",
        "qid": QID,
        "recipient": "ann@example.org",
        "attempt": 2,
        "host": "mx1.example.org",
        "address": "192.0.2.1",
        "tls": "TLSv1.3 TLS_AES_256_GCM_SHA384",
        "code": 452,
        "enhanced": "4.2.2",
        "text": "quota exceeded",
        "delay": 61.235,
        "next_attempt_at": "2026-01-02T03:05:05.678Z",
    }


@pytest.mark.parametrize(
    ("fact", "words"),
    [
        (
            Accepted(QID, "", "<a@b>", "shop@example.com", 2, 2048, "normal", "mail", "127.0.0.1"),
            "level=info event=accepted qid=06ABCDEFGHJKMN00 message_id=<a@b> sender=<shop@example.com> recipients=2"
            " size=2048 class=normal kind=mail client=127.0.0.1",
        ),
        (Accepted(QID, "", "<a@b>", "", 1, 1, "bulk", "mail", "x"), "sender=<> recipients=1"),
        (
            Attempted(QID, "", "example.org", "mx1.example.org", "192.0.2.1", "banner", Reply(None, "4.4.1", "refused")),
            "level=info event=attempt qid=06ABCDEFGHJKMN00 destination=example.org host=mx1.example.org"
            " address=192.0.2.1 phase=banner enhanced=4.4.1 text=refused",
        ),
        (
            Accepted(QID, "", "<1@x>", "a@b", 1, 9, "urgent", "mail", "::1", AT + 60, AT + 1),
            "client=::1 deliver_by=2026-01-02T03:05:05.678Z not_before=2026-01-02T03:04:06.678Z",
        ),
        (Accepted(QID, "", "<1@x>", "a@b", 1, 9, "normal", "mail", "::1", user="shop"), "client=::1 user=shop"),
        (Refused("::1", "535 5.7.8", "AUTH as x", "shop"), 'client=::1 user=shop reply="535 5.7.8" reason="AUTH as x"'),
        (Refused("192.0.2.9", "554 5.6.0", "a=b"), 'event=refused client=192.0.2.9 reply="554 5.6.0" reason="a=b"'),
        (
            Reported("06DSN0000000000A", QID, "dsn", "shop@example.com", 1),
            "event=bounced qid=06ABCDEFGHJKMN00 kind=dsn report_qid=06DSN0000000000A to=shop@example.com recipients=1",
        ),
        (Reported(QID, "", "report", "p@x", 3), "event=reported kind=report report_qid=06ABCDEFGHJKMN00"),
        (Reported(QID, "", "alert", "p@x", 3), "event=alerted kind=alert"),
        (Ordered("hold", QID, "ann@example.org", "held"), "event=held qid=06ABCDEFGHJKMN00 recipient=ann@example.org"),
        (Ordered("release", "example.org", "", ""), "event=released target=example.org verb=release"),
        (Ordered("resolve --sent", QID, "a@b", "sent"), 'event=resolved qid=06ABCDEFGHJKMN00 recipient=a@b verb="resolve'),
        (Trouble("error", "disk", "it \"is\" \\full"), 'level=error event=trouble what=disk detail="it \\"is\\" \\\\full"'),
    ],
)  # fmt: skip
def test_each_fact_has_its_line(fact: Fact, words: str):
    [line] = logged(fact)
    assert words in line


@pytest.mark.parametrize("outcome", ["sent", "deferred", "failed", "dead", "in_doubt", "held", "cancelled"])
def test_outcomes_are_events_of_the_timeline(outcome: str):
    [line] = logged(Settled(QID, "", "a@b", outcome, 1, "", "", "", None, "", None, 0.0))
    level = "warning" if outcome in ("dead", "in_doubt") else "info"
    assert f"level={level} event={outcome} qid={QID} recipient=a@b attempt=1 delay=0.0" in line


def test_b11_a_reply_with_controls_stays_one_line():
    """B11: escaped, valid UTF-8, for both layouts."""
    reply = parse_reply(550, [b"black ip \xb7\xa2 \x1b[2J\x00\x85 \xe2\x80\xa8 end"])
    fact = Settled(QID, "", "a@b", "failed", 1, "", "", "", reply, "", None, 0.0)
    assert 'text="black ip \\\\xb7\\\\xa2 \\\\x1b[2J' in logged(fact)[0]
    assert "\\x1b[2J" in json.loads(logged(fact, layout="json")[0])["text"]


text = st.text(st.characters(exclude_categories=()), max_size=80)
WORD = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|[^" ]*)(?: |$)')


def read_key_values(line: str) -> dict[str, str]:
    """What a logfmt reader gets."""
    words = WORD.findall(line)
    assert "".join(f"{key}={value} " for key, value in words) == line + " "
    return {key: re.sub(r"\\(.)", r"\1", value[1:-1]) if value[:1] == '"' else value for key, value in words}


@given(text, text, st.sampled_from(["kv", "json"]))
def test_any_text_is_one_line_that_can_be_read_back(what: str, detail: str, layout: str):
    """Surrogates, separators, quotes: the values come apart as they were put together."""
    [line] = logged(Trouble("error", what, detail), layout=layout)
    values = json.loads(line) if layout == "json" else read_key_values(line)
    given_values = {"what": safe_text(what), "detail": safe_text(detail)}
    fixed = {"ts": "2026-01-02T03:04:05.678Z", "level": "error", "event": "trouble"}
    assert values == fixed | {key: value for key, value in given_values.items() if value}


@pytest.mark.parametrize(
    "fact",
    [
        Trouble("debug", "traceback"),
        Encrypted("example.org", (), TlsResult.SUCCESS, "mx1.example.org", "192.0.2.1"),
    ],
)
def test_debug_details_only_when_asked_for(fact: Fact):
    assert logged(fact) == []
    (line,) = logged(fact, debug=True)
    assert " level=debug " in line


def test_nbr08_one_client_cannot_fill_the_log():
    """NBR-08: beyond the limit refusals are counted; others are still logged; the count comes with the next minute."""
    minute = [AT]
    flood = [Refused("192.0.2.9", "554", "no")] * (REFUSALS_PER_MINUTE + 40)
    lines = Lines()
    log = LogLines(lines, lambda: minute[0], LAYOUTS["kv"], debug=False)
    for fact in [*flood, Refused("192.0.2.10", "554", "no"), DEFERRED]:
        log(fact)
    assert len(lines.raw) == REFUSALS_PER_MINUTE + 2
    minute[0] += 60
    log(Refused("192.0.2.9", "554", "no"))
    assert b"level=warning event=refused_more client=192.0.2.9 count=40" in lines.raw[-2]
    assert b"event=refused client=192.0.2.9" in lines.raw[-1]


def test_lost_lines_are_told():
    lost, line = logged(DEFERRED, lost=7)
    assert "level=warning event=log_lines_lost count=7" in lost
    assert "event=deferred" in line


def test_the_second_goes_on_while_its_text_is_kept():
    times = iter([AT, AT + 0.001, AT + 1, AT])
    lines = logged(*[Trouble("error", "x")] * 4, now=lambda: next(times))
    assert [line[17:27] for line in lines] == ["04:05.678Z", "04:05.679Z", "04:06.678Z", "04:05.678Z"]
