"""A stored message submitted again as a new logical email, under a key of its own (`mta resend`).

Rules: it is a new message in everything but its words: queue id, Message-ID, Date, age; sender, recipients, priority, what
is asked of DSNs and the rest of the header section are the first one's. It is due at once, and its deadline is its
class's, if that has one. Content that is no longer kept, or damaged, is refused, not sent in part.
"""

from mta.listener.intake import Intake, default_deadline
from mta.listener.settings import ListenerSettings
from mta.model.address import parse_address
from mta.model.envelope import Kind, NewMessage, NewRecipient
from mta.model.reply import Reply
from mta.policy import header, trace
from mta.policy.fingerprint import fingerprint
from mta.spool.base import ContentBuffer, ContentGone, MessageView, Spool, SpoolRefusal


async def resend(spool: Spool, intake: Intake, view: MessageView, key: str, settings: ListenerSettings) -> str:
    """The new queue id. Raises `SpoolRefusal` where it can't be, `SpoolError` where the spool fails."""
    if view.damaged:
        raise SpoolRefusal(f"{view.queue_id} is damaged ({view.damaged}): it can't be sent again")
    content = spool.buffer()
    try:
        await _copy(spool, view, content)
        message = _renewed(intake, view, key, content, settings)
    except BaseException:
        content.close()
        raise
    earlier = await spool.accept(message, content, message.accepted_at)
    if earlier is not None:
        raise SpoolRefusal(f'the key "{key}" is in use: {earlier.queue_id} ({earlier.status}) has it')
    intake.tell_accepted(message, f"resend of {view.queue_id}")
    return message.queue_id


async def _copy(spool: Spool, view: MessageView, content: ContentBuffer) -> None:
    try:
        async for chunk in spool.content(view.queue_id):
            content.write(chunk)
    except ContentGone:
        raise SpoolRefusal(f"the content of {view.queue_id} is kept no longer (spool.content_retention)") from None


def _renewed(intake: Intake, view: MessageView, key: str, content: ContentBuffer, settings: ListenerSettings) -> NewMessage:
    queue_id, now = intake.new_id()
    start = content.prefix(header.LIMIT)
    prepared = trace.renew(start, f"<{queue_id}@{settings.hostname}>", now, complete=len(start) == content.size)
    if isinstance(prepared, Reply):
        raise SpoolRefusal(f"{view.queue_id} can't be sent again: {prepared.text}")
    content.replace_prefix(prepared.length, prepared.by)
    schedule = settings.schedules[view.mail_class]
    recipients = tuple(
        NewRecipient(it.address, parse_address(it.address, utf8=True).destination, it.original, it.notify, it.orcpt)
        for it in view.recipients
    )
    return NewMessage(
        queue_id=queue_id,
        message_id=prepared.message_id,
        reverse_path=view.reverse_path,
        recipients=recipients,
        subject=view.subject,
        size=content.size,
        eight_bit=view.eight_bit,
        utf8=view.utf8,
        mail_class=view.mail_class,
        kind=Kind.MAIL,
        accepted_at=now,
        expires_at=schedule.expires_at(now),
        warn_at=schedule.warn_at(now) if view.reverse_path else None,
        key=key,
        scope=view.scope,
        submitter=view.submitter,
        fingerprint=fingerprint(
            view.reverse_path,
            (parse_address(it.original or it.address, utf8=True).key for it in recipients),
            prepared.subject,
        ),
        in_doubt=view.in_doubt,
        priority=view.priority,
        deliver_by=default_deadline(schedule, now),
        ret=view.ret,
        envid=view.envid,
        require_tls=view.require_tls,
        tls_optional=view.tls_optional,
    )
