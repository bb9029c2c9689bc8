"""What the demo prints: prose, conversations, commands with their output, mails. Colours only where a terminal shows them.

Rules: nothing is longer than the terminal but what a command printed, which is shown as it is; text from outside is safe
before it comes here, or is made so here.
"""

import textwrap
from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from mta.model.text import safe_text

WIDEST = 96
"""Columns of prose, however wide the terminal is."""


class Page:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._width = min(console.width, WIDEST)

    def title(self, text: str) -> None:
        self._line(text, "bold")
        self._line("=" * len(text), "bold")

    def heading(self, text: str) -> None:
        self._line("")
        self._line("")
        self._line(text, "bold yellow")
        self._line("-" * len(text), "yellow")

    def prose(self, text: str, style: str = "") -> None:
        """A paragraph, with an empty line before it."""
        self._line("")
        for line in textwrap.wrap(text, self._width, break_long_words=False, break_on_hyphens=False):
            self._line(line, style)

    def gap(self) -> None:
        self._line("")

    def said(self, who: str, line: str) -> None:
        """A line of an SMTP conversation."""
        self._line(f"  {who:8}{safe_text(line)}", "cyan" if who == "program" else "green")

    def happened(self, seconds: float, what: str) -> None:
        """One fact, so many seconds after the message was accepted."""
        first = f"  {seconds:4.1f} s  "
        for line in textwrap.wrap(safe_text(what), self._width - len(first), break_on_hyphens=False):
            self._line(first + line)
            first = " " * len(first)

    def hint(self, words: str, meaning: str) -> None:
        """A command to try, and what it does."""
        self._console.print(Text.assemble("  ", (f"{words:15}", "bold"), meaning), soft_wrap=True)

    def command(self, words: str, output: str) -> None:
        """A command and what it printed."""
        self._line("")
        self._line(f"  $ {words}", "bold")
        self._quote(output.splitlines())

    def mail(self, caption: str, lines: Iterable[str]) -> None:
        self._line("")
        self._line(f"  {caption}", "italic")
        self._quote([safe_text(line) for line in lines])

    def _quote(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._line(f"  | {line}".rstrip(), "bright_black" if line.startswith("#") else "")

    def _line(self, text: str, style: str = "") -> None:
        self._console.print(Text(text, style), soft_wrap=True)
