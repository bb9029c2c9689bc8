"""Passwords and their argon2 hashes (RFC 9106), the hashing done beside the event loop.

Rules: one takes 50 to 200 ms and 64 MiB, so at most `AT_ONCE` are verified at a time and at most `WAITING` wait; nothing
of a password or a hash is printed. What is typed is compared in one of Unicode's forms of it (RFC 4616 section 2, RFC
4013 section 2.2), so that two keyboards write the same password.
"""

import asyncio
import unicodedata
from concurrent.futures import ThreadPoolExecutor

from argon2 import PasswordHasher
from argon2.exceptions import VerifyMismatchError

AT_ONCE = 2
WAITING = 64
PASSWORD_LIMIT = 1024
"""Characters."""


def hash_password(password: str) -> str:
    """For the users file, with the library's present costs. Takes its time."""
    return PasswordHasher().hash(_prepared(password))


def fits(password: str, hashed: str) -> bool:
    """Takes its time. Raises what argon2 raises for a hash that is none, or without memory."""
    try:
        return len(password) <= PASSWORD_LIMIT and PasswordHasher().verify(hashed, _prepared(password))
    except VerifyMismatchError:
        return False


def _prepared(password: str) -> bytes:
    return unicodedata.normalize("NFKC", password).encode("utf-8", "surrogatepass")


class Argon2Passwords:
    """`ports.system.Passwords` by threads, which begin with the first password."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="passwords")
        self._asked = 0

    async def fits(self, password: str, hashed: str) -> bool | None:
        if self._asked >= AT_ONCE + WAITING:
            return None
        self._asked += 1
        answer = asyncio.get_running_loop().run_in_executor(self._threads, fits, password, hashed)
        answer.add_done_callback(self._answered)
        return await answer

    def _answered(self, _answer: "asyncio.Future[bool]") -> None:
        self._asked -= 1
