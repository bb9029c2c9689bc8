"""docs/simulation.md names what there is."""

import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = " ".join((HERE.parents[1] / "docs" / "simulation.md").read_text().split())
_PROMISE = re.compile(r'(?:Violation|Waiting)\("([^"]+)"')


def parts() -> list[Path]:
    return [it for it in HERE.glob("*.py") if not it.name.startswith(("test_", "conftest"))]


def test_the_page_names_each_promise() -> None:
    promises = {found[1] for it in parts() for found in _PROMISE.finditer(it.read_text())}
    promises |= {f"no {what} is sent twice, unless in doubt" for what in ("key", "submission")}
    assert len(promises) > 20
    assert [it for it in sorted(promises) if it not in PAGE] == []


def test_the_page_names_each_part() -> None:
    assert [it.stem for it in parts() if it.stem[0] != "_" and f"`{it.stem}`" not in PAGE] == []
