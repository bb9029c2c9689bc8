"""Whether a server refuses us because we have too many sessions there: policy in data.

Rules: only where a session or a transaction begins is it said; what is said of time, mail or us is not meant. 421 is how a
server that has had enough ends a session, so it counts without words too, unless its words, or its code, give another
reason. Other codes count by their words alone. Nothing follows from it for the mail: a reply's meaning for a recipient is
that of Table A.
"""

import re

from mta.model.outcome import Phase, Verdict

PHASES = frozenset(
    {Phase.BANNER, Phase.EHLO, Phase.HELO, Phase.STARTTLS, Phase.EHLO_TLS, Phase.AUTH, Phase.MAIL, Phase.RCPT}
)
OPENING = PHASES - {Phase.MAIL, Phase.RCPT}
TEXT_LIMIT = 500
"""Characters that are looked at."""

_SESSIONS = r"(?:connections?|sessions?|channels?|smtp servers?|clients?|processes|threads?)"
TOO_MANY = (
    rf"too many (?!messages|mails|emails|errors|commands|recipients)(?:\w+ ){{0,4}}{_SESSIONS}",
    rf"(?:simultaneous|concurrent|parallel) (?:\w+ ){{0,3}}{_SESSIONS}",
    rf"{_SESSIONS} (?:count |number )?(?:limit|quota|cap)",
    rf"(?:limit|maximum|max|maximal)(?: \w+){{0,3}} (?:of |for )?(?:\w+ ){{0,3}}{_SESSIONS}",
    r"concurren(?:cy|t) (?:\w+ )?limit",
    rf"(?:fewer|reduce|lower) (?:\w+ ){{0,4}}{_SESSIONS}",
    rf"{_SESSIONS} (?:\w+ ){{0,2}}exceed",
)
OTHER_REASONS = (
    r"gr[ae]y-? ?list",
    r"time[d-]? ?-?out|idle|inactiv",
    r"shut(?:ting)? ?down|maintenance|restart|reboot",
    r"black-? ?list|block ?list|dnsbl|rbl|reputation|spam|unsolicited|complaint",
    r"(?:reverse|ptr|dns|resolv|lookup|hostname)",
    r"too many (?:\w+ ){0,3}(?:errors?|commands?|messages?|mails?|emails?|recipients?|failures?|hops)",
    r"(?:messages?|mails?|emails?) (?:\w+ ){0,2}(?:per|in this|on this) (?:session|connection)",
    r"tls|encrypt|certificate|authenticat",
    r"disk|storage|space|memory|queue file|load average",
)
OTHER_CODES = frozenset({"4.4.1", "4.4.2", "4.3.0", "4.3.1", "4.7.1", "4.2.0", "4.2.1", "4.2.2"})
"""Enhanced codes with which a bare 421 means something else: lost and idle connections, trouble of the system itself,
policy about one mail, mailboxes."""

_TOO_MANY = re.compile("|".join(TOO_MANY), re.IGNORECASE)
_OTHER = re.compile("|".join(OTHER_REASONS), re.IGNORECASE)


def crowded(verdict: Verdict, *, fresh: bool = True) -> bool:
    """Whether what a server said means that fewer sessions would have been welcome. In OPENING also a 5yz that says so.
    A session that is not `fresh`, as it has carried mail, may have done its share: there 421 counts by its words alone."""
    code = verdict.reply.code
    if code is None or verdict.phase not in PHASES:
        return False
    if code >= 500 and verdict.phase not in OPENING:
        return False
    text = verdict.reply.text[:TEXT_LIMIT]
    if _TOO_MANY.search(text):
        return code >= 400
    return fresh and code == 421 and verdict.reply.enhanced not in OTHER_CODES and not _OTHER.search(text)
