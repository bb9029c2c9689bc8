"""Bare CRs and LFs are found wherever they stand."""

import itertools
import re

import pytest

from mta.model.line_ends import has_bare

BARE = re.compile(rb"\r(?!\n)|(?<!\r)\n")


@pytest.mark.parametrize("length", range(7))
def test_every_short_text(length: int) -> None:
    for letters in itertools.product(b"\r\na\xff", repeat=length):
        text = bytes(letters)
        assert has_bare(text) is bool(BARE.search(text)), text
        assert has_bare(text, complete=False) is bool(BARE.search(text.removesuffix(b"\r"))), text


@pytest.mark.parametrize("bare", [b"\r", b"\n"])
def test_one_among_many(bare: bytes) -> None:
    lines = b"x" * 70 + b"\r\n"
    assert not has_bare(lines * 1000)
    assert has_bare(lines * 999 + bare + lines)
