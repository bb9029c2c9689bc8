"""Internationalised addresses: which characters a local part may have beyond ASCII, and domains in their two forms.

Rules: what a reader can't see, or what moves other letters, is no part of an address - controls, blanks, everything that
Unicode shows as nothing, non-characters; what is left is as it was given (no normalisation of local parts, RFC 6530 section
10.1). Domains are IDNA2008 (RFC 5890, 5891) with the case and width mapping of UTS 46, so `ß` stays itself. RFC 6531
section 3.3.
"""

import idna

_LIMIT = 253
"""Characters of a domain name without its final dot, RFC 1035 section 2.3.4 (255 octets on the wire)."""

_BLANKS = "\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_SHOWN_AS_NOTHING = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Default_Ignorable_Code_Point of Unicode 15, which is stable, and the interlinear annotations."""
_NO_CHARACTERS = "\ud800-\udfff\ufdd0-\ufdef" + "".join(
    f"{chr(plane | 0xFFFE)}{chr(plane | 0xFFFF)}" for plane in range(0, 0x110000, 0x10000)
)

BEYOND_ASCII = rf"[^\x00-\x9f{_BLANKS}{_SHOWN_AS_NOTHING}{_NO_CHARACTERS}]"
"""A regular expression for one character: RFC 6531's UTF8-non-ascii, less what could fool a reader."""


def a_labels(domain: str) -> str:
    """`domain` as name servers know it: in lower case, its U-labels as A-labels; an ASCII one is not looked at. Raises
    `ValueError` with the reason."""
    if domain.isascii():
        return domain.lower()
    if len(domain) > _LIMIT:  # the A-label form is longer still
        raise ValueError(f"longer than {_LIMIT} characters")
    try:
        return idna.encode(domain, uts46=True).decode("ascii").lower()
    except UnicodeError as error:
        raise ValueError(f"no internationalized domain name ({error})") from None


def u_labels(domain: str) -> str:
    """`domain` as people read it, from its A-labels. Raises `ValueError` where one of them is none."""
    return idna.decode(domain)
