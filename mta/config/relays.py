"""Relays as the configuration names them: text in, checked values out.

Rules: those of `config.fields`. Apart from `config.places`, since `mta sendmail` reads doors and no relay.
"""

import re
from urllib.parse import unquote

from mta.config.fields import Unsaid, is_ip
from mta.config.paths import text
from mta.config.places import port
from mta.policy.destinations import Relay

_VIA = re.compile(
    r"(?P<scheme>smtps?)://(?:(?P<user>[!-?A-~]{1,320})@)?(?P<host>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?/?\Z",
    re.IGNORECASE,
)
_HOST_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)*\Z", re.I)


def via(value: object) -> Relay | None:
    """`smtp://[user@]host[:port]` (TLS by STARTTLS), `smtps://` (TLS from the first octet), or `mx`, which is None."""
    given = text(value)
    if given == "mx":
        return None
    parts = _VIA.match(given)
    if parts is None or not _is_relay_host(parts["host"]):
        raise ValueError('expected "smtp://user@relay.example.net:587", "smtps://..." or "mx"')
    if ":" in (parts["user"] or ""):
        raise Unsaid('expected no password in a URL: it belongs into a file that the key "password" names')
    user = unquote(parts["user"] or "")
    if not user.isprintable() or "\ufffd" in user:
        raise ValueError("expected a user of printable characters, in UTF-8 where they are percent-encoded")
    implicit = parts["scheme"].lower() == "smtps"
    number = port(parts["port"]) if parts["port"] else (465 if implicit else 587)
    return Relay(parts["host"].strip("[]").lower(), number, user, implicit)


def _is_relay_host(given: str) -> bool:
    if given.startswith("["):
        return is_ip(given[1:-1])
    return is_ip(given) or (_HOST_NAME.match(given) is not None)
