"""The configuration's tables and their defaults; attribute names are the TOML keys.

Rules: unknown keys and wrong types are refused; durations are seconds, sizes octets; values of one key are checked here,
what keys say together in `checks`. Interface: section 2.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, ValidationInfo

from mta.config import fields, paths, places, relays
from mta.config.places import Endpoint, IpNetwork
from mta.model.door import Door
from mta.model.envelope import MailClass
from mta.model.tls import TlsLevel
from mta.policy.clients import ClientRule
from mta.policy.destinations import DestinationRule, Relay
from mta.policy.rates import Rate
from mta.policy.schedule import DEFAULTS, RetryPolicy
from mta.ports.smtp import Timeouts

_RFC = Timeouts()
HIGHEST_FACTOR = 100.0
"""A factor's powers must stay within a float's range for as many attempts as `policy.schedule` counts."""
HIGHEST_RESERVE = 0.9
HIGHEST_BULK_SHARE = 0.5
"""What is kept for one class must leave something to the others."""


def _spool_path(value: object, info: ValidationInfo) -> Path:
    return paths.spool_path(value, _base(info))


def _socket_path(value: object, info: ValidationInfo) -> Path:
    return paths.socket_path(value, _base(info))


def _door(value: object, info: ValidationInfo) -> Door:
    return places.door(value, _base(info))


def _secret_file(value: object, info: ValidationInfo) -> str:
    return paths.secret_file(value, _base(info))


def _file_path(value: object, info: ValidationInfo) -> Path:
    return paths.file_path(value, _base(info))


def _base(info: ValidationInfo) -> Path:
    """The folder that relative paths count from."""
    return Path((info.context or {}).get("base", ""))


Duration = Annotated[float, PlainValidator(fields.duration)]
DurationOrZero = Annotated[float, PlainValidator(fields.duration_or_zero)]
Size = Annotated[int, PlainValidator(fields.message_size)]
SizeOrZero = Annotated[int, PlainValidator(fields.size_or_zero)]
CommandWords = Annotated[tuple[str, ...], PlainValidator(fields.command)]
Webhook = Annotated[str, PlainValidator(places.webhook)]
Domain = Annotated[str, PlainValidator(fields.domain)]
FullDomain = Annotated[str, PlainValidator(fields.full_domain)]
Hostname = Annotated[str, PlainValidator(fields.hostname)]
Address = Annotated[str, PlainValidator(fields.address)]
Network = Annotated[IpNetwork, PlainValidator(places.network)]
ListenDoor = Annotated[Door, PlainValidator(_door)]
SecretFile = Annotated[str, PlainValidator(_secret_file)]
FileMode = Annotated[int, PlainValidator(paths.file_mode)]
Nameserver = Annotated[Endpoint, PlainValidator(places.nameserver)]
AliasName = Annotated[str, PlainValidator(fields.alias_name)]
Addresses = Annotated[tuple[str, ...], PlainValidator(fields.addresses)]
SpoolPath = Annotated[Path, PlainValidator(_spool_path)]
FilePath = Annotated[Path, PlainValidator(_file_path)]
SocketPath = Annotated[Path, PlainValidator(_socket_path)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
CountOrZero = Annotated[int, Field(ge=0, le=1_000_000)]
Port = Annotated[int, Field(ge=1, le=65535)]
Amount = Annotated[tuple[int, float], PlainValidator(fields.rate)]
SenderDomain = Annotated[str, PlainValidator(fields.sender_domain)]
UserName = Annotated[str, PlainValidator(fields.user_name)]
Hold = Annotated[float, PlainValidator(fields.hold)]
Match = Annotated[str, PlainValidator(fields.match)]
Selector = Annotated[str, PlainValidator(fields.selector)]
Source = Annotated[str, PlainValidator(places.source)]
Sharing = Annotated[bool | str, PlainValidator(fields.sharing)]
Via = Annotated[Relay | None, PlainValidator(relays.via)]


def _sequence(value: object) -> object:
    if not isinstance(value, list):
        raise ValueError("expected a list in brackets")
    return tuple(value)


def _one_or_more(value: object) -> object:
    return _sequence(value if isinstance(value, list) else [value])


Matches = Annotated[tuple[Match, ...], BeforeValidator(_one_or_more), Field(min_length=1)]


def _distinct(value: object) -> object:
    """Alias names differ in more than their case."""
    names = [str(name).lower() for name in value] if isinstance(value, dict) else []
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f'"{twice[0]}" is given twice (names do not differ by case)')
    return value


class Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=False)


class Spool(Table):
    """`path` is the file that the key `url` names."""

    path: SpoolPath = Field(alias="url")
    retention: Duration = 30 * 86400.0
    content_retention: DurationOrZero = 3 * 86400.0
    min_free: SizeOrZero = 64 * 2**20


class SubmissionTls(Table):
    """`certificate` (its chain behind it) and `key`: PEM files, or `credential:NAME`."""

    certificate: SecretFile | None = None
    key: SecretFile | None = None
    required: bool = False


class Client(Table):
    """`[[submission.client]]`: a rule for whom `user` and `network` fit, as far as they are given. The bursts are how much
    may come at once; None: as much as the rate's number."""

    user: UserName | None = None
    network: Network | None = None
    sender_domains: Annotated[tuple[SenderDomain, ...], BeforeValidator(_sequence), Field(min_length=1)] | None = None
    null_sender: bool = True
    messages: Amount | None = None
    burst: Count | None = None
    recipients: Amount | None = None
    recipients_burst: Count | None = None
    highest_class: Literal["urgent", "normal", "bulk"] = "urgent"
    max_message_size: Size | None = None
    max_recipients: Count | None = None

    @property
    def rule(self) -> ClientRule:
        return ClientRule(
            user=self.user or "",
            network=self.network,
            sender_domains=self.sender_domains or (),
            null_sender=self.null_sender,
            messages=_rate(self.messages, self.burst),
            recipients=_rate(self.recipients, self.recipients_burst),
            highest_class=MailClass[self.highest_class.upper()],
            max_message_size=self.max_message_size,
            max_recipients=self.max_recipients,
        )


def _rate(amount: tuple[int, float] | None, burst: int | None) -> Rate | None:
    return Rate(*amount, burst or amount[0]) if amount else None


class Submission(Table):
    listen: Annotated[tuple[ListenDoor, ...], BeforeValidator(_sequence), Field(min_length=1)] = (Door("127.0.0.1", 2525),)
    socket_mode: FileMode = 0o660
    tls: SubmissionTls = SubmissionTls()
    proxy_protocol_from: Annotated[tuple[Network, ...], BeforeValidator(_sequence)] = ()
    max_message_size: Size = 25 * 2**20
    max_recipients: Count = 1000
    max_connections: Count = 500
    timeout: Duration = 300.0
    allow: Annotated[tuple[Network, ...], BeforeValidator(_sequence)] = (
        ipaddress.IPv4Network("127.0.0.0/8"),
        ipaddress.IPv6Network("::1/128"),
    )
    bare_newlines: Literal["normalize", "reject"] = "normalize"
    long_lines: Literal["refuse", "encode"] = "refuse"
    header_checks: Literal["strict", "lenient"] = "strict"
    max_own_hops: Annotated[int, Field(ge=2, le=100)] = 10
    require_key: bool = False
    message_id_window: DurationOrZero = 0.0
    max_hold: Hold = 60 * 86400.0
    deliver_by: Literal["strict", "handover"] = "strict"
    users_file: FilePath | None = None
    i_know_this_is_an_open_relay: bool = False
    client: Annotated[tuple[Client, ...], BeforeValidator(_sequence)] = ()


class Interval(Table):
    """`[reports]`: how long further ones are collected."""

    interval: Duration = 300.0


class WarningLimits(Table):
    """From when on `mta status --check` warns; zero: never. `pending` counts what waits, the others are the age of the
    oldest that waits in the class."""

    pending: CountOrZero = 10_000
    urgent: DurationOrZero = 5 * 60.0
    normal: DurationOrZero = 4 * 3600.0
    bulk: DurationOrZero = 86400.0


class CriticalLimits(Table):
    """The same for critical."""

    pending: CountOrZero = 100_000
    urgent: DurationOrZero = 30 * 60.0
    normal: DurationOrZero = 86400.0
    bulk: DurationOrZero = 2 * 86400.0


class Alerts(Interval):
    """Whom to call when a person is needed, beside the mail to the postmaster. No `command`, no `webhook`: only mail."""

    command: CommandWords = ()
    webhook: Webhook | None = None
    warning: WarningLimits = WarningLimits()
    critical: CriticalLimits = CriticalLimits()


class Control(Table):
    socket: SocketPath


class Dns(Table):
    """No `nameservers`: the system's. `trust_ad`: they are believed about DNSSEC though they are not on this machine."""

    nameservers: Annotated[tuple[Nameserver, ...], BeforeValidator(_sequence)] = ()
    timeout: Duration = 5.0
    trust_ad: bool = False


class TimeoutTable(Table):
    connect: Duration = _RFC.connect
    greeting: Duration = _RFC.greeting
    command: Duration = _RFC.command
    data_init: Duration = _RFC.data_init
    data: Duration = _RFC.data
    final: Duration = _RFC.final


class Delivery(Table):
    port: Port = 25
    allow_private_addresses: bool = False
    max_sessions: Count = 200
    max_sessions_per_destination: Count = 20
    in_doubt: Literal["retry", "hold"] = "retry"
    in_doubt_delay: DurationOrZero = 600.0
    timeout_table: TimeoutTable = Field(default=TimeoutTable(), alias="timeouts")

    @property
    def timeouts(self) -> Timeouts:
        return Timeouts(**self.timeout_table.model_dump())


class Destination(Table):
    """`[[destination]]`: what holds for those that `match`; `share` for all of them together, or for those of them with the
    same mail servers."""

    match: Matches
    share: Sharing = False
    first_sessions: Count | None = None
    max_sessions: Count | None = None
    messages_per_session: Count | None = None
    rate: Amount | None = None
    burst: Count | None = None
    tls: Literal["none", "may", "encrypt", "verify", "dane"] = "may"

    @property
    def rule(self) -> DestinationRule:
        rate = _rate(self.rate, self.burst)
        return DestinationRule(
            self.match,
            self.max_sessions,
            self.messages_per_session,
            rate,
            TlsLevel(self.tls),
            shared=self.share is True,
            by_servers=self.share == "mx",
            first_sessions=self.first_sessions,
        )


class Route(Table):
    """`[[route]]`: where mail to those that `match` goes, and from which addresses. `password` is for every `via` with a
    user."""

    match: Matches
    via: Annotated[tuple[Via, ...], BeforeValidator(_one_or_more), Field(min_length=1)] = (None,)
    password: SecretFile | None = None
    source: Annotated[tuple[Source, ...], BeforeValidator(_one_or_more), Field(max_length=2)] = ()


class Dkim(Table):
    """`[[dkim]]`: mail from `domain` is signed with `key` (PEM, RSA or Ed25519), whose public part is in DNS under
    `selector`."""

    domain: FullDomain
    selector: Selector
    key: SecretFile


class TlsTable(Table):
    """`[tls]`: encryption on the way out, beyond what each destination has. `report`: reports of it are sent to the domains
    that ask for them (RFC 8460)."""

    dane: bool = True
    mta_sts: bool = True
    report: bool = False


class Suppression(Table):
    """`keep`: for how long nothing is sent to an address whose server said that it does not exist; zero: it is."""

    keep: DurationOrZero = 0.0


class Lanes(Table):
    """Shares of the sessions, of all and of each destination's."""

    urgent_reserve: Annotated[float, Field(ge=0, le=HIGHEST_RESERVE, allow_inf_nan=False)] = 0.2
    bulk_share: Annotated[float, Field(ge=0, le=HIGHEST_BULK_SHARE, allow_inf_nan=False)] = 0.1
    fair_by: Literal["destination", "sender"] = "destination"


class Daemon(Table):
    stop_timeout: DurationOrZero = 15.0


class RetryTable(Table):
    """A class's schedule as far as it is given; None: the class's default."""

    first_retry: Duration | None = None
    factor: Annotated[float, Field(ge=1, le=HIGHEST_FACTOR, allow_inf_nan=False)] | None = None
    max_interval: Duration | None = None
    jitter: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] | None = None
    give_up_after: Duration | None = None
    max_attempts: CountOrZero | None = None
    warn_after: DurationOrZero | None = None
    deadline: DurationOrZero | None = None


class ClassTables(Table):
    urgent: RetryTable = RetryTable()
    normal: RetryTable = RetryTable()
    bulk: RetryTable = RetryTable()


class Log(Table):
    format: Literal["kv", "json"] = "kv"
    level: Literal["info", "debug"] = "info"


class Config(Table):
    """The whole. `hostname` None: the machine's full name, which the daemon asks for once at its start."""

    hostname: Hostname | None = None
    postmaster: Address | None = None
    local_domains: Annotated[tuple[Domain, ...], BeforeValidator(_sequence)] = ("localhost",)
    spool: Spool
    submission: Submission = Submission()
    aliases: Annotated[Mapping[AliasName, Addresses], BeforeValidator(_distinct)] = Field(default_factory=dict)
    reports: Interval = Interval()
    alerts: Alerts = Alerts()
    control: Control
    dns: Dns = Dns()
    delivery: Delivery = Delivery()
    daemon: Daemon = Daemon()
    class_tables: ClassTables = Field(default=ClassTables(), alias="class")
    lanes: Lanes = Lanes()
    destination: Annotated[tuple[Destination, ...], BeforeValidator(_sequence)] = ()
    route: Annotated[tuple[Route, ...], BeforeValidator(_sequence)] = ()
    dkim: Annotated[tuple[Dkim, ...], BeforeValidator(_sequence)] = ()
    tls: TlsTable = TlsTable()
    suppression: Suppression = Suppression()
    log: Log = Log()

    @property
    def classes(self) -> Mapping[MailClass, RetryPolicy]:
        """Each class's whole schedule."""
        return {
            mail_class: replace(
                DEFAULTS[mail_class.label],
                **getattr(self.class_tables, mail_class.label).model_dump(exclude_unset=True),
            )
            for mail_class in MailClass
        }
