"""What a transaction may say to this server: MAIL parameters, recipients at a time (RFC 5321 section 4.1.1.11, RFC 1870,
RFC 6152, RFC 9422).

Rules: a parameter is sent only where its keyword is offered; content that the server can't take is refused here, before
MAIL; a limit that is malformed is none.
"""

import re
from collections.abc import Mapping, Sequence

from mta.model.outcome import Disposition, Phase, Scope, Verdict
from mta.model.reply import finding

RECIPIENTS = 100
"""Per transaction, unless the server takes fewer (RFC 5321 section 4.5.3.1.8)."""

_NUMBER = re.compile(r"[0-9]{1,20}\Z")
_RCPTMAX = re.compile(r"(?:.* )?RCPTMAX=([1-9][0-9]{0,5})(?: .*)?\Z", re.IGNORECASE)
_DROPPABLE = ("SIZE=",)


def mail_parameters(extensions: Mapping[str, str], size: int, eight_bit: bool) -> tuple[str, ...] | Verdict:
    """The parameters of MAIL for content of `size` octets; or why the content is not for this server: 5.3.4 larger than
    its limit (RFC 1870 section 6), 5.6.3 eight-bit where 8BITMIME is not offered (RFC 6152 section 3)."""
    limit = _size_limit(extensions.get("SIZE", ""))
    if limit and size > limit:
        return _refusal("5.3.4", f"the message has {size} octets, the server takes {limit}")
    if eight_bit and "8BITMIME" not in extensions:
        return _refusal("5.6.3", "the message has 8-bit content, the server takes 7-bit alone")
    declared = (f"SIZE={size}",) if "SIZE" in extensions else ()
    return (*declared, "BODY=8BITMIME") if eight_bit else declared


def droppable(parameters: Sequence[str]) -> bool:
    """Whether some of them may be left out (Table A, 555)."""
    return any(it.startswith(_DROPPABLE) for it in parameters)


def required_only(parameters: Sequence[str]) -> tuple[str, ...]:
    """Those without which the content may not be sent."""
    return tuple(it for it in parameters if not it.startswith(_DROPPABLE))


def recipients_per_transaction(extensions: Mapping[str, str]) -> int:
    """How many RCPT go into one transaction; RFC 9422's RCPTMAX where it is lower."""
    match = _RCPTMAX.match(extensions.get("LIMITS", ""))
    return min(int(match[1]), RECIPIENTS) if match else RECIPIENTS


def _size_limit(value: str) -> int:
    """0: none (RFC 1870 section 4)."""
    return int(value) if _NUMBER.match(value) else 0


def _refusal(status: str, text: str) -> Verdict:
    return Verdict(Disposition.PERMANENT, Scope.TRANSACTION, status, finding(status, text), Phase.MAIL)
