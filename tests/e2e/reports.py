"""A DSN as a second parser reads it (Python's email package)."""

from email import message_from_bytes, policy
from email.message import EmailMessage, Message
from typing import cast

from tests.support import mx

LINE_LIMIT = 998


def parsed(taken: mx.Message) -> EmailMessage:
    assert all(len(line) <= LINE_LIMIT for line in taken.raw.split(b"\r\n"))
    assert taken.raw.isascii()
    message = message_from_bytes(taken.content, policy=policy.default)
    assert not message.defects and not any(part.defects for part in message.walk())
    return message


def delivery_status(taken: mx.Message) -> list[Message]:
    """The groups of the report's second part: the message's, then one for each recipient."""
    report = parsed(taken)
    assert report.get_content_type() == "multipart/report"
    second = list(report.iter_parts())[1]
    assert second.get_content_type() == "message/delivery-status"
    return [cast(Message, group) for group in second.get_payload()]
