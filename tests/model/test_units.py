"""Durations and sizes as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta.model.units import (
    DURATION_LIMIT,
    duration_in_words,
    format_duration,
    format_size,
    parse_duration,
    parse_size,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("300ms", 0.3),
        ("90s", 90),
        ("5m", 300),
        ("4h", 14400),
        ("5d", 432000),
        ("0s", 0),
        ("1.5h", 5400),
        ("3650d", 315360000),
    ],
)
def test_a_duration_is_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", "5", "5 days", "5 d", " 5d", "5d ", "-1s", "5D", "1h30m", "m", ".5h", "5.h", "1e3s", "٣s", "5d\n", "9999d", "∞d"],
)
def test_B52_what_is_no_duration_is_refused_with_what_was_expected(text: str) -> None:
    with pytest.raises(ValueError, match="expected a duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "octets"), [("512KiB", 524288), ("25MiB", 26214400), ("1GiB", 2**30), ("7B", 7), ("1.5KiB", 1536)]
)
def test_a_size_is_read(text: str, octets: int) -> None:
    assert parse_size(text) == octets


@pytest.mark.parametrize("text", ["", "25", "25MB", "25 MiB", "-1KiB", "25mib", "1e3KiB", "9999999999GiB"])
def test_B52_what_is_no_size_is_refused_with_what_was_expected(text: str) -> None:
    with pytest.raises(ValueError, match="expected a size"):
        parse_size(text)


@given(st.integers(0, int(DURATION_LIMIT * 1000)))
def test_a_formatted_duration_reads_back(milliseconds: int) -> None:
    assert round(parse_duration(format_duration(milliseconds / 1000)) * 1000) == milliseconds


@given(st.integers(0, 2**40))
def test_a_formatted_size_reads_back(octets: int) -> None:
    assert parse_size(format_size(octets)) == octets


def test_durations_in_words_have_their_unit() -> None:
    assert [duration_in_words(seconds) for seconds in (0, 1, 0.3, 300, 5400, 86400 * 5)] == [
        "0 seconds",
        "1 second",
        "300 milliseconds",
        "5 minutes",
        "90 minutes",
        "5 days",
    ]
