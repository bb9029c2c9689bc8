"""Signs what is sent, with the keys of the author's domain (RFC 6376 section 5).

Rules: over exactly the octets that go to this server, `t=` being the time of acceptance. The keys are those of the author's
domain, or of the nearest domain above it that has some: all of these. What is sent again after a doubt is signed as it was
then, or as little, so that it is the same octets; where a key of then is gone, with those of now, which is said. What can't
be signed waits: it never leaves unsigned, and is not refused.
"""

from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from msgspec import Struct

from mta.model.outcome import Disposition, Phase, Scope, Verdict
from mta.model.reply import finding
from mta.policy.dkim import Digest, Reading, signed_field, signed_octets, unsigned_field
from mta.policy.header import HeaderError
from mta.ports.system import Signer
from mta.spool.base import Claim

IN_MEMORY = 2**20
"""Octets of a content that is read once; a larger one is read again when it is sent."""
_NOTHING, _INSTEAD = "nothing", " instead of "


class Keyring:
    """The keys of all domains."""

    def __init__(self, keys: Iterable[Signer] = ()) -> None:
        self._by_name = {key.name: key for key in keys}
        self._by_domain: dict[str, list[Signer]] = {}
        for name, key in self._by_name.items():
            self._by_domain.setdefault(name.partition("/")[0], []).append(key)

    def __bool__(self) -> bool:
        return bool(self._by_name)

    @property
    def domains(self) -> frozenset[str]:
        """Those that have one."""
        return frozenset(self._by_domain)

    def of(self, author: str) -> list[Signer]:
        """Those for mail from a domain, none where no table fits."""
        while author and author not in self._by_domain:
            author = author.partition(".")[2]
        return self._by_domain.get(author, [])

    def named(self, names: str) -> list[Signer] | None:
        """Those that signed before; None where one of them is gone."""
        found = [self._by_name.get(name) for name in names.split(",")]
        keys = [key for key in found if key is not None]
        return keys if len(keys) == len(found) else None


class Signed(Struct, frozen=True):
    """`head` is what stands before the content, `keys` what is kept of it with the attempt; `chunks` all of what is sent."""

    head: bytes
    keys: str
    chunks: Callable[[], AsyncIterator[bytes]]


class Pieces:
    """Content that is in memory. An async generator would do the same, but the loop keeps book of each of those."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = iter(pieces)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        for piece in self._pieces:
            return piece
        raise StopAsyncIteration


@dataclass(slots=True)
class Signing:
    """`keyring` may be replaced at any time."""

    keyring: Keyring = field(default_factory=Keyring)

    def signs(self, claim: Claim) -> bool:
        """Whether there may be a signature on it."""
        return _signed_then(claim) != _NOTHING if claim.recipients[0].doubts else bool(self.keyring)

    async def sign(self, claim: Claim, size: int, chunks: Callable[[], AsyncIterator[bytes]]) -> Signed | Verdict:
        """`size` octets of content that `signs` is for; or why they can't be signed now."""
        keyring, then = self.keyring, _signed_then(claim)
        reading, kept = Reading(), list[bytes]()
        try:
            async for chunk in chunks():
                reading.feed(chunk)
                if size <= IN_MEMORY:
                    kept.append(chunk)
                elif reading.author is not None and not _keys(keyring, reading.author, then)[0]:
                    break
            digest = reading.finish()
        except HeaderError as error:
            return _unsigned(str(error))
        keys, told = _keys(keyring, reading.author or "", then)
        head = _head(digest, keys, claim.accepted_at)
        if isinstance(head, Verdict):
            return head
        return Signed(head, told, partial(Pieces, head, *kept) if kept else partial(_behind, head, chunks))


def _signed_then(claim: Claim) -> str | None:
    """The keys of the last doubt, None without one."""
    first = claim.recipients[0]
    return (first.signed.partition(_INSTEAD)[0] or _NOTHING) if first.doubts else None


def _keys(keyring: Keyring, author: str, then: str | None) -> tuple[list[Signer], str]:
    """Which sign, and what is told of them."""
    keys = keyring.named(then) if then is not None else None
    if keys is not None:
        return keys, then or ""
    keys = keyring.of(author)
    names = ",".join(key.name for key in keys)
    return keys, names if then is None else f"{names or _NOTHING}{_INSTEAD}{then}"


def _head(digest: Digest, keys: Iterable[Signer], at: float) -> bytes | Verdict:
    fields = []
    for key in keys:
        unsigned = unsigned_field(digest, key.name, key.algorithm, at)
        try:
            signature = key.sign(signed_octets(digest, unsigned))
        except Exception as error:  # the library's, whatever it is: this mail waits, no other is touched
            return _unsigned(f"the key {key.name} can't sign ({type(error).__name__})")
        fields.append(signed_field(unsigned, signature))
    return b"".join(fields)


async def _behind(head: bytes, chunks: Callable[[], AsyncIterator[bytes]]) -> AsyncIterator[bytes]:
    yield head
    async for chunk in chunks():
        yield chunk


def _unsigned(why: str) -> Verdict:
    """RFC 3463 section 3.8, X.7.5."""
    reply = finding("4.7.5", f"the message can't be signed: {why}")
    return Verdict(Disposition.TRANSIENT, Scope.TRANSACTION, "4.7.5", reply, Phase.MAIL)
