"""Replies as octets (RFC 5321 sections 4.2 and 4.5.3.1.5; RFC 2034 section 4)."""

from mta.model.reply import Reply

TEXT_LIMIT = 480
"""Characters of text on one line, so that the line stays below 512 octets with its code and CRLF."""


def wire(reply: Reply) -> bytes:
    """A reply whose text is ASCII; one too long for a line gets several."""
    text = reply.text
    return lines(reply, [text[at : at + TEXT_LIMIT] for at in range(0, max(len(text), 1), TEXT_LIMIT)])


def lines(reply: Reply, texts: list[str]) -> bytes:
    """A reply of several lines, each with the code and the enhanced code; `texts` stand in for the reply's own."""
    status = f"{reply.enhanced} " if reply.enhanced else ""
    marks = "-" * (len(texts) - 1) + " "
    return "".join(f"{reply.code}{mark}{status}{text}\r\n" for mark, text in zip(marks, texts, strict=True)).encode("ascii")
