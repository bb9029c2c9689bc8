"""A delivery in its house: the real spool (inline), the real SMTP client, scripted servers, names from a dict."""

import random
from collections.abc import Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from mta.delivery.attempt import Means
from mta.delivery.complaints import Complaints
from mta.delivery.hosts import HostMemory
from mta.delivery.letter import Letters
from mta.delivery.opening import Opener
from mta.delivery.route import Router
from mta.delivery.security import Security, SecurityRules
from mta.delivery.signing import Signing
from mta.delivery.worker import Delivery, DeliverySettings
from mta.doorbell import Doorbell
from mta.model.address import parse_address
from mta.model.envelope import DeliverBy, DoubtOrder, Kind, MailClass, NewMessage, NewRecipient, Notice
from mta.model.events import Fact
from mta.policy.routing import RoutingRules
from mta.policy.schedule import RetryPolicy
from mta.ports.names import AddressAnswer, Lookup, MailExchanger, MxAnswer, TlsaAnswer
from mta.ports.scheduling import DeliveryOutcome
from mta.ports.smtp import Connector, Timeouts
from mta.ports.sts import StsPolicies
from mta.ports.system import Clock, Reach
from mta.smtp.connector import SmtpConnector
from mta.smtp.pool import ReuseLimits, SessionPool
from mta.spool.base import DoubtPolicy, MessageView, RecipientView
from mta.spool.connection import connect_inline
from mta.spool.sqlite import SqliteSpool, open_sqlite

POLICY = RetryPolicy(60, 2.0, 4 * 3600, 0.0, 5 * 86400, 0, 4 * 3600)
PATIENT = Timeouts(connect=10, greeting=10, command=10, data_init=10, data=10, final=10, quit=1)
BRISK = Timeouts(connect=0.2, greeting=0.2, command=0.2, data_init=0.2, data=0.2, final=0.2, quit=0.1)
CONTENT = b"Subject: hello\r\n\r\nhello\r\n"


class Hands:
    """A clock that is set by hand."""

    def __init__(self, at: float = 1_800_000_000.0) -> None:
        self.at = at

    def now(self) -> float:
        return self.at


@dataclass
class Names:
    """The name service: domain -> (preference, host, address) lists, or an answer."""

    zones: dict[str, list[tuple[int, str, str]] | MxAnswer] = field(default_factory=dict)
    secure: bool = False
    """What DNSSEC says of MX records and addresses."""
    tlsas: dict[str, TlsaAnswer] = field(default_factory=dict)
    """By host; where there is nothing, that is secure. `asked` are the hosts that were asked for."""
    asked: list[str] = field(default_factory=list)

    async def mail_exchangers(self, domain: str) -> MxAnswer:
        zone = self.zones.get(domain)
        if zone is None:
            return MxAnswer(Lookup.NXDOMAIN, detail="no such domain")
        if isinstance(zone, MxAnswer):
            return zone
        exchangers = tuple(MailExchanger(preference, host) for preference, host, _ in zone)
        return MxAnswer(Lookup.FOUND, exchangers, secure=self.secure)

    async def addresses(self, host: str) -> AddressAnswer:
        found = tuple(
            address
            for zone in self.zones.values()
            if not isinstance(zone, MxAnswer)
            for _, name, address in zone
            if name == host
        )
        return AddressAnswer(Lookup.FOUND, found, secure=self.secure) if found else AddressAnswer(Lookup.NODATA)

    async def tlsa(self, host: str, port: int) -> TlsaAnswer:
        self.asked.append(host)
        return self.tlsas.get(host, TlsaAnswer(Lookup.NODATA, secure=True))


@dataclass
class House:
    spool: SqliteSpool
    delivery: Delivery
    pool: SessionPool
    hosts: HostMemory
    names: Names
    security: Security
    clock: Clock
    facts: list[Fact]
    router: Router
    count: int = 0

    async def submit(
        self,
        *recipients: str,
        content: bytes = CONTENT,
        sender: str = "shop@example.com",
        kind: Kind = Kind.MAIL,
        policy: RetryPolicy = POLICY,
        mail_class: MailClass = MailClass.NORMAL,
        eight_bit: bool = False,
        priority: int = 0,
        deliver_by: DeliverBy | None = None,
        in_doubt: DoubtOrder = DoubtOrder.DEFAULT,
        ret: str = "",
        envid: str = "",
        asks: Mapping[str, tuple[str, str]] | None = None,
        utf8: bool = False,
        require_tls: bool = False,
        tls_optional: bool = False,
    ) -> str:
        """The queue id. `asks`: NOTIFY and ORCPT by recipient."""
        self.count += 1
        now = self.clock.now()
        message = NewMessage(
            queue_id=f"{self.count:016d}",
            message_id=f"<{self.count}@mail.example.com>",
            reverse_path=sender,
            recipients=tuple(
                NewRecipient(it, parse_address(it, utf8=True).destination, "", *(asks or {}).get(it, ()))
                for it in recipients
            ),
            subject="hello",
            size=len(content),
            eight_bit=eight_bit,
            mail_class=mail_class,
            kind=kind,
            accepted_at=now,
            expires_at=policy.expires_at(now),
            warn_at=policy.warn_at(now) if sender else None,
            priority=priority,
            deliver_by=deliver_by,
            in_doubt=in_doubt,
            ret=ret,
            envid=envid,
            utf8=utf8,
            require_tls=require_tls,
            tls_optional=tls_optional,
        )
        buffer = self.spool.buffer()
        buffer.write(content)
        await self.spool.accept(message, buffer, now)
        return message.queue_id

    async def deliver(
        self, destination: str = "example.org", mail_class: MailClass = MailClass.NORMAL
    ) -> DeliveryOutcome:
        return await self.delivery.deliver(destination, mail_class, lambda following: None)

    async def expire(self) -> int:
        """Ends all that has passed its deadline, as the stage does; how many claims that were."""
        count = 0
        while claim := await self.spool.claim_expired(100, self.clock.now()):
            await self.delivery.expire(claim)
            count += 1
        return count

    async def notices(self) -> list[tuple[Notice, str]]:
        return [(it.notice, it.recipient) for it in await self.spool.notices(Notice, 100, self.clock.now())]

    async def show(self, queue_id: str) -> MessageView:
        view = await self.spool.show(queue_id)
        assert view is not None
        return view

    async def recipient(self, queue_id: str, address: str = "") -> RecipientView:
        view = await self.show(queue_id)
        return next(it for it in view.recipients if not address or it.address == address)

    async def events(self, queue_id: str) -> list[str]:
        return [it.event for it in (await self.show(queue_id)).timeline]


@asynccontextmanager
async def house(
    folder: Path,
    port: int,
    *,
    timeouts: Timeouts = PATIENT,
    connector: Connector | None = None,
    clock: Clock | None = None,
    policy: RetryPolicy = POLICY,
    doubt_delay: float | None = 600.0,
    signing: Signing | None = None,
    wrap: Callable[[SqliteSpool], SqliteSpool] = lambda spool: spool,
    rules: SecurityRules | None = None,
    policies: StsPolicies | None = None,
):
    clock = clock or Hands()
    doubts = DoubtPolicy(doubt_delay is not None, doubt_delay or 0)
    opened, _ = await open_sqlite(
        folder / "spool.db", doubts=doubts, now=clock.now(), doorbell=Doorbell(), connect=connect_inline
    )
    spool = wrap(opened)
    names, hosts, pool, facts = Names(), HostMemory(), SessionPool(ReuseLimits()), []
    routing = RoutingRules(frozenset({"mail.example.com"}), frozenset(), port, allow_private_addresses=True)
    router = Router(names, lambda addresses: Reach(), routing, random.Random(1))
    security = Security(names, policies, rules or SecurityRules(), facts.append)
    opener = Opener(connector or SmtpConnector("mail.example.com", timeouts), pool, hosts, security)
    settings = DeliverySettings(dict.fromkeys(MailClass, policy), doubts)
    letters = Letters(spool, signing or Signing())
    means = Means(spool, letters, pool, opener, router, hosts, Complaints(facts.append))
    delivery = Delivery(settings, means, clock, random.Random(2), facts.append)
    try:
        yield House(spool, delivery, pool, hosts, names, security, clock, facts, router)
    finally:
        await pool.close()
        await spool.close()
