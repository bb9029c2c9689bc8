"""What the doctor found: a fact, and where it is bad what to do."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    OK = "ok"
    NOTE = "note"
    """Could not be looked at, or is of no harm by itself."""
    WARNING = "warning"
    """Some receivers will mind."""
    FAILURE = "failure"
    """Mail is refused for it, or does not leave."""


@dataclass(frozen=True, slots=True)
class Finding:
    """`about` is what was looked at ("SPF of example.com"), `what` what there is, `advice` what to do, "" where nothing
    is."""

    level: Level
    about: str
    what: str
    advice: str = ""
