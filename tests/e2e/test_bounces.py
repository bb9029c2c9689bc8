"""What is told, to whom, how often: area D of the field cases."""

from tests.e2e.reports import delivery_status, parsed
from tests.e2e.world import POSTMASTER, SENDER, World
from tests.support.daemon import until


async def test_b08_a_dsn_that_cannot_be_queued_is_told_later_and_the_message_stays_failed(running: World) -> None:
    """While the spool takes no DSN: a restart too. The original is never tried again."""
    daemon, dns = running.daemon, running.dns
    dns.zones["null.test", "MX"] = ["0 ."]
    with running.failing("messages", "NEW.kind = 'dsn'"):
        queue_id = await daemon.submit("ann@null.test")
        await until(lambda: daemon.has(queue_id, "failed"))
        await until(lambda: daemon.logged("trouble", level="error"))
        await daemon.restart()
        failed = await daemon.recipient(queue_id)
        assert (failed["status"], failed["attempts"]) == ("failed", 1)
        assert not running.bounces()
    await until(running.bounces)
    await until(daemon.idle)
    await daemon.restart()
    await until(daemon.idle)
    assert len(running.bounces()) == 1
    assert len(daemon.logged("failed", qid=queue_id)) == 1
    assert (await daemon.recipient(queue_id))["attempts"] == 1


async def test_b08_the_senders_domain_in_trouble_delays_the_dsn_alone(running: World) -> None:
    daemon, dns = running.daemon, running.dns
    dns.zones["null.test", "MX"] = ["0 ."]
    dns.zones["away.test", "*"] = "SERVFAIL"
    queue_id = await daemon.submit("ann@null.test", sender="app@away.test")
    await until(lambda: daemon.has(queue_id, "failed"))
    (dsn,) = await until(lambda: daemon.logged("bounced", qid=queue_id))
    await daemon.restart()
    del dns.zones["away.test", "*"]
    running.route("away.test", running.home.address)
    await until(lambda: daemon.has(dsn["report_qid"], "sent"))
    (bounce,) = running.mail_for("app@away.test")
    assert bounce.reverse_path == ""
    assert len(daemon.logged("failed", qid=queue_id)) == 1


async def test_b09_a_bounce_of_a_bounce_ends_with_the_postmaster(running: World) -> None:
    """The DSN is refused, since it comes from nobody: no further one, and nothing stays in the queue."""
    await running.mx("bad.test", script={"RCPT": "550 5.1.1 no such user"})
    await running.mx("strict.test", script={"MAIL": "550 5.7.1 no bounces here"})
    daemon = running.daemon
    queue_id = await daemon.submit("ann@bad.test", sender="app@strict.test")
    (dsn,) = await until(lambda: daemon.logged("bounced", qid=queue_id))
    await until(lambda: daemon.has(dsn["report_qid"], "failed"))
    await until(lambda: b"strict.test" in b"".join(it.content for it in running.mail_for(POSTMASTER)))
    await until(daemon.idle)
    assert (await daemon.json("queue"))["total"] == 0
    assert len(daemon.logged("bounced")) == 1
    assert (await daemon.json("status"))["untold"] == 1


async def test_b09_null_senders_get_no_dsn_whatever_the_failure(running: World) -> None:
    await running.mx("bad.test", script={"RCPT": "550 5.1.1 no such user"})
    await running.mx("never.test", script={"RCPT": "450 4.2.1 busy"})
    daemon = running.daemon
    running.dns.zones["null.test", "MX"] = ["0 ."]
    domains = ("bad.test", "null.test", "gone.test", "never.test")
    ids = [await daemon.submit(f"ann@{domain}", sender="") for domain in domains]
    for queue_id, status in zip(ids, ("failed", "failed", "failed", "dead"), strict=True):
        await until(lambda queue_id=queue_id, status=status: daemon.has(queue_id, status))
    await until(lambda: all(queue_id in _told_to_postmaster(running) for queue_id in ids))
    await until(daemon.idle)
    assert not daemon.logged("bounced")
    assert (await daemon.json("queue"))["total"] == 0
    assert all(path != "" for message in running.home.messages for path in message.forward_paths)


def _told_to_postmaster(world: World) -> str:
    return b"".join(message.content for message in world.mail_for(POSTMASTER)).decode()


async def test_b09_reports_to_a_postmaster_that_refuses_breed_nothing(world: World) -> None:
    world.configure("", postmaster="postmaster@strict.test")
    await world.mx("strict.test", script={"RCPT": "550 5.1.1 no postmaster here"})
    await world.mx("bad.test", script={"RCPT": "550 5.1.1 no such user"})
    daemon = world.daemon
    await daemon.start()
    await daemon.submit("ann@bad.test", sender="")
    await until(lambda: _untold(world))
    await until(daemon.idle)
    assert (await daemon.json("queue"))["total"] == 0
    assert len(daemon.logged("accepted")) == 1 and len(daemon.logged("reported")) == 1


async def _untold(world: World) -> int:
    return (await world.daemon.json("status"))["untold"]


async def test_b09_a_dsn_has_the_marks_that_stop_answers(running: World) -> None:
    await running.mx("bad.test", script={"RCPT": "550 5.1.1 no such user"})
    queue_id = await running.daemon.submit("ann@bad.test", subject="order 7")
    (bounce,) = await until(running.bounces)
    message = parsed(bounce)
    assert bounce.reverse_path == "" and bounce.forward_paths == [SENDER]
    assert message["To"] == SENDER and "@" in message["From"]
    assert message["Auto-Submitted"].startswith("auto-replied")
    assert all(message[name] for name in ("Date", "Message-ID", "MIME-Version", "Subject"))
    group, recipient = delivery_status(bounce)
    assert group["Reporting-MTA"] == "dns; mail.out.test"
    assert recipient["Remote-MTA"] == "dns; mx1.bad.test"
    (dsn,) = running.daemon.logged("bounced", qid=queue_id)
    assert (await running.daemon.show(dsn["report_qid"]))["sender"] == ""
