"""The octets that go to one server for one claim: a pure function of the stored content, of what the server takes, and of
the keys that sign it, so that a retry after a doubt sends the same (RFC 1047, RFC 6152 section 3, RFC 6376 section 5.3).
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from msgspec import Struct

from mta.delivery.conversion import seven_bit
from mta.delivery.signing import Pieces, Signing
from mta.model.outcome import Verdict
from mta.policy.outline import Unencodable
from mta.policy.transaction import seven_bit_alone
from mta.policy.utf8 import Need, need
from mta.spool.base import Claim, ClaimedRecipient, Spool


class Letter(Struct, frozen=True):
    """`size` in octets as sent, without stuffing (RFC 1870 section 5); `chunks` begins anew with each call; `signed` names
    the keys, "" without any."""

    size: int
    eight_bit: bool
    chunks: Callable[[], AsyncIterator[bytes]]
    signed: str = ""


@dataclass(frozen=True, slots=True)
class Letters:
    """Makes them."""

    spool: Spool
    signing: Signing = field(default_factory=Signing)

    async def write(
        self, claim: Claim, recipients: Sequence[ClaimedRecipient], extensions: Mapping[str, str]
    ) -> Letter | Verdict:
        """For a server that offers `extensions`; or why it can't have this content."""
        content = partial(Pieces, claim.content) if claim.content else partial(self.spool.content, claim.queue_id)
        letter = Letter(claim.size, claim.eight_bit, content)
        if claim.eight_bit and "8BITMIME" not in extensions and _is_taken(claim, recipients, extensions):
            converted = await _converted(letter)
            if isinstance(converted, Verdict):
                return converted
            letter = converted
        if not self.signing.signs(claim):
            return letter
        signed = await self.signing.sign(claim, letter.size, letter.chunks)
        if isinstance(signed, Verdict):
            return signed
        return Letter(letter.size + len(signed.head), letter.eight_bit, signed.chunks, signed.keys)


def _is_taken(claim: Claim, recipients: Sequence[ClaimedRecipient], extensions: Mapping[str, str]) -> bool:
    """As far as SMTPUTF8 goes; else nothing will be sent here."""
    return "SMTPUTF8" in extensions or need(claim.reverse_path, recipients, message=claim.utf8) is Need.NOTHING


async def _converted(letter: Letter) -> Letter | Verdict:
    try:
        converted = await seven_bit(letter.chunks)
    except Unencodable as why:
        return seven_bit_alone(str(why))
    return Letter(converted.size, False, converted.chunks)
