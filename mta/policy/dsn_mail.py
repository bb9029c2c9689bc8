"""A DSN as the mail it is sent as (RFC 6522 section 3, RFC 3464 section 2, RFC 6533 section 4, RFC 3834 sections 3 and 5,
RFC 6758).

Rules: three parts - for people, for programs, the header section of the original, or all of it where that was asked for
(no RET is headers, RFC 3461 section 6.2). The envelope's null path is the caller's.
"""

from mta.policy import dsn_text
from mta.policy.compose import Stamp, head, octets, text_entity
from mta.policy.dsn import Dsn, delivery_status
from mta.policy.dsn_utf8 import header_entity, status_type


def compose_dsn(dsn: Dsn, stamp: Stamp) -> bytes:
    """The content, CRLF line ends; ASCII, unless the address that it goes to is not."""
    entities = [
        ["Content-Description: Notification", *text_entity(dsn_text.body(dsn, stamp.hostname))],
        [
            "Content-Description: Delivery report",
            *status_type(native=dsn.native),
            "",
            *delivery_status(dsn, stamp.hostname),
        ],
    ]
    if dsn.original_message:
        entities.append(["Content-Description: Your message", "Content-Type: message/rfc822", "", *dsn.original_message])
    elif dsn.original_header:
        description = "Content-Description: Header of your message"
        entities.append([description, *header_entity(dsn.original_header, native=dsn.native)])
    lines = [
        *head(stamp, dsn.to, dsn_text.subject(dsn), "auto-replied", dsn.message_id),
        *([f"MT-Priority: {dsn.priority}"] if dsn.priority else []),
        "Content-Type: multipart/report; report-type=delivery-status;",
        f'\tboundary="{stamp.boundary}"',
        "",
        "This is a delivery report in MIME format.",
    ]
    for entity in entities:
        lines += ["", f"--{stamp.boundary}", *entity]
    return octets([*lines, "", f"--{stamp.boundary}--"])
