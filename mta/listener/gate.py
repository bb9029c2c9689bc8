"""Who a client is to us, and what it may do: what the sessions share of it, and each one's part.

Rules: a name that is not known costs as much time as the costliest wrong password. Failures are counted by the client's
address (an IPv6 client's by its /64), over all its sessions: one that has used up its share is not listened to for a
while. A guess is charged before it is judged, and one of an address is judged at a time, so that neither the share nor
what others wait depends on how many come at once. What can't be decided for a reason of our own is transient. Networks,
users and rules are those of now, also for sessions that were open before they changed. RFC 4954 sections 4, 6 and 9; RFC
6409 sections 3.2 and 4.3.
"""

import asyncio
import ipaddress
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from weakref import WeakValueDictionary

from mta.listener.auth import AUTHENTICATED, REFUSED, UNAVAILABLE, Credentials
from mta.listener.settings import ListenerSettings
from mta.model.address import IpAddress
from mta.model.reply import Reply
from mta.policy.clients import ANYTHING, rule_for, too_often
from mta.policy.hashes import costliest
from mta.policy.rates import Buckets, Rate
from mta.ports.system import Passwords

FAILURES = Rate(amount=10, period=600.0, burst=10)
"""Failed authentications of one address."""
TURN_WAIT = 30.0
"""Seconds for which a client waits until others of its address are judged."""
ADDRESSES = 10_000
"""Whose failures are remembered at a time."""
RULES = 10_000
"""Rates that are kept at a time, over all reloads."""

_LOCKED_OUT = "Too many failed authentications from your address, try again later"


class Gate:
    """Shared by all sessions. `settings` are those of now, and may be replaced. `now` is the wall clock, seconds since the
    epoch; `passwords` None: nobody can authenticate. `trouble` is told what went wrong with ourselves."""

    def __init__(
        self,
        settings: ListenerSettings,
        passwords: Passwords | None,
        now: Callable[[], float],
        trouble: Callable[[Exception], object],
    ) -> None:
        self.settings = settings
        self._passwords, self._now, self._trouble = passwords, now, trouble
        self._failures = Buckets(ADDRESSES)
        self._turns = WeakValueDictionary[Hashable, asyncio.Lock]()
        self._measured: Mapping[str, str] = {}
        self._yardstick = ""
        self._spent = Buckets(RULES)

    def permit(self, settings: ListenerSettings, peer: IpAddress | None, *, is_local: bool) -> "Permit":
        """For a session that begins with `settings`."""
        return Permit(self, settings, peer, is_local=is_local)

    def take(self, what: Hashable, rate: Rate) -> bool:
        """Whether there was one more, of what all share whom a rule is for."""
        return self._spent.take(what, rate, self._now())

    async def judge(self, credentials: Credentials, peer: IpAddress | None) -> Reply:
        """235, 535, 454, or the 421 that ends the session of a client that has failed too often. Never raises."""
        key = source(peer)
        turn = self._turns.setdefault(key, asyncio.Lock())  # lives as long as somebody holds it or waits for it
        try:
            async with asyncio.timeout(TURN_WAIT):
                await turn.acquire()
        except TimeoutError:
            return UNAVAILABLE
        try:
            return await self._charged_verdict(key, credentials)
        finally:
            turn.release()

    async def _charged_verdict(self, key: Hashable, credentials: Credentials) -> Reply:
        if not self._failures.take(key, FAILURES, self._now()):
            return Reply(421, "4.7.0", f"{self.settings.hostname} {_LOCKED_OUT}")
        reply = await self._verdict(credentials, self.settings.users)
        if reply is not REFUSED:
            self._failures.give_back(key, FAILURES, self._now())
        return reply

    async def _verdict(self, credentials: Credentials, users: Mapping[str, str]) -> Reply:
        if self._passwords is None or not users:
            return UNAVAILABLE
        known = users.get(credentials.user)
        hashed = known or self._costliest(users)
        try:
            fits = await self._passwords.fits(credentials.password, hashed)
        except Exception as error:
            self._trouble(error)
            return UNAVAILABLE
        if fits is None:
            return UNAVAILABLE
        still = known is not None and self.settings.users.get(credentials.user) == known
        return AUTHENTICATED if fits and still and credentials.identity in ("", credentials.user) else REFUSED

    def _costliest(self, users: Mapping[str, str]) -> str:
        """Found once for each users file that was read."""
        if users is not self._measured:
            self._measured, self._yardstick = users, costliest(users.values())
        return self._yardstick


def source(peer: IpAddress | None) -> Hashable:
    """Equal for what is one client's to use: an IPv4 address, an IPv6 /64."""
    return int(peer) >> 64 if isinstance(peer, ipaddress.IPv6Address) else peer


class Permit:
    """One session's. `trusted`: its client may submit without having authenticated, as one `is_local` always may.
    `settings` are those for this client, and `highest` is the highest priority that it may use: as the session began, but
    for what those of now say of who may submit what."""

    def __init__(
        self,
        gate: Gate,
        settings: ListenerSettings,
        peer: IpAddress | None,
        *,
        is_local: bool,
    ) -> None:
        self._gate, self._common, self._peer, self._is_local = gate, settings, peer, is_local
        self._user, self._hash = "", ""
        self._go_by(settings)

    def become(self, user: str) -> None:
        """It has authenticated."""
        now = self._gate.settings
        self._user, self._hash = user, now.users.get(user, "")
        self._go_by(now)

    def renew(self) -> bool:
        """Goes by what is current. False: this client would not be let in any more as it was."""
        now, was_trusted = self._gate.settings, self.trusted
        if now is self._as_of:
            return True
        self._go_by(now)
        return now.users.get(self._user) == self._hash if self._user else self.trusted or not was_trusted

    def _go_by(self, now: ListenerSettings) -> None:
        self._as_of, common = now, self._common
        self.trusted = self._is_local or now.admits(self._peer)
        self._rule = rule = rule_for(now.clients, self._user, self._peer)
        self.highest = rule.highest_priority
        self.settings = common
        if rule is not ANYTHING:
            size = min(common.max_message_size, rule.max_message_size or common.max_message_size)
            recipients = min(common.max_recipients, rule.max_recipients or common.max_recipients)
            self.settings = replace(
                common, max_message_size=size, max_recipients=recipients, rule=rule, signed=now.signed
            )

    def mail_refusal(self, reverse_path: str) -> Reply | None:
        """A message that is not refused is counted."""
        rule = self._rule
        if refusal := rule.sender_refusal(reverse_path):
            return refusal
        if rule.messages is None or self._gate.take((rule, "messages"), rule.messages):
            return None
        return too_often(rule.messages, "messages")

    def recipient_refusal(self) -> Reply | None:
        """A recipient that is not refused is counted."""
        rule = self._rule
        if rule.recipients is None or self._gate.take((rule, "recipients"), rule.recipients):
            return None
        return too_often(rule.recipients, "recipients")
