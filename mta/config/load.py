"""From a file to a `Config`, or to all that is wrong with it.

Rules: every mistake is told at once, also those that only show between keys: for these, what is wrong by itself is
replaced by its default and the rest looked at. A key that nobody knows is told with the nearest that exists.
"""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from mta.config import checks, fields
from mta.config.document import Document, Key, dotted, read_document
from mta.config.find import state_folder
from mta.config.model import Config
from mta.config.problems import ConfigError, Problem

_EXPECTED = {
    "bool_type": "expected true or false",
    "int_type": "expected a whole number",
    "float_type": "expected a number",
    "finite_number": "expected a finite number",
    "model_type": "expected a table",
    "mapping_type": "expected a table",
    "dict_type": "expected a table",
    "greater_than_equal": "expected {ge} or more",
    "less_than_equal": "expected {le} or less",
    "less_than": "expected less than {lt}",
    "literal_error": "expected {expected}",
}
"""Of pydantic's kinds of error those that our models can give, in our words."""


def load(path: Path | None, environ: Mapping[str, str]) -> Config:
    """The configuration in the file, or the built-in defaults for None. `environ` decides where the state is kept by
    default. Raises `ConfigError`."""
    document = read_document(path)
    state = state_folder(environ)
    found, problems = _validated(document, _with_places(document.tables, state))
    sound = _without(document.tables, (key for key, _ in problems))
    known = found or _validated(document, _with_places(sound, state))[0]
    together = list(checks.contradictions(known)) if known else []
    if problems or together or found is None:
        own = [Problem(dotted(key), text, document.line(key)) for key, text in problems]
        raise ConfigError(document.source, own + [_located(document, problem) for problem in together])
    return found


def named(config: Config, hostname: str) -> Config:
    """The same with the name the machine gave, for a configuration that has none. Raises `ConfigError`: a name that
    nobody should be greeted with, or an alias that leads back to it."""
    try:
        renamed = config.model_copy(update={"hostname": fields.hostname(hostname)})
    except ValueError as error:
        advice = f"the machine's own name can't be used: {error}; set hostname in the configuration"
        raise ConfigError("hostname", [Problem("", advice)]) from None
    if problems := list(checks.contradictions(renamed)):
        raise ConfigError("hostname", problems)
    return renamed


def _with_places(tables: Mapping[str, Any], state: Path) -> dict[str, Any]:
    """The raw tables with the two defaults that depend on who runs this."""
    raw = deepcopy(dict(tables))
    for table, key, default in (
        ("spool", "url", f"sqlite:{state / 'spool.db'}"),
        ("control", "socket", str(state / "control.sock")),
    ):
        section = raw.setdefault(table, {})
        if isinstance(section, dict):
            section.setdefault(key, default)
    return raw


def _validated(document: Document, raw: Mapping[str, Any]) -> tuple[Config | None, list[tuple[Key, str]]]:
    try:
        return Config.model_validate(raw, context={"base": document.base}), []
    except ValidationError as error:
        return None, [(_key(item["loc"]), _expected(item)) for item in error.errors(include_url=False)]


def _located(document: Document, problem: Problem) -> Problem:
    return Problem(problem.key, problem.message, document.line(tuple(problem.key.split("."))))


def _key(location: Iterable[int | str]) -> Key:
    return tuple(part for part in location if part != "[key]")


def _expected(error: Any) -> str:
    if error["type"] == "extra_forbidden":
        return _unknown(error["loc"])
    if error["type"] == "too_short":  # no list of ours has another least length
        return "expected at least one"
    context = error.get("ctx", {})
    if error["type"] == "value_error":
        expected = str(context["error"])
        if isinstance(context["error"], fields.Unsaid):
            return expected
    else:
        expected = _EXPECTED.get(error["type"], error["msg"]).format_map(context)
    return f"{expected}, not {_shown(error['input'])}"


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, dict):
        return "a table"
    return "a list" if isinstance(value, list | tuple) else str(value)


def _unknown(location: tuple[int | str, ...]) -> str:
    """Names the same key of another table, else the nearest of this table, else all that may stand here."""
    *outer, last = (part for part in _key(location) if isinstance(part, str))
    here = [key[-1] for key in _KNOWN if key[:-1] == tuple(outer)]
    elsewhere = [key for key in _KNOWN if key[-1] == last]
    if elsewhere:
        nearest = min(elsewhere, key=len)
        return f"unknown key; did you mean {'.'.join(nearest)}?"
    if near := difflib.get_close_matches(last.lower(), here, 1, 0.7):
        return f"unknown key; did you mean {'.'.join([*outer, near[0]])}?"
    return f"unknown key; known here: {', '.join(here)}"


def _keys(table: type[BaseModel], outer: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every key that a configuration may have, tables included."""
    for name, info in table.model_fields.items():
        key = (*outer, info.alias or name)
        yield key
        for inner in (info.annotation, *get_args(info.annotation)):
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                yield from _keys(inner, key)


_KNOWN = tuple(_keys(Config))


def _without(raw: Mapping[str, Any], keys: Iterable[Key]) -> dict[str, Any]:
    """The tables without what stands at `keys`; of several tables of a name, without all of them."""
    kept = deepcopy(dict(raw))
    for key in keys:
        table: Any = kept
        for part in key[:-1]:
            inner = table.get(part, {})
            if not isinstance(inner, dict):
                table.pop(part, None)
                break
            table = inner
        else:
            table.pop(key[-1], None)
    return kept
