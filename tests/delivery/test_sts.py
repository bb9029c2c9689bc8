"""The MTA-STS policies that are in force: TLS-06 and B29 over days of virtual time, and once over real sockets."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mta.delivery.sts import LOOKUP_REST, OCTETS_KEPT, PATIENCE, REST, PolicyStore
from mta.dns.resolver import DnsResolver
from mta.doorbell import Doorbell
from mta.model.events import Encrypted, Fact, Trouble
from mta.model.tls import StsMode, StsPolicy, TlsPolicy, TlsResult
from mta.policy.sts import covers
from mta.ports.names import Lookup, TextAnswer
from mta.ports.sts import Fetched
from mta.spool.base import DoubtPolicy, Memory, SpoolError
from mta.spool.connection import connect_inline
from mta.spool.sqlite import SqliteSpool, open_sqlite
from mta.sts.fetch import PolicyServers
from tests.support.dns_server import DnsServer
from tests.support.tls import client_context
from tests.support.virtual import VirtualClock, run_virtual
from tests.support.web_server import WebServer, page

DAY = 86400.0
WEEK = 7 * DAY
DOMAIN = "example.org"


def policy_file(*mx: str, mode: str = "enforce", max_age: float = WEEK) -> str:
    patterns = "".join(f"mx: {name}\n" for name in mx or ("mx.example.org",))
    return f"version: STSv1\nmode: {mode}\n{patterns}max_age: {max_age:.0f}\n"


class Domain:
    """What name servers and a web server say of every domain; `text` may be a `Fetched`. `delay` of the web server and
    `slowness` of the name servers in seconds."""

    def __init__(self) -> None:
        self.record: str | Lookup = "v=STSv1; id=1;"
        self.text: str | Fetched = policy_file()
        self.delay = self.slowness = 0.0
        self.asked: list[str] = []
        self.fetched: list[str] = []
        self.at_once = self.most_at_once = 0

    async def texts(self, name: str) -> TextAnswer:
        self.asked.append(name)
        await asyncio.sleep(self.slowness)
        if isinstance(self.record, Lookup):
            return TextAnswer(self.record)
        return TextAnswer(Lookup.FOUND, (self.record,))

    async def fetch(self, domain: str, allow_private: bool) -> Fetched:
        self.fetched.append(domain)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(self.delay)
        self.at_once -= 1
        return self.text if isinstance(self.text, Fetched) else Fetched(TlsResult.SUCCESS, self.text)


class Scene:
    """A store over a spool that outlives it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clock, self.domain = folder, VirtualClock(), Domain()
        self.facts: list[Fact] = []

    @asynccontextmanager
    async def store(self) -> AsyncIterator[PolicyStore]:
        spool, _ = await open_sqlite(
            self.folder / "spool.db", doubts=DoubtPolicy(True, 0), now=self.clock.now(), doorbell=Doorbell(),
            connect=connect_inline,
        )  # fmt: skip
        store = self.over(spool)
        refreshing = asyncio.create_task(store.run())
        try:
            yield store
        finally:
            refreshing.cancel()
            store.close()
            await spool.close()

    def over(self, spool: SqliteSpool) -> PolicyStore:
        return PolicyStore(spool, self.domain, self.domain.fetch, self.clock, random.Random(1), self.facts.append)

    def of(self, kind: type[Fact]) -> list[Fact]:
        return [fact for fact in self.facts if isinstance(fact, kind)]


def play(folder: Path, story: Callable[[Scene, PolicyStore], Awaitable[None]]) -> Scene:
    scene = Scene(folder)

    async def main() -> None:
        async with scene.store() as store:
            await story(scene, store)

    run_virtual(main())
    return scene


def test_tls_06_a_policy_is_fetched_once_and_serves_all(tmp_path: Path):
    async def story(scene: Scene, store: PolicyStore) -> None:
        for _ in range(3):
            policy = await store.of(DOMAIN)
            assert policy is not None
            assert (policy.mode, policy.mx, policy.max_age) == (StsMode.ENFORCE, ("mx.example.org",), WEEK)
        assert scene.domain.asked == ["_mta-sts.example.org"] * 3
        assert scene.domain.fetched == [DOMAIN]

    assert not play(tmp_path, story).facts


def test_name_servers_that_are_slow_to_fail_delay_one_mail_a_minute(tmp_path: Path):
    """A policy that is known is in force meanwhile; a failure that costs no time is no reason to miss one."""

    async def story(scene: Scene, store: PolicyStore) -> None:
        loop = asyncio.get_running_loop()
        known = await store.of(DOMAIN)
        scene.domain.record, scene.domain.slowness = Lookup.TROUBLE, 5.0
        start = loop.time()
        for _ in range(10):
            assert await store.of(DOMAIN) == known
            assert await store.of("other.example") is None
        assert loop.time() - start == 10.0, "each domain once"
        await asyncio.sleep(LOOKUP_REST)
        scene.domain.slowness = 0.0
        assert await store.of("third.example") is None
        scene.domain.record = "v=STSv1; id=2;"
        for domain in (DOMAIN, "other.example", "third.example"):
            assert await store.of(domain) is not None
        assert len(scene.domain.fetched) == 4

    play(tmp_path, story)


def test_tls_06_without_a_record_no_web_server_is_asked(tmp_path: Path):
    async def story(scene: Scene, store: PolicyStore) -> None:
        for record in (Lookup.NXDOMAIN, Lookup.NODATA, Lookup.TROUBLE, "v=spf1 -all"):
            scene.domain.record = record
            assert await store.of(DOMAIN) is None
        assert not scene.domain.fetched

    play(tmp_path, story)


@pytest.mark.parametrize("domain", ["[192.0.2.1]", "[IPv6:2001:db8::1]", "localhost", "bad..example", "ex ample.org", ""])
def test_what_is_no_domain_has_no_policy(tmp_path: Path, domain: str):
    async def story(scene: Scene, store: PolicyStore) -> None:
        assert await store.of(domain) is None
        assert not scene.domain.asked

    play(tmp_path, story)


def test_an_international_domain_is_asked_for_by_its_a_labels(tmp_path: Path):
    async def story(scene: Scene, store: PolicyStore) -> None:
        assert await store.of("bücher.example") is not None
        assert scene.domain.fetched == ["xn--bcher-kva.example"]

    play(tmp_path, story)


def test_tls_06_another_id_asks_for_the_policy_again(tmp_path: Path):
    async def story(scene: Scene, store: PolicyStore) -> None:
        await store.of(DOMAIN)
        scene.domain.record, scene.domain.text = "v=STSv1; id=2;", policy_file("other.example.org")
        policy = await store.of(DOMAIN)
        assert policy is not None and policy.mx == ("other.example.org",)
        assert len(scene.domain.fetched) == 2

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("trouble", "result"),
    [
        (Fetched(TlsResult.STS_POLICY_FETCH_ERROR, detail="no answer"), "sts-policy-fetch-error"),
        (Fetched(TlsResult.STS_WEBPKI_INVALID, detail="expired"), "sts-webpki-invalid"),
        ("version: STSv1\nmode: enforce\nnmx: mx.example.org\nmax_age: 86400\n", "sts-policy-invalid"),
    ],
)
def test_tls_06_b29_trouble_with_the_file_keeps_an_unexpired_policy(
    tmp_path: Path, trouble: str | Fetched, result: str
):
    """B29: a fetch that fails, or brings what is no policy, with a valid one in hand and with none; told for TLS-RPT."""

    async def story(scene: Scene, store: PolicyStore) -> None:
        old = await store.of(DOMAIN)
        scene.domain.record, scene.domain.text = "v=STSv1; id=2;", trouble
        assert await store.of(DOMAIN) == old is not None
        assert await store.of("other.example") is None
        await asyncio.sleep(WEEK)
        assert await store.of(DOMAIN) is None

    first = play(tmp_path, story).of(Encrypted)[0]
    assert isinstance(first, Encrypted)
    assert (first.domain, first.policies, first.result.value) == (DOMAIN, ((TlsPolicy.MTA_STS, ""),), result)
    assert first.host == "mta-sts.example.org"


def test_tls_06_trouble_with_the_record_keeps_an_unexpired_policy(tmp_path: Path):
    async def story(scene: Scene, store: PolicyStore) -> None:
        old = await store.of(DOMAIN)
        for record in (Lookup.TROUBLE, Lookup.NXDOMAIN, Lookup.NODATA, "v=STSv1; id=a b;"):
            scene.domain.record = record
            assert await store.of(DOMAIN) == old is not None
        assert len(scene.domain.fetched) == 1

    play(tmp_path, story)


def test_a_failing_fetch_is_not_repeated_for_each_mail(tmp_path: Path):
    async def story(scene: Scene, store: PolicyStore) -> None:
        scene.domain.text = Fetched(TlsResult.STS_POLICY_FETCH_ERROR)
        for _ in range(20):
            assert await store.of(DOMAIN) is None
        assert len(scene.domain.fetched) == 1
        await asyncio.sleep(REST - 1)
        await store.of(DOMAIN)
        assert len(scene.domain.fetched) == 1
        scene.domain.text = policy_file()
        await asyncio.sleep(2)
        assert await store.of(DOMAIN) is not None

    play(tmp_path, story)


def test_mail_that_comes_together_asks_once_and_waits_a_short_while(tmp_path: Path):
    """A web server that takes a minute holds up the first mails for `PATIENCE`, and none after them."""

    async def story(scene: Scene, store: PolicyStore) -> None:
        scene.domain.delay = 50.0
        loop = asyncio.get_running_loop()
        start = loop.time()
        assert await asyncio.gather(*(store.of(DOMAIN) for _ in range(100))) == [None] * 100
        assert loop.time() - start == pytest.approx(PATIENCE)
        assert await store.of(DOMAIN) is None
        assert loop.time() - start == pytest.approx(PATIENCE)
        await asyncio.sleep(45)
        assert await store.of(DOMAIN) is not None, "what came late serves the mail that follows"
        assert scene.domain.fetched == [DOMAIN]

    play(tmp_path, story)


def test_so_many_are_fetched_at_once_and_no_more(tmp_path: Path):
    async def story(scene: Scene, store: PolicyStore) -> None:
        scene.domain.delay = 1.0
        await asyncio.gather(*(store.of(f"d{number}.example") for number in range(300)))
        assert scene.domain.most_at_once == 50
        assert len(scene.domain.fetched) == 300

    play(tmp_path, story)


def test_tls_06_a_policy_outlives_a_restart(tmp_path: Path):
    scene = Scene(tmp_path)

    async def main() -> None:
        async with scene.store() as store:
            before = await store.of(DOMAIN)
        scene.domain.text = Fetched(TlsResult.STS_POLICY_FETCH_ERROR)
        async with scene.store() as store:
            assert await store.of(DOMAIN) == before is not None
        assert len(scene.domain.fetched) == 1

    run_virtual(main())


def test_b29_a_policy_ends_with_its_time(tmp_path: Path):
    """B29: max_age passed, and nothing new to be had: as if there were none."""

    async def story(scene: Scene, store: PolicyStore) -> None:
        scene.domain.text = policy_file(max_age=3600)
        assert store.known(DOMAIN) is None
        assert (policy := await store.of(DOMAIN)) is not None and store.known(DOMAIN) == policy
        scene.domain.text = Fetched(TlsResult.STS_POLICY_FETCH_ERROR)
        await asyncio.sleep(3599)
        assert await store.of(DOMAIN) is not None
        await asyncio.sleep(2)
        assert await store.of(DOMAIN) is None and store.known(DOMAIN) is None

    play(tmp_path, story)


def test_a_policy_of_no_age_is_not_fetched_for_each_mail(tmp_path: Path):
    async def story(scene: Scene, store: PolicyStore) -> None:
        scene.domain.text = policy_file(max_age=0)
        for _ in range(20):
            assert await store.of(DOMAIN) is not None
        assert len(scene.domain.fetched) == 1

    play(tmp_path, story)


def test_tls_06_mode_none_ends_it(tmp_path: Path):
    async def story(scene: Scene, store: PolicyStore) -> None:
        assert await store.of(DOMAIN) is not None
        scene.domain.record, scene.domain.text = "v=STSv1; id=2;", "version: STSv1\nmode: none\nmax_age: 86400\n"
        assert await store.of(DOMAIN) is None
        assert await store.of(DOMAIN) is None
        assert len(scene.domain.fetched) == 2

    play(tmp_path, story)


def test_b29_testing_is_told_from_enforce(tmp_path: Path):
    async def story(scene: Scene, store: PolicyStore) -> None:
        scene.domain.text = policy_file(mode="testing")
        policy = await store.of(DOMAIN)
        assert policy is not None and policy.mode is StsMode.TESTING

    play(tmp_path, story)


# ---------------------------------------------------------------- keeping fresh
async def _mail_for(days: float, store: PolicyStore) -> StsPolicy | None:
    """Mail every six hours."""
    policy = None
    for _ in range(int(days * 4)):
        policy = await store.of(DOMAIN)
        await asyncio.sleep(DAY / 4)
    return policy


def test_tls_06_a_policy_is_refreshed_about_daily_and_never_runs_out(tmp_path: Path):
    """Also one for a day alone; and not for ever where no more mail goes."""

    async def story(scene: Scene, store: PolicyStore) -> None:
        scene.domain.text = policy_file(max_age=DAY)
        await store.of(DOMAIN)
        await asyncio.sleep(10 * DAY)
        assert 10 <= len(scene.domain.fetched) <= 11
        scene.domain.text = Fetched(TlsResult.STS_POLICY_FETCH_ERROR)
        assert await store.of(DOMAIN) is not None

    play(tmp_path, story)


def test_a_policy_that_nobody_needs_is_left_to_end(tmp_path: Path):
    async def story(scene: Scene, store: PolicyStore) -> None:
        await store.of(DOMAIN)
        await asyncio.sleep(60 * DAY)
        assert 30 <= len(scene.domain.fetched) <= 34
        assert await store.of(DOMAIN) is not None  # asked anew
        before = len(scene.domain.fetched)
        await _mail_for(40, store)
        await asyncio.sleep(20 * DAY)
        assert len(scene.domain.fetched) - before >= 60, "as long as there is mail, and a month more"

    play(tmp_path, story)


def test_b29_a_policy_that_changed_without_its_id_is_found_within_a_day(tmp_path: Path):
    async def story(scene: Scene, store: PolicyStore) -> None:
        await store.of(DOMAIN)
        scene.domain.text = policy_file("new.example.org")
        await asyncio.sleep(DAY)
        policy = await store.of(DOMAIN)
        assert policy is not None and policy.mx == ("new.example.org",)

    play(tmp_path, story)


def test_a_refresh_finds_a_new_id_too(tmp_path: Path):
    async def story(scene: Scene, store: PolicyStore) -> None:
        await store.of(DOMAIN)
        scene.domain.record, scene.domain.text = "v=STSv1; id=2;", policy_file("new.example.org")
        await asyncio.sleep(DAY)
        policy = await store.of(DOMAIN)
        assert policy is not None and policy.mx == ("new.example.org",)
        assert len(scene.domain.fetched) == 2

    play(tmp_path, story)


def test_tls_06_a_refresh_that_fails_is_told_and_the_policy_stays(tmp_path: Path):
    """RFC 8461 section 3.3: the administrator hears of it."""

    async def story(scene: Scene, store: PolicyStore) -> None:
        old = await store.of(DOMAIN)
        scene.domain.text = Fetched(TlsResult.STS_POLICY_FETCH_ERROR, detail="mta-sts.example.org: 404 Not Found")
        await asyncio.sleep(DAY)
        [*_, trouble] = scene.of(Trouble)
        assert isinstance(trouble, Trouble)
        assert trouble.what == "1 MTA-STS policies could not be refreshed; they are in force until they end"
        assert trouble.detail == "mta-sts.example.org: 404 Not Found"
        assert await store.of(DOMAIN) == old

    play(tmp_path, story)


def test_what_is_kept_in_memory_is_bounded_and_the_spool_knows_the_rest(tmp_path: Path):
    async def story(scene: Scene, store: PolicyStore) -> None:
        scene.domain.text = policy_file() + "x-padding: " + "x" * 60_000 + "\n"
        count = OCTETS_KEPT // 60_000 + 10
        for number in range(count):
            await store.of(f"d{number}.example")
        assert len(store._recent._held) < count
        assert await store.of("d0.example") is not None
        assert len(scene.domain.fetched) == count

    play(tmp_path, story)


@pytest.mark.parametrize("value", ["", "[]", "{}", '{"id": 1, "text": "", "fetched_at": 0, "used_at": 0}', '{"id": "1"}'])
def test_what_is_no_policy_in_the_spool_is_passed_over(tmp_path: Path, value: str):
    scene = Scene(tmp_path)

    async def main() -> None:
        async with scene.store() as store:
            await store._spool.remember(Memory.STS_POLICY, {DOMAIN: value}, None, scene.clock.now())
            assert await store.of(DOMAIN) is not None
            await asyncio.sleep(DAY)

    run_virtual(main())


class Slow:
    """A spool that takes its time to answer the second question."""

    def __init__(self, spool: SqliteSpool) -> None:
        self._spool, self._asked = spool, 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._spool, name)

    async def recall(self, *what: object) -> object:
        self._asked += 1
        late = self._asked == 2
        found = await self._spool.recall(*what)
        await asyncio.sleep(5.0 if late else 0.0)
        return found


def test_what_was_fetched_is_not_forgotten_for_a_slow_word_of_the_spool(tmp_path: Path):
    scene = Scene(tmp_path)

    async def main() -> None:
        async with scene.store() as outer:
            store = scene.over(Slow(outer._spool))
            assert all(await asyncio.gather(store.of(DOMAIN), store.of(DOMAIN)))
            assert scene.domain.fetched == [DOMAIN]

    run_virtual(main())


class Broken:
    """A spool whose disk is gone."""

    async def recall(self, *_: object) -> object:
        raise SpoolError("disk I/O error")

    remember = memories = recall


def test_trouble_with_the_spool_costs_no_mail(tmp_path: Path):
    async def main() -> None:
        scene = Scene(tmp_path)
        store = scene.over(Broken())
        refreshing = asyncio.create_task(store.run())
        assert await store.of(DOMAIN) is not None
        assert await store.of(DOMAIN) is not None
        await asyncio.sleep(DAY)
        assert not refreshing.done()
        assert {type(fact) for fact in scene.facts} == {Trouble}

    run_virtual(main())


# ---------------------------------------------------------------- from the wire to the verdict
async def test_b29_from_dns_and_https_to_which_servers_may_be_used(tmp_path: Path):
    """B29 as it stands there: a policy for *.example.net, an MX elsewhere, one two labels deep; then the policy's end."""
    zones = {
        ("_mta-sts.example.org", "TXT"): ['"v=STSv1; " "id=1;"'],
        ("mta-sts.example.org", "A"): ["127.0.0.1"],
    }
    async with DnsServer(zones) as names, WebServer("mta-sts.example.org") as web:
        web.answer = page("version: STSv1\r\nmode: enforce\r\nmx: *.example.net\r\nmax_age: 86400\r\n")
        spool, _ = await open_sqlite(
            tmp_path / "spool.db", doubts=DoubtPolicy(True, 0), now=0.0, doorbell=Doorbell(), connect=connect_inline
        )
        resolver = DnsResolver([names.address], 2.0)
        fetch = PolicyServers(resolver, port=web.port, tls=client_context())
        facts: list[Fact] = []
        clock = VirtualClock()
        clock.now = lambda: 1_800_000_000.0
        store = PolicyStore(spool, resolver, fetch, clock, random.Random(1), facts.append, allow_private=True)
        policy = await store.of(DOMAIN)
        assert policy is not None
        hosts = ("mx1.example.net", "a.b.example.net", "evil.example.com", "example.net", "192.0.2.1")
        assert [host for host in hosts if covers(policy, host)] == ["mx1.example.net"]
        assert policy.lines == ("version: STSv1", "mode: enforce", "mx: *.example.net", "max_age: 86400")
        store.allow_private = False
        names.zones["_mta-sts.other.example", "TXT"] = ["v=STSv1\\;id=1"]
        names.zones["mta-sts.other.example", "A"] = ["127.0.0.1"]
        assert await store.of("other.example") is None
        assert [fact.result for fact in facts if isinstance(fact, Encrypted)] == [TlsResult.STS_POLICY_FETCH_ERROR]
        await spool.close()
