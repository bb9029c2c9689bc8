"""From marks in the spool to mail that is ready but for its stamp. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mta.model.category import Category
from mta.model.envelope import Kind, MailClass, Notice
from mta.model.lifecycle import Status
from mta.policy import dsn_text
from mta.policy.compose import Stamp
from mta.policy.dsn import Dsn, DsnRecipient, Fate
from mta.policy.dsn_mail import compose_dsn
from mta.policy.dsn_return import Returned, returned
from mta.policy.notices import wanted_by
from mta.policy.report_mail import Entry, alert_title, compose_alert, compose_report, report_title
from mta.policy.wisdom import category
from mta.spool.base import DueNotice


@dataclass(frozen=True, slots=True)
class Draft:
    """A mail of ours: `about` is the queue id of the message it tells of, "" for several; `told` are the marks that go
    out with it; `compose` gives its content; `priority` and `require_tls` are inherited from what it tells of (RFC 6710
    section 4.6, RFC 8689 section 5)."""

    kind: Kind
    mail_class: MailClass
    to: str
    subject: str
    about: str
    told: tuple[DueNotice, ...]
    compose: Callable[[Stamp], bytes]
    priority: int = 0
    require_tls: bool = False


def dsn_draft(step: Sequence[DueNotice], original: bytes, *, withheld: str = "") -> Draft:
    """One DSN for the marks of one step; `original` are the first octets of the message, as many as `dsn_return` needs
    of it; `withheld` says why it does not go back whole, whatever was asked for. It is urgent if the message was, else
    normal."""
    first = step[0]
    back = Returned() if _undecided(step) else returned(original, whole=returns_whole(step) and not withheld)
    dsn = Dsn(
        to=first.reverse_path,
        queue_id=first.queue_id,
        message_id=first.message_id,
        subject=first.subject,
        arrival_date=first.accepted_at,
        will_retry_until=first.expires_at,
        recipients=tuple(_dsn_recipient(notice) for notice in step),
        original_header=() if back.whole else back.lines,
        deliver_by=first.deliver_by.at if first.deliver_by is not None else None,
        future_release=first.hold_request,
        priority=first.priority,
        envid=first.envid,
        original_message=back.lines if back.whole else (),
        withheld=withheld or back.withheld,
    )
    mail_class = min(first.mail_class, MailClass.NORMAL)
    return Draft(
        kind=Kind.DSN,
        mail_class=mail_class,
        to=dsn.to,
        subject=dsn_text.subject(dsn),
        about=dsn.queue_id,
        told=tuple(step),
        compose=lambda stamp: compose_dsn(dsn, stamp),
        priority=first.priority,
        require_tls=first.require_tls,
    )


def collected_draft(kind: Kind, to: str, notices: Sequence[DueNotice]) -> Draft:
    """One REPORT or ALERT to the postmaster for all of these marks."""
    entries = [_entry(notice) for notice in notices]
    titled, compose = (alert_title, compose_alert) if kind is Kind.ALERT else (report_title, compose_report)
    return Draft(
        kind=kind,
        mail_class=MailClass.NORMAL,
        to=to,
        subject=titled(entries),
        about=notices[0].queue_id if len(notices) == 1 else "",
        told=tuple(notices),
        compose=lambda stamp: compose(entries, to, stamp),
    )


def returns_whole(step: Sequence[DueNotice]) -> bool:
    """Whether the message itself goes back: RET=FULL is about failures alone (RFC 3461 section 4.3); what needs encryption
    never does (RFC 8689 section 5)."""
    return not step[0].require_tls and any(notice.ret == "FULL" and notice.notice is Notice.DSN_FAILED for notice in step)


def _undecided(step: Sequence[DueNotice]) -> bool:
    """All are held doubts: nothing came back, so nothing is returned (the part is optional, RFC 6522 section 3), and no
    filter takes the notice for one more copy of the message."""
    return all(notice.notice is Notice.DSN_DOUBT for notice in step)


_FATES = {
    Notice.DSN_DELAYED: Fate.DELAYED,
    Notice.DSN_LATE: Fate.DELAYED,
    Notice.DSN_DOUBT: Fate.UNDECIDED,
    Notice.DSN_RELAYED: Fate.RELAYED,
}


def _fate(notice: DueNotice) -> Fate:
    if notice.notice in _FATES:
        return _FATES[notice.notice]
    return Fate.REFUSED if notice.status is Status.FAILED else Fate.GIVEN_UP


def _dsn_recipient(notice: DueNotice) -> DsnRecipient:
    return DsnRecipient(
        final_recipient=notice.recipient,
        submitted_as=notice.original,
        fate=_fate(notice),
        reply=notice.reply,
        remote_mta=notice.remote_host,
        phase=notice.phase,
        attempts=notice.attempts,
        doubts=notice.doubts,
        orcpt=notice.orcpt,
        notify=notice.notify,
        category=category(notice.reply, notice.phase),
    )


_NEED_A_PERSON = frozenset({Status.DEAD, Status.IN_DOUBT})


def _entry(notice: DueNotice) -> Entry:
    of_sender = Notice.DSN_FAILED if notice.status in (Status.FAILED, Status.DEAD) else Notice.DSN_DOUBT
    return Entry(
        queue_id=notice.queue_id,
        kind=notice.kind,
        sender=notice.reverse_path,
        recipient=notice.recipient,
        subject=notice.subject,
        at=notice.at,
        status=notice.status,
        doubts=notice.doubts,
        reply=notice.reply,
        remote_host=notice.remote_host,
        unwanted=not wanted_by(notice.notify, of_sender),
        distrusted=notice.status not in _NEED_A_PERSON and category(notice.reply, notice.phase) is Category.REPUTATION,
    )
