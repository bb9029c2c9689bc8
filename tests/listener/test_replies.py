"""Replies on the wire."""

from hypothesis import given
from hypothesis import strategies as st

from mta.listener.replies import lines, wire
from mta.model.reply import Reply


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=2000))
def test_lin18_ext02_long_text_is_split_and_every_line_has_both_codes(text: str) -> None:
    parts = wire(Reply(554, "5.6.0", text)).split(b"\r\n")
    assert parts.pop() == b""
    assert all(len(part) <= 510 for part in parts)
    assert [part[:10] for part in parts] == [b"554-5.6.0 "] * (len(parts) - 1) + [b"554 5.6.0 "]
    assert b"".join(part[10:] for part in parts).decode() == text


def test_ses02_a_reply_without_enhanced_code() -> None:
    assert lines(Reply(250, None, ""), ["mail.out.test", "HELP"]) == b"250-mail.out.test\r\n250 HELP\r\n"
    assert wire(Reply(220, None, "mail.out.test")) == b"220 mail.out.test\r\n"
