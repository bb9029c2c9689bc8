"""The addresses in an address list: of To, Cc and Bcc, and of an argument (RFC 5322 sections 3.4 and 4.4).

Rules: an address is taken as it stands or not at all - nothing is repaired, decoded or guessed; one that is none names
its entry. Lenient where no other address could be meant: what stands before angle brackets is decoration, entries may be
empty. One pass and no recursion, since strangers may have written what ends up here: the standard library's parser
reads encoded words into addresses, and takes minutes for a field of commas.
"""

import re
from collections.abc import Iterator

from mta.model.address import AddressError, Flaw, parse_address, strip_source_route
from mta.model.text import safe_text

_TOKEN = re.compile(
    r"""[ \t\r\n]+ | "(?:[^"\\]|\\.)*" | \[[^\[\]\\]*\] | [<>,:;(] | [^ \t\r\n"\\<>,:;()\[\]]+""",
    re.DOTALL | re.VERBOSE,
)
_COMMENT_PART = re.compile(r"[^()\\]+|\\.|[()]", re.DOTALL)
_FOLD = re.compile(r"\r\n(?=[ \t])")
_LONGEST_SHOWN = 200


class AddressListError(ValueError):
    """An entry that is no address; the text names it, and is safe to print."""

    def __init__(self, entry: str, reason: str) -> None:
        super().__init__(f'"{safe_text(entry.strip(), _LONGEST_SHOWN)}" is no address: {reason}')


def addresses(text: str) -> Iterator[str]:
    """In their order, without names and comments; those of groups too. Raises `AddressListError`."""
    entry: list[str] = []
    in_group = in_brackets = False
    for part in _tokens(_FOLD.sub("", text)):
        if part in ("<", ">"):
            in_brackets = part == "<"  # an address in brackets may have a route, with commas and a colon
        if in_brackets or part not in (",", ":", ";"):
            entry.append(part)
        elif part == ":" and not in_group and _is_phrase(entry):
            in_group, entry = True, []
        elif part == "," or (part == ";" and in_group):
            yield from _address(entry)
            in_group, entry = in_group and part == ",", []
        else:
            raise AddressListError("".join([*entry, part]), f'what is "{part}" for?')
    if in_group:
        raise AddressListError("".join(entry), "the group is not ended by a semicolon")
    yield from _address(entry)


def check_address(text: str) -> str:
    """`text` itself. Raises `AddressError`: it is no mailbox (its domain may be missing)."""
    parse_address(text, utf8=True)
    return text


def _tokens(text: str) -> Iterator[str]:
    """Blanks, quoted strings, literals, marks and words; a comment is a blank."""
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise AddressListError(text[position:], "unbalanced quotes, brackets or comments")
        if match.group() == "(":
            position = _behind_comment(text, position)
            yield " "
        else:
            position = match.end()
            yield match.group()


def _behind_comment(text: str, start: int) -> int:
    """Comments nest."""
    depth = 0
    for part in _COMMENT_PART.finditer(text, start):
        depth += {"(": 1, ")": -1}.get(part.group(), 0)
        if not depth:
            return part.end()
    raise AddressListError(text[start:], "the comment has no end")


def _is_phrase(entry: list[str]) -> bool:
    text = "".join(entry).strip()
    return bool(text) and "@" not in text and "<" not in entry


def _address(entry: list[str]) -> Iterator[str]:
    """The address of an entry that is not empty."""
    text = "".join(entry).strip()
    if not text:
        return
    try:
        yield check_address(strip_source_route(_bracketed(entry)) if "<" in entry else text)
    except AddressError as error:
        raise AddressListError(text, str(error)) from None


def _bracketed(entry: list[str]) -> str:
    """What the one pair of angle brackets, at the entry's end, has in it."""
    marks = [part for part in entry if part in ("<", ">")]
    start, end = entry.index("<"), max(at for at, part in enumerate(entry) if part in ("<", ">"))
    if marks != ["<", ">"] or "".join(entry[end + 1 :]).strip():
        raise AddressError(Flaw.SYNTAX)
    return "".join(entry[start + 1 : end]).strip()
