"""The machine that the daemon runs on: it is started, stopped in order, and crashes; its disk stays.

Rules: the daemon is the one that is installed, over a `Runtime` whose clock, chance, network and disk are given. Its
context is the machine's: nothing of it runs once the machine is gone.
"""

import asyncio
import contextvars
import random
from collections.abc import Callable
from pathlib import Path

from mta.app.daemon import Daemon, StartError
from mta.app.main import START_LOOK
from mta.app.runtime import Runtime, SystemEntropy, listen
from mta.app.settings import doubts
from mta.app.systemd import Notifier
from mta.config.model import Config
from mta.dns.resolver import DnsResolver
from mta.doorbell import Doorbell
from mta.model.events import Fact
from mta.observe.log import LogLines, key_values
from mta.ports.system import Called, Callers, Reach
from mta.smtp.connector import SmtpConnector
from mta.spool.base import Recovered, Spool, SpoolError
from mta.spool.sqlite import open_sqlite
from mta.unix_socket import SocketTaken
from tests.sim import invariants
from tests.sim.course import START, Course
from tests.sim.disk import Disk
from tests.sim.faults import RELAY
from tests.sim.idleness import Idleness
from tests.sim.internet import NAME_SERVERS, OPS
from tests.sim.invariants import Violation
from tests.sim.loop import MACHINE, Machine, SimLoop
from tests.sim.network import End, Network
from tests.sim.pace import Pace
from tests.sim.scenario import EPOCH, Crash, DiskTrouble, DomainPlan, Limits, Scenario, Settings
from tests.sim.turns import Turns

SERVICE_RESTARTS = 5.0
"""Seconds until the service manager starts a daemon again that ended."""


class SimClock:
    """Wall time: the loop's, and by how much somebody has set it wrong."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self.offset = 0.0

    def now(self) -> float:
        return EPOCH + self.offset + self._loop.now - START


class _Lines:
    """The log's lines in the trace, without their clock."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell

    def __call__(self, line: bytes, soon: bool = False) -> None:
        self._tell(line.decode().partition(" ")[2].rstrip("\n"))

    def take_lost(self) -> int:
        return 0


class Computer:
    def __init__(self, course: Course, network: Network, folder: Path) -> None:
        self.course, self.network = course, network
        self.spool_path = folder / "spool.db"
        self._folder, self._settings = folder, course.scenario.settings
        self.config = _config(course.scenario, self._settings, folder)
        self.clock = SimClock(course.loop)
        self.disk = Disk(self.spool_path, random.Random(f"{course.scenario.seed}/disk"))
        self.daemon: Daemon | None = None
        self.machine: Machine | None = None
        self.crashes = 0
        self._starts = 0
        self._outside = self._inside = contextvars.copy_context()
        self._turns: Turns | None = None
        self._idleness: Idleness | None = None
        self._down_for, self._silently = SERVICE_RESTARTS, False
        self._unaware: list[End] = []
        """The other ends of connections, after a power cut."""

    @property
    def runs(self) -> bool:
        return self.machine is not None and self.machine.alive

    # ------------------------------------------------ on and off
    def start(self) -> None:
        self.network.reset_all(self._unaware)
        self._unaware = []
        self.course.check(invariants.at_rest_in(self.spool_path))
        self._starts += 1
        self._down_for = SERVICE_RESTARTS
        machine = self.machine = Machine(f"run {self._starts}", self._crashed)
        context = self._inside = self._outside.copy()
        context.run(MACHINE.set, machine)
        self.course.history.take(self._settings)
        self.course.tell(f"{machine.name} starts")
        self.daemon = Daemon(self.config, self._runtime(machine), self._observer(machine), Notifier({}))
        task = context.run(self._serve, machine, self.daemon)
        task.add_done_callback(lambda done: self._ended(machine, done), context=self._outside)

    def _serve(self, machine: Machine, daemon: Daemon) -> asyncio.Task[None]:
        """In the machine's context."""

        def ready() -> None:
            self.course.tell("ready")
            self._idleness = Idleness(self.course, machine, daemon, self.disk.ask, self.clock.now)

        return self.course.loop.create_task(daemon.serve(ready), name="daemon")

    def look(self) -> None:
        """At what grows, and at what waits."""
        if self.machine is not None and self.runs:
            self.course.check(invariants.of_tasks(len(self.machine.tasks()), self.course.history.lately))
            if self._idleness is not None:
                self._idleness.look()

    def stop(self, down: float) -> None:
        """In order; up again after `down` seconds."""
        if self.daemon is not None and self.runs:
            self._down_for = down
            self.daemon.request_stop()

    def reload(self, settings: Settings) -> None:
        """Another configuration, and SIGHUP to whatever daemon there is."""
        self._settings, self.config = settings, _config(self.course.scenario, settings, self._folder)
        if self.daemon is not None and self.runs:
            self.course.loop.call_soon(self._read_again, self.daemon, context=self._inside)

    def _read_again(self, daemon: Daemon) -> None:
        """As `app.main` does."""
        if not daemon.runs:
            self.course.loop.call_later(START_LOOK, self._read_again, daemon)
            return
        daemon.reload(self.config)
        self.course.tell("the configuration was read again")
        self.course.history.take(self._settings)
        if self._turns is not None:
            self._turns.count_anew()

    def arm(self, crash: Crash) -> None:
        if self.machine is not None and self.runs:
            self._down_for, self._silently = crash.down, crash.silently
            self.machine.armed = (crash.kind, crash.count)

    def disarm(self) -> None:
        if self.machine is not None:
            self.machine.armed = None

    def suffer(self, trouble: DiskTrouble) -> None:
        self.disk.trouble = trouble.kind
        self.course.loop.call_at(START + trouble.until + 0.001, self._mend)

    def _mend(self) -> None:
        self.disk.trouble = next((it.kind for it in self.course.lasting(DiskTrouble)), "")

    def _crashed(self, machine: Machine) -> None:
        self.crashes += 1
        self.course.tell(f"{machine.name} crashes")
        self.disk.lose()
        self._unaware = self.network.lose(machine, silently=self._silently)
        self._up_again()

    def _ended(self, machine: Machine, task: "asyncio.Task[None]") -> None:
        """In order, or because it could not start."""
        error = task.exception()
        self.course.tell(f"{machine.name} ends: {error!r}")
        machine.end()
        self.disk.lose()
        if isinstance(error, StartError) or not (error is None or isinstance(error, SpoolError | OSError | SocketTaken)):
            self.course.check([Violation("no part ends by itself", f"{error!r}")])
        elif error is not None and not self.course.disk_was_bad:
            self.course.check([Violation("the daemon can start", f"{error!r}")])
        self._up_again()

    def _up_again(self) -> None:
        self.daemon = self._idleness = None
        if not self.course.over.is_set():
            self.course.loop.call_later(self._down_for, self.start, context=self._outside)

    # ------------------------------------------------ what the daemon is given
    def _observer(self, machine: Machine) -> Callable[[Fact], None]:
        lines = LogLines(_Lines(self.course.tell), self.clock.now, key_values, debug=True)
        pace = Pace(self.course)

        def observe(fact: Fact) -> None:
            if machine.alive:
                lines(fact)
                self.course.check(invariants.of_fact(fact, not self.course.disk_was_bad))
                self.course.check(pace(fact))

        return observe

    def _runtime(self, machine: Machine) -> Runtime:
        config = self.config

        async def open_spool() -> tuple[Spool, Recovered]:
            spool, recovered = await open_sqlite(
                self.spool_path, doubts=doubts(config), now=self.clock.now(), doorbell=Doorbell(),
                connect=self.disk.connect, min_free=0, by_sender=config.lanes.fair_by == "sender",
            )  # fmt: skip
            self._turns = Turns(self, machine, spool)
            return spool, recovered

        return Runtime(
            clock=self.clock,
            entropy=SystemEntropy(f"{self.course.scenario.seed}/{self._starts}".encode()),
            resolver=DnsResolver(config.dns.nameservers, config.dns.timeout, config.dns.trust_ad),
            reachability=lambda addresses: Reach(),
            connector=SmtpConnector("mta.example", config.delivery.timeouts),
            listen=listen,
            callers=Callers(_call, _call),
            open_spool=open_spool,
        )


async def _call(*_: object) -> Called:
    await asyncio.sleep(0.1)
    return Called(True, "taken")


def _config(scenario: Scenario, settings: Settings, folder: Path) -> Config:
    relayed = scenario.relay is not None and settings.relayed
    return Config.model_validate(
        {
            "hostname": "mta.example",
            "postmaster": f"postmaster@{OPS}",
            "spool": {"url": f"sqlite:{folder}/spool.db", "min_free": "0B"},
            "submission": {"max_connections": settings.max_connections},
            "control": {"socket": f"{folder}/control.sock"},
            "dns": {"nameservers": [f"{host}:{port}" for host, port in NAME_SERVERS], "trust_ad": True},
            "destination": [_destination(it, settings.of(it)) for it in scenario.domains],
            "route": [{"match": list(scenario.by_relay), "via": [f"smtp://{RELAY}:587", "mx"]}] if relayed else [],
            "delivery": {
                "in_doubt": settings.in_doubt,
                "in_doubt_delay": f"{settings.in_doubt_delay:g}s",
                "max_sessions": settings.max_sessions,
                "max_sessions_per_destination": settings.max_sessions_per_destination,
            },
            "lanes": {
                "urgent_reserve": settings.urgent_reserve,
                "bulk_share": settings.bulk_share,
                "fair_by": settings.fair_by,
            },
            "daemon": {"stop_timeout": f"{settings.stop_timeout:g}s"},
        },
        context={"base": folder},
    )


def _destination(domain: DomainPlan, limits: Limits) -> dict[str, object]:
    given = {"max_sessions": limits.max_sessions, "rate": limits.rate, "burst": limits.burst, "tls": limits.tls}
    return {"match": domain.name, **{key: value for key, value in given.items() if value}}
