"""Persons with the control socket: what they order, and that they may have been obeyed."""

import asyncio
import re
import shlex
from pathlib import Path

from tests.sim.course import Course
from tests.sim.invariants import Violation
from tests.sim.ledger import Ledger
from tests.sim.scenario import Order

PATIENCE = 900.0
AGAIN = 600.0
"""Seconds until somebody who let nothing go, since the daemon was down, tries again."""
_REFUSAL = re.compile(rb'"error":\{"code":(\d+)')
_INTERNAL, _FOR_NOW = b"70", b"75"


async def give(order: Order, socket: Path, ledger: Ledger, course: Course) -> None:
    """`{id}` in the words stands for the email's queue id; without one there is nothing to order."""
    queue_id = ledger.queue_id(order.email) if "{id}" in order.words else ""
    if "{id}" in order.words and not queue_id:
        return
    words = order.words.replace("{id}", queue_id).split()
    while not await _said(order, words, socket, ledger, course) and words[0] == "release":
        await asyncio.sleep(AGAIN)


async def _said(order: Order, words: list[str], socket: Path, ledger: Ledger, course: Course) -> bool:
    """Whether it was answered, for good."""
    try:
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_unix_connection(str(socket))
            if "{id}" in order.words:  # an order whose answer is lost may have been obeyed
                ledger.touched.setdefault(order.email, set()).add(words[0])
            writer.write(f"json {shlex.join(words)}\n".encode())
            answer = await reader.read()
            writer.close()
    except (OSError, TimeoutError) as error:
        course.tell(f"{' '.join(words)}: {error!r}")
        return False
    refusal = _REFUSAL.search(answer)
    course.tell(f"{' '.join(words)}: {f'error {refusal[1].decode()}' if refusal else f'{len(answer)} octets'}")
    if refusal and refusal[1] == _INTERNAL:
        course.check([Violation("nothing fails inside", f"{' '.join(words)}: {answer!r}")])
    return refusal is None or refusal[1] != _FOR_NOW
