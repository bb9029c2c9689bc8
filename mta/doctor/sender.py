"""What receivers look up about whoever sends: the name in EHLO (RFC 5321 section 4.1.4), SPF (RFC 7208), DKIM (RFC 6376
section 3.6), DMARC (RFC 7489 section 6.3)."""

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mta.doctor.findings import Finding, Level
from mta.doctor.spf import Evaluation, Spf, is_record
from mta.policy.networks import Standing, plain, standing
from mta.ports.names import Lookup, Resolver

NAMES_AT_MOST = 10
"""Reverse names of an address that are looked at, as a receiver would (RFC 7208 section 5.5)."""


@dataclass(frozen=True, slots=True)
class SigningKey:
    """What is to be found in DNS at `selector._domainkey.domain`; `public` is the value of its `p=`."""

    domain: str
    selector: str
    public: str


def our_addresses(outward: Iterable[str], named: Sequence[str]) -> tuple[tuple[str, ...], tuple[Finding, ...]]:
    """The addresses that others see mail come from: those we connect from where they are public, else (behind an address
    translation) those that our name has; and what there is to say of it."""
    public = tuple(dict.fromkeys(it for it in outward if standing(plain(it)) is Standing.PUBLIC))
    if public:
        return public, (Finding(Level.OK, "our address", f"mail leaves from {', '.join(public)}"),)
    known = tuple(it for it in named if standing(plain(it)) is Standing.PUBLIC)
    if known:
        what = f"this machine has private addresses alone; its name says {', '.join(known)}"
        return known, (Finding(Level.NOTE, "our address", what, "see that mail really leaves from there"),)
    advice = "give hostname a public address in DNS, or send by a relay ([[route]])"
    return (), (Finding(Level.WARNING, "our address", "no public address is known", advice),)


async def look_at_name(resolver: Resolver, hostname: str, addresses: Sequence[str]) -> list[Finding]:
    """The EHLO name leads to our addresses, and each of them back to it."""
    about = f"the name {hostname}"
    if hostname.startswith("[") or "." not in hostname:
        advice = "set `hostname` to this machine's full name in DNS"
        return [Finding(Level.FAILURE, about, "is no full domain name: many servers refuse it", advice)]
    answer = await resolver.addresses(hostname)
    if answer.lookup is Lookup.TROUBLE:
        return [Finding(Level.NOTE, about, f"can't be looked up now: {answer.detail}")]
    if not answer.addresses:
        return [Finding(Level.FAILURE, about, "has no address in DNS", f"add A and AAAA records for {hostname}")]
    found = [Finding(Level.OK, about, f"has the addresses {', '.join(answer.addresses)}")]
    named = {plain(it) for it in answer.addresses}
    for address in addresses:
        if plain(address) not in named:
            advice = f"add an address record for it to {hostname}"
            found.append(Finding(Level.WARNING, about, f"does not lead to {address}, where mail comes from", advice))
        found.append(await _look_back(resolver, address, hostname))
    return found


async def _look_back(resolver: Resolver, address: str, hostname: str) -> Finding:
    about = f"the reverse name of {address}"
    answer = await resolver.names(address)
    if answer.lookup is Lookup.TROUBLE:
        return Finding(Level.NOTE, about, f"can't be looked up now: {answer.detail}")
    if hostname.lower() in answer.texts[:NAMES_AT_MOST]:
        return Finding(Level.OK, about, f"is {hostname}")
    advice = f"have whoever gave you the address set its PTR record to {hostname}"
    if not answer.texts:
        return Finding(Level.FAILURE, about, "there is none: large receivers refuse mail from such addresses", advice)
    names = answer.texts[:NAMES_AT_MOST]
    for name in names:
        if plain(address) in map(plain, (await resolver.addresses(name)).addresses):
            return Finding(Level.WARNING, about, f"is {name}, not {hostname}", advice)
    what = f"is {', '.join(names)}, which does not lead back to it"
    return Finding(Level.FAILURE, about, what, advice)


async def look_at_spf(resolver: Resolver, domain: str, addresses: Sequence[str]) -> list[Finding]:
    return [await _spf(resolver, domain, address) for address in addresses]


async def _spf(resolver: Resolver, domain: str, address: str) -> Finding:
    about = f"SPF of {domain}"
    evaluation = Evaluation(resolver, plain(address))
    result = await evaluation.of(domain)
    term = f"ip{ipaddress.ip_address(address).version}:{address}"
    match result:
        case Spf.PASS:
            return Finding(Level.OK, about, f"lets {address} send: {evaluation.record}")
        case Spf.NONE:
            advice = f'add the TXT record "v=spf1 {term} -all" to {domain}'
            return Finding(Level.FAILURE, about, "there is no record", advice)
        case Spf.FAIL | Spf.SOFTFAIL | Spf.NEUTRAL:
            level = Level.WARNING if result is Spf.NEUTRAL else Level.FAILURE
            return Finding(level, about, f"does not let {address} send ({result}): {evaluation.record}", f"add {term} to it")
        case Spf.PERMERROR:
            return Finding(Level.FAILURE, about, f"is wrong: {evaluation.why}", "mend it: as it is, it counts as none")
    return Finding(Level.NOTE, about, f"could not be judged: {evaluation.why}")


def mail_leaves_by(relay: object) -> Finding:
    return Finding(Level.NOTE, "our address", f"mail leaves by {relay}: others see its address and name, not ours")


async def look_at_spf_record(resolver: Resolver, domain: str, relay: object) -> Finding:
    """Where a relay sends, whose addresses are its operator's to tell."""
    about = f"SPF of {domain}"
    answer = await resolver.texts(domain)
    if answer.lookup is Lookup.TROUBLE:
        return Finding(Level.NOTE, about, f"can't be looked up now: {answer.detail}")
    records = list(filter(is_record, answer.texts))
    advice = f"ask the operator of {relay} what has to stand in it"
    if not records:
        return Finding(Level.FAILURE, about, "there is no record", advice)
    return Finding(Level.NOTE, about, f"has to let the relay send: {records[0]}", advice)


async def look_at_dkim(resolver: Resolver, key: SigningKey) -> Finding:
    name = f"{key.selector}._domainkey.{key.domain}"
    about = f"DKIM key {name}"
    answer = await resolver.texts(name)
    if answer.lookup is Lookup.TROUBLE:
        return Finding(Level.NOTE, about, f"can't be looked up now: {answer.detail}")
    advice = "publish the TXT record that `mta dkim show` prints"
    published = [tags for tags in map(_tags, answer.texts) if "p" in tags]
    if not published:
        return Finding(Level.FAILURE, about, "is not in DNS: every signature is worthless", advice)
    if len(published) > 1:
        return Finding(Level.FAILURE, about, f"there are {len(published)} records; only one may be there", advice)
    (tags,) = published
    if not tags["p"]:
        return Finding(Level.FAILURE, about, "is revoked (an empty p=)", "make a new key under a new selector")
    if tags["p"] != key.public:
        return Finding(Level.FAILURE, about, "is another key than the one that signs", advice)
    if "y" in tags.get("t", "").split(":"):
        return Finding(Level.WARNING, about, "is marked as a test (t=y)", "take t=y out of the record")
    return Finding(Level.OK, about, "is the one that signs")


async def look_at_dmarc(resolver: Resolver, domain: str) -> Finding:
    """At the domain itself, else at those above it (the organizational domain is one of them)."""
    about = f"DMARC of {domain}"
    place = domain
    while "." in place:
        answer = await resolver.texts(f"_dmarc.{place}")
        if answer.lookup is Lookup.TROUBLE:
            return Finding(Level.NOTE, about, f"can't be looked up now: {answer.detail}")
        records = [text for text in answer.texts if _tags(text).get("v", "").upper() == "DMARC1"]
        if records:
            return _dmarc(about, place, records)
        place = place.partition(".")[2]
    advice = f'add the TXT record "v=DMARC1; p=none; rua=mailto:postmaster@{domain}" to _dmarc.{domain}'
    return Finding(Level.WARNING, about, "there is no record: large receivers ask bulk senders for one", advice)


def _dmarc(about: str, place: str, records: Sequence[str]) -> Finding:
    if len(records) > 1:
        return Finding(Level.FAILURE, about, f"_dmarc.{place} has {len(records)} records", "leave only one")
    policy = _tags(records[0]).get("p", "")
    if policy not in ("none", "quarantine", "reject"):
        return Finding(Level.FAILURE, about, f"has no policy: {records[0]}", "give it p=none, p=quarantine or p=reject")
    return Finding(Level.OK, about, f"p={policy}, at _dmarc.{place}")


def _tags(text: str) -> dict[str, str]:
    """A tag list (RFC 6376 section 3.2); white space inside values goes."""
    pairs = (part.partition("=") for part in text.split(";"))
    return {name.strip().lower(): "".join(value.split()) for name, equals, value in pairs if equals}
