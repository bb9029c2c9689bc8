"""Replies as octets (RFC 5321 sections 4.2 and 4.5.3.1.5; RFC 2034 section 4)."""

from mta.model.reply import Reply

TEXT_LIMIT = 480
"""Characters of text on one line, so that the line stays below 512 octets with its code and CRLF."""


def wire(reply: Reply) -> bytes:
    """A reply whose text is ASCII; one too long for a line gets several."""
    text, status = reply.text, f"{reply.enhanced} " if reply.enhanced else ""
    if len(text) <= TEXT_LIMIT:
        return f"{reply.code} {status}{text}\r\n".encode("ascii")
    return lines(reply, [text[at : at + TEXT_LIMIT] for at in range(0, len(text), TEXT_LIMIT)])


def lines(reply: Reply, texts: list[str]) -> bytes:
    """A reply of several lines, each with the code and the enhanced code; `texts` stand in for the reply's own."""
    status = f"{reply.enhanced} " if reply.enhanced else ""
    continued = "".join([f"{reply.code}-{status}{text}\r\n" for text in texts[:-1]])
    return f"{continued}{reply.code} {status}{texts[-1]}\r\n".encode("ascii")
