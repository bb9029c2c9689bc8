"""The daemon put together: the only place that knows every part, and the only importer of uvloop."""

from mta.app.main import run

__all__ = ["run"]
