"""MTA-STS policies, and how their files are had (RFC 8461 sections 3 and 5)."""

from dataclasses import dataclass
from typing import Protocol

from mta.model.tls import StsPolicy, TlsResult


class StsPolicies(Protocol):
    async def of(self, domain: str) -> StsPolicy | None:
        """The MTA-STS policy that is in force for a domain, None where there is none (RFC 8461 section 3). Bounded in time;
        never raises for what a name server or web server does."""
        ...

    def known(self, domain: str) -> StsPolicy | None:
        """As far as it is known here, without asking anybody."""
        ...


@dataclass(frozen=True, slots=True)
class Fetched:
    """What came of asking a web server for a policy file: with SUCCESS its `text`, else why not."""

    result: TlsResult
    text: str = ""
    detail: str = ""


class FetchPolicy(Protocol):
    async def __call__(self, domain: str, allow_private: bool) -> Fetched:
        """The MTA-STS policy file of a domain (A-labels), as RFC 8461 section 3.3 has it. `allow_private`: from a web server
        in our own network too. Bounded in time and size; never raises for what a server does."""
        ...
