import dns.name
import pytest

from mta.dns.names import BadName, absolute_name, in_text


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("Example.TEST", "example.test."),
        ("bücher.example", "xn--bcher-kva.example."),
        ("BÜCHER.example", "xn--bcher-kva.example."),
        ("xn--bcher-kva.example", "xn--bcher-kva.example."),
        ("faß.example", "xn--fa-hia.example."),
        ("_25._tcp.mx.example", "_25._tcp.mx.example."),
        (".".join(["a" * 63] * 3 + ["b" * 61]), ".".join(["a" * 63] * 3 + ["b" * 61]) + "."),
    ],
)
def test_b38_what_is_asked_for(text: str, asked: str) -> None:
    assert absolute_name(text) == dns.name.from_text(asked).to_wire()
    assert f"{in_text(absolute_name(text))}." == asked


def test_b19_the_root_has_no_text() -> None:
    assert in_text(b"\0") == ""


def test_a_label_with_a_dot_inside_looks_like_no_two() -> None:
    assert in_text(b"\3a.b\4test\0") == r"a\.b.test"
    assert in_text(b"\1a\1\xff\0") == r"a.\255"


@pytest.mark.parametrize(
    "text",
    ["", ".", "a..b", "example.test.", f"{'a' * 64}.example", "a." * 126 + "ab", "-x.example", "x-.example", "a b.example",
     "a\\.b", "[127.0.0.1]", "@", "a@b", "a\0.example", "a.example\n", "☃.example", "ü..example", "ü." * 200, "ü" * 100_000,
     "例え。テスト。", f"{'ü' * 60}.example", "\ud800.example"],
)  # fmt: skip
def test_b25_what_cannot_be_asked_for(text: str) -> None:
    with pytest.raises(BadName):
        absolute_name(text)
