"""Unix sockets as files: their modes, and those of their folders, whatever the umask."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from mta.unix_socket import FOLDER_MODE, SocketTaken, UnixSocket, listening


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def made(path: Path) -> UnixSocket:
    found = listening(path, "a socket", 0o660, 1)
    found.sock.close()
    return found


@pytest.fixture(params=[0o077, 0o000], ids=["umask 077", "umask 0"], autouse=True)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def test_its_group_gets_to_it_and_nobody_else(tmp_path: Path) -> None:
    """Through every folder that was missing."""
    path = tmp_path / "run" / "mta" / "submit.sock"
    made(path)
    assert mode(path) == 0o660
    assert [mode(folder) for folder in (path.parent, path.parent.parent)] == [FOLDER_MODE] * 2 == [0o750] * 2


def test_a_folder_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    tmp_path.chmod(0o711)
    made(tmp_path / "submit.sock")
    assert mode(tmp_path) == 0o711
    assert os.listdir(tmp_path) == ["submit.sock"], "its draft is gone"


def test_a_folder_that_can_t_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(SocketTaken, match=r"a socket .*/run/mta/s: (File exists|Not a directory)"):
        made(tmp_path / "run" / "mta" / "s")


def test_what_another_has_put_there_since_is_not_taken_away(tmp_path: Path) -> None:
    path = tmp_path / "submit.sock"
    first = made(path)
    made(path)
    first.remove()
    assert path.exists()
