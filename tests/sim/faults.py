"""From a seed to a scenario: what happens, drawn evenly enough that each kind of trouble meets each other one.

Rules: each part has a stream of chance of its own, so that a new kind of trouble does not change the others. Trouble
comes in the first part of the time; then all that can heal has healed, and what is left of the time is for draining.
"""

import random

import msgspec

from tests.sim.remote import CHARACTERS, TLS_FAULTS
from tests.sim.scenario import (
    DAY,
    ClockStep,
    Crash,
    DiskTrouble,
    DnsTrouble,
    DomainPlan,
    Email,
    Fault,
    HostPlan,
    Limits,
    Noise,
    Order,
    Outage,
    Reload,
    Restart,
    Scenario,
    Settings,
)

DRAINING = 16 * 3600.0
"""Longer than any class waits between two attempts, with jitter."""
EXTENSIONS = ("PIPELINING", "8BITMIME", "SIZE 10240000", "ENHANCEDSTATUSCODES", "DELIVERBY 5", "MT-PRIORITY", "DSN")
WELL = 4
"""Domains of ten that are always well; most mail goes there, as everywhere."""
FREQUENT = ("full", "full", "blocklisting", "refuses content", "late", "late", "late")
"""Characters that are drawn more often: what fails for good is rare, and so are replies that nobody waits for."""
CROWD, PARTS = 5, 4
"""Sessions that a server gets which bears fewer, and the parts of what it gets."""
LIMITS = (Limits(), Limits(1), Limits(5), Limits(rate="6/1m", burst=3), Limits(rate="30/10m", burst=10))
"""Of a domain, after a reload."""
RELAY = "relay.example"
RELAY_CHARACTERS = ("honest", "421-happy", "rate limiting", "connection limiting", "slow", "silent after the dot", "late")
"""None that says of itself that it will never take anything: that would be said of no recipient's domain."""
MANNERS = (
    "plain", "plain", "plain", "pipelined", "pipelined", "hangs up", "half-closes", "resets", "slow", "leaves", "breaks off",
    "twins",
)  # fmt: skip
ORDERS = (
    "status", "queue", "show {id}", "retry {id}", "retry --all", "hold {id}", "release {id}", "cancel {id}",
    "resolve {id} --sent", "resolve {id} --resend", "dead", "resend {id} --key again", "hold --domain {domain}",
    "hold --all",
)  # fmt: skip
RELEASED_AFTER = 2 * 3600.0
"""Seconds within which a person lets go on what a standing order holds."""


def generate(seed: int, days: float = 6.0, messages: int = 300) -> Scenario:
    """The scenario of a seed. `days` at least 1."""

    def chance(part: str) -> random.Random:
        return random.Random(f"{seed}/{part}")

    heals_at = days * DAY - DRAINING
    domains = _domains(chance("domains"), heals_at)
    domains = tuple(_treated(chance(f"treatment/{it.name}"), it) for it in domains)
    relay = _relay(chance("relay"), heals_at)
    emails = _emails(chance("emails"), domains, messages, heals_at)
    domains, emails, stops = _crowd(chance("crowd"), domains, emails, heals_at)
    emails = tuple(_timed(chance(f"times/{it.number}"), it) for it in emails)
    emails = tuple(_extended(chance(f"extensions/{it.number}"), it) for it in emails)
    disk, settings = _disk(chance("disk"), heals_at, emails), _settings(chance("settings"))
    faults = [
        *_outages(chance("outages"), domains, heals_at),
        *_noises(chance("noise"), heals_at),
        *_dns(chance("dns"), domains, heals_at),
        *disk,
        *_crashes(chance("crashes"), heals_at, emails),
        *_restarts(chance("restarts"), heals_at, emails, disk),
        *_clock(chance("clock"), heals_at),
        *stops,
        *_orders(chance("orders"), heals_at, emails, domains),
        *_reloads(chance("reloads"), heals_at, emails, domains, settings),
    ]
    faults.sort(key=lambda it: it.at)
    by_relay = tuple(chance("by relay").sample([it.name for it in domains], 3)) if relay else ()
    return Scenario(seed, days, heals_at, settings, domains, emails, tuple(faults), relay, by_relay)


def _settings(chance: random.Random) -> Settings:
    return Settings(
        in_doubt=chance.choice(["retry", "retry", "hold"]),
        max_sessions=chance.choice([2, 4, 20]),
        max_sessions_per_destination=chance.choice([1, 2, 5]),
        max_connections=chance.choice([3, 100]),
        urgent_reserve=chance.choice([0.0, 0.2, 0.5]),
        bulk_share=chance.choice([0.0, 0.1, 0.3]),
        fair_by=chance.choice(["destination", "destination", "sender"]),
        stop_timeout=chance.choice([0.0, 5.0, 15.0]),
        in_doubt_delay=chance.choice([600.0, 600.0, 60.0, 3600.0]),
    )


def _span(chance: random.Random, heals_at: float, longest: float) -> tuple[float, float]:
    start = chance.uniform(0, heals_at)
    return round(start, 3), round(min(heals_at, start + chance.uniform(1, longest)), 3)


def _domains(chance: random.Random, heals_at: float) -> tuple[DomainPlan, ...]:
    found = []
    for number in range(10):
        name = f"d{number}.example"
        hosts = tuple(_host(chance, name, number, place) for place in range(chance.choice([1, 1, 2, 3])))
        latency = chance.choice([0.005, 0.05, 0.3])
        if number < WELL:
            found.append(DomainPlan(name, hosts, latency=latency))
            continue
        start, end = _span(chance, heals_at, chance.choice([3600, DAY, 2 * DAY]))
        until = None if chance.random() < 0.05 else end
        character, since = chance.choice([*CHARACTERS, *FREQUENT]), start * chance.choice([0, 1])
        found.append(DomainPlan(name, hosts, character, since, until, latency))
    return tuple(found)


def _host(chance: random.Random, domain: str, number: int, place: int) -> HostPlan:
    extensions = tuple(it for place, it in enumerate(EXTENSIONS) if chance.random() < (0.8 if place < 4 else 0.3))
    tls = chance.choice([*["none"] * 7, "good", "good", chance.choice(TLS_FAULTS)])
    address = f"2001:db8:{number + 1:x}::{place + 1}" if chance.random() < 0.15 else f"198.51.{number + 100}.{place + 1}"
    return HostPlan(f"mx{place}.{domain}", address, chance.choice([10, 10, 20]), extensions, tls)


def _treated(chance: random.Random, domain: DomainPlan) -> DomainPlan:
    """Some domains are not treated as the others, some ask for encryption themselves."""
    change = msgspec.structs.replace
    match chance.choice(["tls", "dane", "cap", "rate", *[""] * 8]):
        case "tls":
            hosts = tuple(change(it, tls=chance.choice(TLS_FAULTS)) for it in domain.hosts)
            return change(domain, hosts=hosts, tls="encrypt")
        case "dane":
            kinds = ("good", "good", "none", *TLS_FAULTS)
            hosts = tuple(change(it, tls=chance.choice(kinds)) for it in domain.hosts)
            return change(domain, hosts=hosts, dane=chance.choice(["good", "rolled"]))
        case "cap":
            return change(domain, max_sessions=1)
        case "rate":
            return change(domain, rate=chance.choice(["6/1m", "30/10m"]), burst=chance.choice([1, 3, 10]))
    return domain


def _relay(chance: random.Random, heals_at: float) -> DomainPlan | None:
    """Now and then some of the mail goes by a relay, which has its own troubles."""
    if chance.random() < 0.7:
        return None
    host = HostPlan(RELAY, "198.51.98.1", 10, ("PIPELINING", "8BITMIME", "DSN"), "none")
    start, end = _span(chance, heals_at, 2 * DAY)
    return DomainPlan(RELAY, (host,), chance.choice(RELAY_CHARACTERS), start * chance.choice([0, 1]), end)


def _emails(chance: random.Random, domains: tuple[DomainPlan, ...], messages: int, heals_at: float) -> tuple[Email, ...]:
    """In busy minutes, with hours between them; some in a burst to one domain, as a newsletter is."""
    found = []
    names = [it.name for place, it in enumerate(domains) for _ in range(3 if place < WELL else 1)]
    moments = [chance.uniform(0, heals_at - 300) for _ in range(messages // 15 + 1)]
    burst = chance.randrange(min(messages // 2, 60) + 1)
    burst_at, burst_to = chance.uniform(0, heals_at * 0.8), chance.choice(names)
    for number in range(messages):
        in_burst = number < burst
        at = burst_at + chance.expovariate(1 / 20) if in_burst else chance.choice(moments) + 300 * chance.random() ** 2
        count = 1 if in_burst else chance.choice([*[1] * 17, 2, 3, 5])
        to = tuple((it, burst_to if in_burst and chance.random() < 0.8 else chance.choice(names)) for it in range(count))
        sender = "" if chance.random() < 0.05 else f"app{chance.randrange(4)}@{chance.choice(names)}"
        found.append(
            Email(
                number=number,
                at=round(at, 3),
                sender=sender,
                recipients=to,
                key=f"key-{number}" if chance.random() < 0.5 else "",
                manner=chance.choice(MANNERS),
                size=chance.choice([50, 200, 200, 2000, 2000, 20_000, 150_000 if chance.random() < 0.1 else 500]),
                mail_class=chance.choice(["", "", "", "urgent", "bulk"]),
                in_doubt=chance.choice(["", "", "", "", "retry", "hold"]),
                tries=chance.choice([1, 3, 10]),
            )
        )
    return tuple(sorted(found, key=lambda it: it.at))


def _crowd(
    chance: random.Random, domains: tuple[DomainPlan, ...], emails: tuple[Email, ...], heals_at: float
) -> tuple[tuple[DomainPlan, ...], tuple[Email, ...], list[Fault]]:
    """Now and then a newsletter goes in parts to servers that bear two connections each; between two of them the daemon may
    be restarted."""
    if len(emails) < PARTS or chance.random() < 0.75:
        return domains, emails, []
    place = chance.randrange(WELL, len(domains))
    crowded = msgspec.structs.replace(
        domains[place], character="connection limiting", since=0.0, until=heals_at, max_sessions=CROWD
    )
    moments = [chance.uniform(0, heals_at * 0.6)]
    for _ in range(PARTS - 1):
        moments.append(min(heals_at - 300, moments[-1] + chance.choice([0.2, 0.8, 1.5, 5.0]) * 3600 * chance.random()))
    chosen = chance.sample(range(len(emails)), len(emails) // 3)
    found = list(emails)
    for number, email in enumerate(chosen):
        at = moments[number % PARTS] + chance.expovariate(1 / 5)
        found[email] = msgspec.structs.replace(found[email], at=round(at, 3), recipients=((0, crowded.name),))
    restarts: list[Fault] = [Restart(round(it - 2.0, 3), 1.0) for it in moments[1:] if chance.random() < 0.5 and it > 2]
    found.sort(key=lambda it: it.at)
    return (*domains[:place], crowded, *domains[place + 1 :]), tuple(found), restarts


def _timed(chance: random.Random, email: Email) -> Email:
    """Some are worth nothing after a while, some are for later, some both."""
    by, hold = chance.choice(["", "", "", "", "header", "R", "N"]), chance.choice(["", "", "", "", "", "header", "for"])
    release = chance.choice([5, 600, 6 * 3600]) if hold else 0
    return msgspec.structs.replace(
        email,
        by=by,
        deliver_by=release + chance.choice([10, 120, 3600, 5 * 3600]) if by else 0,
        hold=hold,
        release=release,
        priority=chance.choice([None, None, None, None, 4, 0, -3]),
    )


def _extended(chance: random.Random, email: Email) -> Email:
    """Some ask for other reports than the usual ones, some come in chunks."""
    notify = chance.choice(["", "", "", "", "NEVER", "FAILURE", "SUCCESS,FAILURE,DELAY", "DELAY"])
    return msgspec.structs.replace(email, notify=notify, chunks=chance.random() < 0.2)


def _outages(chance: random.Random, domains: tuple[DomainPlan, ...], heals_at: float) -> list[Fault]:
    found: list[Fault] = []
    for domain in domains:
        for host in domain.hosts:
            if chance.random() < 0.4:
                start, end = _span(chance, heals_at, chance.choice([600, 6 * 3600, DAY, 2 * DAY]))
                until = None if chance.random() < 0.05 else end
                found.append(Outage(start, until, host.name, chance.choice(["refused", "unreachable", "dark"])))
    return found


def _noises(chance: random.Random, heals_at: float) -> list[Fault]:
    return [
        Noise(*_span(chance, heals_at, chance.choice([3600, DAY, 3 * DAY])), chance.choice([0.05, 0.3]), local)
        for local in (False, True)
        for _ in range(chance.randrange(3))
    ]


def _dns(chance: random.Random, domains: tuple[DomainPlan, ...], heals_at: float) -> list[Fault]:
    found: list[Fault] = []
    for _ in range(chance.randrange(5)):
        start, end = _span(chance, heals_at, chance.choice([60, 3600, DAY]))
        domain = chance.choice(["", *(it.name for it in domains)])
        kinds = ["silent", "cut", "servfail", "refused", "garbage", *(["nxdomain"] if domain else [])]
        found.append(DnsTrouble(start, end, domain, chance.choice(kinds)))
    return found


def _busy_instant(chance: random.Random, heals_at: float, emails: tuple[Email, ...]) -> float:
    """Mostly just after a submission: then something is going on."""
    if not emails or chance.random() < 0.2:
        return round(chance.uniform(0, heals_at), 3)
    return round(min(heals_at, chance.choice(emails).at + chance.choice([0.02, 0.2, 1, 5, 60]) * chance.random()), 3)


def _disk(chance: random.Random, heals_at: float, emails: tuple[Email, ...]) -> list[Fault]:
    found: list[Fault] = []
    for _ in range(chance.randrange(4)):
        start = _busy_instant(chance, heals_at, emails)
        kind = chance.choice(["full", "broken", "slow"])
        until = min(heals_at, start + chance.uniform(1, chance.choice([60, 600, 3600] if kind == "slow" else [10, 60, 600])))
        found.append(DiskTrouble(start, round(until, 3), kind))
    return found


def _crashes(chance: random.Random, heals_at: float, emails: tuple[Email, ...]) -> list[Fault]:
    found: list[Fault] = []
    for _ in range(chance.choice([0, 4, 12, 30])):
        kind = chance.choice(["step", "step", "statement", "commit", "commit", "send", "send"])
        count = chance.randrange(1, {"step": 200, "statement": 60, "commit": 6, "send": 20}[kind])
        down = chance.choice([1.0, 1.0, 5.0, 5.0, 600.0, 3 * 3600.0])
        found.append(Crash(_busy_instant(chance, heals_at, emails), kind, count, down, chance.random() < 0.3))
    return found


def _restarts(chance: random.Random, heals_at: float, emails: tuple[Email, ...], disk: list[Fault]) -> list[Fault]:
    """Mostly while the disk is slow, if it ever is: somebody hopes that it helps."""
    slow = [it for it in disk if isinstance(it, DiskTrouble) and it.kind == "slow"]
    found: list[Fault] = []
    for _ in range(chance.randrange(4)):
        at = _busy_instant(chance, heals_at, emails)
        if slow and chance.random() < 0.7:
            trouble = chance.choice(slow)
            at = round(chance.uniform(trouble.at, trouble.until), 3)
        found.append(Restart(at, chance.choice([1.0, 300.0])))
    return found


def _reloads(
    chance: random.Random, heals_at: float, emails: tuple[Email, ...], domains: tuple[DomainPlan, ...], settings: Settings
) -> list[Fault]:
    found: list[Fault] = []
    for _ in range(chance.choice([0, 0, 0, 1, 4])):
        limits = {it.name: chance.choice(LIMITS) for it in domains if chance.random() < 0.2}
        limits |= {it.name: Limits(tls="may") for it in domains if it.tls and chance.random() < 0.5}
        relayed = chance.random() < 0.7
        other = msgspec.structs.replace(_settings(chance), fair_by=settings.fair_by, limits=limits, relayed=relayed)
        found.append(Reload(_busy_instant(chance, heals_at, emails), other))
    return found


def _clock(chance: random.Random, heals_at: float) -> list[Fault]:
    if chance.random() < 0.7:
        return []
    by = chance.choice([-86400.0, -3600.0, -61.0, 61.0, 3600.0, 2 * DAY])
    start, end = _span(chance, heals_at, DAY)
    return [ClockStep(start, by), *([ClockStep(end, -by)] if chance.random() < 0.7 else [])]


def _orders(
    chance: random.Random, heals_at: float, emails: tuple[Email, ...], domains: tuple[DomainPlan, ...]
) -> list[Fault]:
    found: list[Fault] = []
    for _ in range(chance.randrange(30) if emails else 0):
        email = chance.choice(emails)
        at = min(heals_at, email.at + chance.choice([2, 60, 6 * 3600, DAY]) * chance.random())
        words = chance.choice(ORDERS).replace("{domain}", chance.choice(domains).name)
        found.append(Order(round(at, 3), words, email.number))
        if words.startswith("hold --"):
            end = at + RELEASED_AFTER * (0.1 + chance.random())
            found.append(Order(round(end, 3), words.replace("hold", "release")))
    return found
