"""Passwords and their hashes, by argon2 itself."""

import asyncio
import threading

import pytest
from argon2.exceptions import Argon2Error, VerificationError

from mta import passwords
from mta.config.problems import ConfigError
from mta.config.users import parse_users
from mta.passwords import AT_ONCE, WAITING, Argon2Passwords, fits, hash_password
from tests.config.test_users import HASH, UNUSABLE

LEAST = "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$aGFzaA"


@pytest.fixture(scope="module")
def hashed() -> str:
    return hash_password("pässwort")


def test_the_hash_is_what_the_users_file_takes(hashed: str) -> None:
    assert parse_users(f"ann:{hashed}", "users") == {"ann": hashed}
    assert hashed.startswith("$argon2id$") and "passwort" not in hashed


def test_a_password_fits_however_it_is_typed(hashed: str) -> None:
    """RFC 4616 section 2: one umlaut, or a letter and its dots."""
    assert fits("pässwort", hashed)
    assert fits("pa\u0308sswort", hashed)
    assert not fits("passwort", hashed)
    assert not fits("", hashed)
    assert not fits("x" * 100_000, hashed)


async def test_the_loop_runs_on_and_only_so_many_are_verified_at_once(
    hashed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, running, most = threading.Event(), [0], [0]
    lock = threading.Lock()

    def slow(password: str, _hashed: str) -> bool:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        gate.wait(20)
        with lock:
            running[0] -= 1
        return password == "right"

    monkeypatch.setattr(passwords, "fits", slow)
    site = Argon2Passwords()
    asked = [asyncio.create_task(site.fits("right", hashed)) for _ in range(AT_ONCE + WAITING)]
    await asyncio.sleep(0)
    assert await site.fits("right", hashed) is None, "there is no room for another"
    asked[-1].cancel()
    gate.set()
    assert all([await task for task in asked[:-1]])
    assert most[0] <= AT_ONCE
    assert await site.fits("wrong", hashed) is False, "there is room again"


def test_what_argon2_can_t_verify_is_refused_with_the_file() -> None:
    for bad in UNUSABLE:
        with pytest.raises(Argon2Error):
            fits("x", bad)
        with pytest.raises(ConfigError):
            parse_users(f"ann:{bad}", "users")
    for good in (LEAST, HASH):
        assert parse_users(f"ann:{good}", "users") == {"ann": good}
        assert not fits("x", good)


async def test_a_hash_that_is_none_is_an_error_and_no_answer() -> None:
    with pytest.raises(VerificationError):
        await Argon2Passwords().fits("x", "$argon2id$nonsense")
