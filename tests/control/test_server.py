"""The socket: its file, its clients, its protocol (interface.md section 5)."""

import asyncio
import json
import os
import socket
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import uvloop

from mta.control import server as server_module
from mta.control.desk import Desk
from mta.control.errors import LINE_LIMIT
from mta.control.server import ControlServer
from mta.model.events import Fact, Trouble
from mta.unix_socket import SocketTaken
from tests.control.conftest import Mailroom, Present, desk_over, exchange, opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "control.sock"


@pytest.fixture
async def server(path: Path, desk: Desk, facts: list[Fact]) -> AsyncIterator[ControlServer]:
    started = ControlServer(path, desk, facts.append)
    await started.start()
    yield started
    await started.close()


# ---------------------------------------------------------------- protocol
async def test_a_line_is_answered_in_plain_text_until_end_of_file(server: ControlServer, path: Path, mail: Mailroom) -> None:
    await mail.accept()
    answer = await exchange(path, b"status\n")
    assert "1 pending" in answer
    assert answer.endswith("\n")
    assert "\x1b" not in answer


async def test_json_before_the_command_asks_for_a_document(server: ControlServer, path: Path) -> None:
    assert json.loads(await exchange(path, b"json status\r\n"))["hostname"] == "mail.example.com"
    assert json.loads(await exchange(path, b"json queue --domain example.com\n")) == {"messages": [], "total": 0}


async def test_words_are_split_as_a_shell_splits_them(server: ControlServer, path: Path, mail: Mailroom) -> None:
    queue_id = await mail.accept(message_id="<a b@example.com>")
    for line in (
        b"json show '<a b@example.com>'\n",
        b'json show "<a b@example.com>"\n',
        b"json show -- \\<a\\ b@example.com\\>\n",
    ):
        assert json.loads(await exchange(path, line))["queue_id"] == queue_id


async def test_a_line_that_ends_with_the_stream_is_a_line(server: ControlServer, path: Path) -> None:
    assert json.loads(await exchange(path, b"json status", half_close=True))["uptime_s"] == 12.5


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"frobnicate", 64),
        (b"", 64),
        (b"show", 64),
        (b"show A B", 64),
        (b"show 'unclosed", 64),
        (b"queue --frob", 64),
        (b"queue --limit", 64),
        (b"queue --limit 0", 64),
        (b"queue --limit 1 --limit 2", 64),
        (b"queue --all", 64),
        (b"queue --older-than 5", 64),
        (b"queue --domain a..b", 64),
        (b"queue --class slow", 64),
        (b"queue --status dead", 64),
        (b"retry", 64),
        (b"retry X --all", 64),
        (b"retry --all --domain example.com", 64),
        (b"retry --all=yes", 64),
        (b"retry --all --recipient a@example.com", 64),
        (b"cancel", 64),
        (b"cancel --all", 64),
        (b"cancel X --recipient 'b@example.org>\\r\\nRCPT TO:<c@example.net'", 64),
        (b"resolve X", 64),
        (b"resolve X --sent --resend", 64),
        (b"status X", 64),
        (b"show \xff\xfe", 64),
        (b"show X", 66),
        (b"show -- --json", 66),
    ],
)
async def test_an_error_is_one_line_or_one_document(server: ControlServer, path: Path, line: bytes, code: int) -> None:
    plain = await exchange(path, line + b"\n")
    assert plain.startswith("error: ")
    assert plain.count("\n") == 1
    document = json.loads(await exchange(path, b"json " + line + b"\n"))
    assert document == {"error": {"code": code, "message": plain.removeprefix("error: ").rstrip("\n")}}


async def test_B54_what_is_echoed_in_an_error_is_escaped(server: ControlServer, path: Path) -> None:
    answer = await exchange(path, b"show 'x\x1b[2J\x07\xe2\x80\xae'\n")
    assert answer == "error: no message x\\x1b[2J\\x07\\u202e\n"


async def test_a_bug_fails_one_command_and_names_nothing_inside(
    server: ControlServer, path: Path, mail: Mailroom, facts: list[Fact], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def overview(now: float) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(mail.spool, "overview", overview)
    answer = await exchange(path, b"json status\n")
    assert json.loads(answer)["error"]["code"] == 70
    assert "secret" not in answer
    [fact] = facts
    assert isinstance(fact, Trouble)
    assert "secret detail" in fact.detail
    assert json.loads(await exchange(path, b"json queue\n"))["total"] == 0


# ---------------------------------------------------------------- clients
async def test_a_hundred_clients_are_answered_at_once(server: ControlServer, path: Path) -> None:
    answers = await asyncio.gather(*(exchange(path, b"json status\n") for _ in range(100)))
    assert all(json.loads(answer)["version"] == "0.1.0" for answer in answers)


async def test_a_silent_client_is_told_and_left(server: ControlServer, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "REQUEST_TIMEOUT", 0.05)
    assert (await exchange(path, b"stat")).startswith("error: no command within")


async def test_a_client_that_never_reads_holds_nobody_up(
    server: ControlServer, path: Path, mail: Mailroom, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "ANSWER_TIMEOUT", 0.05)
    for _ in range(40):
        await mail.accept(subject="x" * 10000)
    _, deaf = await asyncio.open_unix_connection(path, limit=1)
    deaf.write(b"json queue\n")
    assert json.loads(await exchange(path, b"json queue\n"))["total"] == 40
    await server.close()  # must not wait for it
    deaf.close()


async def test_a_line_without_end_is_refused(server: ControlServer, path: Path) -> None:
    assert await exchange(path, b"x" * (LINE_LIMIT + 10)) == f"error: the line is longer than {LINE_LIMIT} octets\n"


async def test_clients_beyond_the_limit_are_told_to_come_again(
    server: ControlServer, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "CLIENTS_LIMIT", 1)
    reader, writer = await asyncio.open_unix_connection(path)
    assert await exchange(path, b"status\n") == "error: too many clients at once\n"
    assert '"code":75' in await exchange(path, b"json queue\n" + b"x" * 100_000)
    writer.write(b"json status\n")
    assert b"uptime_s" in await reader.read()
    writer.close()


async def test_a_client_that_hangs_up_does_no_harm(server: ControlServer, path: Path, facts: list[Fact]) -> None:
    for line in (b"", b"stat", b"json status\n"):
        _, writer = await asyncio.open_unix_connection(path)
        writer.write(line)
        writer.transport.abort()
    assert json.loads(await exchange(path, b"json status\n"))["uptime_s"] == 12.5
    assert not facts


def test_it_answers_under_uvloop_too(path: Path, present: Present) -> None:
    async def main() -> str:
        async with opened(path.parent.parent) as spool:
            server = ControlServer(path, desk_over(spool, present, []), print)
            await server.start()
            answer = await exchange(path, b"json status", half_close=True)
            await server.close()
            return answer

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert json.loads(runner.run(main()))["uptime_s"] == 12.5
    assert not path.exists()


# ---------------------------------------------------------------- the file
@pytest.mark.parametrize("umask", [0o000, 0o077])
async def test_the_socket_is_0660_whatever_the_umask(path: Path, desk: Desk, facts: list[Fact], umask: int) -> None:
    before = os.umask(umask)
    try:
        server = ControlServer(path, desk, facts.append)
        await server.start()
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    await server.close()
    assert not list(path.parent.iterdir())


async def test_a_socket_that_a_dead_daemon_left_is_replaced(path: Path, desk: Desk, facts: list[Fact]) -> None:
    path.parent.mkdir()
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(path))
    left.close()
    server = ControlServer(path, desk, facts.append)
    await server.start()
    assert json.loads(await exchange(path, b"json status\n"))["version"] == "0.1.0"
    await server.close()


async def test_a_socket_that_somebody_listens_at_is_not_touched(server: ControlServer, path: Path, desk: Desk) -> None:
    second = ControlServer(path, desk, print)
    with pytest.raises(SocketTaken, match="another daemon listens there"):
        await second.start()
    await second.close()
    assert json.loads(await exchange(path, b"json status\n"))["version"] == "0.1.0"


async def test_a_file_that_is_no_socket_is_not_touched(path: Path, desk: Desk) -> None:
    path.parent.mkdir()
    path.write_text("precious")
    with pytest.raises(SocketTaken, match="no socket"):
        await ControlServer(path, desk, print).start()
    assert path.read_text() == "precious"


async def test_a_place_that_cannot_be_used_is_named(path: Path, desk: Desk) -> None:
    path.parent.write_text("a file where the folder should be")
    with pytest.raises(SocketTaken, match=str(path)):
        await ControlServer(path, desk, print).start()


async def test_the_end_takes_away_its_own_socket_only(path: Path, desk: Desk) -> None:
    first, second = ControlServer(path, desk, print), ControlServer(path, desk, print)
    await first.start()
    path.unlink()
    await second.start()
    await first.close()
    assert json.loads(await exchange(path, b"json status\n"))["version"] == "0.1.0"
    await second.close()
    assert not path.exists()
