"""Line ends of content: CRLF alone (RFC 5321 section 2.3.8)."""

import io

_SOUND = (None, "\r\n")


def has_bare(octets: bytes, *, complete: bool = True) -> bool:
    """Whether a CR or LF stands in `octets` that is not one of a CRLF. Not `complete`: more follows, and a CR at the end may
    become one. Every octet of mail passes here twice; counting them takes three times as long."""
    decoder = io.IncrementalNewlineDecoder(None, translate=False)
    decoder.decode(octets.decode("latin-1"), final=complete)
    return decoder.newlines not in _SOUND
