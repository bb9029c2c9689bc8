"""A report of how encryption with a domain went, as the mail that it is sent as (RFC 8460).

Rules: who asks for reports is in DNS (section 3), `mailto:` alone is followed; the document is JSON, compressed (sections
4.4, 5.2); the fields and the subject are those that receivers sort by (section 5.3). `TLS-Required: No` (RFC 8689): what is
wrong with a domain's encryption must not keep the word of it from arriving (section 3). Equal input gives equal octets.
"""

import base64
import gzip
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import unquote

from mta.model.address import AddressError, parse_address
from mta.policy.compose import Stamp, field, head, octets, text_entity, wrapped
from mta.policy.tls_tally import Failure, PolicyTally, Tally

DAY = 86400
ADDRESS_LIMIT = 3
"""Addresses of one domain that a report goes to."""
_VERSION = re.compile(r"v=TLSRPTv1[ \t]*;")


@dataclass(frozen=True, slots=True)
class TlsReport:
    """`begins` is midnight UTC, in seconds since the epoch; `contact` an address at `submitter`, who reports."""

    domain: str
    begins: int
    submitter: str
    contact: str
    tally: Tally

    @property
    def id(self) -> str:
        return f"{day_name(self.begins)}.{self.domain}@{self.submitter}"

    @property
    def subject(self) -> str:
        return f"Report Domain: {self.domain} Submitter: {self.submitter} Report-ID: <{self.id}>"


def report_addresses(texts: Sequence[str]) -> tuple[str, ...]:
    """Where the TXT records of `_smtp._tls.DOMAIN` want reports to be mailed to; () where they want none."""
    records = [text for text in texts if _VERSION.match(text)]
    if len(records) != 1:
        return ()
    fields = (part.strip(" \t").partition("=") for part in records[0].split(";"))
    uris = next((value for name, _, value in fields if name == "rua"), "").split(",")
    found = filter(None, (_mailbox(uri.strip(" \t")) for uri in uris))
    return tuple(dict.fromkeys(found))[:ADDRESS_LIMIT]


def _mailbox(uri: str) -> str:
    """The address of a `mailto:` URI (RFC 6068), "" where there is none to be used."""
    scheme, _, rest = uri.partition(":")
    text = unquote(rest.partition("?")[0])
    try:
        address = parse_address(text)
    except AddressError:
        return ""
    is_name = "." in address.domain and not address.domain.startswith("[")  # else a stranger would mail our own aliases
    return text if scheme.lower() == "mailto" and is_name else ""


def contact(hostname: str, postmaster: str | None) -> str:
    """Who can be asked about a report: the postmaster if the domain is ours too, so that what we sign, who we say we are and
    who answers are one (section 5.3)."""
    domain = postmaster.rpartition("@")[2].lower() if postmaster else ""
    is_ours = bool(domain) and f".{hostname.lower()}".endswith(f".{domain}")
    return postmaster if postmaster and is_ours else f"postmaster@{hostname}"


def day_of(at: float) -> int:
    """The midnight that a day began with."""
    return int(at // DAY) * DAY


def day_name(begins: int) -> str:
    return datetime.fromtimestamp(begins, UTC).strftime("%Y-%m-%d")


def begin_of(name: str) -> int:
    """The other way round. Raises ValueError."""
    return int(datetime.strptime(name, "%Y-%m-%d").replace(tzinfo=UTC).timestamp())


# ---------------------------------------------------------------- the document
def document(report: TlsReport) -> bytes:
    """Section 4.4."""
    day = day_name(report.begins)
    content = {
        "organization-name": report.submitter,
        "date-range": {"start-datetime": f"{day}T00:00:00Z", "end-datetime": f"{day}T23:59:59Z"},
        "contact-info": report.contact,
        "report-id": report.id,
        "policies": [
            _policy(report.domain, kind, text, tally) for (kind, text), tally in report.tally.policies.items()
        ],
    }
    return json.dumps(content, indent=1).encode("ascii")


def _policy(domain: str, kind: str, text: str, tally: PolicyTally) -> dict[str, object]:
    lines = [line for line in text.split("\n") if line]
    patterns = [line.partition(":")[2].strip() for line in lines if line.startswith("mx:")]
    policy = {
        "policy-type": kind,
        **({"policy-string": lines} if lines else {}),
        "policy-domain": domain,
        **({"mx-host": patterns} if kind == "sts" and patterns else {}),
    }
    failed = sum(tally.failures.values())
    summary = {"total-successful-session-count": tally.successes, "total-failure-session-count": failed}
    details = [dict(_failure(failure, count)) for failure, count in tally.failures.items()]
    return {"policy": policy, "summary": summary, **({"failure-details": details} if details else {})}


def _failure(failure: Failure, count: int) -> Iterator[tuple[str, object]]:
    yield "result-type", failure.result
    if failure.host:
        yield "receiving-mx-hostname", failure.host
    if failure.address:
        yield "receiving-ip", failure.address
    yield "failed-session-count", count
    if failure.detail:
        yield "failure-reason-code", failure.detail


# ---------------------------------------------------------------- the mail
def compose_tls_report(report: TlsReport, to: Sequence[str], stamp: Stamp) -> bytes:
    day = day_name(report.begins)
    text = (
        f"This is an aggregate report of how {report.submitter} encrypted its mail to {report.domain} on {day} (UTC),"
        f" as RFC 8460 has it. Questions: {report.contact}."
    )
    packed = gzip.compress(document(report), mtime=0)
    lines = [
        *head(stamp, ", ".join(to), report.subject, "auto-generated"),
        field("TLS-Report-Domain", report.domain),
        field("TLS-Report-Submitter", report.submitter),
        "TLS-Required: No",
        'Content-Type: multipart/report; report-type="tlsrpt";',
        f'\tboundary="{stamp.boundary}"',
        "",
        "This is a report in MIME format.",
        "",
        f"--{stamp.boundary}",
        *text_entity(wrapped(text)),
        "",
        f"--{stamp.boundary}",
        "Content-Type: application/tlsrpt+gzip",
        "Content-Transfer-Encoding: base64",
        "Content-Disposition: attachment;",
        f'\tfilename="{_file_name(report)}"',
        "",
        *base64.encodebytes(packed).decode("ascii").split(),
        "",
        f"--{stamp.boundary}--",
    ]
    return octets(lines)


def _file_name(report: TlsReport) -> str:
    """Section 5.1."""
    return f"{report.submitter}!{report.domain}!{report.begins}!{report.begins + DAY - 1}.json.gz"
