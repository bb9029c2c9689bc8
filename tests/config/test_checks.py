"""What is warned of, and what the effective values read like."""

from pathlib import Path

import pytest

from mta.config.checks import warnings
from mta.config.describe import effective
from mta.config.load import load
from mta.config.model import Config

QUIET = 'hostname = "mail.example.com"\npostmaster = "postmaster@example.com"\n'

DKIM = '[[dkim]]\ndomain = "{}"\nselector = "s"\nkey = "/etc/mta/dkim.pem"\n'


def config(tmp_path: Path, text: str) -> Config:
    path = tmp_path / "mta.toml"
    path.write_text(text)
    return load(path, {"HOME": "/home/ann"})


def test_a_whole_configuration_is_not_warned_of(tmp_path: Path) -> None:
    assert not list(warnings(config(tmp_path, QUIET)))


@pytest.mark.parametrize("domain", ["example.com", "mail.example.com"])
def test_tls_10_reports_that_are_signed_are_not_warned_of(tmp_path: Path, domain: str) -> None:
    assert not list(warnings(config(tmp_path, QUIET + "[tls]\nreport = true\n" + DKIM.format(domain))))


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('hostname = "mail.example.com"\n', "postmaster"),
        ('postmaster = "postmaster@example.com"\n', "hostname"),
        (QUIET.replace("mail.example.com", "localhost"), "hostname"),
        (QUIET + '[submission]\nmax_message_size = "1KiB"\n', "submission.max_message_size"),
        (QUIET + "[submission]\nmax_recipients = 99\n", "submission.max_recipients"),
        (QUIET + '[class.urgent]\ngive_up_after = "6s"\nwarn_after = "1h"\n', "class.urgent.warn_after"),
        (QUIET + '[alerts.critical]\nurgent = "1s"\n', "alerts.critical.urgent"),
        (QUIET + '[class.bulk]\nmax_interval = "1s"\n', "class.bulk.max_interval"),
        (QUIET + '[class.bulk]\ndeadline = "3d"\n', "class.bulk.deadline"),
        (QUIET + "[tls]\nreport = true\n", "tls.report"),
        (QUIET + "[tls]\nreport = true\n" + DKIM.format("ample.com"), "tls.report"),
    ],
)
def test_what_is_probably_not_meant_is_warned_of(tmp_path: Path, text: str, key: str) -> None:
    assert [problem.key for problem in warnings(config(tmp_path, text))] == [key]


def test_B52_the_effective_values_are_told_with_their_units(tmp_path: Path) -> None:
    found = dict(effective(config(tmp_path, QUIET + '[aliases]\nroot = ["a@example.com", "b@example.com"]\n')))
    assert {
        "hostname": "mail.example.com",
        "spool.url": "sqlite:/home/ann/.local/state/mta/spool.db",
        "spool.retention": "30 days",
        "spool.min_free": "64MiB",
        "alerts.command": "none",
        "alerts.warning.pending": "10000",
        "alerts.warning.normal": "4 hours",
        "submission.max_message_size": "25MiB",
        "submission.max_recipients": "1000",
        "submission.allow": "127.0.0.0/8, ::1/128",
        "aliases.root": "a@example.com, b@example.com",
        "dns.nameservers": "the system's",
        "delivery.allow_private_addresses": "no",
        "delivery.timeouts.final": "10 minutes",
        "class.urgent.max_attempts": "no limit but the age",
        "class.urgent.factor": "2.0",
        "class.bulk.warn_after": "never",
        "class.urgent.deadline": "none",
        "submission.max_hold": "60 days",
        "submission.deliver_by": "strict",
        "lanes.urgent_reserve": "0.2",
        "lanes.bulk_share": "0.1",
        "lanes.fair_by": "destination",
    }.items() <= found.items()


def test_nothing_given_is_told_in_words(tmp_path: Path) -> None:
    found = dict(effective(config(tmp_path, "local_domains = []\n[submission]\nallow = []\n")))
    assert [found[key] for key in ("hostname", "postmaster", "aliases", "submission.allow")] == [
        "the machine's full name, asked for at the start",
        "nobody",
        "all local mail goes to the postmaster",
        "nobody",
    ]
