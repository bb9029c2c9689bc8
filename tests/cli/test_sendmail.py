"""`mta sendmail` as programs call it: real processes, a real daemon, and what the recipient's server gets."""

import asyncio
import os
import pwd
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import world
from tests.e2e.world import SENDER, World
from tests.support.daemon import Ended, until
from tests.support.mx import Message

__all__ = ["world"]

MTA = Path(sys.executable).with_name("mta")
ME = pwd.getpwuid(os.getuid()).pw_name
LETTER = b"From: app@shop.test\nTo: ann@x.test\nSubject: hello\n\nhello\n"


class Mailer:
    """Calls sendmail by a link, as other programs do, with a daemon beside it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.link = world.folder / "sendmail"
        self.link.symlink_to(MTA)

    def run(self, *command: str | Path, stdin: bytes = LETTER, **environ: str) -> Ended:
        env = {"PATH": os.environ["PATH"], "HOME": str(self.world.folder), "MTA_CONFIG": str(self.world.daemon.file)}
        env |= {key: os.environ[key] for key in ("PYTHONPATH",) if key in os.environ}
        done = subprocess.run(
            command, input=stdin, capture_output=True, cwd=self.world.folder, env=env | environ, timeout=60, check=False
        )
        return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())

    async def __call__(self, *words: str, stdin: bytes = LETTER, **environ: str) -> Ended:
        return await asyncio.to_thread(self.run, self.link, *words, stdin=stdin, **environ)

    async def send(self, *words: str, stdin: bytes = LETTER) -> None:
        """It must be taken, without a word."""
        assert await self(*words, stdin=stdin) == Ended(0, "", "")

    async def total(self) -> int:
        """Messages that the daemon has ever taken."""
        with self.world.spool() as spool:
            return int(spool.execute("SELECT count(*) FROM messages").fetchone()[0])

    async def arrived(self, address: str = "ann@x.test") -> Message:
        """The first mail for `address` at its server."""
        mails = await until(lambda: self.world.mail_for(address))
        return mails[0]


@pytest.fixture
def mailer(world: World) -> Mailer:
    """The daemon is not started yet. x.test has its mail at home."""
    world.route("x.test", world.home.address)
    return Mailer(world)


@pytest.fixture
async def sendmail(mailer: Mailer) -> Mailer:
    await mailer.world.daemon.start()
    return mailer


def fields(message: Message) -> dict[str, str]:
    """By lower-case names; a folded field on one line."""
    section = re.sub(rb"\r\n(?=[ \t])", b"", message.content.partition(b"\r\n\r\n")[0]).decode()
    return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in section.split("\r\n"))}


def body(message: Message) -> bytes:
    return message.content.partition(b"\r\n\r\n")[2]


# ---------------------------------------------------------------- callers
async def test_cron_s_mail_without_addresses_that_have_a_domain(sendmail: Mailer) -> None:
    """The sender is the user, the recipient an alias; From, Date and Message-ID are there in the end."""
    letter = b"From: \nTo: root\nSubject: Cron <root@host> job\n\nit failed\n"
    await sendmail.send("-FCronDaemon", "-i", "-B8BITMIME", "-oem", "root", stdin=letter)
    mail = await sendmail.arrived("postmaster@admin.test")
    assert mail.reverse_path == f"{ME}@mail.out.test"
    assert fields(mail)["from"] == f"CronDaemon <{ME}@mail.out.test>"
    assert fields(mail)["to"] == "root"
    assert {"date", "message-id"} <= fields(mail).keys()


async def test_php_s_mail(sendmail: Mailer) -> None:
    """-t -i and a glued sender; a lone dot is content, Bcc is for nobody's eyes."""
    letter = b"To: Ann <ann@x.test>\nSubject: x\nCc: bob@x.test\nBcc: cy@x.test\n\none\n.\ntwo"
    await sendmail.send("-t", "-i", f"-f{SENDER}", stdin=letter)
    for address in ("ann@x.test", "bob@x.test", "cy@x.test"):
        mail = await sendmail.arrived(address)
        assert body(mail) == b"one\r\n.\r\ntwo\r\n"
        assert "bcc" not in fields(mail)
        assert fields(mail)["from"] == mail.reverse_path == SENDER
    assert await sendmail.total() == 1


async def test_git_send_email(sendmail: Mailer) -> None:
    patch = b"From: Ann <ann@shop.test>\nTo: ann@x.test\nSubject: [PATCH] x\n\n---\n.gitignore\n-- \n2.39.5\n\n"
    await sendmail.send("-f", SENDER, "-i", "ann@x.test", "bob@x.test", stdin=patch)
    assert body(await sendmail.arrived()) == b"---\r\n.gitignore\r\n-- \r\n2.39.5\r\n\r\n"
    assert (await sendmail.arrived("bob@x.test")).reverse_path == SENDER


async def test_a_shell_script_that_forgets_the_header(sendmail: Mailer) -> None:
    script = "printf 'disk: full\\nof things\\n' | \"$0\" -f app@shop.test 'Ann <ann@x.test>, bob@x.test'"
    assert await asyncio.to_thread(sendmail.run, "/bin/sh", "-c", script, sendmail.link) == Ended(0, "", "")
    mail = await sendmail.arrived("bob@x.test")
    assert fields(mail)["disk"] == "full"
    assert body(mail) == b"of things\r\n"


async def test_recipients_of_the_message_join_those_of_the_arguments(sendmail: Mailer) -> None:
    await sendmail.send("-t", "ann@x.test", "cy@x.test", f"-f{SENDER}")
    assert sorted((await sendmail.arrived("cy@x.test")).forward_paths) == ["ann@x.test", "cy@x.test"]


async def test_a_bounce_has_the_null_sender(sendmail: Mailer) -> None:
    await sendmail.send("-i", "-f", "<>", "--", "ann@x.test", stdin=b"Subject: x\n\n")
    mail = await sendmail.arrived()
    assert mail.reverse_path == ""
    assert fields(mail)["from"] == f"{ME}@mail.out.test"


async def test_what_arrives_is_what_was_given(sendmail: Mailer) -> None:
    """Every octet but NUL and line ends, and more than is kept in memory."""
    line = bytes(octet for octet in range(1, 256) if octet not in b"\r\n") + b"\n"
    letter = b"From: a@shop.test\n\n.\n..\n.a\r\n" + line * 10_000
    await sendmail.send("-oi", f"-f{SENDER}", "ann@x.test", stdin=letter)
    assert body(await sendmail.arrived()) == b".\r\n..\r\n.a\r\n" + line.replace(b"\n", b"\r\n") * 10_000


async def test_a_bare_cr_is_the_listener_s_to_judge(mailer: Mailer) -> None:
    mailer.world.configure("submission", bare_newlines="reject")
    await mailer.world.daemon.start()
    done = await mailer("ann@x.test", stdin=LETTER + b"10%\r20%\n")
    assert done.code == 65
    assert "554 5.6.0" in done.err


async def test_a_key_makes_it_one_email(sendmail: Mailer) -> None:
    """As an option and as a field; a program that tries again sends nothing twice."""
    for _ in range(2):
        await sendmail.send("--key", "order-1", "ann@x.test")
    await sendmail.send("-t", stdin=b"Idempotency-Key: order-1\n" + LETTER)
    other = await sendmail("-t", "--key=order-1", stdin=LETTER.replace(b"hello", b"another"))
    assert other.code == 65
    assert "554 5.5.0" in other.err
    assert await sendmail.total() == 1
    assert "idempotency-key" not in fields(await sendmail.arrived())


# ---------------------------------------------------------------- refusals
def refused(done: Ended, code: int, *says: str) -> None:
    """One line on standard error for each of `says`."""
    assert (done.code, done.out) == (code, ""), done.err
    lines = done.err.splitlines()
    assert len(lines) == len(says), done.err
    for line, words in zip(lines, says, strict=True):
        assert line.startswith("sendmail: ")
        assert words in line


async def test_one_recipient_refused_is_nothing_sent(sendmail: Mailer) -> None:
    done = await sendmail("ann@x.test", "bob@nowhere", "cy@nowhere")
    refused(done, 65, "bob@nowhere was refused: 554 5.1.2", "cy@nowhere was refused: 554 5.1.2", "nothing was sent")
    assert await sendmail.total() == 0


async def test_nobody_of_that_name_is_67(mailer: Mailer) -> None:
    del mailer.world.daemon.config["postmaster"]
    await mailer.world.daemon.start()
    refused(await mailer("ann", "bob"), 67, "ann was refused: 550 5.1.1", "bob was refused: 550 5.1.1")


async def test_too_large_and_too_many_is_65(mailer: Mailer) -> None:
    """Another try would not help."""
    mailer.world.configure("submission", max_message_size="1KiB", max_recipients=2)
    await mailer.world.daemon.start()
    refused(await mailer("ann@x.test", stdin=LETTER + b"x\n" * 1000), 65, "552 5.3.4")
    refused(await mailer("a@x.test", "b@x.test", "c@x.test"), 65, "c@x.test was refused: 452 4.5.3", "nothing was sent")


async def test_a_client_that_may_not_submit_is_77(mailer: Mailer) -> None:
    mailer.world.configure("submission", allow=["10.0.0.0/8"])
    await mailer.world.daemon.start()
    refused(await mailer("ann@x.test"), 77, "takes no mail from here: 554")


async def test_B54_an_address_is_one_address(sendmail: Mailer) -> None:
    for words in (
        ("-f", "a@x.test> NOTIFY=NEVER", "ann@x.test"),
        ("-f", "a@x.test, b@x.test", "ann@x.test"),
        ("ann@x.test>\r\nRCPT TO:<eve@x.test",),
        ("ann@x.test\nDATA",),
        ("ann@x.test, <eve@x.test",),
        ("-t", "ann@@x.test"),
    ):
        done = await sendmail(*words)
        assert (done.code, done.err.count("\n")) == (65, 1)
    assert await sendmail.total() == 0


async def test_a_header_that_names_nobody_is_65(sendmail: Mailer) -> None:
    refused(await sendmail("-t", stdin=b"Subject: x\n\nTo: ann@x.test\n"), 65, "no recipients")
    refused(await sendmail("-t", stdin=b"To: ann@x.test, b@@x.test\n\n"), 65, 'To: "b@@x.test" is no address')
    assert await sendmail.total() == 0


async def test_a_program_without_standard_input_is_told_so(sendmail: Mailer) -> None:
    done = await asyncio.to_thread(sendmail.run, "/bin/sh", "-c", '"$0" ann@x.test <&-', sendmail.link)
    refused(done, 65, "no standard input")


# ---------------------------------------------------------------- without a daemon
def test_a_daemon_that_is_down_is_75(mailer: Mailer) -> None:
    mailer.world.daemon.file.write_text('[submission]\nlisten = ["127.0.0.1:9"]\n')
    sentence = "mta is not running at 127.0.0.1:9: the message was NOT taken; try again later"
    refused(mailer.run(mailer.link, "a@x.test"), 75, sentence)
    done = mailer.run(mailer.link, "-bs", stdin=b"EHLO x\r\n")
    assert (done.code, done.out) == (75, "421 4.3.2 mta is not running, closing connection\r\n")


def test_a_mistake_anywhere_is_told_where_no_door_opens(mailer: Mailer) -> None:
    mailer.world.daemon.file.write_text('[submission]\nlisten = ["127.0.0.1:9"]\nlistn = []\n[spol]\n')
    done = mailer.run(mailer.link, "a@x.test")
    assert (done.code, done.out) == (78, "")
    assert done.err == mailer.run(MTA, "check").err
    assert "submission.listen?" in done.err and "spol" in done.err


async def test_a_mistake_beside_the_doors_stops_no_mail(sendmail: Mailer) -> None:
    with sendmail.world.daemon.file.open("a") as file:
        file.write("[spol]\n")
    await sendmail.send("ann@x.test")


def test_bad_usage_needs_no_daemon_and_no_configuration(mailer: Mailer) -> None:
    refused(mailer.run(mailer.link), 64, "no recipients")
    refused(mailer.run(mailer.link, "-bd"), 64, "mta serve")
    assert mailer.run(mailer.link, "-q") == Ended(0, "", "")


def test_a_configuration_with_a_mistake_is_78(mailer: Mailer) -> None:
    for text in ("[submission]\nlisten = 5\n", "submission = 1\n", "[submission]\nlisten = ['here']\n", "x"):
        mailer.world.daemon.file.write_text(text)
        done = mailer.run(mailer.link, "a@x.test")
        assert done.code == 78
        assert done.err.count("\n") == 1
    assert mailer.run(mailer.link, "--config", "none.toml", "a@x.test").code == 78


# ---------------------------------------------------------------- the command, and its links
async def test_the_command_is_the_same_as_the_link(sendmail: Mailer) -> None:
    config = str(sendmail.world.daemon.file)
    for words in (("sendmail", "--config", config), ("--config", config, "sendmail")):
        done = await asyncio.to_thread(sendmail.run, MTA, *words, "-oi", f"-f{SENDER}", "--", "ann@x.test", MTA_CONFIG="")
        assert done == Ended(0, "", "")
    assert await sendmail.total() == 2
    assert (await asyncio.to_thread(sendmail.run, MTA, "sendmail", "--help")).out.startswith("Usage: mta sendmail")


async def test_a_link_heeds_no_configuration_that_lies_about(sendmail: Mailer) -> None:
    """Anybody can put a mta.toml into a folder where root's programs run."""
    (sendmail.world.folder / "mta.toml").rename(sendmail.world.folder / "other.toml")
    (sendmail.world.folder / "mta.toml").write_text('[submission]\nlisten = ["127.0.0.1:9"]\n')
    done = await sendmail("ann@x.test", MTA_CONFIG="")
    assert "127.0.0.1:9:" not in done.err
    by_name = await asyncio.to_thread(sendmail.run, MTA, "sendmail", "ann@x.test", MTA_CONFIG="")
    refused(by_name, 75, "127.0.0.1:9:")


async def test_bp_and_mailq_list_the_queue(mailer: Mailer) -> None:
    (mailer.world.folder / "mailq").symlink_to(MTA)
    assert (await mailer("-bp")).code == 69
    await mailer.world.daemon.start()
    await mailer.world.daemon.cli("hold", "--all")
    await mailer.send("ann@x.test")
    listed = await mailer("-bp")
    assert "ann@x.test" in listed.out
    assert await asyncio.to_thread(mailer.run, mailer.world.folder / "mailq") == listed


async def test_bs_is_a_session_with_the_daemon(sendmail: Mailer) -> None:
    session = (
        b"EHLO prog\r\nMAIL FROM:<app@shop.test>\r\nRCPT TO:<ann@x.test>\r\nDATA\r\nFrom: a@shop.test\r\n\r\nx\r\n.\r\n"
    )
    for end in (b"QUIT\r\n", b""):
        done = await sendmail("-bs", stdin=session + end)
        assert (done.code, done.err) == (0, "")
        codes = [line[:3] for line in done.out.splitlines() if line[3:4] == " "]
        assert codes == ["220", "250", "250", "250", "354", "250", *(["221"] if end else [])]
    assert await sendmail.total() == 2


async def test_bs_ends_with_a_client_that_has_gone(sendmail: Mailer) -> None:
    """One that reads no more, but keeps its end open."""
    answers, its_end = os.pipe()
    process = await asyncio.create_subprocess_exec(
        MTA, "sendmail", "--config", sendmail.world.daemon.file, "-bs",
        stdin=subprocess.PIPE, stdout=its_end, stderr=subprocess.PIPE,
    )  # fmt: skip
    os.close(its_end)
    assert process.stdin and process.stderr
    assert (await asyncio.to_thread(os.read, answers, 4)) == b"220 "
    os.close(answers)
    process.stdin.write(b"NOOP\r\n")
    async with asyncio.timeout(20):
        assert await process.stderr.read() == b""
        assert await process.wait() == 0
