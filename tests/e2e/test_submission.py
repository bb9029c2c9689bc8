"""What programs hand over, and what of it gets 250: areas A and J of the field cases, and B48, B56."""

import asyncio
import email
import shutil
import smtplib
from pathlib import Path

import pytest

from tests.e2e.world import SENDER, World
from tests.support.daemon import Daemon, until

WHOLE = (
    b"EHLO c\r\nMAIL FROM:<app@shop.test>\r\nRCPT TO:<ann@good.test>\r\nRCPT TO:<bob@good.test>\r\nDATA\r\n"
    b"From: a@b.test\r\nSubject: x\r\n\r\nx\r\n"
)


@pytest.mark.parametrize("end", ["half-close", "reset", "stays"])
async def test_b01_a_client_that_hangs_up_during_the_commit_is_delivered_once(running: World, end: str) -> None:
    """The commit waits for another's lock on the spool while the client leaves: both recipients get one copy."""
    mx, daemon = await running.mx("good.test"), running.daemon
    client = await daemon.client()
    with running.spool() as spool:
        spool.execute("BEGIN IMMEDIATE")
        await client.send(WHOLE + b".\r\n")
        assert (await client.replies(5))[-1].startswith("354")
        if end == "half-close":
            client.half_close()
        elif end == "reset":
            client.reset()
        await until(lambda: _waits_for_the_lock(daemon))
        spool.execute("ROLLBACK")
    if end != "reset":
        assert (await client.reply()).startswith("250 2.0.0 Ok: queued as")
        client.writer.close()
    (message,) = await until(lambda: mx.messages)
    assert message.forward_paths == ["ann@good.test", "bob@good.test"]
    await until(daemon.idle)
    assert (await daemon.counts())["sent"] == 2
    assert len(daemon.logged("accepted")) == 1


async def _waits_for_the_lock(daemon: Daemon) -> bool:
    """All that came before has been read: an answer to another client comes from the same loop, after it."""
    async with await daemon.client() as other:
        return (await other.command("NOOP")).startswith("250") and not daemon.logged("accepted")


@pytest.mark.parametrize("sent", [WHOLE, WHOLE + b".\r", WHOLE + b"\n.\n"])
async def test_b01_without_the_whole_end_mark_nothing_is_queued(running: World, sent: bytes) -> None:
    mx, daemon = await running.mx("good.test"), running.daemon
    client = await daemon.client()
    await client.send(sent)
    await client.replies(5)
    client.half_close()
    assert await client.at_end()
    client.writer.close()
    await daemon.submit("later@good.test")
    await until(daemon.idle)
    assert [message.forward_paths for message in mx.messages] == [["later@good.test"]]
    assert len(daemon.logged("accepted")) == 1


async def test_b02_parameters_as_ehlo_promises(running: World) -> None:
    """What is not offered is 555; what is offered has its own codes; `BODY=7bit` in any case."""
    async with await running.daemon.client() as client:
        extensions = (await client.command("EHLO client.test")).split("\n")
        assert not any("BINARYMIME" in line or "AUTH" in line for line in extensions)
        for parameter, reply in (
            ("RET=HEAD", "501"), ("AUTH=<>", "555"), ("SIZE=abc", "501"), ("SIZE=99999999999", "552"),
            ("BODY=7bit", "250"),
        ):  # fmt: skip
            assert (await client.command(f"MAIL FROM:<a@shop.test> {parameter}")).startswith(reply), parameter
        assert (await client.command("RCPT TO:<ann@good.test> NOTIFY=MAYBE")).startswith("501")
        assert (await client.command("RCPT TO:<ann@good.test> SIZE=5")).startswith("555")


@pytest.mark.parametrize(
    "meant",
    [
        b"From: a@b.test\r\nSubject: x\r\n\r\n.first\r\n..\r\nend\r\n",
        b"From: a@b.test\nSubject: x\n\n.first\n..\nend\n",
        b"From: a@b.test\nSubject: x\n\none\n..two\r\nthree\r\n..four\r\n",
        b"From: a@b.test\r\nSubject: x\r\n\r\nwww.\r\n.example.org\r\n.\r\nlast line without an end",
        b"From: a@b.test\r\nSubject: x\r\n\r\nlone\rreturn\r\n",
    ],
)
async def test_b39_what_python_meant_is_what_arrives(running: World, meant: bytes) -> None:
    mx = await running.mx("good.test")

    def send() -> None:
        with smtplib.SMTP(*running.daemon.endpoint) as server:
            server.sendmail(SENDER, ["ann@good.test"], meant)

    await asyncio.to_thread(send)
    (message,) = await until(lambda: mx.messages)
    whole = meant if meant.endswith(b"\r\n") else meant + b"\r\n"  # smtplib itself adds that
    expected = whole.replace(b"\r\n", b"\n").replace(b"\r", b"\n").replace(b"\n", b"\r\n")
    assert message.content.partition(b"\r\n\r\n")[2] == expected.partition(b"\r\n\r\n")[2]


async def test_b39_a_raw_session_s_dots_and_nul(running: World) -> None:
    mx = await running.mx("good.test")
    async with await running.daemon.client() as client:
        reply = await client.submit(b"From: a@b.test\r\nSubject: x\r\n\r\n..first\r\n...\r\n", recipients=["ann@good.test"])
        assert reply.startswith("250")
        await client.command("RSET")
        reply = await client.submit(b"From: a@b.test\r\nSubject: x\r\n\r\na\0b\r\n", recipients=["ann@good.test"])
        assert reply.startswith("554 5.6.0")
    (message,) = await until(lambda: mx.messages)
    assert message.content.endswith(b"\r\n\r\n.first\r\n..\r\n")
    await until(running.daemon.idle)


async def test_b40_lines_and_sizes_at_their_limits(world: World) -> None:
    """One reply after the dot, nothing cut, nothing stored of what is refused, and the session goes on."""
    world.configure("submission", max_message_size="100KiB")
    mx = await world.mx("good.test")
    await world.daemon.start()
    async with await world.daemon.client() as client:
        for line, code in ((997, "250"), (998, "250"), (999, "554 5.6.0"), (65_000, "554 5.6.0"), (3_000_000, "55")):
            body = b"From: a@b.test\r\nSubject: x\r\n\r\n" + b"x" * line + b"\r\n"
            assert (await client.submit(body, recipients=[f"l{line}@good.test"])).startswith(code), line
        head = b"From: a@b.test\r\nSubject: x\r\nMessage-ID: <a@b.test>\r\nDate: Mon, 1 Jan 2024 00:00:00 +0000\r\n\r\n"
        room = 100 * 1024 - len(head)
        for octets, code in ((room, "250"), (room + 1, "552 5.3.4")):
            body = head + (b"x" * 78 + b"\r\n") * (octets // 80) + b"x" * (octets % 80 - 2) + b"\r\n"
            assert len(body) == len(head) + octets
            assert (await client.submit(body, recipients=[f"s{octets}@good.test"])).startswith(code), octets
    await until(world.daemon.idle)
    arrived = sorted(path for message in mx.messages for path in message.forward_paths)
    assert arrived == ["l997@good.test", "l998@good.test", f"s{room}@good.test"]
    assert max(len(line) for message in mx.messages for line in message.content.split(b"\r\n")) == 998


async def test_lin15_a_long_line_arrives_in_lines_that_are_legal(world: World) -> None:
    """To a server that takes 7-bit alone: what was sent is 8-bit no more."""
    world.configure("submission", long_lines="encode")
    mx = await world.mx("good.test", extensions=("PIPELINING",))
    await world.daemon.start()
    body = "Grüße! ".encode() * 1000 + b"\r\n.\r\n"
    await world.daemon.submit("ann@good.test", body=body)
    (message,) = await until(lambda: mx.messages)
    assert max(map(len, message.content.split(b"\r\n"))) <= 998
    assert email.message_from_bytes(message.content).get_payload(decode=True) == body


async def test_b40_fifty_megabytes_without_any_dot_cost_no_memory(world: World) -> None:
    world.configure("submission", max_message_size="1MiB")
    await world.daemon.start()
    before = _resident(world.daemon.pid)
    async with await world.daemon.client() as client:
        await client.envelope(recipients=["ann@good.test"])
        await client.send(b"From: a@b.test\r\nSubject: x\r\n\r\n")
        for _ in range(50):
            await client.send(b"x" * 2**20)
        assert _resident(world.daemon.pid) - before < 10 * 2**20
        await client.send(b"\r\n.\r\n")
        assert (await client.reply()).startswith("55")


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


async def test_b48_what_got_250_is_in_a_copy_taken_at_that_moment(running: World) -> None:
    """And in no more than the copied files: the recipients too, since another daemon delivers from them."""
    daemon = running.daemon
    await daemon.ask("hold --all")
    ids = [await daemon.submit("ann@good.test", "bob@good.test", body=b"x" * 900 + b"\r\n") for _ in range(3)]
    copy = running.folder / "copy"
    copy.mkdir()
    for name in ("spool.db", "spool.db-wal"):
        shutil.copy(running.folder / name, copy / name)
    await daemon.stop()
    mx = await running.mx("good.test")
    running.configure("spool", url=f"sqlite:{copy}/spool.db")
    await daemon.start()
    await daemon.ask("release --all")
    await until(daemon.idle)
    assert len(mx.messages) == 3 and all(len(message.forward_paths) == 2 for message in mx.messages)
    assert {(await daemon.recipient(queue_id))["status"] for queue_id in ids} == {"sent"}


WATCHED = """
import sqlite3
real, opened = sqlite3.connect, []
def connect(*arguments, **options):
    opened.append(real(*arguments, **options))
    return opened[-1]
sqlite3.connect = connect
import sys
def synchronous(db):
    try:
        return db.execute("PRAGMA synchronous").fetchone()[0]
    except sqlite3.ProgrammingError:
        return None  # closed
import mta.spool.sqlite
close = mta.spool.sqlite.SqliteSpool.close
async def told(self):
    levels = [synchronous(db) for db in opened]
    print("mta: synchronous", [level for level in levels if level is not None], file=sys.stderr)
    await close(self)
mta.spool.sqlite.SqliteSpool.close = told
"""


async def test_b48_every_connection_waits_for_the_disk(world: World) -> None:
    world.daemon.preamble = WATCHED
    await world.daemon.start()
    await world.daemon.submit("ann@shop.test")
    await until(world.daemon.idle)
    await world.daemon.stop()
    assert "mta: synchronous [2, 2, 2]" in world.daemon.log_text


FULL = """
import os, mta.spool.batch as batch
real = batch.run_batch
def run_batch(operations, claims, db):
    full = os.path.exists(os.environ["DISK_FULL"])
    limit = db.execute("PRAGMA page_count").fetchone()[0] if full else 2**30
    db.execute(f"PRAGMA max_page_count = {limit}")
    return real(operations, claims, db)
batch.run_batch = run_batch
"""


async def test_b48_no_space_is_452_and_passes(world: World) -> None:
    """SQLite itself says that the disk is full; a message that was accepted before is delivered after."""
    mx, daemon = await world.mx("good.test"), world.daemon
    flag = world.folder / "full"
    daemon.preamble, daemon.environ = FULL, {"DISK_FULL": str(flag)}
    await daemon.start()
    flag.touch()
    reply = await daemon.reply("ann@good.test", body=(b"x" * 78 + b"\r\n") * 1000)
    assert reply.startswith("452 4.3.1 ")
    assert str(world.folder) not in reply
    flag.unlink()
    await daemon.submit("bob@good.test")
    await until(daemon.idle)
    assert [message.forward_paths for message in mx.messages] == [["bob@good.test"]]


LETTER = b"From: a@b.test\r\nSubject: x\r\n\r\nx\r\n"


@pytest.mark.parametrize("table", ["messages", "recipients", "content"])
async def test_b56_internal_trouble_is_temporary_and_tells_nothing(running: World, table: str) -> None:
    """The log has the details, under the id that the client was given; the session can be used again."""
    mx, daemon = await running.mx("good.test"), running.daemon
    async with await daemon.client() as client:
        with running.failing(table):
            reply = await client.submit(LETTER, recipients=["ann@good.test"])
        assert reply.startswith("451 4.3.0 ")
        assert not any(word in reply for word in ("/var", "disk", "Error", "sqlite", "SELECT"))
        assert (await client.submit(LETTER, recipients=["bob@good.test"])).startswith("250")
    (trouble,) = daemon.logged("trouble", level="error")
    assert "disk I/O error" in trouble["detail"]
    assert reply.split("error ")[1].rstrip(")") in trouble["what"]
    await until(daemon.idle)
    assert [message.forward_paths for message in mx.messages] == [["bob@good.test"]]
