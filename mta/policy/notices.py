"""What is told about a recipient, and to whom (interface.md section 4; RFC 5321 sections 4.5.5 and 6.1;
RFC 3461 sections 5.2.5 and 5.2.6).

Rules: a report never breeds a report. What fails of a mail is told to its sender, unless the path is null, and to the
postmaster; what fails of a DSN to the postmaster alone; what fails of a report or an alert to nobody (the spool counts
it). A recipient gets at most one `DSN_FAILED`, since only an event that finishes it makes one. NOTIFY is about what
the sender is told; what the postmaster is told does not depend on it.
"""

from mta.model.envelope import Kind, Notice
from mta.model.lifecycle import Event
from mta.model.notify import NEVER, Of, wants

DSN_NOTICES = (
    Notice.DSN_FAILED,
    Notice.DSN_DELAYED,
    Notice.DSN_DOUBT,
    Notice.DSN_LATE,
    Notice.DSN_RELAYED,
)


def notices_for(
    kind: Kind,
    reverse_path: str,
    event: Event,
    held_doubt: bool,
    warn: bool,
    alerts: tuple[Notice, ...] = (Notice.ALERT,),
    *,
    relayed: bool = False,
    late: bool = False,
    notify: str = "",
) -> tuple[Notice, ...]:
    """The marks that the commit of `event` writes for a recipient. `held_doubt`: with DOUBTED, that it waits for a
    person; `warn`: the "delayed" warning is due (`policy.schedule.warning_due`); `alerts`: the ways in which a person is
    called, each a mark of its own, so that none waits for another. `relayed`: with DELIVERED, that the sender is told
    (RFC 2852 section 4.1.4, RFC 3461 section 5.2.2), unless NEVER; `late`: with DEFERRED, that a deadline has passed that
    only asks for a word. `notify` as in `NewRecipient`.

    A held doubt is told to the sender as `delayed` (RFC 3464 section 2.3.3): it is neither failed nor tried again, and
    the one failed DSN a recipient may get has to stay free for what the person decides. It has a mark of its own, as it
    says something else than a delay and does not use up the one warning."""
    if kind in (Kind.REPORT, Kind.ALERT, Kind.TLS_REPORT):
        return ()
    for_sender, for_postmaster = _told(event, held_doubt, warn, alerts)
    if relayed and event is Event.DELIVERED:
        for_sender = (Notice.DSN_RELAYED,)
    if late and event is Event.DEFERRED:
        for_sender = (Notice.DSN_LATE,)
    answerable = kind is Kind.MAIL and reverse_path != ""
    wanted = tuple([it for it in for_sender if wanted_by(notify, it)]) if answerable and for_sender else ()
    return wanted + for_postmaster


def wanted_by(notify: str, notice: Notice) -> bool:
    """Whether a sender who gave this NOTIFY is told. What is handed over is told for reasons that are looked at before;
    only NEVER is stronger than they are."""
    if notice is Notice.DSN_RELAYED:
        return notify != NEVER
    return wants(notify, Of.FAILURE if notice is Notice.DSN_FAILED else Of.DELAY)


def _told(
    event: Event, held_doubt: bool, warn: bool, alerts: tuple[Notice, ...]
) -> tuple[tuple[Notice, ...], tuple[Notice, ...]]:
    """For the sender, for the postmaster."""
    if event is Event.REFUSED:
        return (Notice.DSN_FAILED,), (Notice.REPORT,)
    if event is Event.GAVE_UP:
        return (Notice.DSN_FAILED,), alerts
    if event is Event.DOUBTED and held_doubt:
        return (Notice.DSN_DOUBT,), alerts
    if event in (Event.DEFERRED, Event.DOUBTED) and warn:
        return (Notice.DSN_DELAYED,), ()
    return (), ()
