"""The conversation with a daemon: what is said to it, and what becomes of its answers."""

import io
import subprocess
import sys
from pathlib import Path

import pytest

from mta.config.problems import ConfigError
from mta.control.errors import Exit
from mta.model.door import Door
from mta.sendmail.arguments import Invocation, parse
from mta.sendmail.doors import find_doors
from mta.sendmail.errors import NotTaken
from mta.sendmail.handover import hand_over
from tests.sendmail.daemon import HANG_UP, OFFERS, Scripted

LETTER = b"From: app@shop.test\nSubject: x\n\nhello\n"


def send(daemon: Scripted, *words: str, stdin: bytes = LETTER) -> None:
    hand_over(parse(words), io.BytesIO(stdin), "ann", [daemon.door])


def refusal(daemon: Scripted, *words: str, stdin: bytes = LETTER) -> NotTaken:
    with daemon, pytest.raises(NotTaken) as caught:
        send(daemon, *words, stdin=stdin)
    return caught.value


# ---------------------------------------------------------------- what is said
def test_an_ordinary_message_asks_for_nothing_special() -> None:
    with Scripted() as daemon:
        send(daemon, "a@x.org", "b@x.org", "a@x.org")
    size = len(LETTER) + LETTER.count(b"\n")
    assert daemon.commands == [
        "EHLO localhost", f"MAIL FROM:<ann> SIZE={size}", "RCPT TO:<a@x.org>", "RCPT TO:<b@x.org>", "DATA", "QUIT",
    ]  # fmt: skip
    assert daemon.content == LETTER.replace(b"\n", b"\r\n")


def test_DSN_01_what_is_to_be_told_goes_into_mail_and_rcpt() -> None:
    with Scripted(offers=(*OFFERS, "DSN")) as daemon:
        send(daemon, "-N", "success,failure", "-Rhdrs", "-V", "a b", "-f", "m@x.org", "a@x.org", "b@x.org")
    assert daemon.commands[1].endswith(" RET=HDRS ENVID=a+20b")
    assert daemon.commands[2:4] == [f"RCPT TO:<{to}@x.org> NOTIFY=SUCCESS,FAILURE" for to in "ab"]


@pytest.mark.parametrize("words", [("-Nnever",), ("-Rfull",), ("-Vx",)])
def test_DSN_01_what_is_not_offered_is_69_and_not_dropped(words: tuple[str, ...]) -> None:
    daemon = Scripted()
    error = refusal(daemon, *words, "a@x.org")
    assert (error.code, daemon.commands) == (Exit.UNAVAILABLE, ["EHLO localhost", "QUIT"])
    assert "DSN" in str(error)


@pytest.mark.parametrize(
    ("words", "body", "parameter"),
    [
        ((), b"\xff", " BODY=8BITMIME"),
        (("-B7bit",), b"x", " BODY=7BIT"),
        (("-B7bit",), b"\xff", " BODY=8BITMIME"),
        (("-B8bitmime",), b"x", " BODY=8BITMIME"),
        ((), b"x", ""),
    ],
)
def test_EXT_07_the_body_s_type_is_what_it_is(words: tuple[str, ...], body: bytes, parameter: str) -> None:
    with Scripted(offers=("8BITMIME",)) as daemon:
        send(daemon, *words, "a@x.org", stdin=LETTER + body)
    assert daemon.commands[1] == f"MAIL FROM:<ann>{parameter}"


def test_a_body_type_that_is_not_offered_is_69() -> None:
    assert refusal(Scripted(offers=()), "-B8BITMIME", "a@x.org").code is Exit.UNAVAILABLE


@pytest.mark.parametrize(
    ("words", "letter"),
    [
        (("müller@x.org",), LETTER),
        (("-f", "müller@x.org", "a@x.org"), LETTER),
        (("a@x.org",), "Subject: grüße\n".encode() + LETTER),
        (("-t",), "To: Ann <a@müller.example>\n".encode() + LETTER),
    ],
)
def test_EXT_09_smtputf8_is_said_where_it_is_needed_and_offered(words: tuple[str, ...], letter: bytes) -> None:
    for offers in ((), ("SMTPUTF8",)):
        with Scripted(offers=offers) as daemon:
            send(daemon, *words, stdin=letter)
        assert daemon.commands[1].endswith(" SMTPUTF8") == bool(offers)


def test_EXT_09_and_nowhere_else() -> None:
    with Scripted(offers=("SMTPUTF8",)) as daemon:
        send(daemon, "a@x.org", stdin=LETTER + "grüße\n".encode())
    assert daemon.commands[1] == "MAIL FROM:<ann>"


@pytest.mark.parametrize(
    ("words", "author"),
    [
        ((), "ann@mail.out.test"),
        (("-f", "bob"), "bob@mail.out.test"),
        (("-f", "Bob <bob@x.org>"), "bob@x.org"),
        (("-f", "", "-F", "Doe, Ann"), '"Doe, Ann" <ann@mail.out.test>'),
    ],
)
def test_a_missing_from_is_the_sender_s(words: tuple[str, ...], author: str) -> None:
    with Scripted() as daemon:
        send(daemon, *words, "a@x.org", stdin=b"no header\n")
    assert daemon.content == f"From: {author}\r\n\r\nno header\r\n".encode()


def test_a_key_follows_the_other_fields() -> None:
    with Scripted() as daemon:
        send(daemon, "--key", "order-1", "a@x.org")
    assert daemon.content.startswith(b"From: app@shop.test\r\nSubject: x\r\nIdempotency-Key: order-1\r\n\r\n")


# ---------------------------------------------------------------- what is heard
@pytest.mark.parametrize(
    ("verb", "reply", "code"),
    [
        ("greeting", "421 4.3.2 Too many connections", Exit.TRY_LATER),
        ("greeting", "554 5.7.1 No", Exit.NOT_PERMITTED),
        ("MAIL", "451 4.3.0 Later", Exit.TRY_LATER),
        ("MAIL", "452 4.3.1 Full", Exit.TRY_LATER),
        ("MAIL", "530 5.7.0 Authenticate first", Exit.NOT_PERMITTED),
        ("MAIL", "550 5.7.1 Not your domain", Exit.NOT_PERMITTED),
        ("MAIL", "552 5.3.4 Too large", Exit.DATA),
        ("RCPT", "450 4.7.1 Too many recipients per minute", Exit.TRY_LATER),
        ("RCPT", "452 4.5.3 Too many recipients", Exit.DATA),
        ("RCPT", "550 5.1.1 No such user", Exit.NO_USER),
        ("RCPT", "550 5.7.1 Not there", Exit.NOT_PERMITTED),
        ("RCPT", "501 5.1.3 Bad", Exit.DATA),
        ("DATA", "451 4.3.0 Later", Exit.TRY_LATER),
        ("content", "451 4.3.0 Later", Exit.TRY_LATER),
        ("content", "554 5.6.0 Bad", Exit.DATA),
        ("content", "554 5.5.0 Key", Exit.DATA),
    ],
)
def test_a_refusal_has_its_exit_code_and_is_quoted(verb: str, reply: str, code: Exit) -> None:
    error = refusal(Scripted({verb: reply}), "a@x.org")
    assert error.code is code
    assert reply in str(error)


def test_a_message_that_is_too_large_is_not_its_sender_s_fault() -> None:
    error = refusal(Scripted({"MAIL": "552 5.3.4 Too large"}), "a@x.org")
    assert error.lines == ("the message was refused: 552 5.3.4 Too large",)


@pytest.mark.parametrize(
    ("replies", "code"),
    [
        (("550 5.1.1 No", "550 5.1.1 No"), Exit.NO_USER),
        (("550 5.1.1 No", "250 2.1.5 Ok"), Exit.DATA),
        (("550 5.1.1 No", "450 4.2.1 Later"), Exit.DATA),
        (("250 2.1.5 Ok", "450 4.2.1 Later"), Exit.TRY_LATER),
    ],
)
def test_one_recipient_refused_ends_the_transaction(replies: tuple[str, str], code: Exit) -> None:
    daemon = Scripted({f"RCPT TO:<{to}@x.org>": reply for to, reply in zip("ab", replies, strict=True)})
    assert refusal(daemon, "a@x.org", "b@x.org").code is code
    assert daemon.commands[-2:] == ["RSET", "QUIT"]


@pytest.mark.parametrize("verb", ["greeting", "EHLO", "MAIL", "RCPT", "DATA"])
@pytest.mark.parametrize("reply", [HANG_UP, "hello", "250-x" + "\r\n250-x" * 300])
def test_a_daemon_that_goes_before_the_end_has_not_taken_it(verb: str, reply: str) -> None:
    error = refusal(Scripted({verb: reply}), "a@x.org")
    assert error.code is Exit.TRY_LATER
    assert "NOT taken" in str(error)


def test_behind_the_final_dot_nobody_knows() -> None:
    error = refusal(Scripted({"content": HANG_UP}), "a@x.org")
    assert error.code is Exit.TRY_LATER
    assert "not known" in str(error)
    assert "NOT" not in str(error)


def test_nothing_is_said_before_the_message_is_whole() -> None:
    """A program that can't be read to its end has sent nothing."""

    class Broken(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, _buffer: object, /) -> int:
            raise OSError(5, "Input/output error")

    with pytest.raises(NotTaken, match=r"can't be read: Input/output error; .*NOT taken") as caught:
        hand_over(Invocation(recipients=("a@x.org",)), io.BufferedReader(Broken()), "ann", [Door()])
    assert caught.value.code is Exit.TRY_LATER


# ---------------------------------------------------------------- doors
def test_a_unix_socket_comes_first_and_the_next_door_if_it_does_not_open(tmp_path: Path) -> None:
    config = tmp_path / "mta.toml"
    with Scripted() as plain:
        config.write_text(f'[submission]\nlisten = ["tls://127.0.0.1:465", "{plain.door}", "unix:s"]\n')
        with Scripted(path=tmp_path / "s") as unix:
            hand_over(parse(["a@x.org"]), io.BytesIO(LETTER), "ann", find_doors(config))
        assert unix.content
        assert not plain.commands
        hand_over(parse(["a@x.org"]), io.BytesIO(LETTER), "ann", find_doors(config))  # nobody is behind it any more
    assert plain.content


def test_a_door_that_is_open_to_everywhere_is_reached_here(tmp_path: Path) -> None:
    config = tmp_path / "mta.toml"
    config.write_text('[submission]\nlisten = ["0.0.0.0:25", "[::]:2525"]\n')
    assert list(map(str, find_doors(config))) == ["127.0.0.1:25", "[::1]:2525"]
    assert list(map(str, find_doors(None))) == ["127.0.0.1:2525"]


def test_doors_for_tls_alone_are_a_mistake_of_the_configuration(tmp_path: Path) -> None:
    config = tmp_path / "mta.toml"
    config.write_text('[submission]\nlisten = ["tls://127.0.0.1:465"]\n')
    with pytest.raises(ConfigError, match=r"mta\.toml:2: submission\.listen: .*TLS"):
        find_doors(config)


@pytest.mark.root
def test_a_unix_socket_that_this_user_may_not_use_is_77(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    code = (
        "import os; from pathlib import Path; from mta.model.door import Door, Scheme; from mta.sendmail.doors import *\n"
        f"os.chdir('/'); os.setuid(65534); door = Door(scheme=Scheme.UNIX, path=Path({str(tmp_path / 's')!r}))\n"
        "try: enter([door])\nexcept NoDoor as error: print(int(error.code), error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("77 uid 65534 may not submit at ")
