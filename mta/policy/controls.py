"""The control fields of a submission: what a program asks of this daemon in the header section (interface.md section 3).

Rules: names are case-insensitive; a bad value is refused by the field's name; control fields are taken out before sending.
Those that say when a message is to be sent are read in `requests`. TLS-Required is for every server on the way, so it stays
(RFC 8689 section 3).
"""

from collections.abc import Iterator
from typing import NamedTuple

from mta.model.envelope import KEY_LIMIT, DoubtOrder, is_key
from mta.policy.header import Field, HeaderError, Section
from mta.policy.requests import DEADLINE, RELEASE

KEY_FIELDS = ("idempotency-key", "x-idempotency-key", "resend-idempotency-key")
"""The names that programs send the same thing under."""
IN_DOUBT_FIELD = "x-mta-in-doubt"
TLS_REQUIRED_FIELD = "tls-required"
CONTROL_FIELDS = frozenset({*KEY_FIELDS, IN_DOUBT_FIELD, DEADLINE.lower(), RELEASE.lower()})


class Controls(NamedTuple):
    """`key` names the logical email, "" without one; `in_doubt` overrides `delivery.in_doubt`; `tls_optional`: what its
    receivers demand of encryption is not to keep it back."""

    key: str = ""
    in_doubt: DoubtOrder = DoubtOrder.DEFAULT
    tls_optional: bool = False


NO_CONTROLS = Controls()
_READ = frozenset({*KEY_FIELDS, IN_DOUBT_FIELD, TLS_REQUIRED_FIELD})


def read_controls(section: Section) -> Controls:
    """Raises `HeaderError`."""
    if section.by_name.keys().isdisjoint(_READ):
        return NO_CONTROLS
    return Controls(_key(section), _in_doubt(section), _tls_optional(section))


def _key(section: Section) -> str:
    found = ""
    for field in _fields(section, KEY_FIELDS):
        name, text = _shown(field), field.text
        if found and text == found:
            continue
        if not is_key(text):
            raise HeaderError(f"Bad value in header field {name}: expected 1 to {KEY_LIMIT} ASCII characters, no blank")
        if found:
            raise HeaderError(f"Header field {name} differs from another that names the idempotency key")
        found = text
    return found


def _in_doubt(section: Section) -> DoubtOrder:
    orders = []
    for field in _fields(section, (IN_DOUBT_FIELD,)):
        text = field.text.lower()
        if text not in (DoubtOrder.RETRY, DoubtOrder.HOLD):
            raise HeaderError("Bad value in header field X-MTA-In-Doubt: expected retry or hold")
        orders.append(DoubtOrder(text))
    if len(set(orders)) > 1:
        raise HeaderError("Header field X-MTA-In-Doubt is given twice, with different values")
    return orders[0] if orders else DoubtOrder.DEFAULT


def _tls_optional(section: Section) -> bool:
    """Whether there is one field TLS-Required that says no; what says something else, or twice, says nothing."""
    return [field.text.lower() for field in section.named(TLS_REQUIRED_FIELD)] == ["no"]


def _fields(section: Section, names: tuple[str, ...]) -> Iterator[Field]:
    return (field for field in section.fields if field.name in names)


def _shown(field: Field) -> str:
    return field.name.title()
