"""The daemon: builds the parts over what it is given, starts them in order, stops them in order.

Rules: the spool is opened first and closed last; nobody is listened to before the spool is ours; on stop the listener
closes first, then deliveries, then reports, then the control socket. A part that ends by itself ends the daemon.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass, field

from mta import __version__
from mta.app import settings
from mta.app.certificate import Certificate
from mta.app.relay_passwords import RelayPasswords
from mta.app.reload import reload
from mta.app.runtime import Runtime
from mta.app.signing import SigningKeys
from mta.app.state import RunningState
from mta.app.systemd import Notifier
from mta.app.upkeep import feed_watchdog, purge_for_ever, reconcile_for_ever, watch_clock
from mta.config.checks import at_doors, warnings
from mta.config.model import Config
from mta.config.problems import Problem, refuse
from mta.config.users import NOBODY, Users
from mta.control.desk import Desk
from mta.control.server import ControlServer
from mta.delivery.attempt import Means
from mta.delivery.complaints import Complaints
from mta.delivery.deadlines import Deadlines
from mta.delivery.hosts import HostMemory
from mta.delivery.letter import Letters
from mta.delivery.opening import Opener
from mta.delivery.route import Router
from mta.delivery.security import Security
from mta.delivery.signing import Keyring, Signing
from mta.delivery.sts import PolicyStore
from mta.delivery.worker import Delivery
from mta.listener.server import Listener, place
from mta.listener.settings import ListenerSettings
from mta.model.door import Door, Scheme
from mta.model.events import Fact, Trouble
from mta.observe.lag import LoopLag
from mta.observe.metrics import Metrics
from mta.policy.shares import Shares
from mta.ports.system import Observer
from mta.reports.alerts import Alerts
from mta.reports.stage import Reports
from mta.reports.tls import TlsReports
from mta.scheduler import Scheduler
from mta.smtp.pool import SessionPool
from mta.spool.base import Recovered, Spool
from mta.suppressions import Suppressions


class StartError(Exception):
    """The daemon can't start; the text says what is in the way and what to do."""


@dataclass(slots=True)
class Daemon:
    """`start`, then `run_until_stopped`, then `stop`; or `serve` for all of it."""

    config: Config
    runtime: Runtime
    log: Observer
    notifier: Notifier
    users: Users = NOBODY
    metrics: Metrics = field(init=False)
    loop_lag: LoopLag = field(init=False)
    spool: Spool = field(init=False)
    listener: Listener = field(init=False)
    pool: SessionPool = field(init=False)
    router: Router = field(init=False)
    security: Security = field(init=False)
    hosts: HostMemory = field(init=False)
    delivery: Delivery = field(init=False)
    deadlines: Deadlines = field(init=False)
    scheduler: Scheduler = field(init=False)
    reports: Reports = field(init=False)
    alerts: Alerts = field(init=False)
    suppressions: Suppressions = field(init=False)
    control: ControlServer = field(init=False)
    policies: PolicyStore | None = field(default=None, init=False)
    tls_reports: TlsReports | None = field(default=None, init=False)
    certificate: Certificate = field(default_factory=Certificate)
    signing_keys: SigningKeys = field(default_factory=SigningKeys)
    signing: Signing = field(default_factory=Signing)
    relay_passwords: RelayPasswords = field(default_factory=RelayPasswords)
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _stop: asyncio.Event = field(default_factory=asyncio.Event)

    # ------------------------------------------------ the whole
    async def serve(self, ready: Callable[[], None], sockets: Iterable[tuple[Scheme, socket.socket]] = ()) -> None:
        """Starts, calls `ready`, runs until `request_stop`, stops. Raises `StartError`, `ConfigError`, `SpoolError` and
        OSError."""
        try:
            await self.start(sockets)
            ready()
            await self._run_until_stopped()
        finally:
            await self.stop()

    @property
    def runs(self) -> bool:
        """Whether it has started, so that there are parts to be told."""
        return bool(self._tasks)

    def request_stop(self) -> None:
        self._stop.set()

    def observe(self, fact: Fact) -> None:
        self.metrics(fact)
        self.log(fact)
        if self.tls_reports is not None:
            self.tls_reports.observe(fact)

    # ------------------------------------------------ start
    async def start(self, sockets: Iterable[tuple[Scheme, socket.socket]] = ()) -> None:
        sockets = list(sockets)
        self._read_certificate(sockets)
        self.take_keys(self.runtime.signing_keys(self.config))
        self.relay_passwords = self.runtime.relay_passwords(self.config)
        refuse(at_doors(self.config, [place(Door(scheme=scheme), sock.getsockname()) for scheme, sock in sockets]))
        self.metrics = Metrics(asyncio.get_running_loop().time)
        self.loop_lag = LoopLag(self.observe)
        self.spool, recovered = await self.runtime.open_spool()
        self._build()
        await self.suppressions.load()
        self._tell_recovered(recovered)
        await self._tell_held()
        await self.control.start()
        submission = self.config.submission
        await self.listener.start(() if sockets else submission.listen, sockets, socket_mode=submission.socket_mode)
        self.router.rules = settings.routing(self.config, self.listener.endpoints)
        self._spawn("deadlines", self.deadlines.run())
        self._spawn("scheduler", self.scheduler.run())
        self._spawn("reports", self.reports.run())
        self._spawn("alerts", self.alerts.run())
        self._spawn("upkeep", purge_for_ever(self.spool, self.config.spool, self.runtime.clock, self.observe))
        self._spawn("reconciling", reconcile_for_ever(self.spool, self.delivery, self.runtime.clock, self.observe))
        self._spawn("clock", watch_clock(self.spool, self.runtime.clock, lambda: settings.waits(self.config), self.observe))
        if self.policies is not None:
            self._spawn("MTA-STS policies", self.policies.run())
        if self.tls_reports is not None:
            self._spawn("reports of encryption", self.tls_reports.run())
        if self.runtime.spool_ended is not None:
            self._spawn("spool's process", self.runtime.spool_ended())
        if self.runtime.watches_loop:
            self._spawn("loop lag", self.loop_lag.watch())
        if self.notifier.watchdog:
            self._spawn("watchdog", feed_watchdog(self.notifier))
        files = (*self.certificate.warnings, *self.signing_keys.warnings, *self.users.warnings)
        for problem in (*warnings(self.config), *files, *self.relay_passwords.warnings):
            self.observe(Trouble("warning", str(problem)))

    def _read_certificate(self, sockets: Iterable[tuple[Scheme, socket.socket]]) -> None:
        self.certificate = self.runtime.certificate(self.config)
        if self.certificate.context is None and any(scheme is Scheme.TLS for scheme, _ in sockets):
            advice = "systemd opened a socket named tls for us: expected certificate and key"
            refuse([Problem("submission.tls", advice)])

    def _build(self) -> None:
        """In the order in which they need each other."""
        shares = settings.shares(self.config)
        self._build_entrance()
        self._build_way_out(shares)
        self._build_tls()
        self._build_delivery(shares)
        self._build_told()

    def _build_entrance(self) -> None:
        config, world = self.config, self.runtime
        self.suppressions = Suppressions(settings.suppression(config), self.spool, world.clock, self.observe)
        self.listener = Listener(
            self.listener_settings(),
            self.spool,
            world.clock,
            world.entropy,
            self.observe,
            world.listen,
            world.passwords,
            self.suppressions,
        )

    def _build_way_out(self, shares: Shares) -> None:
        world = self.runtime
        self.pool = SessionPool(settings.reuse(self.config), shares.share)
        self.router = Router(
            world.resolver,
            world.reachability,
            settings.routing(self.config, ()),
            world.entropy.stream("routing"),
            shares.routed,
        )
        self.router.destinations = settings.destinations(self.config, self.relay_passwords.by_route)

    def _build_delivery(self, shares: Shares) -> None:
        config, world = self.config, self.runtime
        self.hosts = HostMemory()
        self.security = Security(world.resolver, self.policies, settings.security(config), self.observe)
        opener = Opener(world.connector, self.pool, self.hosts, self.security)
        letters, complaints = Letters(self.spool, self.signing), Complaints(self.observe)
        means = Means(self.spool, letters, self.pool, opener, self.router, self.hosts, complaints)
        chance = world.entropy.stream("schedule")
        learn = self.suppressions.learn
        self.delivery = Delivery(settings.delivery(config), means, world.clock, chance, self.observe, learn)
        self.deadlines = Deadlines(self.delivery, self.spool, world.clock, self.observe)
        self.scheduler = Scheduler(
            settings.scheduler(config), self.spool, world.clock, chance, self.observe, self.delivery, shares
        )

    def _build_told(self) -> None:
        """Who is told by mail, by a call, at the control socket."""
        config, world = self.config, self.runtime
        self.reports = Reports(
            settings.reports(config), self.spool, settings.locals_of(config), world.clock, world.entropy, self.observe
        )
        self.alerts = Alerts(settings.alerts(config), self.spool, world.callers, world.clock, self.observe)
        desk = Desk(
            self.spool,
            RunningState(self.scheduler, self.hosts, self.metrics, self.loop_lag, world.clock),
            world.clock,
            self.observe,
            settings.hostname(config),
            __version__,
            self.listener.resend,
            lambda: settings.health(self.config),
            self.suppressions,
        )
        self.control = ControlServer(config.control.socket, desk, self.observe)

    def _build_tls(self) -> None:
        config, world = self.config, self.runtime
        if config.tls.mta_sts and world.fetch_policy is not None:
            self.policies = PolicyStore(
                self.spool,
                world.resolver,
                world.fetch_policy,
                world.clock,
                world.entropy.stream("policies"),
                self.observe,
                allow_private=config.delivery.allow_private_addresses,
            )
        if config.tls.report:
            told = settings.tls_reports(config)
            self.tls_reports = TlsReports(told, self.spool, world.resolver, world.clock, world.entropy, self.observe)

    def _tell_recovered(self, recovered: Recovered) -> None:
        if recovered.in_doubt:
            what = f"the last run ended between the final dot and its reply for {recovered.in_doubt} recipients"
            self.observe(Trouble("warning", what, "they are in doubt: see `mta queue --status in_doubt`"))
        for queue_id in recovered.damaged:
            self.observe(Trouble("error", f"message {queue_id} is damaged and set apart", "see `mta dead`"))

    async def _tell_held(self) -> None:
        """A standing order outlives whoever gave it, and comes with a restored backup."""
        if orders := (await self.spool.overview(self.runtime.clock.now())).held_destinations:
            what = "everything" if "*" in orders else ", ".join(orders)
            self.observe(Trouble("warning", f"mail is held by a standing order: {what}", "see `mta status`, `mta release`"))

    def _spawn(self, name: str, work: Coroutine[object, object, None]) -> None:
        self._tasks[name] = asyncio.create_task(work, name=name)

    # ------------------------------------------------ while it runs
    async def _run_until_stopped(self) -> None:
        """Until a stop is asked for; a part that ends by itself is a bug, and the manager's to restart."""
        stop = asyncio.create_task(self._stop.wait(), name="stop")
        done, _ = await asyncio.wait([stop, *self._tasks.values()], return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        for task in done - {stop}:
            raise StartError(f"the {task.get_name()} ended by itself: {task.exception()!r}")

    def reload(self, config: Config, users: Users = NOBODY) -> None:
        """Takes what can change while it runs (`app.reload`). Raises `ConfigError`, and nothing has changed."""
        reload(self, config, users)

    def take_keys(self, found: SigningKeys) -> None:
        self.signing_keys = found
        self.signing.keyring = Keyring(found.keys)

    def listener_settings(self) -> ListenerSettings:
        """The keys say whose mail is signed: after a reload with a bad one they are not those of the configuration."""
        return settings.listener(self.config, self.certificate.context, self.users, self.signing.keyring.domains)

    # ------------------------------------------------ stop
    async def stop(self) -> None:
        """In order, each part for itself: one that fails does not keep the next from being stopped."""
        timeout = self.config.daemon.stop_timeout
        if hasattr(self, "scheduler"):
            self.scheduler.stop()
            await self._quietly("listener and deliveries", self._stop_traffic(timeout))
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        if hasattr(self, "control"):
            await self._quietly("sessions", self.pool.close())
            await self._quietly("control socket", self.control.close())
        if self.policies is not None:
            self.policies.close()
        if self.tls_reports is not None:
            await self._quietly("reports of encryption", self.tls_reports.flush())
        if hasattr(self, "spool"):
            await self._quietly("spool", self.spool.close())

    async def _stop_traffic(self, timeout: float) -> None:
        await asyncio.gather(self.listener.stop(timeout), self.delivery.stop(timeout))

    async def _quietly(self, what: str, work: Awaitable[object]) -> None:
        try:
            await work
        except Exception as error:
            self.observe(Trouble("error", f"the {what} did not stop in order", repr(error)))
