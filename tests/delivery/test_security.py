"""Policy x what the server does -> what happens: TLS-02, TLS-03, TLS-05, TLS-07, TLS-08; B26, B27, B28, B29.

`TABLE` is the table of the README, word for word; every cell of it is a delivery."""

import re
import ssl
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import trustme

from mta.delivery.security import SecurityRules
from mta.model.events import Encrypted
from mta.model.lifecycle import Status
from mta.model.tls import StsMode, StsPolicy, Tlsa, TlsLevel, TlsPolicy, TlsResult
from mta.policy.destinations import DestinationRule, Destinations
from mta.ports.names import Lookup, TlsaAnswer
from mta.smtp.connector import SmtpConnector
from tests.delivery.house import BRISK, PATIENT, House, house
from tests.support.certificates import chain, context, issued, tlsa
from tests.support.mx import Close, ScriptedMx, Silence

HOST = "mx.example.org"

TABLE = """
| policy | certificate fits | unknown authority | other name | expired | no STARTTLS | STARTTLS: 454 | STARTTLS: 502 | handshake breaks off | handshake hangs | clear text behind the 220 | TLS 1.0 alone |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
| `tls = "none"` | clear | clear | clear | clear | clear | clear | clear | clear | clear | clear | clear |
| `tls = "may"`, nothing published | encrypted | encrypted | encrypted | encrypted | clear | clear | clear | clear | clear | clear | clear |
| `tls = "encrypt"` | encrypted | encrypted | encrypted | encrypted | waits 4.7.10 | waits 4.7.0 | waits 4.7.10 | waits 4.7.5 | waits 4.7.5 | waits 4.7.5 | waits 4.7.5 |
| `tls = "verify"` | verified | waits 4.7.5 | waits 4.7.5 | waits 4.7.5 | waits 4.7.10 | waits 4.7.0 | waits 4.7.10 | waits 4.7.5 | waits 4.7.5 | waits 4.7.5 | waits 4.7.5 |
| `tls = "dane"`, nothing published | waits 4.7.5 | waits 4.7.5 | waits 4.7.5 | waits 4.7.5 | waits 4.7.5 | waits 4.7.5 | waits 4.7.5 | waits 4.7.5 | waits 4.7.5 | waits 4.7.5 | waits 4.7.5 |
| DANE, the record is the server's | verified | verified | verified | verified | waits 4.7.10 | waits 4.7.0 | waits 4.7.10 | waits 4.7.5 | waits 4.7.5 | waits 4.7.5 | waits 4.7.5 |
| DANE, the record is another's | waits 4.7.5 | waits 4.7.5 | waits 4.7.5 | waits 4.7.5 | waits 4.7.10 | waits 4.7.0 | waits 4.7.10 | waits 4.7.5 | waits 4.7.5 | waits 4.7.5 | waits 4.7.5 |
| DANE, no record can be used | encrypted | encrypted | encrypted | encrypted | waits 4.7.10 | waits 4.7.0 | waits 4.7.10 | waits 4.7.5 | waits 4.7.5 | waits 4.7.5 | waits 4.7.5 |
| DANE, the lookup fails | waits 4.7.5 | waits 4.7.5 | waits 4.7.5 | waits 4.7.5 | waits 4.7.5 | waits 4.7.5 | waits 4.7.5 | waits 4.7.5 | waits 4.7.5 | waits 4.7.5 | waits 4.7.5 |
| MTA-STS enforce | verified | waits 4.7.5 | waits 4.7.5 | waits 4.7.5 | waits 4.7.10 | waits 4.7.0 | waits 4.7.10 | waits 4.7.5 | waits 4.7.5 | waits 4.7.5 | waits 4.7.5 |
| MTA-STS enforce, server not in it | waits 4.7.5 | waits 4.7.5 | waits 4.7.5 | waits 4.7.5 | waits 4.7.5 | waits 4.7.5 | waits 4.7.5 | waits 4.7.5 | waits 4.7.5 | waits 4.7.5 | waits 4.7.5 |
| MTA-STS testing | verified | encrypted | encrypted | encrypted | clear | clear | clear | clear | clear | clear | clear |
| DANE and MTA-STS, mail with `TLS-Required: No` | encrypted | encrypted | encrypted | encrypted | clear | clear | clear | clear | clear | clear | clear |
"""  # noqa: E501 - as it stands in the README


@cache
def root() -> trustme.CA:
    return trustme.CA()


@cache
def leaves() -> dict[str, trustme.LeafCert]:
    return {
        "certificate fits": issued(root(), HOST),
        "unknown authority": issued(trustme.CA(), HOST),
        "other name": issued(root(), "other.example.org"),
        "expired": issued(root(), HOST, expired=True),
    }


SCRIPTS: dict[str, dict[str, Any]] = {
    "STARTTLS: 454": {"STARTTLS": "454 4.7.0 not now"},
    "STARTTLS: 502": {"STARTTLS": "502 5.5.1 what?"},
    "handshake breaks off": {"TLS": Close()},
    "handshake hangs": {"TLS": Silence()},
    "clear text behind the 220": {"STARTTLS": b"220 go\r\n250 evil\r\n"},
}


def server(column: str, **how: Any) -> ScriptedMx:
    served = context(leaves().get(column, leaves()["certificate fits"]))
    if column == "TLS 1.0 alone":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            served.minimum_version = served.maximum_version = ssl.TLSVersion.TLSv1
    return ScriptedMx(SCRIPTS.get(column), tls=None if column == "no STARTTLS" else served, **how)


@dataclass
class Policies:
    """`ports.sts.StsPolicies` from a dict."""

    published: dict[str, StsPolicy] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def of(self, domain: str) -> StsPolicy | None:
        self.asked.append(domain)
        return self.known(domain)

    def known(self, domain: str) -> StsPolicy | None:
        return self.published.get(domain)


def published(mode: StsMode, *mx: str) -> Policies:
    return Policies({"example.org": StsPolicy(mode, mx or (HOST,), 86400, ("version: STSv1", f"mode: {mode}"))})


def level(of: TlsLevel) -> SecurityRules:
    return SecurityRules(Destinations((DestinationRule(("example.org",), tls=of),)))


def found(*records: Tlsa) -> TlsaAnswer:
    return TlsaAnswer(Lookup.FOUND, records, secure=True)


OTHER = Tlsa(3, 1, 1, b"x" * 32)


def surroundings(row: str, column: str) -> tuple[SecurityRules, Policies, TlsaAnswer | None]:
    """The configuration, and what is published."""
    served = chain(leaves().get(column, leaves()["certificate fits"]))[0]
    rules, policies = SecurityRules(), Policies()
    match row:
        case "DANE, the record is the server's":
            return rules, policies, found(tlsa(3, 1, 1, served))
        case "DANE, the record is another's":
            return rules, policies, found(OTHER)
        case "DANE, no record can be used":
            return rules, policies, found(tlsa(1, 1, 1, served))
        case "DANE, the lookup fails":
            return rules, policies, TlsaAnswer(Lookup.TROUBLE, detail="SERVFAIL")
        case "MTA-STS enforce":
            return rules, published(StsMode.ENFORCE), None
        case "MTA-STS enforce, server not in it":
            return rules, published(StsMode.ENFORCE, "*.example.net", "192.0.2.1"), None
        case "MTA-STS testing":
            return rules, published(StsMode.TESTING), None
        case "DANE and MTA-STS, mail with `TLS-Required: No`":
            return rules, published(StsMode.ENFORCE, "*.example.net"), found(OTHER)
    name = re.search(r'tls = "(\w+)"', row)
    assert name is not None, row
    return level(TlsLevel(name[1])), policies, None


def cells() -> Iterator[Any]:
    head, _, *rows = ([cell.strip() for cell in line.strip("| ").split(" | ")] for line in TABLE.strip().splitlines())
    for row in rows:
        for column, expected in zip(head[1:], row[1:], strict=True):
            yield pytest.param(row[0], column, expected, id=f"{row[0]}-{column}")


def one_mx(home: House) -> None:
    home.names.zones["example.org"] = [(10, HOST, "127.0.0.1")]


def connector(hangs: bool = False) -> SmtpConnector:
    return SmtpConnector("mail.example.com", BRISK if hangs else PATIENT, root().configure_trust)


@pytest.mark.parametrize(("row", "column", "expected"), list(cells()))
async def test_cell(row: str, column: str, expected: str, tmp_path: Path):
    rules, policies, answer = surroundings(row, column)
    given = {"rules": rules, "policies": policies, "connector": connector("hangs" in column)}
    async with server(column) as mx, house(tmp_path, mx.port, **given) as home:
        one_mx(home)
        home.names.secure = "DANE" in row or '"dane"' in row
        home.names.tlsas = {HOST: answer} if answer else {}
        queue_id = await home.submit("ann@example.org", tls_optional="TLS-Required" in row)
        await home.deliver()
        recipient = await home.recipient(queue_id)
        entry = next(it.detail for it in (await home.show(queue_id)).timeline if it.event in ("sent", "deferred"))
    if expected.startswith("waits"):
        assert recipient.status is Status.PENDING and mx.messages == []
        assert not any("MAIL" in it.verbs for it in mx.connections)
        assert recipient.reply is not None
        assert (recipient.reply.code, f"waits {recipient.reply.enhanced}") == (None, expected)
        return
    assert recipient.status is Status.SENT
    (message,) = mx.messages
    assert message.tls == (expected != "clear")
    assert str(entry["policy"]).endswith(" verified") == (expected == "verified")


def test_the_readme_has_this_table():
    assert TABLE in (Path(__file__).parents[2] / "README.md").read_text()


# ---------------------------------------------------------------- what is more than a cell
@pytest.mark.parametrize("step", ["500 5.5.1 what?", Close()])
async def test_b27_helo_is_no_way_around(step: Any, tmp_path: Path):
    """EHLO is answered 500, HELO would be 250."""
    async with ScriptedMx({"EHLO": step}) as mx, house(tmp_path, mx.port, policies=published(StsMode.ENFORCE)) as home:
        one_mx(home)
        queue_id = await home.submit("ann@example.org")
        await home.deliver()
        recipient = await home.recipient(queue_id)
        assert recipient.status is Status.PENDING
        assert recipient.reply is not None and recipient.reply.code is None
        assert not any({"HELO", "MAIL"} & set(it.verbs) for it in mx.connections)


async def test_b28_b29_the_next_server_gets_it(tmp_path: Path):
    """A host that fails is skipped for that, however its failure looks: not in the policy, wrong certificate, no TLS."""
    policies = published(StsMode.ENFORCE, "mx2.example.org", "mx3.example.org", "mx4.example.org")
    good = issued(root(), "mx4.example.org")
    async with (
        ScriptedMx() as outside,
        ScriptedMx(host="127.0.0.2", port=outside.port, tls=context(issued(root(), "mx1.example.org"))) as wrong,
        ScriptedMx(host="127.0.0.3", port=outside.port) as bare,
        ScriptedMx(host="127.0.0.4", port=outside.port, tls=context(good)) as right,
        house(tmp_path, outside.port, policies=policies, connector=connector()) as home,
    ):
        home.names.zones["example.org"] = [(n, f"mx{n}.example.org", f"127.0.0.{n}") for n in (1, 2, 3, 4)]
        queue_id = await home.submit("ann@example.org")
        await home.deliver()
        assert (await home.recipient(queue_id)).status is Status.SENT
        assert [len(it.messages) for it in (outside, wrong, bare, right)] == [0, 0, 0, 1]
        assert outside.connections == []
        results = [(it.host[:3], it.result) for it in home.facts if isinstance(it, Encrypted)]
        assert results == [
            ("mx1", TlsResult.VALIDATION_FAILURE),
            ("mx2", TlsResult.CERTIFICATE_HOST_MISMATCH),
            ("mx3", TlsResult.STARTTLS_NOT_SUPPORTED),
            ("mx4", TlsResult.SUCCESS),
        ]
        attempts = [it.detail for it in (await home.show(queue_id)).timeline if it.event == "attempt"]
        assert "none of the servers in the policy" in str(attempts[0]["reply"])


@pytest.mark.parametrize("secure", [False, True])
async def test_b28_dane_is_not_asked_for_where_dnssec_does_not_vouch(tmp_path: Path, secure: bool):
    leaf = leaves()["certificate fits"]
    async with ScriptedMx(tls=context(leaf)) as mx, house(tmp_path, mx.port) as home:
        one_mx(home)
        home.names.secure = secure
        home.names.tlsas = {HOST: TlsaAnswer(Lookup.TROUBLE)}
        queue_id = await home.submit("ann@example.org")
        await home.deliver()
        assert (await home.recipient(queue_id)).status is (Status.PENDING if secure else Status.SENT)
        assert home.names.asked == ([HOST] if secure else [])


async def test_b26_a_host_that_is_spoken_to_in_clear_is_encrypted_where_that_is_required(tmp_path: Path):
    """What was remembered under another demand is no way around it."""
    policies = Policies()
    given = {"policies": policies, "connector": connector()}
    script = {"STARTTLS": ["454 4.7.0 not now"]}
    async with (
        ScriptedMx(script, tls=context(leaves()["certificate fits"])) as mx,
        house(tmp_path, mx.port, **given) as home,
    ):
        one_mx(home)
        await home.submit("ann@example.org")
        await home.deliver()
        await home.pool.close()
        policies.published = published(StsMode.ENFORCE).published
        await home.submit("bob@example.org")
        await home.deliver()
        assert [it.tls for it in mx.messages] == [False, True]


async def test_tls_08_a_session_for_mail_that_needs_none_is_for_no_other_mail(tmp_path: Path):
    given = {"policies": published(StsMode.ENFORCE), "connector": connector()}
    async with server("unknown authority") as mx, house(tmp_path, mx.port, **given) as home:
        one_mx(home)
        await home.submit("ann@example.org", tls_optional=True)
        await home.deliver()
        other = await home.submit("bob@example.org")
        await home.deliver()
        assert len(mx.messages) == 1
        assert (await home.recipient(other)).status is Status.PENDING


async def test_a_session_that_was_opened_before_the_rules_changed_is_not_used(tmp_path: Path):
    async with server("unknown authority") as mx, house(tmp_path, mx.port, connector=connector()) as home:
        one_mx(home)
        await home.submit("ann@example.org")
        await home.deliver()
        home.security.rules = level(TlsLevel.VERIFY)
        home.pool.renew()
        await home.submit("bob@example.org")
        await home.deliver()
        assert len(mx.messages) == 1


async def test_b29_a_session_in_clear_is_not_used_once_a_policy_is_known(tmp_path: Path):
    """Its file came too late for the mail that the session was opened for."""
    policies = Policies()
    async with server("no STARTTLS") as mx, house(tmp_path, mx.port, connector=connector(), policies=policies) as home:
        one_mx(home)
        await home.submit("ann@example.org")
        await home.deliver()
        policies.published = published(StsMode.ENFORCE).published
        other = await home.submit("bob@example.org")
        await home.deliver()
        assert len(mx.messages) == 1
        assert (await home.recipient(other)).status is Status.PENDING


async def test_lost_sessions_never_lead_to_clear_text_where_encryption_is_required(tmp_path: Path):
    """As `a server whose tls sessions break again and again`, under a policy."""
    given = {"policies": published(StsMode.ENFORCE), "connector": connector()}
    served = context(leaves()["certificate fits"])
    async with ScriptedMx({"MAIL": Close()}, tls=served) as mx, house(tmp_path, mx.port, **given) as home:
        one_mx(home)
        await home.submit("ann@example.org")
        for _ in range(3):
            await home.deliver()
            home.clock.at += 86400
        assert len(mx.connections) >= 3
        assert all("STARTTLS" in it.verbs for it in mx.connections)
        assert all(it.tls for it in mx.connections if "MAIL" in it.verbs)


async def test_tls_07_testing_counts_what_enforce_would_have_kept_back(tmp_path: Path):
    given = {"policies": published(StsMode.TESTING), "connector": connector()}
    async with server("expired") as mx, house(tmp_path, mx.port, **given) as home:
        one_mx(home)
        queue_id = await home.submit("ann@example.org")
        await home.deliver()
        (fact,) = [it for it in home.facts if isinstance(it, Encrypted)]
        assert (fact.domain, fact.host, fact.result) == ("example.org", HOST, TlsResult.CERTIFICATE_EXPIRED)
        assert fact.policies == ((TlsPolicy.MTA_STS, "version: STSv1\nmode: testing"),)
        (sent,) = [it.detail for it in (await home.show(queue_id)).timeline if it.event == "sent"]
        assert sent["policy"] == "mta-sts testing"


async def test_a_server_that_demands_what_the_configuration_forbids(tmp_path: Path):
    script = {"MAIL": "530 5.7.0 Must issue a STARTTLS command first"}
    given = {"rules": level(TlsLevel.NONE)}
    served = context(leaves()["certificate fits"])
    async with ScriptedMx(script, tls=served) as mx, house(tmp_path, mx.port, **given) as home:
        one_mx(home)
        queue_id = await home.submit("ann@example.org")
        await home.deliver()
        assert (await home.recipient(queue_id)).status is Status.PENDING
        assert not any("STARTTLS" in it.verbs for it in mx.connections)


async def test_an_address_literal_is_told_to_nobody_and_has_no_policy(tmp_path: Path):
    policies = Policies()
    async with ScriptedMx() as mx, house(tmp_path, mx.port, policies=policies) as home:
        await home.submit("ann@[127.0.0.1]")
        await home.deliver("[127.0.0.1]")
        assert len(mx.messages) == 1
        assert policies.asked == []
        assert not any(isinstance(it, Encrypted) for it in home.facts)


@pytest.mark.parametrize(
    ("row", "result"),
    [
        ("DANE, the record is the server's", TlsResult.SUCCESS),
        ("DANE, no record can be used", TlsResult.TLSA_INVALID),
        ("DANE, the lookup fails", TlsResult.DNSSEC_INVALID),
        ('`tls = "dane"`, nothing published', TlsResult.DANE_REQUIRED),
        ("MTA-STS enforce, server not in it", TlsResult.VALIDATION_FAILURE),
        ('`tls = "may"`, nothing published', TlsResult.SUCCESS),
    ],
)
async def test_what_is_told_of_a_session(row: str, result: TlsResult, tmp_path: Path):
    """RFC 8460 section 4.3: one fact, also where none was opened; a handshake makes no bad records good."""
    rules, policies, answer = surroundings(row, "certificate fits")
    given = {"rules": rules, "policies": policies, "connector": connector()}
    async with server("certificate fits") as mx, house(tmp_path, mx.port, **given) as home:
        one_mx(home)
        home.names.secure, home.names.tlsas = True, {HOST: answer} if answer else {}
        await home.submit("ann@example.org")
        await home.deliver()
        (fact,) = [it for it in home.facts if isinstance(it, Encrypted)]
        assert (fact.domain, fact.host, fact.address, fact.result) == ("example.org", HOST, "127.0.0.1", result)
        assert [policy for policy, _ in fact.policies] == (
            [TlsPolicy.DANE] if answer else [TlsPolicy.MTA_STS] if policies.published else []
        )
