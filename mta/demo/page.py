"""What the demo prints: prose, conversations, commands with their output, mails. Colours only where a terminal shows them.

Rules: prose is wrapped to the terminal; what was said or printed stands as it is, a line a line. Text from outside is
made safe here, or by the command that printed it.
"""

import textwrap
from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from mta.model.text import safe_text

WIDEST = 96
"""Columns of prose, however wide the terminal is."""


class Page:
    """On `console`, from top to bottom."""

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

    def prose(self, text: str) -> None:
        """A paragraph, with an empty line before it."""
        self._line("")
        for line in textwrap.wrap(text, self._width, break_long_words=False, break_on_hyphens=False):
            self._line(line)

    def gap(self) -> None:
        self._line("")

    def said(self, who: str, line: str) -> None:
        """A line of an SMTP conversation; what is wider than prose is folded."""
        text = f"  {who:8}{safe_text(line)}".rstrip()
        for part in textwrap.wrap(text, self._width, subsequent_indent=" " * 10) if len(text) > self._width else [text]:
            self._line(part, "cyan" if who == "program" else "green")

    def happened(self, seconds: float, heard: str, meaning: str, style: str) -> None:
        """One fact, so many seconds after the message was accepted."""
        self._line("")
        self._line(f"  {seconds:4.1f} s  {safe_text(heard)}")
        self._line(f"          -> {meaning}", style)

    def hint(self, words: str, meaning: str) -> None:
        """A command to try, and what it does."""
        self._console.print(Text.assemble("  ", (f"{words:12}", "bold"), meaning), soft_wrap=True)

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
            self._line(f"  | {line}".rstrip())

    def _line(self, text: str, style: str = "") -> None:
        self._console.print(Text(text, style), soft_wrap=True)
