"""Encryption on the way out: what is asked of it, and what there was (RFC 3207, 6698, 7672, 8461, 8460, 8689)."""

from dataclasses import dataclass
from enum import StrEnum


class TlsLevel(StrEnum):
    """What the configuration asks for at a destination."""

    NONE = "none"
    """Never encrypted."""
    MAY = "may"
    """Encrypted where it can be, unverified, else in clear; DANE and MTA-STS are followed where they are found."""
    ENCRYPT = "encrypt"
    """Encrypted, whoever is at the other end."""
    VERIFY = "verify"
    """Encrypted, and the certificate is valid for the server's name."""
    DANE = "dane"
    """Encrypted, and the server has DANE records that fit."""


@dataclass(frozen=True, slots=True)
class Tlsa:
    """A TLSA record (RFC 6698 section 2.1)."""

    usage: int
    selector: int
    matching: int
    data: bytes


class TlsPolicy(StrEnum):
    """What decided how a session was to be encrypted; as it is shown and counted."""

    NONE = "none"
    OPPORTUNISTIC = "opportunistic"
    CONFIGURED = "configured"
    DANE = "dane"
    MTA_STS = "mta-sts"
    REQUIRETLS = "requiretls"


@dataclass(frozen=True, slots=True)
class TlsDemand:
    """What a session with one host has to satisfy. `wanted` False: TLS is not even begun. `required`: without it nothing is
    sent. `names`: the certificate is to be valid, by an authority we trust, for one of them ("*." stands for one label);
    `records`: or to fit one of these DANE records, for `names` where its usage is 2 (RFC 7672 section 3.1). Neither:
    anybody. `server_name` is what is asked for in the handshake, "" the host's own name."""

    policy: TlsPolicy = TlsPolicy.OPPORTUNISTIC
    wanted: bool = True
    required: bool = False
    names: tuple[str, ...] = ()
    records: tuple[Tlsa, ...] = ()
    server_name: str = ""

    @property
    def verified(self) -> bool:
        """Whether the server has to prove who it is."""
        return bool(self.names or self.records)


OPPORTUNISTIC = TlsDemand()


class StsMode(StrEnum):
    """RFC 8461 section 5."""

    ENFORCE = "enforce"
    TESTING = "testing"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class StsPolicy:
    """A domain's MTA-STS policy (RFC 8461 section 3.2). `mx` are its patterns in lower case; `lines` as they were published,
    for reports."""

    mode: StsMode
    mx: tuple[str, ...]
    max_age: float
    lines: tuple[str, ...] = ()


class TlsResult(StrEnum):
    """How encryption with a host went (RFC 8460 section 4.3)."""

    SUCCESS = "success"
    STARTTLS_NOT_SUPPORTED = "starttls-not-supported"
    CERTIFICATE_HOST_MISMATCH = "certificate-host-mismatch"
    CERTIFICATE_EXPIRED = "certificate-expired"
    CERTIFICATE_NOT_TRUSTED = "certificate-not-trusted"
    VALIDATION_FAILURE = "validation-failure"
    TLSA_INVALID = "tlsa-invalid"
    DNSSEC_INVALID = "dnssec-invalid"
    DANE_REQUIRED = "dane-required"
    STS_POLICY_FETCH_ERROR = "sts-policy-fetch-error"
    STS_POLICY_INVALID = "sts-policy-invalid"
    STS_WEBPKI_INVALID = "sts-webpki-invalid"
