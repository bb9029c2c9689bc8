"""What libraries log, as facts: one line, without a traceback.

Rules: a record of a library below WARNING is no fact of ours. An exception is named by class and message and gets an
error id; its traceback goes out apart, as one escaped line, only for debugging. A record from another thread is handed
to the loop, since observers belong to its thread.
"""

import asyncio
import logging
import threading
import traceback
from collections.abc import Callable

from mta.model.events import Trouble
from mta.model.text import safe_text

DETAIL_LIMIT = 1000
TRACEBACK_LIMIT = 20_000
"""Characters."""


class LibraryLog(logging.Handler):
    """Put it on the root logger, in the loop's thread. `error_id` gives a new one; `debug` lets tracebacks through."""

    def __init__(
        self,
        observer: Callable[[Trouble], None],
        loop: asyncio.AbstractEventLoop,
        error_id: Callable[[], str],
        *,
        debug: bool,
    ) -> None:
        super().__init__(logging.WARNING)
        self._observer = observer
        self._loop = loop
        self._error_id = error_id
        self._debug = debug
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        """Never raises, whatever the record holds."""
        if threading.get_ident() == self._thread:
            self._tell(record)
            return
        try:
            self._loop.call_soon_threadsafe(self._tell, record)
        except RuntimeError:  # the loop is closed: nobody is there to be told
            return

    def _tell(self, record: logging.LogRecord) -> None:
        severity = "error" if record.levelno >= logging.ERROR else "warning"
        what = f"{record.name}: {_message(record)}"
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            self._observer(Trouble(severity, what))
            return
        error_id = self._error_id()
        self._observer(Trouble(severity, f"{what} (error {error_id})", describe(error)))
        if self._debug:
            text = "".join(traceback.format_exception(error))
            self._observer(Trouble("debug", f"error {error_id}", safe_text(text, TRACEBACK_LIMIT)))


def describe(error: BaseException) -> str:
    """An exception in one line: class and message."""
    try:
        text = str(error)
    except Exception:  # a message that can't be made is no reason to fail
        text = ""
    return safe_text(f"{type(error).__name__}: {text}" if text else type(error).__name__, DETAIL_LIMIT)


def _message(record: logging.LogRecord) -> str:
    try:
        text = record.getMessage()
    except Exception:  # arguments that do not fit the format
        text = str(record.msg)
    return safe_text(text.partition("\n")[0], DETAIL_LIMIT)
