"""What libraries log becomes one line each, without a traceback (field case B56's log half)."""

import asyncio
import logging
import threading

import pytest

from mta.model.events import Trouble
from mta.observe.library import LibraryLog, describe


class Library:
    """A logger with our handler, and what came of it."""

    def __init__(self, debug: bool) -> None:
        self.troubles: list[Trouble] = []
        ids = iter(["E1", "E2", "E3"])
        handler = LibraryLog(self.troubles.append, asyncio.get_running_loop(), lambda: next(ids), debug=debug)
        self.logger = logging.Logger("mail.log")
        self.logger.addHandler(handler)


@pytest.fixture
async def library() -> Library:
    return Library(debug=False)


def fail() -> None:
    raise ValueError("bad\nnews \x1b[2J")


def log_failure(logger: logging.Logger) -> None:
    try:
        fail()
    except ValueError:
        logger.exception("session %s", "exception")


async def test_an_exception_is_named_without_its_traceback(library: Library):
    log_failure(library.logger)
    expected = Trouble("error", "mail.log: session exception (error E1)", "ValueError: bad\\x0anews \\x1b[2J")
    assert library.troubles == [expected]


async def test_debugging_gets_the_traceback_as_one_line_with_the_same_id():
    library = Library(debug=True)
    log_failure(library.logger)
    summary, details = library.troubles
    assert (details.severity, details.what) == ("debug", "error E1")
    assert "E1" in summary.what
    assert "Traceback" in details.detail
    assert "in fail" in details.detail
    assert "\n" not in details.detail


async def test_what_is_below_a_warning_is_no_fact(library: Library):
    library.logger.info("peer connected")
    library.logger.warning("slow: %d s", 3)
    assert library.troubles == [Trouble("warning", "mail.log: slow: 3 s")]


async def test_a_record_that_cannot_be_formatted_is_told_as_it_is(library: Library):
    library.logger.error("%d users\nand more", "many")
    assert library.troubles == [Trouble("error", "mail.log: %d users")]


async def test_a_record_of_another_thread_comes_through_the_loop(library: Library):
    told_in: list[int] = []
    arrived = asyncio.Event()
    handler = LibraryLog(
        lambda trouble: (told_in.append(threading.get_ident()), arrived.set()),
        asyncio.get_running_loop(),
        lambda: "E",
        debug=False,
    )
    library.logger.addHandler(handler)
    await asyncio.to_thread(library.logger.error, "from a thread")
    await arrived.wait()
    assert told_in == [threading.get_ident()]


def test_a_record_after_the_loops_end_raises_nothing():
    loop = asyncio.new_event_loop()
    loop.close()
    troubles: list[Trouble] = []
    logger = logging.Logger("late")
    logger.addHandler(LibraryLog(troubles.append, loop, lambda: "E", debug=False))
    thread = threading.Thread(target=logger.error, args=("too late",))
    thread.start()
    thread.join()
    assert troubles == []


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError(), "ValueError"),
        (OSError(28, "No space"), "OSError: [Errno 28] No space"),
        (Unspeakable(), "Unspeakable"),
    ],
)
def test_an_exception_in_one_line(error: Exception, words: str):
    assert describe(error) == words
