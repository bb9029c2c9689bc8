"""Everything beyond the daemon's machine: servers, zones, and the way to them.

Rules: what a server takes goes into the ledger, and is held against what was submitted at that instant. Each connection
has a stream of chance of its own, by its number.
"""

import hashlib
import json
import random
import sqlite3
import ssl
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from tests.sim import invariants, programs
from tests.sim.course import START, Course
from tests.sim.dns import NameService, OverTcp, Zone
from tests.sim.invariants import Learned
from tests.sim.ledger import Copy, Ledger, notices_of, queue_id_of, tag_of
from tests.sim.loop import MACHINE, Machine
from tests.sim.network import LineFault, Network, Place, Route
from tests.sim.remote import CHARACTERS, DOWN, ConnectionLimiting, Honest, Host, Taken
from tests.sim.scenario import EPOCH, DnsTrouble, DomainPlan, HostPlan, Noise, Outage

NAME_SERVERS = (("192.0.2.53", 53), ("192.0.2.54", 53))
OPS = "ops.example"
"""The postmaster's domain, which is always well."""
LOCAL_LATENCY = 0.0002
_CERTIFICATE = Path(__file__).with_name("mx.pem")


@cache
def _fingerprint() -> str:
    """What a DANE record says of the key in the certificate (RFC 6698: selector 1, matching type 1)."""
    certificate = x509.load_pem_x509_certificate(_CERTIFICATE.read_bytes())
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    octets = certificate.public_key().public_bytes(serialization.Encoding.DER, form)
    return hashlib.sha256(octets).hexdigest()


class Internet:
    """`spool` is looked into for what it says of doubts."""

    def __init__(self, course: Course, network: Network, ledger: Ledger, spool: Path) -> None:
        self._course, self._network, self._ledger, self._spool = course, network, ledger, spool
        self._seed = course.scenario.seed
        self._hosts: dict[Place, tuple[DomainPlan, HostPlan]] = {}
        self._connections = 0
        self._books: sqlite3.Connection | None = None
        ops = DomainPlan(OPS, (HostPlan(f"mx.{OPS}", "198.51.99.1", 10, ("PIPELINING", "8BITMIME"), "none"),))
        relay = [course.scenario.relay] if course.scenario.relay else []
        self._domains = {it.name: it for it in (*course.scenario.domains, *relay, ops)}
        self._hosts_of: dict[str, Host] = {}
        self._zones: dict[tuple[str, tuple[str, ...]], Zone] = {}
        """By domain and what it says of its keys."""
        self._rates: dict[str, list[float]] = {}
        self._turned_away_at: dict[tuple[Place, Machine | None], list[float]] = {}
        """By server and run of the daemon."""
        context = self._tls()
        for domain in self._domains.values():
            for plan in domain.hosts:
                self._build(domain, plan, context)
        names = NameService(self._zone_of, self._dns_trouble, random.Random(f"{self._seed}/names"))
        for place in NAME_SERVERS:
            network.name_servers[place] = names
            network.listen(lambda: OverTcp(names), *place)

    # ------------------------------------------------ what there is
    def _tls(self) -> ssl.SSLContext | None:
        domains = self._domains.values()
        if not any(it.needs_tls or host.tls in ("good", "dies") for it in domains for host in it.hosts):
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(_CERTIFICATE)
        context.num_tickets = 0  # their length varies
        return context

    def _build(self, domain: DomainPlan, plan: HostPlan, context: ssl.SSLContext | None) -> None:
        place = (plan.address, 587 if domain is self._course.scenario.relay else 25)
        host = Host(
            domain=domain.name, name=plan.name, address=plan.address, extensions=plan.extensions,
            tls_now=lambda: self._tls_of(domain, plan), for_all=domain is self._course.scenario.relay,
            character=lambda: self._character(domain), taken=self._taken,
            refused=self._ledger.refused.update, turned_away=lambda: self._turned_away(place),
            chance=random.Random(f"{self._seed}/{plan.name}"), loop=self._course.loop, context=context,
        )  # fmt: skip
        self._hosts[place] = domain, plan
        self._network.listen(host.session, *place)

    def _troubled(self, domain: DomainPlan) -> bool:
        now = self._course.now
        return domain.since <= now and (domain.until is None or now < domain.until)

    def _character(self, domain: DomainPlan) -> Honest:
        return CHARACTERS[domain.character if self._troubled(domain) else "honest"]

    def _tls_of(self, domain: DomainPlan, plan: HostPlan) -> str:
        return "good" if domain.needs_tls and not self._troubled(domain) else plan.tls

    def _zone_of(self, name: str) -> Zone | None:
        domain = self._domains.get(name) or self._domains.get(name.partition(".")[2])
        if domain is None:
            return None
        signed = domain.name, self._tlsa_of(domain)
        if signed not in self._zones:
            mx = tuple((it.preference, it.name) for it in domain.hosts)
            self._zones[signed] = Zone(mx, {it.name: (it.address,) for it in domain.hosts}, signed[1])
        return self._zones[signed]

    def _tlsa_of(self, domain: DomainPlan) -> tuple[str, ...]:
        if not domain.dane:
            return ()
        rolled = domain.dane == "rolled" and self._troubled(domain)
        return (f"3 1 1 {'00' * 32 if rolled else _fingerprint()}",)

    def _dns_trouble(self, name: str) -> str:
        for fault in self._course.lasting(DnsTrouble):
            if name == fault.domain or name.endswith("." + fault.domain) or not fault.domain:
                return fault.kind
        return ""

    # ------------------------------------------------ the way there
    def route(self, machine: Machine | None, place: Place) -> Route:
        """How a connection goes; `machine` is the daemon's, None a program's or a person's."""
        if place not in self._hosts:
            route = Route("open", 0.02 if place in NAME_SERVERS else LOCAL_LATENCY)
            return self._noisy(route, local=True) if place == programs.LISTENER else route
        domain, host = self._hosts[place]
        if machine is not None:
            self._count_sessions(machine, domain.name)
        for fault in self._course.lasting(Outage):
            if fault.host == host.name:
                return Route(DOWN[fault.kind], domain.latency)
        return self._noisy(Route("open", domain.latency), local=False)

    def _noisy(self, route: Route, *, local: bool) -> Route:
        self._connections += 1
        chance = None
        for fault in self._course.lasting(Noise):
            chance = chance or random.Random(f"{self._seed}/line/{self._connections}")
            if fault.local is local and chance.random() < fault.share:
                at = chance.randrange(chance.choice([40, 400, 4000]))
                line = LineFault(chance.choice(["reset", "reset", "silent", "slow"]), at)
                up = chance.random() < 0.5
                return Route(route.answer, route.latency, line if up else None, None if up else line)
        return route

    def _count_sessions(self, machine: Machine, domain: str) -> None:
        open_now = Counter(
            self._hosts[place][0].name
            for end in self._network.ends
            if end.context.get(MACHINE) is machine and (place := end.extra.get("place")) in self._hosts
        )
        course, count = self._course, open_now[domain] + 1
        course.check(invariants.of_sessions(domain, count, open_now.total() + 1, course.scenario, course.history))
        if count > 1:
            course.check(invariants.of_learned(domain, count, self._learned(domain), course.now, course.scenario))

    def _learned(self, domain: str) -> list[Learned]:
        """What the daemon has written down of how many sessions the servers of `domain` bear."""
        statement = "SELECT value, at - ?2, expires_at - ?2 FROM memories WHERE kind = 'limit' AND name = ?1"
        relay = domain if (it := self._course.scenario.relay) is None or it.name != domain else f"smtp://{domain}:587"
        return [Learned(json.loads(it)["sessions"], *span) for it, *span in self._ask(statement, relay, EPOCH)]

    def _turned_away(self, place: Place) -> None:
        """The crowd is ours where the daemon holds more connections than the server bears: what it has ended may still be
        one for the server."""
        held = [end for end in self._network.ends if end.extra.get("place") == place]
        if len(held) > ConnectionLimiting.LIMIT:
            times = self._turned_away_at.setdefault((place, held[0].context.get(MACHINE)), [])
            times.append(self._course.now)
            self._course.check(invariants.of_crowds(times, self._hosts[place][0], self._course.history.lately))

    # ------------------------------------------------ what servers take
    def _taken(self, taken: Taken) -> None:
        self._check_destination(taken)
        tag = tag_of(taken.content)
        what = f"{tag[0]}.{tag[1]}" if tag else "a mail of the daemon's"
        self._course.tell(f"{taken.host} took {what} for {', '.join(taken.forward_paths)}")
        if tag is None:
            self._ledger.take_own(taken, notices_of(taken.content))
            return
        number, n = tag
        submissions = self._ledger.submissions.get(number)
        email = submissions[0].email if submissions else None
        queue_id = queue_id_of(taken.content)
        for path in taken.forward_paths:
            earlier = self._ledger.copies.setdefault(path, [])
            doubted = self._doubts_of(queue_id, path)
            copy = Copy(taken, n, path, queue_id, len(doubted))
            touched, course = self._ledger.touched.get(number, set()), self._course
            course.check(invariants.of_copy(copy, email, earlier, touched))
            if email is not None and submissions is not None:
                course.check(invariants.of_times(copy, email, submissions[n], touched, course.scenario, START))
                course.check(invariants.of_doubts(copy, email, doubted, touched, course.scenario, course.history, START))
            earlier.append(copy)

    def _check_destination(self, taken: Taken) -> None:
        domain = self._domains[taken.domain]
        times = self._rates.setdefault(taken.domain, [])
        times.append(taken.at - START)
        self._course.check(invariants.of_route(taken, self._course.scenario, self._course.history))
        self._course.check(invariants.of_encryption(taken, domain, self._course.history, START))
        self._course.check(invariants.of_rate(times, domain, self._course.scenario, self._course.history))

    def _doubts_of(self, queue_id: str, recipient: str) -> list[float]:
        """When the spool has said "in doubt", in seconds from the start where nobody sets the clock."""
        statement = """SELECT at - ?3 FROM timeline WHERE message = (SELECT id FROM messages WHERE queue_id = ?1)
            AND event = 'in_doubt' AND recipient = ?2"""
        return [at for at, in self._ask(statement, queue_id, recipient, EPOCH)]

    # ------------------------------------------------ what the daemon has written down
    def _ask(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        if self._books is None:
            self._books = sqlite3.connect(f"file:{self._spool}?mode=ro", uri=True)
        return self._books.execute(statement, parameters).fetchall()

    def close(self) -> None:
        if self._books is not None:
            self._books.close()
