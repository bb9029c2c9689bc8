"""Content that comes in counted chunks instead of behind DATA (RFC 3030 sections 2 and 4.2).

Rules: whatever a BDAT is answered, its octets are read first, and none of them is ever run as a command; a chunk that is
lost loses its message, so one BDAT that failed fails all that follow in its transaction. The last chunk leads where the
final dot leads.
"""

from mta.listener.chunking import Chunk, Chunks
from mta.listener.intake import Intake
from mta.listener.settings import ListenerSettings
from mta.listener.transaction import Transaction
from mta.model.reply import Reply
from mta.policy.trace import Client


def begin_chunk(chunk: Chunk, transaction: Transaction, intake: Intake, settings: ListenerSettings) -> Reply | None:
    """Makes a place for the first chunk of a message; or why this one is only thrown away."""
    if chunk.refusal is not None:
        return chunk.refusal
    if transaction.chunks is None:
        content = intake.buffer()
        if isinstance(content, Reply):
            return content
        transaction.chunks = Chunks(content, settings)
    return None


async def end_chunk(
    chunk: Chunk, transaction: Transaction, client: Client, intake: Intake, settings: ListenerSettings
) -> Reply:
    """The reply to a chunk that was read. What the chunks have brought is the spool's, or closed, after the last one."""
    chunks = transaction.chunks
    if chunks is None:
        raise RuntimeError("a chunk without a place for it")
    if not chunk.is_last:
        return intake.flaw(chunks.decoder, client) or Reply(250, "2.0.0", f"{chunk.size} octets received")
    transaction.chunks = None
    chunks.decoder.finish()
    return await intake.submit(transaction, client, chunks.decoder, chunks.content, settings)
