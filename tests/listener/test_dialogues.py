"""The black-box scripts of dialogues.yaml (its head describes the format), each over a connection of its own."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.smtp_client import SmtpClient
from tests.support.submission import bench

OFFERED = {
    "PIPELINING", "SIZE", "8BITMIME", "SMTPUTF8", "ENHANCEDSTATUSCODES", "HELP", "DELIVERBY", "FUTURERELEASE", "MT-PRIORITY",
    "DSN", "CHUNKING",
}  # fmt: skip
DOMAINS = {"{{from}}": "sender.test", "{{rcpt}}": "dest.test"}
QUIET = 0.05
"""Seconds; the scripts ask for more, which loopback does not need."""
STRICT_ONLY = "23-smuggle-lf-dot-lf"
"""Prefers a refusal where `bare_newlines` is "reject"."""

SCRIPTS = yaml.safe_load(Path(__file__).with_name("dialogues.yaml").read_text())
APPLICABLE = [
    script for script in SCRIPTS
    if OFFERED.issuperset(script.get("needs", [])) and OFFERED.isdisjoint(script.get("absent", []))
]  # fmt: skip


def expand(text: str, turn: int) -> bytes:
    for macro, domain in DOMAINS.items():
        text = text.replace(macro, domain)
    text = text.replace("{{i}}", str(turn))
    text = re.sub(r"\{\{rep:(.*?)\*(\d+)\}\}", lambda match: match[1] * int(match[2]), text, flags=re.DOTALL)
    return text.encode("latin-1")


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value] if value else []


class Script:
    def __init__(self, client: SmtpClient, *, preferred: bool) -> None:
        self.client, self.preferred = client, preferred
        self.last = ""

    async def run(self, steps: list[dict[str, Any]]) -> None:
        for step in steps:
            if "only_if" in step and not re.search(step["only_if"], self.last):
                continue
            for turn in range(1, step.get("for", 1) + 1):
                await self.turn(step, turn)

    async def turn(self, step: dict[str, Any], turn: int) -> None:
        await self.client.send(b"".join(expand(text, turn) for text in step.get("burst", [step.get("send", "")])))
        for expected in as_list(step.get("expect")):
            self.last = await self.client.reply()
            assert re.search(expected, self.last), (step, self.last)
        if self.preferred and "prefer" in step and step.get("expect"):
            assert re.search(step["prefer"], self.last), (step, self.last)
        if "quiet" in step:
            assert await self.client.quiet(QUIET) == b""
        if step.get("expect_close"):
            assert await self.client.at_end()


@pytest.mark.parametrize("bare_newlines", ["normalize", "reject"])
@pytest.mark.parametrize("script", APPLICABLE, ids=lambda script: script["name"])
async def test_script(script: dict[str, Any], bare_newlines: str) -> None:
    preferred = script["name"] != STRICT_ONLY or bare_newlines == "reject"
    changes = {"bare_newlines": bare_newlines, "header_checks": "strict"}
    async with bench(**changes) as running, await SmtpClient.connect(running.endpoint) as client:
        assert client.greeting.startswith("220 mail.out.test ")
        await Script(client, preferred=preferred).run(script["steps"])


async def test_extensions_that_are_not_offered_are_refused() -> None:
    """What is left of the script for servers without those that are offered here."""
    [script] = [script for script in SCRIPTS if script["name"] == "44-extensions-not-offered"]
    steps = [step for step in script["steps"] if not re.search("BY=|HOLDFOR=|MT-PRIORITY=|BDAT ", step.get("send", ""))]
    assert len(steps) == len(script["steps"]) - 4
    async with bench() as running, await SmtpClient.connect(running.endpoint) as client:
        await Script(client, preferred=True).run(steps)


async def test_the_extensions_offered_are_those_that_scripts_are_chosen_by() -> None:
    """SES-04, EXT-01, LIN-24."""
    async with bench() as running, await SmtpClient.connect(running.endpoint) as client:
        first, *lines = (await client.command("EHLO client.test")).split("\n")
    assert first == "250-mail.out.test"
    assert {line[4:].split()[0] for line in lines} == OFFERED
    assert len(APPLICABLE) >= 28
