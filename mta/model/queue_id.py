"""Queue ids: 16 characters of Crockford's base32, upper case, ordered by time, never reused (interface.md section 1).

80 bits: 43 of milliseconds since the epoch (until the year 2248), then 37 drawn by chance, so that daemons that share a
spool need not agree on anything. No clock and no chance here: both are given.
"""

_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
LENGTH = 16
RANDOM_BITS = 37
_TIME_BITS = 5 * LENGTH - RANDOM_BITS
_PAIRS = tuple(high + low for high in _DIGITS for low in _DIGITS)
_SHIFTS = tuple(range(5 * (LENGTH - 2), -1, -10))


def queue_id(milliseconds: int, chance: int) -> str:
    """`milliseconds` since the epoch; `chance` is `RANDOM_BITS` random bits."""
    value = (milliseconds % (1 << _TIME_BITS)) << RANDOM_BITS | chance % (1 << RANDOM_BITS)
    return "".join([_PAIRS[value >> shift & 1023] for shift in _SHIFTS])


def is_queue_id(text: str) -> bool:
    return len(text) == LENGTH and all(character in _DIGITS for character in text)
