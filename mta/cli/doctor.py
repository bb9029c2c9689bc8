"""`mta doctor`: what decides whether others take our mail, and what to do about it."""

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path

import click

from mta.app.doctor import Doctor
from mta.config.load import load
from mta.doctor.findings import Finding, Level
from mta.model.text import safe_text

EXITS = {Level.WARNING: 1, Level.FAILURE: 2}
"""The exit code by the worst finding, else 0, as of `mta status --check`: those of sysexits say that a command failed."""
SHOWN = 500
"""Characters of what is said of one thing: others say it, and a TXT record may be as long as a book."""
_MARKS = {Level.OK: "ok", Level.NOTE: "note", Level.WARNING: "warning", Level.FAILURE: "FAILS"}


def doctor(path: Path | None, domain: str, as_json: bool) -> int:
    """The exit code. Raises `ConfigError`."""
    findings = asyncio.run(Doctor(load(path, os.environ)).examine(domain.lower().rstrip(".")))
    if as_json:
        click.echo(json.dumps({"findings": [_document(it) for it in findings]}, ensure_ascii=False))
    else:
        _print(findings)
    return max((EXITS.get(it.level, 0) for it in findings), default=0)


def _print(findings: Sequence[Finding]) -> None:
    for it in findings:
        click.echo(f"{_MARKS[it.level]:8} {safe_text(it.about, SHOWN)}: {safe_text(it.what, SHOWN)}")
        if it.advice:
            click.echo(f"         -> {safe_text(it.advice, SHOWN)}")


def _document(finding: Finding) -> dict[str, str]:
    said = {"about": finding.about, "what": finding.what, "advice": finding.advice}
    return {"level": finding.level.value, **{name: safe_text(text, SHOWN) for name, text in said.items()}}
