"""A program that is told of an alert: what it gets, and what its end means."""

import asyncio
import json
import os
from pathlib import Path

import pytest
import uvloop

from mta.alerts.program import ENVIRONMENT, OUTPUT_LIMIT, run_program

DOCUMENT = json.dumps({"version": 1, "messages": ["x" * 200_000]}).encode()
"""More than a pipe holds."""


async def test_it_gets_the_document_and_nothing_of_our_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SECRET", "hush")
    script = f"cat > {tmp_path}/document; env > {tmp_path}/environment"
    called = await run_program(["/bin/sh", "-c", script], DOCUMENT)
    assert called.taken
    assert (tmp_path / "document").read_bytes() == DOCUMENT
    names = {line.partition("=")[0] for line in (tmp_path / "environment").read_text().splitlines()}
    assert names - {"PWD", "SHLVL", "_"} == set(ENVIRONMENT)


async def test_its_words_are_for_no_shell():
    called = await run_program(["/bin/echo", "$(id) ; `id` > x"], DOCUMENT)
    assert (called.taken, called.detail) == (True, "exit code 0: $(id) ; `id` > x")


@pytest.mark.parametrize(
    ("script", "detail"),
    [("exit 3", "exit code 3"), ("echo no pager >&2; exit 1", "exit code 1: no pager"), ("kill -9 $$", "exit code -9")],
)
async def test_it_has_not_taken_it_unless_it_ends_with_0(script: str, detail: str):
    called = await run_program(["/bin/sh", "-c", script], DOCUMENT)
    assert (called.taken, called.detail) == (False, detail)


@pytest.mark.parametrize("program", ["/nowhere/page", "/etc", "/etc/hostname"])
async def test_what_can_t_be_run_is_said(program: str):
    called = await run_program([program], DOCUMENT)
    assert not called.taken
    assert called.detail.startswith(f"{program} can't be run: ")


async def test_one_that_does_not_end_is_ended_with_its_children(tmp_path: Path):
    script = f"sleep 600 & echo $! > {tmp_path}/child; echo begun; wait"
    called = await run_program(["/bin/sh", "-c", script], DOCUMENT, time_limit=1.0)
    assert (called.taken, called.detail) == (False, "no end within 1 s: begun")
    assert await _ends(int((tmp_path / "child").read_text()))


async def test_one_that_ended_well_has_taken_it_whatever_its_child_does(tmp_path: Path):
    script = f"sleep 600 & echo $! > {tmp_path}/child; echo paged"
    called = await run_program(["/bin/sh", "-c", script], DOCUMENT, time_limit=1.0)
    assert (called.taken, called.detail) == (True, "exit code 0: paged")
    assert await _ends(int((tmp_path / "child").read_text()))


async def test_a_cancelled_one_is_ended(tmp_path: Path):
    os.mkfifo(tmp_path / "begun")
    script = f"echo $$ > {tmp_path}/begun; exec sleep 600"
    task = asyncio.create_task(run_program(["/bin/sh", "-c", script], DOCUMENT))
    process = int(await asyncio.to_thread((tmp_path / "begun").read_text))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not _runs(process)


async def test_of_much_output_only_the_beginning_is_kept():
    called = await run_program(["/bin/sh", "-c", "yes alert | head -c 3000000"], DOCUMENT)
    assert called.taken
    assert len(called.detail) <= OUTPUT_LIMIT + len("exit code 0: ")


async def _ends(process: int) -> bool:
    async with asyncio.timeout(10):
        while _runs(process):
            await asyncio.sleep(0.01)
    return True


def _runs(process: int) -> bool:
    """Whether it is there and no mere entry that waits to be collected."""
    try:
        return ") Z " not in Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_on_the_daemon_s_loop_a_program_that_reads_nothing_is_no_trouble():
    async def often() -> list[bool]:
        return [(await run_program(["/bin/true"], DOCUMENT)).taken for _ in range(30)]

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert all(runner.run(often()))
