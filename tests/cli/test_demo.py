"""`mta demo` as a new user meets it: a real process, in a terminal and in a pipe."""

import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

MTA = Path(sys.executable).with_name("mta")
LIMIT = 60.0
ENDS = {
    "ann@friends.example": "sent after 1 attempt",
    "hugo@friends.example": "sent after 1 attempt",
    "bob@careful.example": "sent after 2 attempts",
    "nobody@friends.example": "failed after 1 attempt",
    "cara@twins.example": "sent after 1 attempt",
    "dan@no-mail.example": "failed after 1 attempt",
    "eve@shaky.example": "sent after 2 attempts, in doubt 1 time",
    "gina@vague.example": "sent after 1 attempt, in doubt 1 time",
    "kim@news.example": "sent after 1 attempt",
    "fred@gone.example": "dead after 3 attempts",
}
STYLE = re.compile("\x1b\\[[0-9;]*m")


class Demo:
    """A running demo with a folder for temporary files of its own."""

    def __init__(self, folder: Path, *command: str | Path, stdout: int = subprocess.PIPE, **environ: str) -> None:
        self.folder = folder
        self.started = time.monotonic()
        bare = {"PATH": os.environ["PATH"], "HOME": str(folder), "TMPDIR": str(folder), "PYTHONUTF8": "1"}
        self.process = subprocess.Popen(
            command or (MTA, "demo"), stdout=stdout, stderr=subprocess.PIPE, text=True, env=bare | environ,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background job has it ignored
        )  # fmt: skip

    def finish(self) -> tuple[str, str]:
        """Standard output and error, when it has ended."""
        return self.process.communicate(timeout=LIMIT - (time.monotonic() - self.started))

    @property
    def left_behind(self) -> list[str]:
        """Files in its folder, and processes that were told of one there."""
        mark = bytes(self.folder)
        found = [str(path) for path in self.folder.iterdir()]
        for process in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                found += [str(process)] if mark in process.read_bytes() else []
            except OSError:
                continue
        return found


def read_all(terminal: int) -> str:
    """What was written to a terminal, until nobody has it open any more."""
    chunks = []
    try:
        while chunk := os.read(terminal, 65536):
            chunks.append(chunk)
    except OSError:
        pass
    return b"".join(chunks).decode().replace("\r\n", "\n")


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder whose name leaves room for a socket's (108 octets in all); pytest's own do not."""
    folder = Path(tempfile.mkdtemp(prefix="demo-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def told() -> tuple[str, str]:
    """What two demos tell that run at once: in a pipe, and in a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    folders = [Path(tempfile.mkdtemp(prefix="demo-")) for _ in range(2)]
    piped = Demo(folders[0])
    shown = Demo(folders[1], stdout=theirs, TERM="xterm-256color")
    os.close(theirs)
    on_terminal = read_all(ours)
    os.close(ours)
    in_pipe, _ = piped.finish()
    for demo in (piped, shown):
        demo.process.wait(1)
        assert demo.process.returncode == 0
        assert demo.process.stderr is not None
        assert (demo.left_behind, demo.process.stderr.read() if demo is shown else "") == ([], "")
    for folder in folders:
        folder.rmdir()
    return in_pipe, on_terminal


def test_the_story_comes_true(told: tuple[str, str]) -> None:
    scenes = re.split(r"\n\n\n(?=\d+\. )", told[0])[1:]
    assert len(scenes) == len(ENDS)
    for scene, (recipient, end) in zip(scenes, ENDS.items(), strict=True):
        queue_id = re.findall(r"^  daemon  250 2\.0\.0 Ok: queued as (\w{16})$", scene, re.MULTILINE)
        assert len(queue_id) == 1
        key = "order-1002-confirmation" if recipient.startswith("hugo") else ""
        shown = scene.partition(f"$ mta show {key or queue_id[0]}\n")[2]
        assert shown.startswith(f'  | {queue_id[0]}  "Your order')
        assert f"\n  | {recipient}: {end}\n" in shown
    assert re.search(r"^  daemon  250 2\.0\.0 Ok: duplicate of \w{16} \(sent\)$", scenes[1], re.MULTILINE)
    assert re.search(r"^  daemon  554 5\.5\.0 \w{16} has this idempotency key, with another$", scenes[1], re.MULTILINE)
    assert "submitted again under its key: nothing stored or sent" in scenes[1]
    assert scenes[1].count("attempt 1: sent") == 1
    assert "pending after 1 attempt, next" in scenes[2]
    assert "Subject: Not delivered: your message to nobody@friends.example" in scenes[3]
    assert "Subject: 1 recipient failed" in scenes[3]
    assert re.search(r"tried in vain, on to the next server\n.*mx1\.twins.*, on connecting\n(.*\n)*.*mx2\.twins", scenes[4])
    assert "no-mail.example takes no mail" in scenes[5]
    assert "in doubt (sent, but no reply was read)" in scenes[6]
    assert "Subject: 1 recipient needs a person" in scenes[7]
    assert "gina@vague.example: in_doubt after 1 attempt, waits for a person" in scenes[7]
    assert "gina@vague.example: in_doubt -> sent" in scenes[7]
    overtaken = re.search(r"^(\d+) of the 40 had arrived before it", scenes[8], re.MULTILINE)
    assert overtaken is not None
    assert int(overtaken[1]) < 40
    assert re.search(r"bulk +\d+ waiting", scenes[8])
    assert "Subject: 1 recipient needs a person" in scenes[9]
    assert "$ mta dead" in scenes[9]


def test_a_terminal_gets_colours_and_no_line_that_it_must_break(told: tuple[str, str]) -> None:
    in_pipe, on_terminal = told
    assert not STYLE.search(in_pipe)
    assert STYLE.search(on_terminal)
    assert [line for line in STYLE.sub("", on_terminal).splitlines() if len(line) > 80] == []


@pytest.mark.parametrize(
    ("flaw", "complaint"),
    [
        (
            "async def silent(self, reader, writer): await reader.read()\ninternet.MailServer.serve = silent",
            "1. A delivery: ann@friends.example should have ended as sent: nothing was heard of it for 6 s",
        ),
        (
            "internet.MailServer._reply = lambda self, line: '250 Ok' if line[:4] != 'RCPT' else '550 5.7.1 No'",
            "1. A delivery: ann@friends.example should have ended as sent, and came to failed (550 5.7.1 No)",
        ),
        (
            "from dataclasses import replace\n"
            "demo.SCENES = [replace(it, header=()) for it in demo.SCENES if it.again]",
            '1. The same email twice: a duplicate: the daemon should have said "250 2.0.0 Ok: duplicate of ',
        ),
        (
            "internet.Internet.name_server = property(lambda self: ('nowhere', 0), lambda self, value: None)",
            "the daemon should have started: the daemon ended. mta: ",
        ),
    ],
    ids=["a server that never answers", "a server that refuses", "an email sent twice", "a daemon that does not start"],
)
def test_a_story_that_does_not_come_true_is_told_so(short: Path, flaw: str, complaint: str) -> None:
    start = "import sys\nfrom mta.cli import demo\nfrom mta.demo import internet\ndemo.PATIENCE = 6.0"
    demo = Demo(short, sys.executable, "-c", f"{start}\n{flaw}\nsys.exit(demo.demo())")
    _, errors = demo.finish()
    assert demo.process.returncode == 70
    assert errors.startswith(f"mta: the story did not come true: {complaint}")
    assert errors.count("\n") == 1
    assert demo.left_behind == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_whoever_ends_it_finds_nothing_left(short: Path, number: signal.Signals) -> None:
    demo = Demo(short)
    assert demo.process.stdout is not None
    for line in demo.process.stdout:
        if "next attempt in 2 s" in line:
            break
    os.killpg(demo.process.pid, number)
    _, errors = demo.finish()
    assert (demo.process.returncode, errors.strip(), demo.left_behind) == (130, "", [])


def test_a_reader_that_has_enough_ends_it(short: Path) -> None:
    demo = Demo(short)
    assert demo.process.stdout is not None
    demo.process.stdout.readline()
    demo.process.stdout.close()
    assert demo.process.wait(LIMIT) in (0, 1)
    assert demo.process.stderr is not None
    assert (demo.process.stderr.read(), demo.left_behind) == ("", [])
