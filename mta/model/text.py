"""Text from outside, made safe: one conversion for logs, terminals, JSON and reports.

Rules: total (never raises), never yields a control character, a line separator, a surrogate or a character that
reorders a line. What is replaced stays readable as a backslash escape.
"""

import re

_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\ufff9-\ufffb]"
)


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def safe_text(text: str | bytes, limit: int = 0) -> str:
    """`text` as one line that is safe to print; undecodable octets become `\\xNN`. `limit` > 0 cuts to that many
    characters, the last of them an ellipsis."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "backslashreplace")
    text = _UNSAFE.sub(_escape, text)
    return text[: limit - 1] + "…" if limit and len(text) > limit else text


def ascii_text(text: str | bytes, limit: int = 0) -> str:
    """As `safe_text`, in ASCII alone: for SMTP replies and header fields."""
    return safe_text(safe_text(text).encode("ascii", "backslashreplace"), limit).replace("…", "~")
