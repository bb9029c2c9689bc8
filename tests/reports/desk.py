"""A reports stage as the daemon would build it."""

import random
from collections.abc import Mapping

from mta.model.envelope import MailClass
from mta.policy.acceptance import Locals
from mta.policy.schedule import DEFAULTS
from mta.ports.system import Clock, Observer
from mta.reports.stage import Reports, ReportSettings

INTERVAL = 300.0
POSTMASTER = "postmaster@example.net"
SCHEDULES = {mail_class: DEFAULTS[mail_class.label] for mail_class in MailClass}


class _Chances:
    def stream(self, purpose: str) -> random.Random:
        return random.Random()


def make_stage(
    spool: object,
    clock: Clock,
    observer: Observer,
    postmaster: str | None = POSTMASTER,
    aliases: Mapping[str, tuple[str, ...]] | None = None,
) -> Reports:
    settings = ReportSettings("mail.example.com", postmaster, INTERVAL, INTERVAL, SCHEDULES)
    locals_ = Locals("mail.example.com", frozenset(), aliases or {}, postmaster)
    return Reports(settings, spool, locals_, clock, _Chances(), observer)
