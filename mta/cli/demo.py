"""`mta demo`: the story on the terminal, and its clean end, whatever ends it."""

import asyncio
import signal
import sys

from rich.console import Console

from mta.control.errors import CommandError, Exit
from mta.demo.daemon import StoryError
from mta.demo.internet import Internet
from mta.demo.page import Page
from mta.demo.scenes import SCENES, pretend_internet
from mta.demo.story import perform
from mta.model.text import safe_text

PATIENCE = 20.0
"""Seconds for anything to happen; the longest wait of the story is a few."""
INTERRUPTED = 130


def demo() -> int:
    """The exit code: 0 when the story came true, 70 when it did not."""
    try:
        return asyncio.run(_demo(pretend_internet(), PATIENCE))
    except asyncio.CancelledError:
        return INTERRUPTED


async def _demo(internet: Internet, patience: float) -> int:
    """A hangup or a termination ends the daemon too, as Ctrl-C does."""
    performance = asyncio.create_task(perform(Page(Console(highlight=False)), internet, SCENES, patience))
    for number in (signal.SIGHUP, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, performance.cancel)
    try:
        await performance
    except (StoryError, CommandError, OSError) as error:
        print(f"mta: the story did not come true: {safe_text(str(error))}", file=sys.stderr)
        return Exit.INTERNAL
    return 0
