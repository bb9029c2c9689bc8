"""A TOML file as its raw tables and the line of each key.

Rules: tomllib alone decides what the file says; the lines are found by a scan of our own, which serves messages only. A
byte order mark at the start is passed over (tomllib would refuse the first key for it). A key given twice is named with
both its lines.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mta.config.problems import ConfigError, Problem

Key = tuple[str | int, ...]
"""The parts of a key; of several tables of a name with the number of the table, from 0, behind it."""

_SKIP = re.compile(r'"""(?:\\.|[^\\])*?"""|\'\'\'.*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*', re.DOTALL)
_KEY_PART = r'(?:[A-Za-z0-9_-]+|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\')'
_KEY = rf"({_KEY_PART}(?:[ \t]*\.[ \t]*{_KEY_PART})*)"
_TABLE = re.compile(rf"[ \t]*\[\[?[ \t]*{_KEY}[ \t]*\]")
_ASSIGNMENT = re.compile(rf"[ \t]*{_KEY}[ \t]*=")
_AT = re.compile(r" \(at line (\d+), column \d+\)\Z")


@dataclass(frozen=True, slots=True)
class Document:
    """`source` is the file's name for messages, "the built-in defaults" without one; `base` the folder that relative
    paths in it count from."""

    source: str
    base: Path
    tables: Mapping[str, Any]
    lines: Mapping[Key, int] = field(default_factory=dict)

    def line(self, key: Key) -> int:
        """Of the key, else of the nearest table around it that has one; 0 if there is none."""
        while key and key not in self.lines:
            key = key[:-1]
        return self.lines.get(key, 0)


def read_document(path: Path | None) -> Document:
    """Raises `ConfigError` for a file that can't be read or is no TOML."""
    if path is None:
        return Document("the built-in defaults", Path(), {})
    text = _text(path)
    lines, repeated = _scan(text)
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(str(path), repeated or [_syntax(str(error))]) from None
    base = path.parent if path.is_file() else Path()  # a pipe such as /dev/stdin has no folder worth counting from
    return Document(str(path), base.absolute(), tables, lines)


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        raise ConfigError(str(path), [Problem("", f"can't be read: {error.strerror}")]) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConfigError(str(path), [Problem("", "expected UTF-8 text", line)]) from None


def _syntax(message: str) -> Problem:
    match = _AT.search(message)
    if match is None:
        return Problem("", f"no TOML: {message}")
    return Problem("", f"no TOML: {message[: match.start()]}", int(match.group(1)))


def _scan(text: str) -> tuple[dict[Key, int], list[Problem]]:
    """The line of each table and key, and the keys that stand twice."""
    lines: dict[Key, int] = {}
    tables: Counter[Key] = Counter()
    repeated: list[Problem] = []
    table: Key = ()
    for number, line in _statements(text):
        if match := _TABLE.match(line):
            table = _parts(match.group(1))
            if is_one_of_several := line.lstrip().startswith("[["):
                lines.setdefault(table, number)
                tables[table] += 1
                table = (*table, tables[table] - 1)
            key, again = table, table in lines and not is_one_of_several
        elif match := _ASSIGNMENT.match(line):
            key = table + _parts(match.group(1))
            again = key in lines
        else:
            continue
        if again:
            repeated.append(Problem(dotted(key), f"is given twice, first in line {lines[key]}", number))
        lines.setdefault(key, number)
    return lines, repeated


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """The lines that begin a statement, with their numbers: not those inside a string or an array."""
    depth, covered = 0, 0
    for number, start, line in _numbered(text):
        if depth == 0 and start >= covered:
            yield number, line
        position = max(start, covered)
        while position < start + len(line):
            if skipped := _SKIP.match(text, position):
                covered = position = skipped.end()
                continue
            if not (depth == 0 and _TABLE.match(line)):
                depth = max(0, depth + {"[": 1, "{": 1, "]": -1, "}": -1}.get(text[position], 0))
            position += 1


def _numbered(text: str) -> Iterator[tuple[int, int, str]]:
    start = 0
    for number, line in enumerate(text.split("\n"), 1):
        yield number, start, line
        start += len(line) + 1


def _parts(text: str) -> Key:
    return tuple(part[1:-1] if part[0] in "\"'" else part for part in re.findall(_KEY_PART, text))


def dotted(key: Key) -> str:
    """As a person writes it, without positions."""
    return ".".join(part for part in key if isinstance(part, str))
