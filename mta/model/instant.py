"""An instant as programs read it: RFC 3339 in UTC with milliseconds."""

from datetime import UTC, datetime


def rfc3339(instant: float | None) -> str | None:
    """Seconds since the epoch as `2026-01-02T03:04:05.678Z`; None for none, and for what no calendar has."""
    if instant is None:
        return None
    try:
        moment = datetime.fromtimestamp(round(instant, 3), UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
