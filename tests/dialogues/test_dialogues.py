"""Every dialogue of the YAML files beside this, with a real daemon, over a connection of its own.

shared.yaml is the set that came with the requirements; the others are ours. Its scripts run with their stricter expressions,
but where the interface says otherwise (`AMENDED`).
"""

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from tests.dialogues.houses import Houses
from tests.dialogues.script import Client, Script, check_codes
from tests.support.daemon import until
from tests.support.offered import require

pytestmark = pytest.mark.asyncio(loop_scope="module")

HERE = Path(__file__).parent
EVERYTHING = {
    "PIPELINING", "SIZE", "8BITMIME", "ENHANCEDSTATUSCODES", "HELP", "DELIVERBY", "FUTURERELEASE", "MT-PRIORITY", "DSN",
    "SMTPUTF8", "CHUNKING", "STARTTLS", "AUTH", "REQUIRETLS",
}  # fmt: skip
AMENDED: dict[str, dict[str, Any]] = {
    "17-address-literals": {"daemon": "public"},  # as configured without a word
    "23-smuggle-lf-dot-lf": {"daemon": "reject"},  # its preferred reply is that of `bare_newlines = "reject"`
    "44-extensions-not-offered": {"absent": []},  # what is left of it: parameters that only other keywords would allow
}
OFFERED_IN_44 = re.compile("BY=|HOLDFOR=|MT-PRIORITY=|BDAT|REQUIRETLS")


def _dialogues() -> Iterator[Any]:
    for file in sorted(HERE.glob("*.yaml")):
        if file.name in ("rows.yaml", "deviations.yaml"):
            continue
        for dialogue in yaml.safe_load(file.read_text()):
            dialogue |= AMENDED.get(dialogue["name"], {})
            for number, each in enumerate(dialogue.get("each", [""])):
                suffix = f"-{number}" if "each" in dialogue else ""
                yield pytest.param(dialogue, each, id=f"{file.stem}/{dialogue['name']}{suffix}")


DIALOGUES = [*_dialogues()]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def houses() -> AsyncIterator[Houses]:
    async with Houses() as houses:
        yield houses


def _steps(dialogue: dict[str, Any]) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = dialogue["steps"]
    if dialogue["name"] == "44-extensions-not-offered":
        return [step for step in steps if not OFFERED_IN_44.search(step["send"])] + [
            {"send": f"MAIL FROM:<a@sender.test> {other}\r\n", "expect": r"^555 5\.5\.4 "}
            for other in ("CONPERM", "TRANSID=<1@x.test>", "XCLIENT=1", "BODY8=1")
        ]
    return steps


@pytest.mark.parametrize(("dialogue", "each"), DIALOGUES)
async def test_dialogue(dialogue: dict[str, Any], each: str, houses: Houses) -> None:
    house = await houses.get(dialogue.get("daemon", "plain"))
    door = dialogue.get("door", "plain")
    require({*dialogue.get("needs", [])}, await house.offers(door))
    before = house.accepted()
    async with await Client.at(door, house.doors[door]) as client:
        assert re.match(dialogue.get("greeting", r"220 mail\.out\.test "), client.greeting), client.greeting
        check_codes(client.greeting, b"")
        await Script(client, house.delivery, each).run(_steps(dialogue))
    if "accepts" in dialogue:
        await house.world.daemon.ask("status")
        assert house.accepted() - before == dialogue["accepts"]


async def test_ehlo_offers_everything_at_its_door(houses: Houses) -> None:
    """EXT-01, LIN-24: without this, dialogues would be left out for what they need."""
    house = await houses.get("tls")
    assert await house.offers("plain") == EVERYTHING


async def test_ext10_what_is_told_of_utf8_mail_is_utf8(houses: Houses) -> None:
    """RFC 6533: the DSN to a sender beyond ASCII, about a domain that does not exist."""
    house = await houses.get("plain")
    home = house.world.home
    require({"SMTPUTF8", "DSN"}, await house.offers("plain"))
    async with await Client.at("plain", house.doors["plain"]) as client:
        await client.command("EHLO client.test")
        assert (await client.command(b"MAIL FROM:<\xc3\xa9@sender.test> SMTPUTF8")).startswith("250 ")
        assert (await client.command("RCPT TO:<b@nowhere.test>")).startswith("250 ")
        assert (await client.command("DATA")).startswith("354 ")
        await client.send(b"From: <\xc3\xa9@sender.test>\r\n\r\nx\r\n.\r\n")
        assert (await client.reply()).startswith("250 ")
    report = await until(lambda: next((it for it in home.messages if b"b@nowhere.test" in it.content), None))
    assert report.reverse_path == "" and b"message/global-delivery-status" in report.content
