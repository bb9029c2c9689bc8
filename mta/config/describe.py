"""What a configuration means, for a person: each key's effective value in words, with its unit."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from mta.config.model import Config, Table
from mta.config.routes import in_words
from mta.model.text import safe_text
from mta.model.units import duration_in_words, format_size

_PLAIN = frozenset(
    {
        "port",
        "max_recipients",
        "burst",
        "recipients_burst",
        "max_connections",
        "first_sessions",
        "max_sessions",
        "max_sessions_per_destination",
        "messages_per_session",
        "max_attempts",
        "max_own_hops",
        "factor",
        "jitter",
        "pending",
        "urgent_reserve",
        "bulk_share",
    }
)
"""Numbers that are no durations."""
_NOTHING = {
    "hostname": "the machine's full name, asked for at the start",
    "postmaster": "nobody",
    "aliases": "all local mail goes to the postmaster",
    "nameservers": "the system's",
    "local_domains": "none but hostname and localhost",
    "allow": "nobody",
    "users_file": "nobody can log in",
    "client": "all clients may do the same",
    "command": "none",
    "webhook": "none",
    "certificate": "none: no TLS",
    "key": "none",
    "proxy_protocol_from": "nobody",
    "destination": "all are treated alike",
    "route": "all mail goes to the servers of its domain",
    "dkim": "nothing is signed",
    "source": "as the system chooses",
}
_ZERO = {
    "max_attempts": "no limit but the age",
    "warn_after": "never",
    "deadline": "none",
    "pending": "never",
    "urgent": "never",
    "normal": "never",
    "bulk": "never",
    "keep": "no address is suppressed but by `mta suppression add`",
}


def effective(config: Config) -> Iterator[tuple[str, str]]:
    """(key, value in words) of every key, in the order of the models."""
    for name, info in type(config).model_fields.items():
        if name == "class_tables":
            yield from _classes(config)
        else:
            yield from _entries(info.alias or name, getattr(config, name))


def _classes(config: Config) -> Iterator[tuple[str, str]]:
    for mail_class, policy in config.classes.items():
        for name in type(policy).__slots__:
            yield f"class.{mail_class.label}.{name}", _words(name, getattr(policy, name))


def _entries(key: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, Table):
        for name, info in type(value).model_fields.items():
            yield from _entries(f"{key}.{info.alias or name}", getattr(value, name))
    elif isinstance(value, tuple) and value and isinstance(value[0], Table):
        for number, table in enumerate(value, 1):
            yield from _given(f"{key}[{number}]", table)
    elif isinstance(value, Mapping) and value:
        for name, targets in value.items():
            yield f"{key}.{name}", _words(key, targets)
    else:
        yield key, _words(key.rpartition(".")[2], value)


def _given(key: str, table: Table) -> Iterator[tuple[str, str]]:
    """Of one of several tables of a name what stands in it."""
    for name in (name for name in type(table).model_fields if name in table.model_fields_set):
        value = getattr(table, name)
        is_rate = name in ("messages", "recipients", "rate")
        yield f"{key}.{name}", f"{value[0]} in {duration_in_words(value[1])}" if is_rate else _words(name, value)


def _words(name: str, value: object) -> str:
    if name == "via" and isinstance(value, tuple):
        return safe_text(in_words(value))
    if value is None or value == () or value == {}:
        return _NOTHING[name]
    if not value and name in _ZERO:
        return _ZERO[name]
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return _number(name, value)
    if isinstance(value, Path) and name == "url":
        return safe_text(f"sqlite:{value}")
    return _listed(value) if isinstance(value, tuple) else safe_text(str(value))


def _number(name: str, value: float) -> str:
    if name.endswith("_size") or name == "min_free":
        return format_size(int(value))
    if name == "socket_mode":
        return f"{int(value):04o}"
    return str(value) if name in _PLAIN else duration_in_words(value)


def _listed(values: Sequence[object]) -> str:
    return safe_text(", ".join(map(str, values)))
