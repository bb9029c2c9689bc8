"""What comes before the first reply: the PROXY header of a trusted proxy, and the handshake of implicit TLS.

Rules: who has not come in within `PATIENCE` is closed; so is who begins with something else, with one line in the log and
no reply: nobody is there who could read one. It counts as a session all the while. What arrives early is lost for nobody:
it goes to whoever is next. RFC 8314 section 3.3.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import cast

from mta.listener.origin import origin
from mta.listener.tls import HANDSHAKE_TIMEOUT, reason, secure
from mta.model.address import IpAddress
from mta.policy.proxy_protocol import ProxyHeaderError, read_header
from mta.policy.trace import Client, client_at

PATIENCE = HANDSHAKE_TIMEOUT
"""Seconds until the first reply."""


class Entrance(asyncio.Protocol):
    """`opened` says whether there is room for one who has to wait here; `enter` makes the session of one who has come in;
    `left` hears when nothing runs here any more, and why the client was turned away ("": it was not). `context`: TLS comes
    first."""

    def __init__(
        self,
        is_proxy: Callable[[Client], bool],
        context: ssl.SSLContext | None,
        opened: Callable[["Entrance"], bool],
        enter: Callable[[Client], asyncio.Protocol],
        left: Callable[["Entrance", Client, str], None],
    ) -> None:
        self._is_proxy, self._context = is_proxy, context
        self._opened, self._enter, self._left = opened, enter, left
        self._early = bytearray()
        self._awaits_header = False
        self._handshake: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def peer(self) -> IpAddress | None:
        """Of the connection: a proxy's, where there is one."""
        return self._origin.peer

    # ------------------------------------------------ the transport's side
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one by its methods alone
        self._origin = origin(transport)
        self._awaits_header = self._is_proxy(self._origin)
        self._timer = asyncio.get_running_loop().call_later(PATIENCE, self._turn_away, "nothing came in time")
        if (self._awaits_header or self._context is not None) and not self._opened(self):
            self._turn_away("too many connections")
        else:
            self._go_on()

    def data_received(self, data: bytes) -> None:
        self._early += data
        if self._awaits_header:
            self._go_on()

    def eof_received(self) -> None:
        """The transport closes."""

    def connection_lost(self, error: Exception | None) -> None:
        self._turn_away("the client has gone")

    # ------------------------------------------------ the way in
    def _go_on(self) -> None:
        """As far as what has arrived allows."""
        if self._awaits_header and not self._read_header():
            return
        if self._context is not None:
            self._handshake = asyncio.get_running_loop().create_task(self._secure(self._context))
        else:
            self._hand_over(self._transport)

    def _read_header(self) -> bool:
        """Whether it is there, and good."""
        try:
            header = read_header(bytes(self._early))
        except ProxyHeaderError as error:
            self._turn_away(str(error))
            return False
        if header is None:
            return False
        self._awaits_header = False
        del self._early[: header.length]
        if not header.is_local:
            self._origin = client_at(header.client)
        return True

    async def _secure(self, context: ssl.SSLContext) -> None:
        early = bytes(self._early)
        self._early.clear()
        try:
            transport = await secure(self._transport, self, context, early)
        except OSError as error:
            self._turn_away(f"TLS handshake failed: {reason(error)}")
        else:
            self._hand_over(transport)

    def _hand_over(self, transport: asyncio.Transport) -> None:
        """From here on the session is the connection's protocol."""
        if self._done():
            return
        self._left(self, self._origin, "")
        session = self._enter(self._origin)
        transport.set_protocol(session)
        session.connection_made(transport)
        if self._early:
            session.data_received(bytes(self._early))

    # ------------------------------------------------ the end
    def close(self) -> None:
        """The daemon stops."""
        self._turn_away("the daemon stops")

    def _turn_away(self, why: str) -> None:
        if self._done():
            return
        self._transport.abort()
        if self._handshake is not None:
            self._handshake.cancel()
        self._left(self, self._origin, why)

    def _done(self) -> bool:
        """Whether that was decided before; it is now."""
        before, self._timer = self._timer, None
        if before is not None:
            before.cancel()
        return before is None
