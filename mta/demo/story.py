"""The demo told: each scene's message is handed over, followed to its end, and shown with the daemon's own commands.

Rules: what is printed is what happened; what did not happen as the scene says ends the story with a `StoryError`.
"""

import asyncio
import email
import email.policy
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from mta.control.render import render
from mta.demo.daemon import POSTMASTER, SENDER, Daemon, Fact, StoryError, running
from mta.demo.internet import Internet
from mta.demo.page import Page
from mta.demo.scenes import Again, Scene
from mta.demo.submission import Listener, SubmissionError, submit

_STEPS = {
    "attempt": ("on to the next server", ""),
    "deferred": ("not taken for now", "yellow"),
    "in_doubt": ("in doubt", "yellow"),
    "sent": ("sent", "green"),
    "failed": ("failed for good", "red"),
    "dead": ("given up", "red"),
    "cancelled": ("cancelled", "red"),
}
"""What can happen to a message, by its event in the log: in words, and their colour."""
_GIST = re.compile(r"RCPT|Subject:|Idempotency-Key:|X-MTA-In-Doubt:|Priority:|250 2\.0\.0 Ok: |554 ")
"""What differs from message to message in a conversation."""
_ENDS = frozenset({"sent", "failed", "dead", "cancelled"})
_CAPTIONS = {
    "bounced": f"The bounce, as {SENDER} gets it:",
    "reported": f"The report, as {POSTMASTER} gets it:",
    "alerted": f"The alert, as {POSTMASTER} gets it:",
}
_OPENING = (
    "This runs the real daemon, `mta serve`, with its spool in a temporary folder, in a pretend internet on this machine:"
    " a name server and mail servers that take mail, refuse it, or break down. Nothing leaves this machine. Waits are"
    " seconds here; they are minutes and hours otherwise. All of it takes about 15 seconds."
)
_ENDING = (
    "Ten messages, each followed to their end, and a newsletter. The daemon has been stopped and its folder removed."
    " To go on, in this order:"
)
_NEXT = (
    ("mta check", "what your configuration means; none is needed to begin"),
    ("mta serve", "the daemon, for the real internet; it takes mail at 127.0.0.1:2525"),
    ("mta status", "in another terminal: how much waits, and where there is trouble"),
)


async def perform(page: Page, internet: Internet, scenes: Sequence[Scene], patience: float) -> None:
    """All of it, in a folder that is gone afterwards. Raises `StoryError`, also where a step takes longer than `patience`
    (seconds)."""
    page.title("mta demo: how mail leaves this machine, and what can happen to it")
    page.prose(_OPENING)
    with TemporaryDirectory(prefix="mta-demo-") as folder:
        async with internet, running(Path(folder), internet, patience) as daemon:
            await _Story(page, internet, daemon).tell(scenes)
    page.heading("That was it")
    page.prose(_ENDING)
    page.gap()
    for words, meaning in _NEXT:
        page.hint(words, meaning)


class _Story:
    """`tell` once."""

    def __init__(self, page: Page, internet: Internet, daemon: Daemon) -> None:
        self._page, self._internet, self._daemon = page, internet, daemon

    async def tell(self, scenes: Sequence[Scene]) -> None:
        """Raises `StoryError`."""
        for number, scene in enumerate(scenes, 1):
            self._page.heading(f"{number}. {scene.title}")
            self._page.prose(scene.opening)
            self._page.gap()
            try:
                await self._play(scene, whole=number == 1)
            except StoryError as error:
                raise StoryError(f"{number}. {scene.title}: {error}") from None

    async def _play(self, scene: Scene, *, whole: bool) -> None:
        ahead = await self._burst(scene) if scene.burst else 0
        queue_id = await self._submit(scene, whole=whole)
        await self._follow(scene, queue_id)
        if scene.burst:
            self._compare(scene, queue_id, ahead)
        for event in scene.told:
            await self._read(event, queue_id)
        for again in scene.again:
            await self._repeat(scene, again, queue_id)
        for words in scene.commands:
            await self._look(words.format(queue_id))
        if scene.moral:
            self._page.prose(scene.moral)

    # ------------------------------------------------ handing over
    async def _submit(self, scene: Scene, *, whole: bool) -> str:
        """The queue id. The `whole` conversation is printed, or its gist."""
        reply = await self._hand_over(scene, scene.recipient, self._page.said if whole else _Gist(self._page))
        found = re.search(r"queued as (\w+)", reply)
        if found is None:
            raise StoryError(f"the daemon should have given a queue id: {reply}")
        return found[1]

    async def _repeat(self, scene: Scene, again: Again, queue_id: str) -> None:
        self._page.prose(again.opening)
        self._page.gap()
        reply = await self._hand_over(scene, again.recipient, _Gist(self._page))
        expected = again.reply.format(queue_id)
        if not reply.startswith(expected):
            raise StoryError(f'the daemon should have said "{expected}": {reply}')

    async def _burst(self, scene: Scene) -> int:
        """All at once, as one line; how many have arrived when it is handed over and looked at."""
        domain = scene.recipient.partition("@")[2]
        bulk = replace(scene, subject="News of the week", header=("Precedence: bulk",))
        readers = [f"reader{number}@{domain}" for number in range(1, scene.burst + 1)]
        self._page.said("program", f"Precedence: bulk, to {readers[0]} ... {readers[-1]}")
        await asyncio.gather(*(self._hand_over(bulk, reader, _unheard) for reader in readers))
        self._page.said("daemon", f"250 2.0.0 Ok, {scene.burst} times")
        await self._look(scene.look)
        self._page.gap()
        return len(self._internet.mail[domain][0].received)

    def _compare(self, scene: Scene, queue_id: str, ahead: int) -> None:
        """How many of the burst came before the message, `ahead` of which it could not overtake."""
        received = self._internet.mail[scene.recipient.partition("@")[2]][0].received
        before = next(place for place, mail in enumerate(received) if queue_id.encode() in mail)
        if before - ahead > scene.burst // 2 or before == scene.burst:
            raise StoryError(f"{scene.recipient} should have overtaken the burst: {before} of {scene.burst} came before")
        self._page.prose(f"{before} of the {scene.burst} had arrived before it.")

    async def _hand_over(self, scene: Scene, recipient: str, listener: Listener) -> str:
        """The daemon's reply."""
        content = [
            f"From: The shop <{SENDER}>", f"To: {recipient}", f"Subject: {scene.subject}", *scene.header, "",
            "Thank you! Your parcel is on its way.",
        ]  # fmt: skip
        try:
            return await submit(self._daemon.port, SENDER, recipient, content, listener)
        except (SubmissionError, OSError) as error:
            raise StoryError(f"the daemon should have taken the message: {str(error) or 'no answer'}") from None

    # ------------------------------------------------ what happens to it
    async def _follow(self, scene: Scene, queue_id: str) -> None:
        hope = f"{scene.recipient} should have ended as {scene.end}"
        passed = not scene.via
        async for fact in self._daemon.facts(lambda it: it.get("qid") == queue_id and it["event"] in _STEPS, hope):
            event = fact["event"]
            self._page.happened(fact.get("delay", 0.0), *_in_words(fact))
            if event == scene.end or event in _ENDS:
                break
            if event == scene.via and not passed:
                passed = True
                await self._look(scene.look)
        if not passed:
            hope += f" by way of {scene.via}"
        if event != scene.end or not passed:
            raise StoryError(f"{hope}, and came to {event} ({_reply(fact)})")

    async def _look(self, words: str) -> None:
        if not words:
            return
        command, *rest = words.split()
        self._page.command(f"mta {words}", render(command, await self._daemon.ask(command, *rest)))

    # ------------------------------------------------ what is told about it
    async def _read(self, event: str, queue_id: str) -> None:
        """The mail that the daemon wrote about the message, when it has arrived."""
        hope = f"a mail should have told of it ({event})"
        told = await self._daemon.first(lambda it: it["event"] == event and it.get("qid") == queue_id, hope)
        own_id = told["report_qid"]
        await self._daemon.first(lambda it: it["event"] == "sent" and it.get("qid") == own_id, hope)
        [mail] = [it for it in self._internet.mail["shop.example"][0].received if own_id.encode() in it]
        self._page.mail(_CAPTIONS[event], _readable(mail))


def _unheard(who: str, line: str) -> None:
    """Of a conversation that is not printed."""


class _Gist:
    """Prints of a conversation what differs from message to message."""

    def __init__(self, page: Page) -> None:
        self._page = page

    def __call__(self, who: str, line: str) -> None:
        if _GIST.match(line):
            self._page.said(who, line)


def _in_words(fact: Fact) -> tuple[str, str, str]:
    """What was heard, what it means, and its colour."""
    heard = f"{fact.get('host') or 'name service'}: {_reply(fact)}"
    meaning, style = _STEPS[fact["event"]]
    if next_at := fact.get("next_attempt_at"):
        wait = datetime.fromisoformat(next_at) - datetime.fromisoformat(fact["ts"])
        meaning += f"; next attempt in {round(wait.total_seconds())} s"
    return heard, meaning, style


def _reply(fact: Fact) -> str:
    return " ".join(str(fact[name]) for name in ("code", "enhanced", "text") if name in fact)


def _readable(mail: bytes) -> list[str]:
    """Subject and text of a mail, as a mail program shows them."""
    message = email.message_from_bytes(mail, policy=email.policy.default)
    text = next(part for part in message.walk() if part.get_content_type() == "text/plain")
    return [f"Subject: {message['subject']}", "", *text.get_content().splitlines()]
