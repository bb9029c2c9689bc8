"""Replies as octets (RFC 5321 sections 4.2 and 4.5.3.1.5; RFC 2034 section 4)."""

from mta.model.reply import Reply

TEXT_LIMIT = 480
"""Characters of text on one line, so that the line stays below 512 octets with its code and CRLF."""


def wire(reply: Reply) -> bytes:
    """A reply whose text is ASCII; one too long for a line gets several."""
    text = reply.text
    if len(text) <= TEXT_LIMIT:
        return f"{reply.code} {reply.enhanced} {text}\r\n".encode("ascii") if reply.enhanced else lines(reply, [text])
    return lines(reply, [text[at : at + TEXT_LIMIT] for at in range(0, len(text), TEXT_LIMIT)])


def lines(reply: Reply, texts: list[str]) -> bytes:
    """A reply of several lines, each with the code and the enhanced code; `texts` stand in for the reply's own."""
    status = f"{reply.enhanced} " if reply.enhanced else ""
    *continued, last = [f"{status}{text}\r\n" for text in texts]
    return "".join([*[f"{reply.code}-{text}" for text in continued], f"{reply.code} {last}"]).encode("ascii")
