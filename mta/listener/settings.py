"""What the listener is told by the configuration."""

import ipaddress
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from mta.model.address import IpAddress
from mta.model.envelope import MailClass
from mta.policy.acceptance import Locals
from mta.policy.clients import ANYTHING, ClientRule
from mta.policy.schedule import RetryPolicy

IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network
BareNewlines = Literal["normalize", "reject"]
LongLines = Literal["refuse", "encode"]
HeaderChecks = Literal["strict", "lenient"]

_LOOPBACK: tuple[IpNetwork, ...] = (ipaddress.IPv4Network("127.0.0.0/8"), ipaddress.IPv6Network("::1/128"))


@dataclass(frozen=True, slots=True)
class ListenerSettings:
    """Sizes are octets, `timeout` seconds without progress. `allow` are the networks that may submit; `schedules` has every
    class. `require_key`: no message without an idempotency key; `message_id_window`: seconds for which one without a key is
    known by its Message-ID, 0: not at all. `max_hold`: the longest hold, in seconds from MAIL; `strict_deliver_by`: BY=n;R
    is kept as RFC 2852 says, else it means handing over in time. `long_lines`: "encode" makes lines that are too long legal;
    `header_checks`: "lenient" takes header sections that RFC 5322 does not know; `max_own_hops`: so many Received fields of
    ours are a loop. `tls`: our certificate, if there is one; `tls_required`: no mail in clear where STARTTLS is offered;
    `proxies`: from where connections begin with a PROXY header. `users` has the password's hash of each name; `clients` are
    the rules for some of them, `rule` is the one that this client goes by; `signed` are the domains whose mail we sign."""

    hostname: str
    locals: Locals
    schedules: Mapping[MailClass, RetryPolicy]
    max_message_size: int = 25 * 2**20
    max_recipients: int = 1000
    max_connections: int = 500
    timeout: float = 300.0
    allow: tuple[IpNetwork, ...] = _LOOPBACK
    bare_newlines: BareNewlines = "normalize"
    long_lines: LongLines = "refuse"
    header_checks: HeaderChecks = "strict"
    max_own_hops: int = 10
    require_key: bool = False
    message_id_window: float = 0.0
    allow_private_addresses: bool = False
    max_hold: float = 60 * 86400.0
    strict_deliver_by: bool = True
    tls: ssl.SSLContext | None = None
    tls_required: bool = False
    proxies: tuple[IpNetwork, ...] = ()
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    clients: tuple[ClientRule, ...] = ()
    rule: ClientRule = ANYTHING
    signed: frozenset[str] = frozenset()

    def admits(self, peer: IpAddress | None) -> bool:
        return peer is not None and any(peer in network for network in self.allow)

    def trusts_as_proxy(self, peer: IpAddress | None) -> bool:
        return peer is not None and any(peer in network for network in self.proxies)
