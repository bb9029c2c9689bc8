"""How encryption went with one policy domain on one day: counts, as RFC 8460 section 4 reports them.

Rules: bounded whatever a domain does: what is too much of it is counted without its details. Written as JSON, so that the
counts of a day add up over restarts.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from mta.model.events import Encrypted
from mta.model.text import safe_text
from mta.model.tls import TlsPolicy, TlsResult

POLICIES_KEPT = 8
FAILURES_KEPT = 50
"""Of one policy, that are told apart."""
TEXT_KEPT = 4096
DETAIL_KEPT = 200
"""Characters: of a policy; of what is said of a failure."""
NO_POLICY = "no-policy-found"
_TYPES: Mapping[TlsPolicy, str] = {TlsPolicy.DANE: "tlsa", TlsPolicy.MTA_STS: "sts"}


@dataclass(frozen=True, slots=True)
class Failure:
    """What is counted as one kind of failure."""

    result: str
    host: str = ""
    address: str = ""
    detail: str = ""


@dataclass(slots=True)
class PolicyTally:
    """Sessions under one policy."""

    successes: int = 0
    failures: dict[Failure, int] = field(default_factory=dict)

    def fail(self, failure: Failure, count: int = 1) -> None:
        if failure not in self.failures and len(self.failures) >= FAILURES_KEPT:
            failure = Failure(failure.result)
        self.failures[failure] = self.failures.get(failure, 0) + count


@dataclass(slots=True)
class Tally:
    """By the type of a policy (as RFC 8460 names it) and its text, whose lines are joined by line feeds."""

    policies: dict[tuple[str, str], PolicyTally] = field(default_factory=dict)

    def count(self, fact: Encrypted) -> None:
        """One session, or why there was none, under each policy that the domain publishes."""
        published = [(_TYPES[policy], text) for policy, text in fact.policies if policy in _TYPES]
        for kind, text in published or [(NO_POLICY, "")]:
            tally = self._of(kind, safe_lines(text))
            if fact.result is TlsResult.SUCCESS:
                tally.successes += 1
            else:
                tally.fail(Failure(fact.result.value, fact.host, fact.address, safe_text(fact.detail, DETAIL_KEPT)))

    def add(self, other: "Tally") -> None:
        for (kind, text), theirs in other.policies.items():
            tally = self._of(kind, text)
            tally.successes += theirs.successes
            for failure, count in theirs.failures.items():
                tally.fail(failure, count)

    def _of(self, kind: str, text: str) -> PolicyTally:
        if (kind, text) not in self.policies and len(self.policies) >= POLICIES_KEPT:
            text = ""
        return self.policies.setdefault((kind, text), PolicyTally())

    def write(self) -> str:
        return json.dumps(list(self._rows()), separators=(",", ":"))

    def _rows(self) -> Iterator[object]:
        for (kind, text), tally in self.policies.items():
            failures = [
                [it.result, it.host, it.address, it.detail, count] for it, count in tally.failures.items()
            ]
            yield [kind, text, tally.successes, failures]


def read_tally(value: str) -> Tally:
    """Empty for what is none."""
    tally = Tally()
    try:
        for kind, text, successes, failures in json.loads(value):
            one = tally.policies[str(kind), str(text)] = PolicyTally(int(successes))
            for result, host, address, detail, count in failures:
                one.failures[Failure(str(result), str(host), str(address), str(detail))] = int(count)
    except (ValueError, TypeError):
        return Tally()
    return tally


def safe_lines(text: str) -> str:
    """A policy's lines without what is unsafe in a report."""
    return "\n".join(safe_text(line) for line in text[:TEXT_KEPT].split("\n"))
