"""Another configuration while the daemon runs: what can change at once does, what can't is said.

Rules: a wrong configuration changes nothing. A file that is no good, or gone, leaves what was read before: clients, and mail
that must be signed, rely on it. What was learned about servers stays, but where a route is another.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mta.app import settings
from mta.app.relay_passwords import RelayPasswords
from mta.config.checks import at_doors
from mta.config.model import Config
from mta.config.problems import ConfigError, refuse
from mta.config.users import Users
from mta.delivery.security import SecurityRules
from mta.model.events import Trouble

if TYPE_CHECKING:
    from mta.app.daemon import Daemon


def reload(daemon: "Daemon", config: Config, users: Users) -> None:
    """Raises `ConfigError`, and nothing has changed."""
    refuse(at_doors(config, daemon.listener.doors))
    passwords = daemon.runtime.relay_passwords(config)
    for key, old, new in _fixed(daemon.config, config):
        if old != new:
            daemon.observe(Trouble("warning", f"{key} was changed: a restart is needed for it"))
    old = daemon.config
    config = daemon.config = config.model_copy(update={"hostname": old.hostname, "spool": old.spool, "control": old.control})
    _renew_certificate(daemon)
    _renew_keys(daemon)
    daemon.users = users
    daemon.listener.settings = daemon.listener_settings()
    daemon.delivery.settings = settings.delivery(config)
    daemon.suppressions.settings = settings.suppression(config)
    daemon.scheduler.reconfigure(settings.scheduler(config))
    daemon.pool.limits = settings.reuse(config)
    daemon.router.rules = settings.routing(config, daemon.listener.endpoints)
    _secure_anew(daemon, settings.security(config))
    _reroute(daemon, passwords)
    daemon.reports.reconfigure(settings.reports(config), settings.locals_of(config))
    daemon.alerts.settings = settings.alerts(config)
    if daemon.policies is not None:
        daemon.policies.allow_private = config.delivery.allow_private_addresses
    if daemon.tls_reports is not None:
        daemon.tls_reports.settings = settings.tls_reports(config)
    daemon.spool.doorbell.ring_notices()  # there may be a way now


def _fixed(old: Config, new: Config) -> Iterable[tuple[str, object, object]]:
    """What takes a restart."""
    yield "hostname", old.hostname, new.hostname or old.hostname
    for key in ("spool", "control", "dns", "log"):
        yield f"[{key}]", getattr(old, key), getattr(new, key)
    yield "submission.listen", old.submission.listen, new.submission.listen
    yield "submission.socket_mode", old.submission.socket_mode, new.submission.socket_mode
    if new.submission.tls.certificate is None:  # a new one, or the first, is taken at once
        yield "[submission.tls]", old.submission.tls.certificate, None
    yield "lanes.fair_by", old.lanes.fair_by, new.lanes.fair_by
    yield "tls.mta_sts", old.tls.mta_sts, new.tls.mta_sts
    yield "tls.report", old.tls.report, new.tls.report
    yield "[delivery.timeouts]", old.delivery.timeouts, new.delivery.timeouts


def _secure_anew(daemon: "Daemon", rules: SecurityRules) -> None:
    """What is open may be less than is asked for now."""
    if rules != daemon.security.rules:
        daemon.security.rules = rules
        daemon.pool.renew()


def _renew_certificate(daemon: "Daemon") -> None:
    try:
        found = daemon.runtime.certificate(daemon.config)
    except ConfigError as error:
        daemon.observe(Trouble("error", "the certificate is as it was: the new one is wrong", "; ".join(error.lines())))
        return
    for problem in found.warnings:
        daemon.observe(Trouble("warning", str(problem)))
    if found.context is not None:
        daemon.certificate = found


def _renew_keys(daemon: "Daemon") -> None:
    try:
        found = daemon.runtime.signing_keys(daemon.config)
    except ConfigError as error:
        daemon.observe(Trouble("error", "the DKIM keys are as they were: a new one is wrong", "; ".join(error.lines())))
        return
    for problem in found.warnings:
        daemon.observe(Trouble("warning", str(problem)))
    daemon.take_keys(found)


def _reroute(daemon: "Daemon", passwords: RelayPasswords) -> None:
    """Where a relay is another, or lets us in now, nothing of what befell it before counts, nor who we were there."""
    for problem in passwords.warnings:
        daemon.observe(Trouble("warning", str(problem)))
    daemon.relay_passwords = passwords
    found = settings.destinations(daemon.config, passwords.by_route)
    if found.routes != daemon.router.destinations.routes:
        daemon.hosts.revive()
        daemon.pool.renew()
    daemon.router.destinations = found
