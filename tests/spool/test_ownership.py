"""One daemon owns a spool; its files are private; what is not ours to write is named."""

import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mta.spool.base import SpoolBusy, SpoolError
from tests.spool.house import House
from tests.spool.making import message, put

NOBODY = 65534


async def test_a_second_owner_is_refused_by_name_and_process(house: House) -> None:
    spool = await house.open()
    with pytest.raises(SpoolBusy, match=f"{house.path}.*process {os.getpid()}"):
        await house.open()
    await put(spool, message(1))  # the first is not disturbed
    assert await (await house.reopen()).show(message(1).queue_id) is not None


async def test_a_lock_left_by_a_crash_holds_nobody_up(house: House) -> None:
    house.path.with_name("spool.db.lock").write_text("1\n")
    await house.open()


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
async def test_files_are_private_whatever_the_umask(house: House, tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        spool = await house.open(path=tmp_path / "state" / "mta" / "spool.db")
        await put(spool, message(1))
    finally:
        os.umask(before)
    folder = tmp_path / "state" / "mta"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    names = {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}
    assert names == dict.fromkeys(("spool.db", "spool.db-wal", "spool.db-shm", "spool.db.lock"), 0o600)


@pytest.fixture
def ordinary_folder() -> Iterator[Path]:
    """A folder of the user that the test runs as, who is nobody where the tests are run by root: root may write all."""
    root = os.geteuid() == 0
    with tempfile.TemporaryDirectory() as name:
        if root:
            os.chown(name, NOBODY, NOBODY)
            os.seteuid(NOBODY)
        try:
            yield Path(name)
        finally:
            if root:
                os.seteuid(0)
            Path(name).chmod(0o700)


@pytest.mark.parametrize("name", ["spool.db", "spool.db-wal", "spool.db-shm", "spool.db.lock"])
async def test_b46_a_file_that_is_not_writable_is_named(ordinary_folder: Path, name: str) -> None:
    house = House(ordinary_folder)
    await house.open()
    await house.close()
    (ordinary_folder / name).touch()
    (ordinary_folder / name).chmod(0o400)
    with pytest.raises(SpoolError, match=rf"{ordinary_folder / name} is not writable"):
        await house.open()
    (ordinary_folder / name).chmod(0o600)


async def test_b46_a_folder_that_is_not_writable_is_named(ordinary_folder: Path) -> None:
    ordinary_folder.chmod(0o500)
    with pytest.raises(SpoolError, match=rf"{ordinary_folder} is not writable"):
        await House(ordinary_folder).open()


async def test_b46_a_folder_that_can_not_be_made_is_named(house: House, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SpoolError, match=str(tmp_path / "file")):
        await house.open(path=tmp_path / "file" / "spool.db")
