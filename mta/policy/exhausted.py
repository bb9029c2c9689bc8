"""No host is left: what comes of it for mail that none of them took (Table A, banner; RFC 5321 section 5.1; RFC 7504
section 3; RFC 2852 section 4.1.4.1).

Rules: what every host says of itself is believed in the end; what one host says, or what is our own fault, fails no mail.
"""

from collections.abc import Sequence

from mta.model.outcome import Disposition, Phase, Scope, Verdict

CONFIRMATIONS = 2
"""Further attempts that a refusal by every host's greeting must outlast before it is believed."""


def exhausted(verdicts: Sequence[Verdict], refusals: int) -> tuple[Verdict, int]:
    """What it comes to when every host was tried (at least one) and none took the mail: one verdict for the recipients
    that have none, from those on the hosts; and how many attempts in a row every greeting has refused us, where it was
    `refusals` before.

    Such a refusal is believed when it has outlasted `CONFIRMATIONS` further attempts, at once where all say 521 (RFC 7504
    section 3). One of EHLO is about our own name and fails no mail. Else the last host that spoke gives the status.

    Where no host would keep the deadline, it fails at once; where some would not, it waits for the others, and the
    destination is not at fault."""
    able = [it for it in verdicts if not _unpromising(it)]
    if not able:
        return _final(verdicts[-1]), 0
    last = next((it for it in reversed(able) if it.reply.code is not None), able[-1])
    if len(able) < len(verdicts):
        return _deferred(last, Scope.TRANSACTION), 0
    refused = all(it.phase is Phase.BANNER and it.disposition is Disposition.PERMANENT for it in verdicts)
    if refused and (refusals >= CONFIRMATIONS or all(it.reply.code == 521 for it in verdicts)):
        return _final(last), refusals + 1
    return _deferred(last, Scope.DESTINATION), refusals + 1 if refused else 0


def _unpromising(verdict: Verdict) -> bool:
    """Ours, about a host that would not keep the deadline, or has no REQUIRETLS: no server's reply to MAIL or STARTTLS is
    final for one host alone."""
    return verdict.phase in (Phase.MAIL, Phase.STARTTLS) and verdict.disposition is Disposition.PERMANENT


def _final(last: Verdict) -> Verdict:
    return Verdict(Disposition.PERMANENT, Scope.TRANSACTION, last.status, last.reply, last.phase)


def _deferred(last: Verdict, scope: Scope) -> Verdict:
    return Verdict(Disposition.TRANSIENT, scope, "4" + last.status[1:], last.reply, last.phase)
