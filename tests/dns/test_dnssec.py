"""DNSSEC through a real validating resolver, with a zone that is signed here: TLS-03, TLS-05, B28."""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dns.dnssec
import dns.name
import dns.rdatatype
import dns.rrset
import dns.versioned
import dns.zone
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from mta.dns.resolver import DnsResolver
from mta.model.tls import Tlsa
from mta.ports.names import Lookup
from tests.dns.test_unbound import UNBOUND, answering
from tests.support.ports import free_port

pytestmark = pytest.mark.unbound

CONFIGURATION = """
server:
  directory: "{folder}"
  chroot: ""
  username: ""
  pidfile: ""
  use-syslog: no
  logfile: "{folder}/unbound.log"
  interface: 127.0.0.1@{port}
  access-control: 127.0.0.0/8 allow
  do-ip6: no
  module-config: "validator iterator"
  local-zone: "test." nodefault
  trust-anchor-file: "{folder}/anchors"
  num-threads: 1
remote-control:
  control-enable: no
"""
AUTH_ZONE = """
auth-zone:
  name: "{name}"
  zonefile: "{folder}/{name}zone"
  for-downstream: no
  for-upstream: yes
  fallback-enabled: no
"""
RECORDS = """
@ 60 SOA ns root 1 3600 600 86400 60
@ 60 NS ns
ns 60 A 192.0.2.53
@ 60 MX 10 mx
mx 60 A 192.0.2.1
_25._tcp.mx 60 TLSA 3 1 1 {digest}
alias 60 CNAME mx
"""
RECORD = Tlsa(3, 1, 1, b"\xab" * 32)


def write_zone(folder: Path, text: str, *, signed: bool, forged: str = "") -> str:
    """Writes the zone `text`; its trust anchor, "" without signatures. `forged` is a name whose addresses are changed after
    they were signed."""
    name = dns.name.from_text(text)
    records = RECORDS.format(digest=RECORD.data.hex())
    zone = dns.zone.from_text(records, origin=name, relativize=False, zone_factory=dns.versioned.Zone)
    anchor = ""
    if signed:
        key = ec.generate_private_key(ec.SECP256R1())
        dnskey = dns.dnssec.make_dnskey(key.public_key(), dns.dnssec.Algorithm.ECDSAP256SHA256, flags=257)
        began = datetime.now(UTC) - timedelta(hours=1)
        with zone.writer() as writer:
            dns.dnssec.sign_zone(
                zone, writer, [(key, dnskey)], inception=began, expiration=began + timedelta(days=2), add_dnskey=True
            )
        anchor = f"{dns.rrset.from_rdata(name, 60, dnskey)}\n"
    if forged:
        with zone.writer() as writer:
            writer.replace(dns.name.from_text(forged), dns.rrset.from_text(forged, 60, "IN", "A", "192.0.2.66"))
    zone.to_file(str(folder / f"{text}zone"), relativize=False)
    return anchor


@asynccontextmanager
async def validating(folder: Path) -> AsyncIterator[DnsResolver]:
    """Knows good.test, signed; plain.test, unsigned; bogus.test, signed, and then changed."""
    assert UNBOUND and shutil.which(UNBOUND), "unbound is not installed (Debian: unbound)"
    anchors = [
        write_zone(folder, "good.test.", signed=True),
        write_zone(folder, "plain.test.", signed=False),
        write_zone(folder, "bogus.test.", signed=True, forged="mx.bogus.test."),
    ]
    (folder / "anchors").write_text("".join(anchors))
    port = free_port()
    zones = "".join(AUTH_ZONE.format(name=name, folder=folder) for name in ("good.test.", "plain.test.", "bogus.test."))
    configuration = folder / "unbound.conf"
    configuration.write_text(CONFIGURATION.format(folder=folder, port=port) + zones)
    child = await asyncio.create_subprocess_exec(UNBOUND, "-d", "-c", str(configuration))
    try:
        async with asyncio.timeout(20):
            await answering(port)
        yield DnsResolver([("127.0.0.1", port)], 10.0)
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.terminate()
        await child.wait()


async def test_b28_what_a_validating_resolver_vouches_for(tmp_path: Path) -> None:
    async with validating(tmp_path) as resolver:
        exchangers, addresses = await resolver.mail_exchangers("good.test"), await resolver.addresses("mx.good.test")
        assert exchangers.secure and addresses.secure and addresses.addresses == ("192.0.2.1",)
        tlsa = await resolver.tlsa("mx.good.test", 25)
        assert (tlsa.lookup, tlsa.records, tlsa.secure) == (Lookup.FOUND, (RECORD,), True)
        alias = await resolver.addresses("alias.good.test")
        assert (alias.secure, alias.canonical) == (True, "mx.good.test")


async def test_tls_05_a_denial_is_vouched_for_too(tmp_path: Path) -> None:
    async with validating(tmp_path) as resolver:
        nothing, no_name = await resolver.tlsa("mx.good.test", 26), await resolver.tlsa("alias.good.test", 25)
        assert {nothing.lookup, no_name.lookup} <= {Lookup.NXDOMAIN, Lookup.NODATA}
        assert nothing.secure and no_name.secure


async def test_b28_an_unsigned_zone_is_found_and_not_vouched_for(tmp_path: Path) -> None:
    async with validating(tmp_path) as resolver:
        exchangers, tlsa = await resolver.mail_exchangers("plain.test"), await resolver.tlsa("mx.plain.test", 25)
        assert (exchangers.lookup, exchangers.secure) == (Lookup.FOUND, False)
        assert (tlsa.lookup, tlsa.secure) == (Lookup.FOUND, False)


async def test_tls_05_what_was_forged_is_trouble(tmp_path: Path) -> None:
    async with validating(tmp_path) as resolver:
        assert (await resolver.mail_exchangers("bogus.test")).secure
        assert (await resolver.addresses("mx.bogus.test")).lookup is Lookup.TROUBLE
