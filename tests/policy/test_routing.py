"""Table B, the policy's part: each row is a case."""

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta.model.outcome import Disposition, Phase, Scope, Verdict
from mta.policy.candidates import Candidate, plan_candidates
from mta.policy.networks import Standing, plain, standing
from mta.policy.routing import HOST_LIMIT, Route, RoutingRules, best_exchangers, plan_directly, plan_exchangers
from mta.ports.names import AddressAnswer, Lookup, MailExchanger, MxAnswer
from mta.ports.system import Reach

RULES = RoutingRules(frozenset({"mail.own.test"}), frozenset({("192.0.2.25", 25), ("127.0.0.1", 25), ("::1", 25)}))
INSIDE = replace(RULES, allow_private_addresses=True)
TROUBLE = AddressAnswer(Lookup.TROUBLE, detail="SERVFAIL (127.0.0.53)")
NODATA = AddressAnswer(Lookup.NODATA)
NXDOMAIN = AddressAnswer(Lookup.NXDOMAIN)
DOMAIN = "example.test"


def mx(*records: tuple[int, str]) -> MxAnswer:
    return MxAnswer(Lookup.FOUND, tuple(MailExchanger(*record) for record in records))


def at(*addresses: str) -> AddressAnswer:
    return AddressAnswer(Lookup.FOUND, addresses)


def plan(
    answer: MxAnswer,
    answers: Mapping[str, AddressAnswer] | None = None,
    rules: RoutingRules = RULES,
    reach: Reach | None = None,
    seed: int = 0,
) -> tuple[Candidate, ...] | Verdict:
    """As delivery does it; a host that `answers` lacks must not be looked up."""
    route = plan_directly(DOMAIN) or plan_exchangers(DOMAIN, answer, rules, random.Random(seed))
    if isinstance(route, Verdict):
        return route
    found = {host: (answers or {})[host] for host in route.lookups}
    return plan_candidates(route, found, rules, reach or Reach())


def addresses(outcome: tuple[Candidate, ...] | Verdict) -> list[str]:
    assert isinstance(outcome, tuple), outcome
    return [candidate.address for candidate in outcome]


def hosts(outcome: tuple[Candidate, ...] | Verdict) -> list[str]:
    assert isinstance(outcome, tuple), outcome
    return [candidate.host for candidate in outcome]


def assert_verdict(outcome: object, status: str, *words: str) -> None:
    assert isinstance(outcome, Verdict), outcome
    permanent = status.startswith("5")
    assert outcome.status == status
    assert outcome.disposition is (Disposition.PERMANENT if permanent else Disposition.TRANSIENT)
    assert outcome.scope is (Scope.TRANSACTION if permanent else Scope.DESTINATION)
    assert outcome.phase is Phase.ROUTE
    assert (outcome.reply.code, outcome.reply.enhanced) == (None, status)
    assert not outcome.in_doubt
    for word in words:
        assert word in outcome.reply.text


A, B = "a.mx.test", "b.mx.test"
SIMPLE = mx((10, A))
BOTH = mx((10, A), (20, B))

# (row of Table B, MX answer, answers for the hosts, status)
FAILS = [
    ("MX answer NXDOMAIN: no address lookup", MxAnswer(Lookup.NXDOMAIN), {}, "5.1.2"),
    ("implicit MX, A and AAAA both NODATA", MxAnswer(Lookup.NODATA), {DOMAIN: NODATA}, "5.4.4"),
    ("implicit MX, nothing usable and a lookup failed", MxAnswer(Lookup.NODATA), {DOMAIN: TROUBLE}, "4.4.3"),
    ("MX lookup failed: never the domain's addresses", MxAnswer(Lookup.TROUBLE, detail="SERVFAIL"), {}, "4.4.3"),
    ("null MX: no address lookup", mx((0, "")), {}, "5.1.10"),
    ("null MX of another preference", mx((10, "")), {}, "5.1.10"),
    ("all targets without address: no implicit MX", BOTH, {A: NXDOMAIN, B: NODATA}, "5.4.4"),
    ("none usable now, one target's lookup failed", BOTH, {A: NODATA, B: TROUBLE}, "4.4.3"),
    ("target is our own name", mx((10, "mail.own.test")), {}, "5.4.6"),
    ("target is our own name in other case", mx((10, "Mail.OWN.test")), {}, "5.4.6"),
    ("target is localhost", mx((10, "localhost")), {}, "5.4.6"),
    ("target is below localhost", mx((10, "mail.localhost")), {}, "5.4.6"),
    ("target is our own listener", SIMPLE, {A: at("192.0.2.25")}, "5.4.6"),
    ("target is our own listener, in disguise", SIMPLE, {A: at("::ffff:192.0.2.25")}, "5.4.6"),
    ("one of the target's addresses is our own listener", SIMPLE, {A: at("192.0.2.1", "192.0.2.25")}, "5.4.6"),
    ("implicit MX resolves to ourselves", MxAnswer(Lookup.NODATA), {DOMAIN: at("192.0.2.25")}, "5.4.6"),
    ("target text is an IP address", mx((10, "192.0.2.1")), {}, "5.4.4"),
    ("target is an empty label's", mx((10, "a..test")), {}, "5.4.4"),
    ("target has a label of 64", mx((10, f"{'a' * 64}.test")), {}, "5.4.4"),
    ("target has an escaped octet", mx((10, "a\\032b.test")), {}, "5.4.4"),
    ("target begins with a hyphen", mx((10, "-a.test")), {}, "5.4.4"),
    ("target is longer than 253", mx((10, "a." * 127 + "test")), {}, "5.4.4"),
    ("name that can't be asked for", MxAnswer(Lookup.MALFORMED, detail="empty label"), {}, "5.1.3"),
]


@pytest.mark.parametrize(("answer", "answers", "status"), [f[1:] for f in FAILS], ids=[f[0] for f in FAILS])
def test_table_b_without_a_way(answer: MxAnswer, answers: Mapping[str, AddressAnswer], status: str) -> None:
    assert_verdict(plan(answer, answers), status, DOMAIN)


GOES = [
    ("MX NODATA: the domain's own addresses", MxAnswer(Lookup.NODATA), {DOMAIN: at("192.0.2.80")}, ["192.0.2.80"]),
    ("null MX beside real ones is ignored", mx((0, ""), (10, A)), {A: at("192.0.2.1")}, ["192.0.2.1"]),
    ("targets without address are skipped", BOTH, {A: NXDOMAIN, B: at("192.0.2.2")}, ["192.0.2.2"]),
    ("targets that are in trouble are skipped", BOTH, {A: TROUBLE, B: at("192.0.2.2")}, ["192.0.2.2"]),
    ("targets that are IP addresses are skipped", mx((5, "192.0.2.9"), (10, A)), {A: at("192.0.2.1")}, ["192.0.2.1"]),
    ("lower preference first, whatever the answer's order", mx((20, B), (10, A)), {A: at("192.0.2.1"), B: at("192.0.2.2")},
     ["192.0.2.1", "192.0.2.2"]),
    ("our name drops what is not better", mx((5, A), (10, "mail.own.test"), (10, B)), {A: at("192.0.2.1")}, ["192.0.2.1"]),
    ("our listener drops what is not better", mx((5, A), (10, B), (10, "c.test"), (20, "d.test")),
     {A: at("192.0.2.1"), B: at("192.0.2.25"), "c.test": at("192.0.2.3"), "d.test": at("192.0.2.4")}, ["192.0.2.1"]),
    ("a host stands at its best", mx((20, A), (5, A), (10, "mail.own.test")), {A: at("192.0.2.1")}, ["192.0.2.1"]),
    ("private addresses are skipped, others used", BOTH, {A: at("10.0.0.1"), B: at("192.0.2.2")}, ["192.0.2.2"]),
    ("a host twice counts once, at its best", mx((20, A), (10, A.upper())), {A: at("192.0.2.1")}, ["192.0.2.1"]),
    ("an address twice is tried once", BOTH, {A: at("192.0.2.1"), B: at("192.0.2.1")}, ["192.0.2.1"]),
    ("an underscore in a host name is tolerated", mx((10, "mx_1.test")), {"mx_1.test": at("192.0.2.1")}, ["192.0.2.1"]),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "answers", "expected"), [g[1:] for g in GOES], ids=[g[0] for g in GOES])
def test_table_b_with_a_way(answer: MxAnswer, answers: Mapping[str, AddressAnswer], expected: list[str]) -> None:
    assert addresses(plan(answer, answers)) == expected


def test_what_may_be_better_later_outweighs_what_is_final() -> None:
    with_self = mx((5, A), (10, "mail.own.test"))
    assert_verdict(plan(with_self, {A: TROUBLE}), "4.4.3", A, "SERVFAIL")
    assert_verdict(plan(with_self, {A: NODATA}), "5.4.6", "mail.own.test")
    assert_verdict(plan(BOTH, {A: at("10.0.0.1"), B: TROUBLE}), "4.4.3")
    no_route = Reach(unroutable=frozenset({"192.0.2.2"}))
    assert_verdict(plan(BOTH, {A: at("10.0.0.1"), B: at("192.0.2.2")}, reach=no_route), "4.4.1")


def test_the_text_names_what_was_found() -> None:
    answer = mx((5, "192.0.2.9"), (10, A), (20, B))
    assert_verdict(plan(answer, {A: NODATA, B: at("10.0.0.1")}), "5.4.4", "192.0.2.9 is no host name", A, B, "10.0.0.1")


# ---------------------------------------------------------------- B19, B20
@pytest.mark.parametrize("preference", [0, 10])
def test_b19_null_mx_fails_without_any_lookup(preference: int) -> None:
    assert_verdict(plan(mx((preference, ""))), "5.1.10", "null MX")


def test_b20_trouble_is_never_a_bounce_nor_a_way_to_the_web_server() -> None:
    assert_verdict(plan(MxAnswer(Lookup.TROUBLE, detail="timeout"), {DOMAIN: at("192.0.2.80")}), "4.4.3", "timeout")
    assert_verdict(plan(SIMPLE, {A: TROUBLE}), "4.4.3")
    assert_verdict(plan(MxAnswer(Lookup.NXDOMAIN)), "5.1.2")
    assert addresses(plan(MxAnswer(Lookup.NODATA), {DOMAIN: at("192.0.2.80")})) == ["192.0.2.80"]


# ---------------------------------------------------------------- B21: ourselves and our surroundings
NOT_FOR_MAIL = [
    "127.0.0.2", "::1", "0.0.0.0", "169.254.1.1", "10.0.0.1", "172.16.5.5", "192.168.0.1", "100.64.0.1", "224.0.0.1",
    "240.0.0.1", "fe80::1", "fd00::1", "ff02::1", "::", "::ffff:10.0.0.1", "64:ff9b::a00:1",
]  # fmt: skip


@pytest.mark.parametrize("address", NOT_FOR_MAIL)
def test_b21_addresses_that_public_mx_records_may_not_lead_to(address: str) -> None:
    rules = replace(RULES, own_endpoints=frozenset())
    assert_verdict(plan(SIMPLE, {A: at(address)}, rules), "5.4.4", address)


def test_b21_private_addresses_pass_where_the_configuration_says_so() -> None:
    assert addresses(plan(SIMPLE, {A: at("127.0.0.2", "10.0.0.1")}, INSIDE)) == ["127.0.0.2", "10.0.0.1"]


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "224.0.0.1", "255.255.255.255", "fe80::1"])
def test_b21_what_is_no_host_never_passes(address: str) -> None:
    assert_verdict(plan(SIMPLE, {A: at(address)}, INSIDE), "5.4.4", address)


def test_b21_our_own_listener_is_never_delivered_to_even_with_private_addresses_allowed() -> None:
    assert_verdict(plan(SIMPLE, {A: at("127.0.0.1")}, INSIDE), "5.4.6", A)
    assert addresses(plan(SIMPLE, {A: at("127.0.0.1")}, replace(INSIDE, port=2525))) == ["127.0.0.1"]


@pytest.mark.parametrize(
    ("listening", "address", "own"),
    [
        ("0.0.0.0", "192.0.2.7", True),
        ("::", "192.0.2.7", True),
        ("::", "2001:db8::7", True),
        ("0.0.0.0", "2001:db8::7", False),
    ],
)
def test_b21_a_listener_everywhere_is_at_each_address_of_the_machine(listening: str, address: str, own: bool) -> None:
    rules = replace(RULES, own_endpoints=frozenset({(listening, 25)}))
    outcome = plan(SIMPLE, {A: at(address)}, rules, Reach(own=frozenset({address})))
    assert isinstance(outcome, Verdict) is own
    assert addresses(plan(SIMPLE, {A: at(address)}, rules)) == [address]
    assert addresses(plan(SIMPLE, {A: at(address)}, replace(rules, port=26), Reach(own=frozenset({address})))) == [address]


def test_b21_self_and_all_behind_it_are_dropped() -> None:
    answer = mx((10, A), (20, "mail.own.test"), (20, B), (30, "c.test"))
    assert hosts(plan(answer, {A: at("192.0.2.1")})) == [A]


# ---------------------------------------------------------------- B22: families, caps
def test_b22_both_families_of_a_host_are_candidates() -> None:
    outcome = plan(SIMPLE, {A: at("2001:db8::1", "2001:db8::2", "192.0.2.1", "192.0.2.2")})
    assert addresses(outcome) == ["2001:db8::1", "192.0.2.1", "2001:db8::2", "192.0.2.2"]


def test_b22_a_family_without_route_is_skipped_not_failed() -> None:
    reach = Reach(unroutable=frozenset({"2001:db8::1"}))
    assert addresses(plan(SIMPLE, {A: at("2001:db8::1", "192.0.2.1")}, reach=reach)) == ["192.0.2.1"]
    assert_verdict(plan(SIMPLE, {A: at("2001:db8::1")}, reach=reach), "4.4.1", "no route")


def test_b22_link_local_aaaa_does_not_spoil_ipv4() -> None:
    assert addresses(plan(SIMPLE, {A: at("fe80::1", "192.0.2.1")})) == ["192.0.2.1"]


def test_b22_six_hosts_are_all_in_the_list() -> None:
    names = [f"mx{i}.test" for i in range(6)]
    found = {name: at(f"192.0.2.{i}", f"2001:db8::{i}") for i, name in enumerate(names, 1)}
    tried = hosts(plan(mx(*((i, name) for i, name in enumerate(names))), found))
    assert list(dict.fromkeys(tried)) == names
    assert len(tried) == RULES.max_addresses


def test_b22_one_host_with_many_addresses_leaves_room_for_the_next() -> None:
    found = {A: at(*(f"192.0.2.{i}" for i in range(1, 25)), "2001:db8::1"), B: at("198.51.100.1")}
    outcome = addresses(plan(BOTH, found))
    assert len(outcome) == RULES.max_addresses
    assert outcome[-1] == "198.51.100.1"
    assert "2001:db8::1" in outcome


# ---------------------------------------------------------------- B23: preferences
def test_b23_equal_preferences_are_mixed() -> None:
    answer = mx((10, "a.test"), (10, "b.test"), (10, "c.test"))
    found = {f"{letter}.test": at(f"192.0.2.{i}") for i, letter in enumerate("abc", 1)}
    chance = random.Random(23)
    first: Counter[str] = Counter()
    for _ in range(300):
        route = plan_exchangers(DOMAIN, answer, RULES, chance)
        assert isinstance(route, Route)
        first[hosts(plan_candidates(route, found, RULES, Reach()))[0]] += 1
    assert all(60 <= first[host] <= 140 for host in found), first


def test_b23_main_always_before_backup() -> None:
    answer = mx((20, "backup.test"), (10, "main.test"))
    for seed in range(100):
        outcome = plan(answer, {"backup.test": at("192.0.2.2"), "main.test": at("192.0.2.1")}, seed=seed)
        assert hosts(outcome) == ["main.test", "backup.test"]


def test_b23_of_forty_mx_only_some_are_resolved() -> None:
    answer = mx(*((10, f"mx{i}.test") for i in range(40)))
    route = plan_exchangers(DOMAIN, answer, RULES, random.Random(1))
    assert isinstance(route, Route)
    assert len(route.lookups) == HOST_LIMIT
    nothing = dict.fromkeys(route.lookups, NODATA)
    assert_verdict(plan_candidates(route, nothing, RULES, Reach()), "4.4.4", "30 not asked")
    ours = nothing | {route.lookups[0]: at("192.0.2.25")}
    assert_verdict(plan_candidates(route, ours, RULES, Reach()), "5.4.6")


# ---------------------------------------------------------------- B25 and the recipient's domain
@pytest.mark.parametrize(
    "domain",
    [f"{'a' * 64}.example.test", "example..test", "a." * 130 + "test", "-x.example.test", "example.test.", "a_b.test", "",
     "a b.test", "[127.0.0]", "[IPv6:zz]", "[127.0.0.1", "[x:1]"],
)  # fmt: skip
def test_b25_malformed_domains_fail_before_any_lookup(domain: str) -> None:
    assert_verdict(plan_directly(domain), "5.1.3")


@pytest.mark.parametrize("domain", ["localhost", "intranet"])
def test_b25_single_labels_are_no_mail_domains(domain: str) -> None:
    assert_verdict(plan_directly(domain), "5.1.2", domain)


@pytest.mark.parametrize("domain", ["example.test", "xn--bcher-kva.example", "bücher.example", "☃.example"])
def test_b38_all_others_are_for_the_resolver(domain: str) -> None:
    assert plan_directly(domain) is None


def literal(domain: str, rules: RoutingRules, reach: Reach | None = None) -> tuple[Candidate, ...] | Verdict:
    route = plan_directly(domain)
    assert isinstance(route, Route)
    assert route.lookups == ()
    return plan_candidates(route, {}, rules, reach or Reach())


def test_b25_address_literals_lead_straight_there() -> None:
    assert literal("[198.51.100.1]", RULES) == (Candidate("[198.51.100.1]", "198.51.100.1", 0),)
    assert addresses(literal("[ipv6:2001:db8::1]", RULES)) == ["2001:db8::1"]
    assert addresses(literal("[IPv6:::ffff:198.51.100.1]", RULES)) == ["198.51.100.1"]


def test_b25_address_literals_are_guarded_like_hosts() -> None:
    assert_verdict(literal("[127.0.0.1]", INSIDE), "5.4.6")
    assert_verdict(literal("[IPv6:::1]", INSIDE), "5.4.6")
    assert_verdict(literal("[IPv6:::ffff:127.0.0.1]", INSIDE), "5.4.6")
    assert_verdict(literal("[10.0.0.1]", RULES), "5.4.4")
    assert addresses(literal("[10.0.0.1]", INSIDE)) == ["10.0.0.1"]
    assert_verdict(literal("[198.51.100.1]", RULES, Reach(unroutable=frozenset({"198.51.100.1"}))), "4.4.1")


# ---------------------------------------------------------------- whatever DNS says
_HOSTS = st.sampled_from(["", "a.test", "B.test", "mail.own.test", "localhost", "192.0.2.1", "x..y", "c.test", "d.test"])
_ADDRESSES = st.one_of(st.ip_addresses().map(str), st.sampled_from([*NOT_FOR_MAIL, "192.0.2.25", "127.0.0.1"]))
_ANSWERS = st.one_of(
    st.lists(_ADDRESSES, min_size=1, max_size=30).map(lambda found: at(*found)), st.sampled_from([TROUBLE, NODATA, NXDOMAIN])
)


@given(
    st.lists(st.tuples(st.integers(0, 65535), _HOSTS), min_size=1, max_size=30),
    st.lists(_ANSWERS, min_size=9, max_size=9),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_no_answer_leads_home_or_astray(
    records: list[tuple[int, str]], found: list[AddressAnswer], private: bool, chance: random.Random
) -> None:
    rules = replace(RULES, allow_private_addresses=private)
    route = plan_exchangers(DOMAIN, mx(*records), rules, chance)
    if isinstance(route, Verdict):
        return
    outcome = plan_candidates(route, dict(zip(route.lookups, found, strict=False)), rules, Reach())
    if isinstance(outcome, Verdict):
        return
    assert 1 <= len(outcome) <= rules.max_addresses
    assert len(set(addresses(outcome))) == len(outcome)
    assert [c.preference for c in outcome] == sorted(c.preference for c in outcome)
    for candidate in outcome:
        assert candidate.host not in {"mail.own.test", "localhost", "192.0.2.1", "x..y", ""}
        assert (candidate.address, 25) not in rules.own_endpoints
        assert standing(plain(candidate.address)) in ({Standing.PUBLIC, Standing.PRIVATE} if private else {Standing.PUBLIC})


def test_servers_are_told_from_others_by_all_hosts_of_the_best_preference() -> None:
    """However many of them one attempt tries, and in whatever order they come."""
    many = [MailExchanger(10, f"MX{n}.example.net") for n in range(HOST_LIMIT + 5)]
    answers = [MxAnswer(Lookup.FOUND, (*hosts, MailExchanger(20, "later.test"))) for hosts in (many, many[::-1])]
    assert best_exchangers(answers[0]) == best_exchangers(answers[1])
    assert len(best_exchangers(answers[0])) == HOST_LIMIT + 5
