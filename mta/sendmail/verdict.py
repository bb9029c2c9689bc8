"""What a refusal by the daemon means to the program that called: an exit code.

Rules: 4yz is worth another try, 5yz is not; a refusal for what the client may do is 77, for a mailbox that is not there
67; of several refusals, the permanent one counts, for the whole message will fail again.
"""

from collections.abc import Iterable

from mta.control.errors import Exit
from mta.model.reply import Reply

_AUTHENTICATION = frozenset({530, 534, 535, 538})
_TOO_MANY_RECIPIENTS = "4.5.3"


def exit_code(reply: Reply) -> Exit:
    """Of a reply that refuses a message."""
    if reply.status == _TOO_MANY_RECIPIENTS:  # the next try has as many
        return Exit.DATA
    if reply.code is not None and 400 <= reply.code < 500:
        return Exit.TRY_LATER
    if reply.code in _AUTHENTICATION or reply.status.startswith("5.7."):
        return Exit.NOT_PERMITTED
    return Exit.DATA


def recipients_exit_code(refusals: Iterable[Reply], *, all_refused: bool) -> Exit:
    """Of replies that refuse recipients."""
    found = list(refusals)
    if all_refused and all(reply.status == "5.1.1" for reply in found):
        return Exit.NO_USER
    codes = {exit_code(reply) for reply in found}
    return codes.pop() if len(codes) == 1 else Exit.DATA
