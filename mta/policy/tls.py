"""How the session with one host is to be encrypted: from what is configured, published and asked for to one demand, or to
why the host is not to be used at all.

Rules:
- What is required is required: nothing here, and nothing that a server does, makes it clear text. A host that can't meet it
  is skipped with a transient finding, 4.7.5 or 4.7.4; the mail waits.
- `none` is the administrator's word and stands above everything published; every other level is a least one.
- DANE is followed where DNSSEC vouches for the name and the address of the host; TLSA trouble there skips the host, since
  an attacker could make it (RFC 7672 sections 2.1 and 2.2). It goes before MTA-STS, which never overrides it (RFC 8461
  section 2).
- MTA-STS in testing mode is tried and counted, and keeps no mail back (RFC 8461 section 5).
- `TLS-Required: No` lifts what the receiver has published, not what is configured; REQUIRETLS goes before it (RFC 8689
  sections 3 and 4.2).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from msgspec import Struct, structs

from mta.model.outcome import Disposition, Phase, Scope, Verdict
from mta.model.reply import finding
from mta.model.tls import OPPORTUNISTIC, StsMode, StsPolicy, Tlsa, TlsDemand, TlsLevel, TlsPolicy, TlsResult
from mta.policy.crowding import crowded
from mta.policy.sts import covers
from mta.ports.names import Lookup, TlsaAnswer

_DIGEST_SIZES = {1: 32, 2: 64}
"""By matching type: SHA-256, SHA-512 (RFC 6698 section 2.1.3)."""
_NEVER = TlsDemand(TlsPolicy.NONE, wanted=False)


class Needs(Struct, frozen=True):
    """What a message asks. `required`: REQUIRETLS; `optional`: `TLS-Required: No`. `counted` False: it is a report on
    encryption, which is not reported on itself (RFC 8460 section 3)."""

    required: bool = False
    optional: bool = False
    counted: bool = True

    @property
    def lifts(self) -> bool:
        """Whether what the receiver has published is not to be followed."""
        return self.optional and not self.required


NO_NEEDS = Needs()


@dataclass(frozen=True, slots=True)
class Peer:
    """A host, for mail to `destination`. DNSSEC vouches for its being one of the destination's if `secure_name`, for its
    address too if `secure`. `base` is the name that `tlsa` was asked for, None: it was not; `sts` is the destination's
    MTA-STS policy."""

    destination: str
    host: str
    level: TlsLevel = TlsLevel.MAY
    secure_name: bool = False
    secure: bool = False
    base: str = ""
    tlsa: TlsaAnswer | None = None
    sts: StsPolicy | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """`demand` is what the session has to satisfy; `refusal` why there is to be none. `policies` are those in force that
    were published, each with its text, as `events.Encrypted` has them. `flaw` is what is wrong with them already, whatever
    the handshake will show."""

    demand: TlsDemand = OPPORTUNISTIC
    policies: tuple[tuple[TlsPolicy, str], ...] = ()
    flaw: TlsResult | None = None
    refusal: Verdict | None = None


# ---------------------------------------------------------------- what is to be asked for
def asks_tlsa(level: TlsLevel, needs: Needs, *, secure: bool, dane: bool) -> bool:
    """Whether TLSA records matter; where DNSSEC does not vouch for the address, they are not even asked for (RFC 7672
    section 2.2). `dane`: they are followed wherever they are found."""
    if level is TlsLevel.NONE or not secure:
        return False
    return level is TlsLevel.DANE or (dane and not needs.lifts)


def asks_sts(level: TlsLevel, needs: Needs, destination: str) -> bool:
    return level is not TlsLevel.NONE and not needs.lifts and not destination.startswith("[")


def tlsa_bases(host: str, canonical: str) -> tuple[str, ...]:
    """The names that TLSA records of a host may stand under, the first that has them counts (RFC 7672 section 2.2.2)."""
    return (canonical, host) if canonical and canonical != host else (host,)


# ---------------------------------------------------------------- the plan
def plan(peer: Peer, needs: Needs = NO_NEEDS) -> Plan:
    """The session with `peer`, for mail with these `needs`."""
    if peer.level is TlsLevel.NONE:
        return _never(needs)
    policies = (*_dane_text(peer), *_sts_text(peer, needs))
    planned = _by_dane(peer)
    if planned is None or (planned.refusal is None and not planned.demand.records):
        planned = _stricter(planned, _without_dane(peer, needs))
    if planned.refusal is None and needs.required:
        planned = _authenticated(planned, peer)
    return replace(planned, policies=policies) if policies else planned


def _never(needs: Needs) -> Plan:
    if not needs.required:
        return Plan(_NEVER)
    text = 'REQUIRETLS was asked for, and the configuration says tls = "none"'
    return Plan(_NEVER, refusal=_refusal("5.7.10", text, Disposition.PERMANENT))


def _by_dane(peer: Peer) -> Plan | None:
    """What the TLSA records ask; None: there are none."""
    answer = peer.tlsa
    if answer is None or answer.lookup in (Lookup.NODATA, Lookup.NXDOMAIN):
        return None
    if answer.lookup is not Lookup.FOUND:
        text = f"DANE: the TLSA records of {peer.base} can't be looked up: {answer.detail}"
        return Plan(flaw=TlsResult.DNSSEC_INVALID, refusal=_refusal("4.7.5", text))
    if not answer.secure:
        return None
    usable = tuple(filter(_usable, answer.records))
    names = tuple(dict.fromkeys((peer.base, peer.host, peer.destination))) if any(it.usage == 2 for it in usable) else ()
    demand = TlsDemand(TlsPolicy.DANE, required=True, names=names, records=usable, server_name=peer.base)
    return Plan(demand, flaw=None if usable else TlsResult.TLSA_INVALID)


def _usable(record: Tlsa) -> bool:
    """RFC 7672 section 3.1: usages 0 and 1 are not for mail."""
    if record.usage not in (2, 3) or record.selector not in (0, 1) or record.matching not in (0, 1, 2):
        return False
    size = _DIGEST_SIZES.get(record.matching)
    return bool(record.data) if size is None else len(record.data) == size


def _stricter(dane: Plan | None, other: Plan) -> Plan:
    """`dane`: records that can't be used, so that encryption is all they ask (RFC 7672 section 2.2)."""
    if dane is None or other.refusal is not None or (other.demand.required and other.demand.verified):
        return other
    return dane


def _without_dane(peer: Peer, needs: Needs) -> Plan:
    if peer.level is TlsLevel.DANE:
        why = "has no DANE records that can be used" if peer.secure else "is not vouched for by DNSSEC"
        refusal = _refusal("4.7.5", f'tls = "dane" is configured, and {peer.host} {why}')
        return Plan(flaw=TlsResult.DANE_REQUIRED, refusal=refusal)
    least = _configured(peer)
    if needs.lifts or peer.sts is None or peer.sts.mode is StsMode.NONE:
        return Plan(least)
    covered = covers(peer.sts, peer.host)
    if peer.sts.mode is StsMode.ENFORCE:
        if not covered:
            refusal = _refusal("4.7.5", f"MTA-STS: {peer.host} is none of the servers in the policy of {peer.destination}")
            return Plan(flaw=TlsResult.VALIDATION_FAILURE, refusal=refusal)
        return Plan(TlsDemand(TlsPolicy.MTA_STS, required=True, names=(peer.host,)))
    flaw = None if covered else TlsResult.VALIDATION_FAILURE
    if least.required:
        return Plan(least, flaw=flaw)
    return Plan(TlsDemand(TlsPolicy.MTA_STS, names=(peer.host,) if covered else ()), flaw=flaw)


def _configured(peer: Peer) -> TlsDemand:
    match peer.level:
        case TlsLevel.ENCRYPT:
            return TlsDemand(TlsPolicy.CONFIGURED, required=True)
        case TlsLevel.VERIFY:
            return TlsDemand(TlsPolicy.CONFIGURED, required=True, names=(peer.host,))
    return OPPORTUNISTIC


def _authenticated(planned: Plan, peer: Peer) -> Plan:
    """For REQUIRETLS: a host that somebody vouches for, and that proves to be it (RFC 8689 section 4.2.1)."""
    in_policy = peer.sts is not None and peer.sts.mode is not StsMode.NONE and covers(peer.sts, peer.host)
    if not (peer.secure_name or in_policy or peer.destination.startswith("[")):
        text = f"REQUIRETLS: neither DNSSEC nor MTA-STS vouches for {peer.host} as a server of {peer.destination}"
        return Plan(planned.demand, flaw=planned.flaw, refusal=_refusal("5.7.30", text, Disposition.PERMANENT))
    if planned.demand.required and planned.demand.verified:
        return planned
    return replace(planned, demand=TlsDemand(TlsPolicy.REQUIRETLS, required=True, names=(peer.host,)))


def _refusal(status: str, text: str, disposition: Disposition = Disposition.TRANSIENT) -> Verdict:
    """About this host alone. What is permanent is so where every host is like that (`exhausted`)."""
    phase = Phase.TLS if disposition is Disposition.TRANSIENT else Phase.STARTTLS
    return Verdict(disposition, Scope.SESSION, status, finding(status, text), phase)


def at_relay(demand: TlsDemand, host: str, needs: Needs) -> Plan:
    """The session with a relay that the configuration names, and thereby vouches for; `demand` is what it asks there."""
    if not needs.required or (demand.required and demand.verified):
        return Plan(demand)
    return Plan(TlsDemand(TlsPolicy.REQUIRETLS, required=True, names=(host,))) if demand.wanted else _never(needs)


def meets(level: TlsLevel, tls: str, verified: str, *, enforced: bool = False) -> bool:
    """Whether a session that is there, opened for other mail perhaps, is enough for `level`, and where MTA-STS is
    `enforced`."""
    if level is TlsLevel.NONE:
        return True
    if enforced or level in (TlsLevel.VERIFY, TlsLevel.DANE):
        return bool(verified)
    return bool(tls) or level is TlsLevel.MAY


# ---------------------------------------------------------------- the texts
def _dane_text(peer: Peer) -> tuple[tuple[TlsPolicy, str], ...]:
    answer = peer.tlsa
    if answer is None or (answer.lookup is Lookup.FOUND and not answer.secure):
        return ()
    if answer.lookup in (Lookup.NODATA, Lookup.NXDOMAIN):
        return ()
    lines = (f"{it.usage} {it.selector} {it.matching} {it.data.hex()}" for it in answer.records)
    return ((TlsPolicy.DANE, "\n".join(lines)),)


def _sts_text(peer: Peer, needs: Needs) -> tuple[tuple[TlsPolicy, str], ...]:
    if peer.sts is None or needs.lifts or peer.sts.mode is StsMode.NONE:
        return ()
    return ((TlsPolicy.MTA_STS, "\n".join(peer.sts.lines)),)


def in_words(demand: TlsDemand, tls: str, verified: str) -> str:
    """What decided about a session and what came of it, as it is shown: "dane verified", "mta-sts testing",
    "opportunistic"."""
    if verified:
        return f"{demand.policy} verified"
    if demand.policy is TlsPolicy.MTA_STS and not demand.required:
        return f"{demand.policy} testing"
    if demand.policy is TlsPolicy.DANE and tls:
        return f"{demand.policy} without usable records"
    return str(demand.policy)


# ---------------------------------------------------------------- what follows from the conversation
_OF_TLS = frozenset({Phase.STARTTLS, Phase.TLS, Phase.EHLO_TLS})


def not_offered(demand: TlsDemand) -> Verdict:
    """STARTTLS is required, and the server does not have it, or something on the way has taken it away (RFC 8461 section
    5, RFC 7672 section 2.2)."""
    text = "the server does not offer STARTTLS" if demand.wanted else "the configuration says that it is not to be"
    return Verdict(Disposition.TRANSIENT, Scope.SESSION, "4.7.10", finding("4.7.10", text), Phase.STARTTLS)


def weakened(demand: TlsDemand) -> TlsDemand:
    """A demand that nothing depends on, after the server failed it: encrypted, whoever it is. What is required stays."""
    return demand if demand.required else replace(demand, names=(), records=())


def of_host(verdict: Verdict, demand: TlsDemand, needs: Needs) -> Verdict:
    """What is said of a host that could not be used: where encryption is required, that this is why, and a refusal of
    STARTTLS is no refusal of mail (field case B27). For REQUIRETLS it is one: without STARTTLS there is none (RFC 8689
    section 4.2.1). What was said of something else stays as it is: a refusal in the greeting, too many sessions."""
    about_tls = verdict.phase in _OF_TLS or verdict.status == "4.7.10"  # also where EHLO is not known
    if not (demand.required and about_tls and verdict.status.startswith("4.7.")) or crowded(verdict):
        return verdict
    said = f"{verdict.phase.upper()} was answered with {verdict.reply}" if verdict.reply.code else verdict.reply.text
    final = needs.required and verdict.status == "4.7.10"
    status = "5.7.10" if final else verdict.status
    reply = finding(status, f"encryption is required ({demand.policy}): {said}")
    found = structs.replace(verdict, status=status, reply=reply)
    return structs.replace(found, disposition=Disposition.PERMANENT, phase=Phase.STARTTLS) if final else found


def requiretls(extensions: Mapping[str, str], *, verified: bool, strict: bool) -> tuple[str, ...] | Verdict:
    """The parameter of MAIL for a message with REQUIRETLS; or, with `strict`, why it is not for this host. Not strict are
    reports of what became of such a message: they go on in any case (RFC 8689 section 5)."""
    if verified and "REQUIRETLS" in extensions:
        return ("REQUIRETLS",)
    if not strict:
        return ()
    text = "REQUIRETLS was asked for, and the server does not offer it"
    return Verdict(Disposition.PERMANENT, Scope.SESSION, "5.7.30", finding("5.7.30", text), Phase.MAIL)
