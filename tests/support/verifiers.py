"""Independent verifiers of DKIM signatures: dkimpy, and Mail::DKIM of Debian. Both are given the DNS records in a dict:
name, in lower case and without a final dot, to what the record says."""

import json
import subprocess
from collections.abc import Mapping
from functools import cache

import dkim

from mta.dkim.keys import Key, KeyType, new_key, read_key

Records = Mapping[str, str]

_PERL = r"""
use strict; use warnings; use JSON::PP; use Mail::DKIM::Verifier; use Net::DNS;
my $given = decode_json(<STDIN>);
my %records = %{$given->{records}};
{
    no warnings 'redefine';
    *Mail::DKIM::DNS::query = sub {
        my ($name) = @_;
        my $text = $records{lc $name} // return;
        return Net::DNS::RR->new(owner => $name, type => 'TXT', txtdata => [$text]);
    };
}
my @results;
for my $message (@{$given->{messages}}) {
    my $verifier = Mail::DKIM::Verifier->new();
    $verifier->PRINT(pack 'H*', $message);
    $verifier->CLOSE;
    push @results, [grep { !/unsupported algorithm/ } map { $_->result_detail } $verifier->signatures];
}
print encode_json(\@results);
"""


def key(name: str, key_type: KeyType = "ed25519") -> Key:
    """The same one each time."""
    return read_key(name, pem(name, key_type))


def pem(name: str, key_type: KeyType = "ed25519") -> bytes:
    """Its file."""
    return _made(name, key_type)


@cache
def _made(name: str, key_type: KeyType) -> bytes:
    return new_key(key_type)


def published(*keys: Key) -> Records:
    return {it.owner: it.record for it in keys}


def by_dkimpy(message: bytes, records: Records) -> list[bool]:
    """The result of each signature, from the top."""

    def lookup(name: bytes, timeout: int = 5) -> bytes:
        return records.get(name.decode().rstrip(".").lower(), "").encode()

    verifier = dkim.DKIM(message)
    count = sum(name.lower() == b"dkim-signature" for name, _ in verifier.headers)
    return [verifier.verify(number, lookup) for number in range(count)]


def by_mail_dkim(messages: list[bytes], records: Records) -> list[list[str]]:
    """The result of each signature of each message: "pass", or what is wrong. Before 1.20240923 it knows RSA alone; what it
    does not know is left out."""
    given = json.dumps({"records": dict(records), "messages": [it.hex() for it in messages]})
    done = subprocess.run(["perl", "-e", _PERL], input=given + "\n", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    results: list[list[str]] = json.loads(done.stdout)
    return results
