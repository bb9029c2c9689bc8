"""Content as it goes out after 354 (RFC 5321 sections 2.3.8, 4.1.1.4, 4.5.2). Sans-IO.

Rules: one dot before each line that begins with a dot, wherever the chunks are cut; a last line without CRLF gets one;
nothing else changes, and a bare CR or LF never leaves: what some servers take for a line end ends a message early.
"""

from mta.model.line_ends import has_bare

PIECE = 65536
"""Octets written at a time: a peer that takes so much in a write's timeout is slow, not dead."""


class DamagedContent(ValueError):
    """Content with a bare CR or LF: damage of our own, nothing of the chunk may go out."""


def check_line_ends(octets: bytes, *, complete: bool = False) -> None:
    """Raises `DamagedContent`. A CR at the end is sound where more follows, if `octets` are not `complete`."""
    if has_bare(octets, complete=complete):
        raise DamagedContent("content has a bare CR or LF")


class DotStuffer:
    """Chunks in, octets for the wire out; `finish` once at the end."""

    def __init__(self) -> None:
        self._at_line_start = True
        self._cr = b""

    def stuff(self, chunk: bytes) -> bytes:
        """A CR at the end is kept back until it is known what follows. Raises `DamagedContent`."""
        octets = self._cr + chunk
        check_line_ends(octets)
        self._cr = b"\r" if octets.endswith(b"\r") else b""
        octets = octets.removesuffix(b"\r")
        if not octets:
            return b""
        stuffed = octets.replace(b"\r\n.", b"\r\n..")
        if self._at_line_start and octets.startswith(b"."):
            stuffed = b"." + stuffed
        self._at_line_start = octets.endswith(b"\r\n")
        return stuffed

    def finish(self) -> bytes:
        """The CRLF that the last line lacks, if it does. Raises `DamagedContent` for a CR at the very end."""
        if self._cr:
            check_line_ends(self._cr, complete=True)
        return b"" if self._at_line_start else b"\r\n"
