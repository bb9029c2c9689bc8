"""The users file: what is taken, what is refused and how it is named, how it is rewritten."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta.config.load import load
from mta.config.problems import ConfigError, Problem
from mta.config.users import NOBODY, Users, parse_users, read_users, with_user, without_user

HASH = "$argon2id$v=19$m=65536,t=3,p=4$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA"
OTHER = HASH.replace("c2Fs", "b3Ro")
UNUSABLE = [
    HASH.replace("m=65536", "m=31"), HASH.replace("t=3", "t=0"), HASH.replace("p=4", "p=0"), HASH.replace("m=65536", "m=0"),
    HASH.replace("$c2FsdHNhbHQ", "$c2Fs"), HASH.replace("$aGFzaGhhc2hoYXNoaGFzaA", "$aGFz"), f"{HASH}AAA",
    HASH.replace("m=65536", "m=065536"), f"{HASH[:-1]}B", f"{HASH[:-2]}B",
]  # fmt: skip
"""What looks like a hash, and argon2 can't verify."""


class File:
    """A configuration that names a users file beside it."""

    def __init__(self, folder: Path) -> None:
        self.path, self.config = folder / "users", folder / "mta.toml"
        self.config.write_text('[submission]\nusers_file = "users"\n')

    def read(self) -> Users:
        return read_users(load(self.config, {"HOME": "/home/ann"}))

    def problems(self) -> tuple[Problem, ...]:
        with pytest.raises(ConfigError) as caught:
            self.read()
        assert caught.value.source == str(self.path)
        return caught.value.problems


@pytest.fixture
def file(tmp_path: Path) -> File:
    return File(tmp_path)


def test_names_and_hashes_beside_comments(file: File) -> None:
    file.path.write_text(f"# who may submit\n\nshop:{HASH}\n  ann+x@example.com:{OTHER}  \n#old:{HASH}\n")
    file.path.chmod(0o640)
    users = file.read()
    assert users.hashes == {"shop": HASH, "ann+x@example.com": OTHER}
    assert not users.warnings
    assert HASH not in repr(users)


def test_without_the_key_there_are_none() -> None:
    assert read_users(load(None, {"HOME": "/home/ann"})) is NOBODY


def test_each_bad_line_is_named_with_its_file_and_line_and_without_its_hash(file: File) -> None:
    lines = [
        f"shop:{HASH}", "ann", f"a b:{HASH}", "bob:secret", f"shop:{OTHER}", f":{HASH}", f"{'x' * 65}:{HASH}",
        "md5:$1$abc$xyz", f"i:{HASH.replace('argon2id', 'argon2i')}", f"big:{HASH.replace('65536', '9999999')}",
        f"slow:{HASH.replace('t=3', 't=999')}", f"ann:{HASH}:x", ":", " : ", f"big2:{HASH.replace('65536', '65537')}",
        f"wide:{HASH.replace('p=4', 'p=17')}", *(f"u{number}:{hashed}" for number, hashed in enumerate(UNUSABLE)),
    ]  # fmt: skip
    file.path.write_text("\n".join(lines))
    file.path.chmod(0o600)
    problems = file.problems()
    assert [problem.line for problem in problems] == list(range(2, len(lines) + 1))
    text = "\n".join(str(problem) for problem in problems)
    assert "secret" not in text and "c2Fsd" not in text
    assert '"shop" is given twice' in text


def test_a_file_that_everybody_may_write_is_refused_and_read_warned_of(file: File) -> None:
    file.path.write_text(f"shop:{HASH}\n")
    file.path.chmod(0o646)
    [problem] = file.problems()
    assert "everybody may write it" in problem.message
    file.path.chmod(0o644)
    [warning] = file.read().warnings
    assert warning.key == "submission.users_file" and "everybody may read" in warning.message


def test_a_file_without_users_is_warned_of(file: File) -> None:
    file.path.write_text("# nobody yet\n\n")
    file.path.chmod(0o600)
    [warning] = file.read().warnings
    assert warning.key == "submission.users_file" and "nobody can log in" in warning.message


def test_a_file_that_is_not_there_or_no_text_is_refused(file: File) -> None:
    [problem] = file.problems()
    assert "mta user add" in problem.message
    file.path.write_bytes(b"\xff\xfe")
    file.path.chmod(0o600)
    [problem] = file.problems()
    assert "UTF-8" in problem.message
    file.path.unlink()
    file.path.mkdir()
    [problem] = file.problems()
    assert "can't be read" in problem.message


def test_a_rewrite_touches_one_line() -> None:
    text = f"# ours\nshop:{HASH}\n\nann:{HASH}"
    assert with_user(text, "shop", OTHER) == f"# ours\nshop:{OTHER}\n\nann:{HASH}\n"
    assert with_user(text, "bob", OTHER) == f"# ours\nshop:{HASH}\n\nann:{HASH}\nbob:{OTHER}\n"
    assert without_user(text, "shop") == f"# ours\n\nann:{HASH}\n"


@given(st.lists(st.tuples(st.sampled_from(["add", "remove"]), st.text("ab.@+-_9", min_size=1, max_size=3))))
def test_what_is_written_is_read_again(steps: list[tuple[str, str]]) -> None:
    text, expected = "# ours\n", {}
    for verb, name in steps:
        if verb == "add":
            text, expected[name] = with_user(text, name, HASH), HASH
        else:
            text = without_user(text, name)
            expected.pop(name, None)
    assert parse_users(text, "users") == expected
