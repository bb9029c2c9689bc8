"""An MTA-STS policy file over HTTPS (RFC 8461 section 3.3).

Rules: the certificate is verified by the system's authorities for mta-sts.DOMAIN (its DNS names alone, RFC 6125); 200 and
text/plain or nothing, no redirect is followed; at most 64 KiB and a minute in all. A domain that we send to names the web
server, so one in our own network is not asked unless that is allowed.
"""

import asyncio
import ssl

from mta.client_tls import client_context
from mta.http import connection, read_body, read_fields, read_status, request
from mta.model.tls import TlsResult
from mta.policy.networks import Standing, plain, standing
from mta.ports.names import Resolver
from mta.ports.sts import Fetched

HTTPS = 443
TIME_LIMIT = 60.0
"""Seconds."""
SIZE_LIMIT = 64 * 1024
ADDRESS_LIMIT = 4
"""Addresses that are tried."""


class PolicyServers:
    """A `ports.sts.FetchPolicy`. `tls` None: the system's authorities are trusted; `time_limit` in seconds."""

    def __init__(
        self, resolver: Resolver, *, port: int = HTTPS, tls: ssl.SSLContext | None = None, time_limit: float = TIME_LIMIT
    ) -> None:
        self._resolver, self._port, self._tls, self._time_limit = resolver, port, tls, time_limit

    async def __call__(self, domain: str, allow_private: bool) -> Fetched:
        host = f"mta-sts.{domain}"
        try:
            async with asyncio.timeout(self._time_limit):
                return Fetched(TlsResult.SUCCESS, await self._get(host, allow_private))
        except ssl.SSLCertVerificationError as error:
            return Fetched(TlsResult.STS_WEBPKI_INVALID, detail=f"{host}: {error.verify_message}")
        except TimeoutError:
            return Fetched(TlsResult.STS_POLICY_FETCH_ERROR, detail=f"{host} did not answer in time")
        except (OSError, EOFError, ValueError) as error:
            return Fetched(TlsResult.STS_POLICY_FETCH_ERROR, detail=f"{host}: {error or type(error).__name__}")

    async def _get(self, host: str, allow_private: bool) -> str:
        """From one address after another, each with its share of the time. Raises OSError and ValueError."""
        answer = await self._resolver.addresses(host)
        addresses = [it for it in answer.addresses if _is_allowed(it, allow_private)][:ADDRESS_LIMIT]
        trouble: OSError | ValueError = ValueError(answer.detail or "it has no address that may be asked")
        end = asyncio.get_running_loop().time() + self._time_limit
        for number, address in enumerate(addresses):
            now = asyncio.get_running_loop().time()
            try:
                async with asyncio.timeout((end - now) / (len(addresses) - number)):
                    return await self._ask(address, host)
            except OSError as error:  # a timeout too, or a certificate that is no good
                trouble = error
        raise trouble

    async def _ask(self, address: str, host: str) -> str:
        async with connection(address, self._port, self._context(), host) as (reader, writer):
            writer.write(request("GET", "/.well-known/mta-sts.txt", host, {"Accept": "text/plain"}))
            code, text = await read_status(reader)
            if code != 200:
                raise ValueError(f"{code} {text}".rstrip())
            fields = await read_fields(reader)
            kind = fields.get("content-type", "").partition(";")[0].strip().lower()
            if kind != "text/plain":
                raise ValueError(f"not text/plain but {kind or 'of no type'}")
            return (await read_body(reader, fields, SIZE_LIMIT)).decode("utf-8", "backslashreplace")

    def _context(self) -> ssl.SSLContext:
        """Made once: reading the authorities takes its time."""
        if self._tls is None:
            self._tls = client_context()
            self._tls.load_default_certs()
        self._tls.hostname_checks_common_name = False
        return self._tls


def _is_allowed(address: str, allow_private: bool) -> bool:
    where = standing(plain(address))
    return where is Standing.PUBLIC or (where is Standing.PRIVATE and allow_private)
