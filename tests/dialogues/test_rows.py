"""Every conformance row of a submission server is named by a test, a dialogue or a deviation with its reason."""

import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from tests.dialogues.test_dialogues import DIALOGUES, EVERYTHING

HERE = Path(__file__).parent
TESTS = HERE.parent
_ROW = re.compile(r"\b([A-Z]{3}|[a-z]{3})[-_]?([0-9]{2})(?![0-9])")
"""In a docstring (SES-01) or in a test's name (ses01)."""


def _rows() -> Iterator[str]:
    for area, numbers in yaml.safe_load((HERE / "rows.yaml").read_text()).items():
        for number in numbers:
            first, _, last = str(number).partition("-")
            yield from (f"{area}-{it:02}" for it in range(int(first), int(last or first) + 1))


def _named() -> set[str]:
    files = [*TESTS.rglob("test_*.py"), *HERE.glob("*.py"), *HERE.glob("*.yaml")]
    texts = [file.read_text() for file in files if file.name not in ("rows.yaml", "deviations.yaml")]
    return {f"{match[1].upper()}-{match[2]}" for text in texts for match in _ROW.finditer(text.replace("test_", ""))}


ROWS = {*_rows()}
DEVIATIONS: dict[str, str] = yaml.safe_load((HERE / "deviations.yaml").read_text())


def test_every_row_is_named() -> None:
    assert not ROWS - _named() - DEVIATIONS.keys()


def test_deviations_are_of_rows_that_exist_and_have_reasons() -> None:
    assert DEVIATIONS.keys() <= ROWS
    assert all(len(reason.split()) > 5 for reason in DEVIATIONS.values())


def test_dialogues_name_rows_that_exist() -> None:
    for it in DIALOGUES:
        assert {*it.values[0].get("ids", [])} <= ROWS | {"LIN-23"}, it.id  # that one is the client's, and shows here


def test_what_dialogues_need_exists() -> None:
    assert {need for it in DIALOGUES for need in it.values[0].get("needs", [])} <= EVERYTHING


def test_names_are_given_once() -> None:
    names = [it.id for it in DIALOGUES]
    assert len(names) == len({*names})
