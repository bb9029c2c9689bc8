"""What a session has to satisfy: TLS-02, TLS-03, TLS-05, TLS-07, TLS-08, TLS-09; B28, B29."""

from dataclasses import replace

import pytest

from mta.model.outcome import Disposition, Phase, Scope, Verdict
from mta.model.reply import parse_reply
from mta.model.tls import OPPORTUNISTIC, StsMode, StsPolicy, Tlsa, TlsDemand, TlsLevel, TlsPolicy, TlsResult
from mta.policy.tls import (
    Needs,
    Peer,
    asks_sts,
    asks_tlsa,
    at_relay,
    in_words,
    meets,
    of_host,
    plan,
    requiretls,
    tlsa_bases,
    weakened,
)
from mta.ports.names import Lookup, TlsaAnswer

HOST = "mx.example.org"
EE = Tlsa(3, 1, 1, b"\xab" * 32)
TA = Tlsa(2, 0, 2, b"\xcd" * 64)
PEER = Peer("example.org", HOST, secure_name=True, secure=True, base=HOST)
NO_TLSA = TlsaAnswer(Lookup.NODATA, secure=True)
ENFORCE = StsPolicy(StsMode.ENFORCE, (HOST,), 86400, ("version: STSv1", "mode: enforce"))
TESTING = replace(ENFORCE, mode=StsMode.TESTING)
ELSEWHERE = replace(ENFORCE, mx=("*.example.net",))
REQUIRED, OPTIONAL = Needs(required=True), Needs(optional=True)


def tlsa(*records: Tlsa, secure: bool = True) -> TlsaAnswer:
    return TlsaAnswer(Lookup.FOUND, records, secure=secure)


def demand(peer: Peer, needs: Needs = Needs()) -> TlsDemand:  # noqa: B008 - frozen
    found = plan(peer, needs)
    assert found.refusal is None, found.refusal
    return found.demand


def refusal(peer: Peer, needs: Needs = Needs()) -> tuple[str, Disposition]:  # noqa: B008 - frozen
    found = plan(peer, needs).refusal
    assert found is not None
    assert found.scope is Scope.SESSION and found.reply.text and found.reply.code is None
    return found.status, found.disposition


# ---------------------------------------------------------------- DANE
def test_tls_03_records_that_can_be_used_are_a_demand() -> None:
    found = demand(replace(PEER, tlsa=tlsa(EE, Tlsa(1, 0, 1, b"x" * 32))))
    assert found == TlsDemand(TlsPolicy.DANE, required=True, records=(EE,), server_name=HOST)


def test_tls_04_an_authority_is_for_the_base_domain_the_host_and_the_next_hop() -> None:
    found = demand(replace(PEER, base="real.example.net", tlsa=tlsa(TA, EE)))
    assert found.names == ("real.example.net", HOST, "example.org")
    assert (found.records, found.server_name) == ((TA, EE), "real.example.net")


@pytest.mark.parametrize(
    "record",
    [
        Tlsa(0, 0, 1, b"x" * 32),
        Tlsa(1, 1, 1, b"x" * 32),
        Tlsa(3, 2, 1, b"x" * 32),
        Tlsa(3, 1, 3, b"x" * 32),
        Tlsa(3, 1, 1, b"x" * 31),
        Tlsa(2, 0, 2, b"x" * 32),
        Tlsa(3, 0, 0, b""),
    ],
)
def test_tls_03_b28_records_that_can_not_be_used_demand_encryption_alone(record: Tlsa) -> None:
    found = plan(replace(PEER, tlsa=tlsa(record)))
    assert found.demand == TlsDemand(TlsPolicy.DANE, required=True, server_name=HOST)
    assert found.flaw is TlsResult.TLSA_INVALID


@pytest.mark.parametrize("lookup", [Lookup.TROUBLE, Lookup.MALFORMED])
def test_tls_05_b28_a_lookup_that_fails_skips_the_host(lookup: Lookup) -> None:
    """Also where MTA-STS would have been content with it (TLS-08)."""
    peer = replace(PEER, tlsa=TlsaAnswer(lookup, detail="SERVFAIL"), sts=ENFORCE)
    assert refusal(peer) == ("4.7.5", Disposition.TRANSIENT)
    assert plan(peer).flaw is TlsResult.DNSSEC_INVALID


@pytest.mark.parametrize("answer", [NO_TLSA, TlsaAnswer(Lookup.NXDOMAIN, secure=True), tlsa(EE, secure=False), None])
def test_tls_05_where_there_are_no_secure_records_there_is_no_dane(answer: TlsaAnswer | None) -> None:
    assert demand(replace(PEER, tlsa=answer)) is OPPORTUNISTIC


def test_b28_tlsa_is_asked_for_only_where_dnssec_vouches_for_the_address() -> None:
    may, none, dane = TlsLevel.MAY, TlsLevel.NONE, TlsLevel.DANE
    assert asks_tlsa(may, Needs(), secure=True, dane=True)
    assert asks_tlsa(may, REQUIRED, secure=True, dane=True)
    assert not asks_tlsa(may, Needs(), secure=False, dane=True)
    assert not asks_tlsa(may, Needs(), secure=True, dane=False)
    assert not asks_tlsa(may, OPTIONAL, secure=True, dane=True)
    assert not asks_tlsa(none, Needs(), secure=True, dane=True)
    assert asks_tlsa(dane, OPTIONAL, secure=True, dane=False)
    assert not asks_tlsa(dane, Needs(), secure=False, dane=True)


def test_the_end_of_the_aliases_comes_first() -> None:
    """RFC 7672 section 2.2.2."""
    assert tlsa_bases("mx.a.org", "real.b.org") == ("real.b.org", "mx.a.org")
    assert tlsa_bases("mx.a.org", "") == tlsa_bases("mx.a.org", "mx.a.org") == ("mx.a.org",)


# ---------------------------------------------------------------- MTA-STS
def test_tls_07_enforce_wants_a_certificate_for_the_host() -> None:
    found = plan(replace(PEER, sts=ENFORCE))
    assert found.demand == TlsDemand(TlsPolicy.MTA_STS, required=True, names=(HOST,))
    assert found.policies == ((TlsPolicy.MTA_STS, "version: STSv1\nmode: enforce"),)


def test_tls_07_b29_a_host_outside_the_policy_is_skipped() -> None:
    """Whatever its certificate is for."""
    assert refusal(replace(PEER, sts=ELSEWHERE)) == ("4.7.5", Disposition.TRANSIENT)
    assert plan(replace(PEER, sts=ELSEWHERE)).flaw is TlsResult.VALIDATION_FAILURE


def test_tls_07_b29_testing_is_tried_and_counted_and_required_by_nobody() -> None:
    assert demand(replace(PEER, sts=TESTING)) == TlsDemand(TlsPolicy.MTA_STS, names=(HOST,))
    outside = plan(replace(PEER, sts=replace(TESTING, mx=("*.example.net",))))
    assert outside.demand == TlsDemand(TlsPolicy.MTA_STS)
    assert outside.flaw is TlsResult.VALIDATION_FAILURE


def test_b29_mode_none_is_no_policy() -> None:
    assert plan(replace(PEER, sts=replace(ENFORCE, mode=StsMode.NONE))).policies == ()
    assert demand(replace(PEER, sts=replace(ENFORCE, mode=StsMode.NONE))) is OPPORTUNISTIC


def test_tls_08_dane_goes_before_mta_sts() -> None:
    found = plan(replace(PEER, tlsa=tlsa(EE), sts=ELSEWHERE))
    assert found.refusal is None and found.demand.records == (EE,)
    assert [policy for policy, _ in found.policies] == [TlsPolicy.DANE, TlsPolicy.MTA_STS]


def test_records_that_can_not_be_used_leave_mta_sts_in_force() -> None:
    useless = tlsa(Tlsa(1, 0, 1, b"x" * 32))
    assert demand(replace(PEER, tlsa=useless, sts=ENFORCE)).policy is TlsPolicy.MTA_STS
    assert refusal(replace(PEER, tlsa=useless, sts=ELSEWHERE))[0] == "4.7.5"
    assert demand(replace(PEER, tlsa=useless, sts=TESTING)) == TlsDemand(TlsPolicy.DANE, required=True, server_name=HOST)


def test_an_address_literal_has_no_mta_sts() -> None:
    assert asks_sts(TlsLevel.MAY, Needs(), "example.org")
    assert not asks_sts(TlsLevel.MAY, Needs(), "[192.0.2.1]")
    assert not asks_sts(TlsLevel.NONE, Needs(), "example.org")
    assert not asks_sts(TlsLevel.ENCRYPT, OPTIONAL, "example.org")


# ---------------------------------------------------------------- levels
@pytest.mark.parametrize(
    ("level", "plain", "with_dane", "with_sts"),
    [
        (TlsLevel.NONE, TlsPolicy.NONE, TlsPolicy.NONE, TlsPolicy.NONE),
        (TlsLevel.MAY, TlsPolicy.OPPORTUNISTIC, TlsPolicy.DANE, TlsPolicy.MTA_STS),
        (TlsLevel.ENCRYPT, TlsPolicy.CONFIGURED, TlsPolicy.DANE, TlsPolicy.MTA_STS),
        (TlsLevel.VERIFY, TlsPolicy.CONFIGURED, TlsPolicy.DANE, TlsPolicy.MTA_STS),
    ],
)
def test_a_level_is_a_least_one_but_none(
    level: TlsLevel, plain: TlsPolicy, with_dane: TlsPolicy, with_sts: TlsPolicy
) -> None:
    peer = replace(PEER, level=level)
    found = [demand(it) for it in (peer, replace(peer, tlsa=tlsa(EE)), replace(peer, sts=ENFORCE))]
    assert [it.policy for it in found] == [plain, with_dane, with_sts]
    if level is TlsLevel.NONE:
        assert not any(it.wanted or it.required for it in found)
    if level in (TlsLevel.ENCRYPT, TlsLevel.VERIFY):
        assert all(it.required for it in found)
    if level is TlsLevel.VERIFY:
        assert all(it.verified for it in found)


@pytest.mark.parametrize(
    "peer",
    [
        replace(PEER, secure=False),
        replace(PEER, tlsa=NO_TLSA),
        replace(PEER, tlsa=NO_TLSA, sts=ENFORCE),
        replace(PEER, tlsa=tlsa(EE, secure=False)),
        replace(PEER, tlsa=tlsa(Tlsa(1, 0, 1, b"x" * 32))),
    ],
)
def test_level_dane_without_dane_waits(peer: Peer) -> None:
    assert refusal(replace(peer, level=TlsLevel.DANE)) == ("4.7.5", Disposition.TRANSIENT)
    assert plan(replace(peer, level=TlsLevel.DANE)).flaw is TlsResult.DANE_REQUIRED


def test_level_verify_is_not_met_by_records_that_can_not_be_used() -> None:
    peer = replace(PEER, level=TlsLevel.VERIFY, tlsa=tlsa(Tlsa(1, 0, 1, b"x" * 32)))
    assert demand(peer) == TlsDemand(TlsPolicy.CONFIGURED, required=True, names=(HOST,))


def test_level_encrypt_and_testing_is_encrypted_whoever_it_is() -> None:
    assert demand(replace(PEER, level=TlsLevel.ENCRYPT, sts=TESTING)) == TlsDemand(TlsPolicy.CONFIGURED, required=True)


# ---------------------------------------------------------------- what a message asks
def test_tls_08_tls_required_no_lifts_what_was_published_not_what_is_configured() -> None:
    assert demand(replace(PEER, sts=ENFORCE), OPTIONAL) is OPPORTUNISTIC
    assert demand(replace(PEER, sts=ELSEWHERE), OPTIONAL) is OPPORTUNISTIC
    assert demand(replace(PEER, level=TlsLevel.VERIFY, sts=ELSEWHERE), OPTIONAL).verified
    assert refusal(replace(PEER, level=TlsLevel.DANE, tlsa=NO_TLSA), OPTIONAL)[0] == "4.7.5"
    assert demand(replace(PEER, sts=ENFORCE), Needs(required=True, optional=True)).required


@pytest.mark.parametrize(
    ("peer", "policy"),
    [
        (replace(PEER, tlsa=tlsa(EE)), TlsPolicy.DANE),
        (replace(PEER, tlsa=tlsa(Tlsa(1, 0, 1, b"x" * 32))), TlsPolicy.REQUIRETLS),
        (replace(PEER, secure=False), TlsPolicy.REQUIRETLS),
        (replace(PEER, secure_name=False, secure=False, sts=ENFORCE), TlsPolicy.MTA_STS),
        (replace(PEER, secure_name=False, secure=False, sts=TESTING), TlsPolicy.REQUIRETLS),
        (replace(PEER, level=TlsLevel.VERIFY), TlsPolicy.CONFIGURED),
        (Peer("[192.0.2.1]", "[192.0.2.1]"), TlsPolicy.REQUIRETLS),
    ],
)
def test_tls_09_requiretls_is_for_a_server_that_is_vouched_for_and_proves_to_be_it(peer: Peer, policy: TlsPolicy) -> None:
    found = demand(peer, REQUIRED)
    assert (found.policy, found.required, found.verified) == (policy, True, True)


@pytest.mark.parametrize("level", [TlsLevel.MAY, TlsLevel.VERIFY])
def test_tls_09_a_server_that_nobody_vouches_for_is_none_for_requiretls(level: TlsLevel) -> None:
    peer = replace(PEER, level=level, secure_name=False, secure=False)
    assert refusal(peer, REQUIRED) == ("5.7.30", Disposition.PERMANENT)
    assert refusal(replace(PEER, level=TlsLevel.NONE), REQUIRED) == ("5.7.10", Disposition.PERMANENT)


def test_tls_09_trouble_with_dane_is_no_final_refusal() -> None:
    assert refusal(replace(PEER, tlsa=TlsaAnswer(Lookup.TROUBLE)), REQUIRED) == ("4.7.5", Disposition.TRANSIENT)


def test_tls_09_the_parameter_of_mail() -> None:
    offered = {"REQUIRETLS": ""}
    assert requiretls(offered, verified=True, strict=True) == ("REQUIRETLS",)
    assert requiretls(offered, verified=False, strict=False) == requiretls({}, verified=True, strict=False) == ()
    for extensions, verified in ((offered, False), ({}, True)):
        verdict = requiretls(extensions, verified=verified, strict=True)
        assert isinstance(verdict, Verdict)
        assert (verdict.status, verdict.disposition, verdict.scope) == ("5.7.30", Disposition.PERMANENT, Scope.SESSION)


@pytest.mark.parametrize("verified", [False, True])
def test_tls_09_a_relay_is_vouched_for_by_the_configuration_and_proves_to_be_it(verified: bool) -> None:
    names = ("relay.example.net",)
    own = TlsDemand(TlsPolicy.CONFIGURED, required=True, names=names if verified else ())
    assert at_relay(own, *names, Needs()).demand is own
    asked = at_relay(own, *names, REQUIRED)
    assert asked.refusal is None and asked.demand.required and asked.demand.names == names
    never = at_relay(TlsDemand(TlsPolicy.NONE, wanted=False), *names, REQUIRED).refusal
    assert never is not None and never.status == "5.7.10"


def test_a_session_at_hand_is_enough_for_what_it_has_shown() -> None:
    shown = [("", ""), ("TLSv1.3 X", ""), ("TLSv1.3 X", "pkix")]
    enough = {level: [meets(level, tls, verified) for tls, verified in shown] for level in TlsLevel}
    assert enough == {
        TlsLevel.NONE: [True, True, True],
        TlsLevel.MAY: [True, True, True],
        TlsLevel.ENCRYPT: [False, True, True],
        TlsLevel.VERIFY: [False, False, True],
        TlsLevel.DANE: [False, False, True],
    }


# ---------------------------------------------------------------- what follows
def verdict(status: str, reply: str) -> Verdict:
    said = parse_reply(int(reply[:3]), [reply[4:]])
    return Verdict(Disposition.TRANSIENT, Scope.SESSION, status, said, Phase.STARTTLS)


def test_b27_a_refused_starttls_is_a_reason_to_wait_never_the_servers_5yz() -> None:
    required = TlsDemand(TlsPolicy.MTA_STS, required=True)
    found = of_host(verdict("4.7.10", "502 5.5.1 what?"), required, Needs())
    assert (found.disposition, found.status, found.reply.code) == (Disposition.TRANSIENT, "4.7.10", None)
    assert "mta-sts" in found.reply.text and "502 5.5.1 what?" in found.reply.text
    assert of_host(verdict("4.7.10", "502 no"), OPPORTUNISTIC, Needs()).reply.code == 502
    assert of_host(verdict("4.3.2", "421 4.3.2 later"), required, Needs()).reply.code == 421


def test_tls_09_without_starttls_there_is_no_requiretls_but_a_lack_may_pass() -> None:
    required = TlsDemand(TlsPolicy.REQUIRETLS, required=True, names=(HOST,))
    found = of_host(verdict("4.7.10", "502 no"), required, REQUIRED)
    assert (found.disposition, found.status, found.reply.status) == (Disposition.PERMANENT, "5.7.10", "5.7.10")
    assert of_host(verdict("4.7.0", "454 not now"), required, REQUIRED).disposition is Disposition.TRANSIENT


def test_in_words() -> None:
    dane = TlsDemand(TlsPolicy.DANE, required=True, records=(EE,))
    testing = TlsDemand(TlsPolicy.MTA_STS, names=(HOST,))
    tls = "TLSv1.3 TLS_AES_256_GCM_SHA384"
    assert in_words(dane, tls, "dane") == "dane verified"
    assert in_words(replace(dane, records=()), tls, "") == "dane without usable records"
    assert in_words(testing, tls, "pkix") == "mta-sts verified"
    assert in_words(weakened(testing), tls, "") == in_words(testing, "", "") == "mta-sts testing"
    assert in_words(OPPORTUNISTIC, tls, "") == "opportunistic"
    assert in_words(TlsDemand(TlsPolicy.NONE, wanted=False), "", "") == "none"


def test_what_is_required_is_never_weakened() -> None:
    """A policy that was in testing mode may be enforced since."""
    enforced = TlsDemand(TlsPolicy.MTA_STS, required=True, names=("mx.test",))
    assert weakened(enforced) == enforced
