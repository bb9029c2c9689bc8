"""Which class of mail gets the next free session: reserves, shares, turns (RFC 6710 section 5: three levels).

Rules: the highest class goes first, with two exceptions. Of a cap, a reserve is for urgent mail alone, so that it waits
for nobody up to there; it is rounded up, but two sessions at least stay outside, and a cap below three can't be parted.
And so that none waits for ever, normal and bulk mail that waits earns a part of a turn with every turn that begins, and
is owed one as soon as it has earned one, unless it has twice its part of the sessions already. The same rules hold for the
sessions of one destination and for all sessions together.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import ceil

from msgspec import Struct

from mta.model.envelope import MailClass

PARTED_FROM = 3
"""Sessions; with fewer there is no reserve."""
DEBT_LIMIT = 2.0
"""Turns; more is not owed, however long it could not be given."""
_ROUNDING = 1e-9
"""So that a share of 0.1 of 20 is 2, and ten turns of 0.1 are one, whatever floats make of it."""

CLASSES = tuple(MailClass)
Counts = Sequence[int]
"""By class."""
Waiting = Sequence[object]
"""By class, whatever is true where somebody waits."""
Turns = tuple[float, float, float]
"""What each class is owed, in turns; nothing is owed to urgent mail."""
NO_TURNS: Turns = (0.0, 0.0, 0.0)


class LaneRules(Struct, frozen=True):
    """`urgent_reserve` (0 to 0.9) and `bulk_share` (0 to 0.5): parts of the sessions, globally and of each destination."""

    urgent_reserve: float = 0.2
    bulk_share: float = 0.1


class Order(Struct, frozen=True):
    """The classes that may start a session now: those that are `owed` one, then the others, the highest first."""

    classes: tuple[MailClass, ...] = ()
    owed: tuple[MailClass, ...] = ()


NOBODY = Order()
_ALONE = [Order((it,)) for it in CLASSES]
"""Who waits alone is first, owed or not."""


@lru_cache(maxsize=1000)
def reserve(rules: LaneRules, cap: int) -> int:
    """The sessions of `cap` that only urgent mail may use."""
    if cap < PARTED_FROM:
        return 0
    return min(ceil(rules.urgent_reserve * cap - _ROUNDING), cap - 2)


def owed_sessions(rules: LaneRules, cap: int) -> int:
    """The sessions of `cap` up to which normal and bulk mail, each, are given the turns they are owed: twice their part, as
    turns don't end evenly. Without an end to it slow transactions would come to have all that is not reserved."""
    return ceil(2 * rules.bulk_share * cap - _ROUNDING) if cap >= PARTED_FROM else cap


def order(rules: LaneRules, cap: int, running: Counts, waiting: Waiting, turns: Turns) -> Order:
    """Who may start, with these sessions `running` of `cap`, and who is first."""
    urgent, normal, bulk = waiting
    of_urgent, of_normal, of_bulk = running
    ordinary = of_normal + of_bulk
    if of_urgent + ordinary >= cap:
        return NOBODY
    if not (normal or bulk) or ordinary >= cap - reserve(rules, cap):
        return _ALONE[MailClass.URGENT] if urgent else NOBODY
    if not (urgent or (normal and bulk)):  # mostly so, and asked several times for each message
        return _ALONE[MailClass.NORMAL if normal else MailClass.BULK]
    may = [it for it in CLASSES if waiting[it]]
    owed = [it for it in may if it is not MailClass.URGENT and _is_owed(rules, cap, running, turns, it)]
    owed.sort(key=lambda it: (running[it], it))
    return Order((*owed, *(it for it in may if it not in owed)), tuple(owed))


def _is_owed(rules: LaneRules, cap: int, running: Counts, turns: Turns, mail_class: MailClass) -> bool:
    return turns[mail_class] >= 1 - _ROUNDING and running[mail_class] < owed_sessions(rules, cap)


def after_turn(rules: LaneRules, turns: Turns, served: MailClass, waiting: Waiting) -> Turns:
    """What is owed when a turn of `served` has begun, `waiting` as it was before. A turn counts for the classes below it and
    its own, so that a share of 0.1 is one turn of ten, and all shares together are never everything."""
    owed = [0.0, 0.0]
    for place, it in enumerate((MailClass.NORMAL, MailClass.BULK)):
        if waiting[it]:
            earned = rules.bulk_share if it >= served else 0.0
            owed[place] = min(max(0.0, turns[it] + earned - (it is served)), DEBT_LIMIT)
    return 0.0, owed[0], owed[1]
