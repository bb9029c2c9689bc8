"""The line of each key."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mta.config.document import Document, read_document
from mta.config.problems import ConfigError

TEXT = '''\
# [not.a.table]
a = 1
"b.c" = "[x]"  # d = 2
[t.u]
text = """
k = 1
[v]
"""
list = [
  "x = 1", # ]
  "[y]",
]
z = { p = 1, q = [1] }
w.'x' = \'\'\'
n = 3\'\'\'
[[many]]
m = 1
[[many]]
m = 2
'''


def test_each_key_has_the_line_it_begins_in(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text(TEXT)
    assert read_document(path).lines == {
        ("a",): 2,
        ("b.c",): 3,
        ("t", "u"): 4,
        ("t", "u", "text"): 5,
        ("t", "u", "list"): 9,
        ("t", "u", "z"): 13,
        ("t", "u", "w", "x"): 14,
        ("many",): 16,
        ("many", 0): 16,
        ("many", 0, "m"): 17,
        ("many", 1): 18,
        ("many", 1, "m"): 19,
    }


def test_a_key_without_a_line_of_its_own_has_its_table_s(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text(TEXT)
    document = read_document(path)
    assert document.line(("t", "u", "z", "p")) == 13
    assert document.line(("elsewhere",)) == 0


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(alphabet="[]{}='\"#\\\n a.1,", max_size=60))
def test_any_text_is_read_or_refused_as_a_configuration_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.toml"
    path.write_text(text)
    try:
        lines = read_document(path).lines.values()
    except ConfigError as error:
        lines = [problem.line for problem in error.problems]
    assert all(0 <= line <= text.count("\n") + 1 for line in lines)


def document(folder: Path, text: str) -> Document:
    (folder / "x.toml").write_text(text)
    return read_document(folder / "x.toml")


def test_B52_several_tables_of_a_name_have_lines_of_their_own(tmp_path: Path) -> None:
    text = '[[submission.client]]\nuser = "a"\n[[submission.client]]\nnull_sender = true\nuser = "b"\n'
    found = document(tmp_path, text)
    assert [found.line(("submission", "client", number, "user")) for number in (0, 1)] == [2, 5]
    assert found.line(("submission", "client")) == 1
    with pytest.raises(ConfigError) as caught:
        document(tmp_path, text + "user = x\n")
    assert [str(it) for it in caught.value.problems] == ["submission.client.user: is given twice, first in line 5"]
    with pytest.raises(ConfigError) as caught:
        document(tmp_path, text + "burst = x\n")
    assert [it.line for it in caught.value.problems] == [6], "the name that both have is not the mistake"
