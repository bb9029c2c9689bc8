"""Files that a configuration names, and what may stand in their place."""

import os
from pathlib import Path

import pytest

from mta.config import files
from mta.config.files import read_file


def test_a_file_is_read_whole_also_where_a_link_leads_to_it(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"octets")
    (tmp_path / "link").symlink_to("key")
    assert read_file(tmp_path / "key") == read_file(tmp_path / "link") == b"octets"


def test_what_would_be_waited_for_or_has_no_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(OSError, match="it is no regular file"):
            read_file(path)
    monkeypatch.setattr(files, "SIZE_LIMIT", 5)
    (tmp_path / "large").write_bytes(b"octets")
    with pytest.raises(OSError, match="too large"):
        read_file(tmp_path / "large")
