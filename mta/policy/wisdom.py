"""What a refusal means beyond its digit: the category of a reply.

Rules: what is done with mail never depends on it (Table A), but for how long greylisting is waited out. A delivery has
none. What receivers say outweighs the status they say it with, since many give 5.7.1 or 5.1.1 for everything, but for
statuses that nobody gives by chance. What is about a recipient counts only where one was named. Total; the time it takes
is bounded by `TEXT_LIMIT`, whatever the text.
"""

import re

from mta.model.category import Category
from mta.model.outcome import Phase
from mta.model.reply import Reply
from mta.policy.wisdom_table import BY_CODE, PHRASES, TELLING, TRUSTED

TEXT_LIMIT = 300
"""Characters that are looked at: what a refusal is about stands at its beginning."""

_PHRASES = tuple((category, re.compile(f"(?<![a-z])(?:{'|'.join(phrases)})")) for category, phrases in PHRASES)
"""A phrase begins where a word does: so most places are passed over at once."""
_ADDRESS = re.compile(r"<[^<>]{0,320}>|[^\s<>@\"]{1,64}@[^\s<>@\"]{1,255}")
"""A mailbox may be called anything."""
_OF_RECIPIENT = frozenset({Category.NO_SUCH_USER, Category.MAILBOX_FULL, Category.MAILBOX_DISABLED})
_RECIPIENT_PHASES = frozenset({Phase.RCPT, Phase.DATA, Phase.BODY, Phase.FINAL})


def category(reply: Reply, phase: str) -> Category:
    """Of a reply, or of a finding of ours, that came in `phase` ("": not known) and took no mail."""
    if reply.code is None:
        return _of_finding(reply.enhanced or "", phase)
    if reply.code // 100 not in (4, 5):
        return Category.UNKNOWN
    detail = reply.status[2:]
    text = f"{reply.code} " + _ADDRESS.sub("<>", reply.text[:TEXT_LIMIT].lower())
    said = TELLING.get(detail) or _worded(text, reply.code, phase) or TRUSTED.get(detail)
    if said and _fits(said, reply.code, phase):
        return said
    if reply.code == 552 and phase == Phase.RCPT:  # before any content it is about the mailbox (RFC 5321 section 4.2.3)
        return Category.MAILBOX_FULL
    return BY_CODE.get(reply.code, Category.UNKNOWN)


def _worded(text: str, code: int, phase: str) -> Category:
    fitting = (it for it, phrases in _PHRASES if _fits(it, code, phase) and phrases.search(text))
    return next(fitting, Category.UNKNOWN)


def _fits(said: Category, code: int, phase: str) -> bool:
    if said is Category.GREYLISTING:
        return code // 100 == 4
    return said not in _OF_RECIPIENT or not phase or phase in _RECIPIENT_PHASES


_FINDINGS = {
    "1.2": Category.NO_SUCH_DOMAIN,
    "1.10": Category.NO_SUCH_DOMAIN,
    "3.4": Category.SIZE,
    "4.1": Category.UNAVAILABLE,
    "4.2": Category.UNAVAILABLE,
    "4.3": Category.UNAVAILABLE,
    "5.0": Category.UNAVAILABLE,
}


def _of_finding(enhanced: str, phase: str) -> Category:
    detail = enhanced[2:]
    if phase == Phase.FINAL:  # in doubt, which is no refusal
        return Category.UNKNOWN
    if detail.startswith("7.") or phase in (Phase.STARTTLS, Phase.TLS):
        return Category.TLS
    return _FINDINGS.get(detail, Category.UNKNOWN)
