"""From the configuration to what each part is told. Pure, so that a reload is the same as a start."""

import ssl
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import zip_longest

from mta.app.upkeep import Waits
from mta.config.model import Config, CriticalLimits, WarningLimits
from mta.config.users import NOBODY, Users
from mta.control.health import HealthRules, Limits
from mta.delivery.security import SecurityRules
from mta.delivery.worker import DeliverySettings
from mta.listener.settings import ListenerSettings
from mta.model.envelope import MailClass, Notice
from mta.policy.acceptance import Locals
from mta.policy.destinations import Destinations, Relay, RouteRule
from mta.policy.lanes import LaneRules
from mta.policy.routing import RoutingRules
from mta.policy.shares import Shares
from mta.reports.alerts import AlertSettings
from mta.reports.stage import ReportSettings
from mta.reports.tls import TlsReportSettings
from mta.scheduler import SchedulerSettings
from mta.smtp.pool import ReuseLimits
from mta.spool.base import DoubtPolicy
from mta.suppressions import SuppressionSettings


def hostname(config: Config) -> str:
    """The name of the daemon; `config.load.named` has given one where the file has none."""
    if config.hostname is None:
        raise ValueError("the configuration has no hostname yet")
    return config.hostname


def locals_of(config: Config) -> Locals:
    domains = frozenset(domain.lower() for domain in config.local_domains)
    aliases = {name.lower(): tuple(targets) for name, targets in config.aliases.items()}
    return Locals(hostname(config), domains, aliases, config.postmaster)


def listener(
    config: Config, tls: ssl.SSLContext | None = None, users: Users = NOBODY, signed: frozenset[str] = frozenset()
) -> ListenerSettings:
    """`tls` is what [submission.tls] names, `users` are those of the users file, `signed` the domains that have a key."""
    submission = config.submission
    return ListenerSettings(
        hostname=hostname(config),
        locals=locals_of(config),
        schedules=config.classes,
        max_message_size=submission.max_message_size,
        max_recipients=submission.max_recipients,
        max_connections=submission.max_connections,
        timeout=submission.timeout,
        allow=submission.allow,
        bare_newlines=submission.bare_newlines,
        long_lines=submission.long_lines,
        header_checks=submission.header_checks,
        max_own_hops=submission.max_own_hops,
        require_key=submission.require_key,
        message_id_window=submission.message_id_window,
        allow_private_addresses=config.delivery.allow_private_addresses,
        max_hold=submission.max_hold,
        strict_deliver_by=submission.deliver_by == "strict",
        tls=tls,
        tls_required=submission.tls.required,
        proxies=submission.proxy_protocol_from,
        users=users.hashes,
        clients=tuple(table.rule for table in submission.client),
        signed=signed,
    )


def suppression(config: Config) -> SuppressionSettings:
    return SuppressionSettings(config.suppression.keep, locals_of(config), destinations(config))


def destinations(config: Config, passwords: Sequence[str] = ()) -> Destinations:
    """`passwords` are those of the relays with a user, one for each route."""
    routes = tuple(
        RouteRule(table.match, tuple(via and _with_password(via, password or "") for via in table.via), table.source)
        for table, password in zip_longest(config.route, passwords)
    )
    return Destinations(tuple(table.rule for table in config.destination), routes)


def security(config: Config) -> SecurityRules:
    return SecurityRules(destinations(config), config.tls.dane)


def _with_password(relay: Relay, password: str) -> Relay:
    return replace(relay, password=password) if relay.user else relay


def reuse(config: Config) -> ReuseLimits:
    """Idle sessions are no more than there may be at work."""
    return ReuseLimits(kept=config.delivery.max_sessions)


def scheduler(config: Config) -> SchedulerSettings:
    delivery = config.delivery
    return SchedulerSettings(
        delivery.max_sessions,
        delivery.max_sessions_per_destination,
        dict(config.classes),
        LaneRules(config.lanes.urgent_reserve, config.lanes.bulk_share),
        destinations(config),
    )


def shares(config: Config) -> Shares:
    return Shares(destinations(config), config.delivery.max_sessions_per_destination)


def waits(config: Config) -> Waits:
    return Waits(max(policy.longest for policy in config.classes.values()), config.delivery.in_doubt_delay)


def delivery(config: Config) -> DeliverySettings:
    return DeliverySettings(dict(config.classes), doubts(config))


def doubts(config: Config) -> DoubtPolicy:
    return DoubtPolicy(config.delivery.in_doubt == "retry", config.delivery.in_doubt_delay, alert_ways(config))


def alert_ways(config: Config) -> tuple[Notice, ...]:
    """The marks of a recipient that needs a person; the postmaster's also without a postmaster: one may come."""
    ways = [Notice.ALERT]
    if config.alerts.command:
        ways.append(Notice.ALERT_COMMAND)
    if config.alerts.webhook:
        ways.append(Notice.ALERT_WEBHOOK)
    return tuple(ways)


def alerts(config: Config) -> AlertSettings:
    own = config.alerts
    return AlertSettings(hostname(config), own.command, own.webhook or "", own.interval)


def health(config: Config) -> HealthRules:
    return HealthRules(_limits(config.alerts.warning), _limits(config.alerts.critical), config.postmaster is not None)


def _limits(table: WarningLimits | CriticalLimits) -> Limits:
    oldest = {MailClass.URGENT: table.urgent, MailClass.NORMAL: table.normal, MailClass.BULK: table.bulk}
    return Limits(table.pending, oldest)


def routing(config: Config, own_endpoints: Iterable[tuple[str, int]]) -> RoutingRules:
    return RoutingRules(
        own_names=frozenset({hostname(config).lower()}),
        own_endpoints=frozenset(own_endpoints),
        port=config.delivery.port,
        allow_private_addresses=config.delivery.allow_private_addresses,
    )


def reports(config: Config) -> ReportSettings:
    return ReportSettings(
        hostname=hostname(config),
        postmaster=config.postmaster,
        report_interval=config.reports.interval,
        alert_interval=config.alerts.interval,
        schedules=config.classes,
    )


def tls_reports(config: Config) -> TlsReportSettings:
    return TlsReportSettings(hostname(config), config.postmaster, locals_of(config))
