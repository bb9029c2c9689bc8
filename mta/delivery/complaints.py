"""What the configuration is to blame for, told to whoever reads the log: once in a while, not for each message it delays."""

import asyncio

from mta.model.events import Trouble
from mta.model.outcome import Verdict
from mta.policy.candidates import Candidate
from mta.policy.relays import is_about_login
from mta.ports.smtp import NO_SUCH_SOURCE
from mta.ports.system import Observer

INTERVAL = 60.0
"""Seconds before the same is said again."""


class Complaints:
    """Of one event loop. What it remembers is as large as the configuration."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._told: dict[str, float] = {}

    def hear(self, candidate: Candidate, verdict: Verdict) -> None:
        """A host was of no use; whether that is a matter of the configuration is found out here."""
        relay = candidate.relay
        if relay is not None and is_about_login(verdict):
            who = f"as {relay.user}" if relay.user else "without a user"
            self._tell(f"the relay {relay} does not let us in {who}: mail waits", str(verdict.reply))
        elif verdict.status == NO_SUCH_SOURCE:
            self._tell(verdict.reply.text, "mail waits: see `source` in the configuration")

    def _tell(self, what: str, detail: str) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._told.get(what, -INTERVAL) + INTERVAL:
            self._told[what] = now
            self._observer(Trouble("error", what, detail))
