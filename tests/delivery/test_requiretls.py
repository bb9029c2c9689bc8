"""REQUIRETLS on its way through a delivery: TLS-09 (RFC 8689 sections 4.2.1 and 5)."""

from pathlib import Path
from typing import Any

import pytest
import trustme

from mta.model.envelope import Kind
from mta.model.lifecycle import Status
from mta.model.tls import StsMode, TlsLevel
from mta.policy.destinations import DestinationRule, Destinations, Relay, RouteRule
from tests.delivery.house import House, house
from tests.delivery.test_security import HOST, Policies, connector, issued, leaves, one_mx, published, root
from tests.support.certificates import context
from tests.support.mx import EXTENSIONS, ScriptedMx

OFFERED = (*EXTENSIONS, "REQUIRETLS")
FITS = "certificate fits"


def server(leaf: trustme.LeafCert | None = None, *extensions: str, **how: Any) -> ScriptedMx:
    return ScriptedMx(extensions=extensions or OFFERED, tls=context(leaf or leaves()[FITS]), **how)


def here(tmp_path: Path, port: int, policies: Policies | None = None) -> Any:
    return house(tmp_path, port, policies=policies or published(StsMode.ENFORCE), connector=connector())


async def status_after(home: House, queue_id: str) -> tuple[Status, str | None]:
    await home.deliver()
    recipient = await home.recipient(queue_id)
    return recipient.status, recipient.reply.enhanced if recipient.reply else None


async def test_tls_09_it_goes_on_with_the_parameter(tmp_path: Path):
    async with server() as mx, here(tmp_path, mx.port) as home:
        one_mx(home)
        queue_id = await home.submit("ann@example.org", require_tls=True)
        assert (await status_after(home, queue_id))[0] is Status.SENT
        (message,) = mx.messages
        assert message.tls and message.mail.split(" ")[2:] == ["SIZE=25", "REQUIRETLS"]


async def test_tls_09_the_parameter_is_never_left_out(tmp_path: Path):
    """555: again without the optional parameters, and this is none of them."""
    async with server() as mx, here(tmp_path, mx.port) as home:
        one_mx(home)
        mx.script["MAIL"] = ["555 5.5.4 what?"]
        await home.submit("ann@example.org", require_tls=True)
        await home.deliver()
        assert [line.split(" ")[2:] for line in mx.commands if line.startswith("MAIL")] == [
            ["SIZE=25", "REQUIRETLS"],
            ["REQUIRETLS"],
        ]


async def test_tls_09_the_next_server_that_offers_it_gets_it(tmp_path: Path):
    policies = published(StsMode.ENFORCE, "mx1.example.org", "mx2.example.org")
    one, two = (issued(root(), f"mx{n}.example.org") for n in (1, 2))
    async with (
        server(one, "8BITMIME") as first,
        server(two, host="127.0.0.2", port=first.port) as second,
        here(tmp_path, first.port, policies) as home,
    ):
        home.names.zones["example.org"] = [(n, f"mx{n}.example.org", f"127.0.0.{n}") for n in (1, 2)]
        queue_id = await home.submit("ann@example.org", require_tls=True)
        assert (await status_after(home, queue_id))[0] is Status.SENT
        assert [len(it.messages) for it in (first, second)] == [0, 1]
        assert "MAIL" not in first.connections[0].verbs


async def test_tls_09_where_every_server_lacks_it_the_mail_fails(tmp_path: Path):
    """5.7.30 without REQUIRETLS, 5.7.10 without STARTTLS."""
    async with server(None, "8BITMIME") as mx, here(tmp_path, mx.port) as home:
        one_mx(home)
        queue_id = await home.submit("ann@example.org", require_tls=True)
        assert await status_after(home, queue_id) == (Status.FAILED, "5.7.30")
        mx.tls = None
        await home.pool.close()
        queue_id = await home.submit("ann@example.org", require_tls=True)
        assert await status_after(home, queue_id) == (Status.FAILED, "5.7.10")
        assert mx.messages == []


@pytest.mark.parametrize(
    ("extensions", "tls", "level", "status"),
    [
        (OFFERED, True, TlsLevel.MAY, None),
        (("8BITMIME",), True, TlsLevel.MAY, "5.7.30"),
        (OFFERED, False, TlsLevel.MAY, "5.7.10"),
        (OFFERED, False, TlsLevel.VERIFY, "5.7.10"),
        (OFFERED, True, TlsLevel.NONE, "5.7.10"),
    ],
)
async def test_tls_09_a_relay_is_a_server_like_any_other(
    tmp_path: Path, extensions: tuple[str, ...], tls: bool, level: TlsLevel, status: str | None
) -> None:
    """RFC 8689 section 4.2.1: what can't go on as its sender needs it fails. Other mail waits for the relay to be mended."""
    async with server(None, *extensions) as relay, here(tmp_path, 25) as home:
        relay.tls = relay.tls if tls else None
        home.names.zones["elsewhere"] = [(0, HOST, relay.address)]
        rule, by_relay = DestinationRule(("*",), tls=level), RouteRule(("*",), (Relay(HOST, relay.port),))
        home.router.destinations = Destinations((rule,), (by_relay,))
        queue_id = await home.submit("ann@example.org", require_tls=True)
        found = await status_after(home, queue_id)
        assert found == (Status.FAILED, status) if status else found[0] is Status.SENT
        assert len(relay.messages) == (status is None)


async def test_tls_09_nobody_vouches_for_the_server(tmp_path: Path):
    async with server() as mx, here(tmp_path, mx.port, Policies()) as home:
        one_mx(home)
        queue_id = await home.submit("ann@example.org", require_tls=True)
        assert await status_after(home, queue_id) == (Status.FAILED, "5.7.30")
        assert mx.connections == []


@pytest.mark.parametrize("trouble", ["unknown authority", "STARTTLS: 454"])
async def test_tls_09_what_may_pass_is_waited_for(tmp_path: Path, trouble: str):
    """And other mail to the destination does not wait with it."""
    async with server(leaves().get(trouble)) as mx, here(tmp_path, mx.port, published(StsMode.TESTING)) as home:
        one_mx(home)
        mx.script["STARTTLS"] = ["454 4.7.0 not now"] if trouble.startswith("STARTTLS") else []
        queue_id = await home.submit("ann@example.org", require_tls=True)
        outcome = await home.deliver()
        assert (await home.recipient(queue_id)).status is Status.PENDING
        assert outcome.trouble is None


async def test_tls_09_one_server_that_lacks_it_and_one_that_is_down_is_no_failure(tmp_path: Path):
    policies = published(StsMode.ENFORCE, "mx1.example.org", "mx2.example.org")
    async with server(issued(root(), "mx1.example.org"), "8BITMIME") as first, here(tmp_path, first.port, policies) as home:
        home.names.zones["example.org"] = [(n, f"mx{n}.example.org", f"127.0.0.{n}") for n in (1, 2)]
        queue_id = await home.submit("ann@example.org", require_tls=True)
        assert (await status_after(home, queue_id))[0] is Status.PENDING


async def test_a_session_at_hand_is_not_for_it(tmp_path: Path):
    """What was opened without a proof of who is there."""
    async with server(leaves()["unknown authority"]) as mx, here(tmp_path, mx.port, published(StsMode.TESTING)) as home:
        one_mx(home)
        await home.submit("bob@example.org")
        await home.deliver()
        queue_id = await home.submit("ann@example.org", require_tls=True)
        assert (await status_after(home, queue_id))[0] is Status.PENDING
        assert [it.forward_paths for it in mx.messages] == [["bob@example.org"]]


@pytest.mark.parametrize(
    ("extensions", "parameters"), [(OFFERED, ["SIZE=25", "REQUIRETLS"]), (("8BITMIME",), [])], ids=["offered", "lacking"]
)
async def test_tls_09_a_report_of_such_mail_goes_on_in_any_case(
    tmp_path: Path, extensions: tuple[str, ...], parameters: list[str]
):
    async with server(None, *extensions) as mx, here(tmp_path, mx.port) as home:
        one_mx(home)
        queue_id = await home.submit("ann@example.org", require_tls=True, kind=Kind.DSN, sender="")
        assert (await status_after(home, queue_id))[0] is Status.SENT
        assert mx.messages[0].mail.split(" ")[2:] == parameters


async def test_tls_09_a_report_goes_on_in_clear_too(tmp_path: Path):
    async with ScriptedMx(extensions=OFFERED) as mx, here(tmp_path, mx.port, Policies()) as home:
        one_mx(home)
        queue_id = await home.submit("ann@example.org", require_tls=True, kind=Kind.DSN, sender="")
        assert (await status_after(home, queue_id))[0] is Status.SENT
        assert mx.messages[0].mail.split(" ")[2:] == ["SIZE=25"]
