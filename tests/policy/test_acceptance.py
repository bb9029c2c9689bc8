"""What MAIL and RCPT take, and where local mail goes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta.model.address import parse_address
from mta.model.envelope import ByMode, DeliverBy, NewRecipient
from mta.model.reply import Reply
from mta.policy import acceptance
from mta.policy.acceptance import NO_LOCAL_MAILBOX, ForwardPath, Locals, forward_path
from mta.policy.requests import Requests

HOSTNAME = "Mail.out.test"
NOW = 1_700_000_000.5


def local_mail(aliases: Mapping[str, tuple[str, ...]] | None = None, postmaster: str | None = "pm@admin.test") -> Locals:
    return Locals(HOSTNAME, ("localhost", "local.test"), aliases or {}, postmaster)


@dataclass
class Rules:
    locals: Locals = field(default_factory=local_mail)
    max_message_size: int = 1000
    allow_private_addresses: bool = False
    max_hold: float = 86400.0
    strict_deliver_by: bool = True


def mail(argument: str, *, extended: bool = True) -> str:
    answer = acceptance.mail(argument, Rules(), extended=extended, now=NOW)
    return str(answer) if isinstance(answer, Reply) else f"<{answer.reverse_path}>"


def rcpt(argument: str, rules: Rules | None = None) -> str:
    answer = forward_path(argument, rules or Rules(), extended=True)
    return str(answer) if isinstance(answer, Reply) else ",".join(recipient.address for recipient in answer.recipients)


@pytest.mark.parametrize(
    ("argument", "sender"),
    [
        ("FROM:<>", "<>"),
        ("from:<a@b.example>", "<a@b.example>"),
        ("FROM:<@r1.test:a@b.example>", "<a@b.example>"),
        ('FROM:<"a> b"@b.example> SIZE=1', '<"a> b"@b.example>'),
        ("FROM:<a@[192.0.2.1]>", "<a@[192.0.2.1]>"),
        ("FROM:<root>", f"<root@{HOSTNAME}>"),
        ("FROM:<root@localhost>", f"<root@{HOSTNAME}>"),
        ("FROM:<root@local.test>", "<root@local.test>"),
        ("FROM:<a@b.example> BODY=8bitmime size=1000", "<a@b.example>"),
        ("FROM:<a@b.example>  SIZE=0", "<a@b.example>"),
    ],
)
def test_adr01_adr09_senders(argument: str, sender: str) -> None:
    assert mail(argument) == sender


@pytest.mark.parametrize(
    ("argument", "reply"),
    [
        ("", "501 5.5.4"),
        ("FROM", "501 5.5.4"),
        ("FROM:", "501 5.1.7"),
        ("TO:<a@b.example>", "501 5.5.4"),
        ("FROM: <a@b.example>", "501 5.5.2"),
        ("FROM:a@b.example", "501 5.1.7"),
        ("FROM:<a@b.example", "501 5.1.7"),
        ("FROM:<a@b.example>>>>", "501 5.1.7"),
        ("FROM:<a@b.example>SIZE=1", "501 5.1.7"),
        ("FROM:<a\rb@b.example>", "501 5.1.7"),
        ("FROM:<;id;>", "501 5.1.7"),
        ("FROM:<=?utf-8?q?x?=(@b.example>", "501 5.1.7"),
        ("FROM:<é@b.example>", "550 5.6.7"),
        ("FROM:<a@sales>", "554 5.1.8"),
        ("FROM:<a@b.example> FOO", "555 5.5.4"),
        ("FROM:<a@b.example> SMTPUTF8=1", "501 5.5.4"),
        ("FROM:<a@b.example> SIZE", "501 5.5.4"),
        ("FROM:<a@b.example> SIZE=", "501 5.5.4"),
        ("FROM:<a@b.example> SIZE=abc", "501 5.5.4"),
        ("FROM:<a@b.example> SIZE=-1", "501 5.5.4"),
        ("FROM:<a@b.example> SIZE=1 size=1", "501 5.5.4"),
        ("FROM:<a@b.example> SIZE=٣", "501 5.5.4"),
        ("FROM:<a@b.example> =5", "501 5.5.4"),
        ("FROM:<a@b.example> BODY", "501 5.5.4"),
        ("FROM:<a@b.example> BODY=9BITMIME", "501 5.5.4"),
        ("FROM:<a@b.example> SIZE=1\nRCPT", "501 5.5.4"),
        ("FROM:<a@b.example> SIZE=1001", "552 5.3.4"),
        ("FROM:<a@b.example> BY=0;R", "501 5.5.4"),
        ("FROM:<a@b.example> BY=60;R by=60;R", "501 5.5.4"),
        ("FROM:<a@b.example> HOLDFOR=60 HOLDFOR=60", "501 5.5.4"),
        ("FROM:<a@b.example> MT-PRIORITY=10", "501 5.5.2"),
        ("FROM:<a@b.example> MT-PRIORITY=1 mt-priority=1", "501 5.5.2"),
        ("FROM:<a@b.example> MT-PRIORITY=", "501 5.5.2"),
        ("FROM:<a@b.example> MT-PRIORITY SIZE=1 MT-PRIORITY", "501 5.5.2"),
        ("FROM:<a@b.example> MT-PRIORITY=é", "501 5.5.2"),
        ("FROM:<a@b.example> SIZE=99999999999999999999", "552 5.3.4"),
        ("FROM:<a@b.example> SIZE=999999999999999999999", "501 5.5.4"),
    ],
)
def test_b54_ext03_ext04_senders_refused(argument: str, reply: str) -> None:
    """ADR-02, ADR-06, ADR-08, ADR-14, LIN-08."""
    assert mail(argument).startswith(reply)


def test_what_mail_asks_is_taken_beside_the_sender() -> None:
    argument = "FROM:<a@b.example> size=1 by=60;n MT-PRIORITY=3 BODY=8BITMIME holdfor=5"
    heard = acceptance.mail(argument, Rules(), extended=True, now=NOW)
    deadline = DeliverBy(NOW + 60, ByMode.NOTIFY)
    assert heard == acceptance.Mail("a@b.example", Requests(3, deadline, NOW + 5, "for;5"), size=1)


@pytest.mark.parametrize("parameter", ["BY=60;N", "HOLDFOR=5", "HOLDUNTIL=2027-01-01T00:00:00Z", "MT-PRIORITY=1"])
def test_ses06_ext03_requests_need_ehlo(parameter: str) -> None:
    assert mail(f"FROM:<a@b.example> {parameter}", extended=False).startswith("555 5.5.4")
    assert rcpt(f"TO:<a@b.example> {parameter}").startswith("555 5.5.4")


def test_ses06_parameters_need_ehlo() -> None:
    assert mail("FROM:<a@b.example> SIZE=1", extended=False).startswith("555 5.5.4")
    assert mail("FROM:<a@b.example>", extended=False) == "<a@b.example>"


@pytest.mark.parametrize(
    ("argument", "recipients"),
    [
        ("TO:<b@Example.org>", "b@Example.org"),
        ("TO:<@h1.test,@h2.test:b@example.org>", "b@example.org"),
        ('TO:<"b"@example.org>', "b@example.org"),
        ('TO:<"x\\"@y"@example.org>', '"x\\"@y"@example.org'),
        ("TO:<b%c.test@other.test>", "b%c.test@other.test"),
        ("TO:<b@[203.0.113.9]>", "b@[203.0.113.9]"),
        ("TO:<pOsTmAsTeR>", "pm@admin.test"),
        ("TO:<root>", "pm@admin.test"),
        ("TO:<root@LOCALHOST>", "pm@admin.test"),
        ("TO:<root@mail.OUT.test>", "pm@admin.test"),
        ("TO:<root@local.test>", "pm@admin.test"),
    ],
)
def test_adr04_adr07_adr16_recipients(argument: str, recipients: str) -> None:
    assert rcpt(argument) == recipients


@pytest.mark.parametrize(
    ("argument", "reply"),
    [
        ("TO:<>", "501 5.1.3"),
        ("TO:b@example.org", "501 5.1.3"),
        ("TO:<b@example.org", "501 5.1.3"),
        ("TO: <b@example.org>", "501 5.5.2"),
        ("TO:<a\rb@example.org>", "501 5.1.3"),
        ("TO:<b@" + "a" * 64 + ".example.org>", "501 5.1.3"),
        ("TO:<b@example..org>", "501 5.1.3"),
        ("TO:<b@" + "a" * 250 + ">", "501 5.1.3"),
        ("TO:<b@-x.example.org>", "501 5.1.3"),
        ("TO:<b@example.org.>", "501 5.1.3"),
        ("TO:<b@\u2603.example>", "553 5.6.7"),
        ("TO:<é@example.org>", "553 5.6.7"),
        ("TO:<b@sales>", "554 5.1.2"),
        ("TO:<b@[127.0.0.1]>", "550 5.7.1"),
        ("TO:<b@[10.1.2.3]>", "550 5.7.1"),
        ("TO:<b@[0.0.0.0]>", "550 5.7.1"),
        ("TO:<b@[224.0.0.1]>", "550 5.7.1"),
        ("TO:<b@[IPv6:::1]>", "550 5.7.1"),
        ("TO:<b@[IPv6:::ffff:127.0.0.1]>", "550 5.7.1"),
        ("TO:<b@[IPv6:fe80::1]>", "550 5.7.1"),
        ("TO:<b@example.org> FOO", "555 5.5.4"),
        ("TO:<b@example.org> =", "501 5.5.4"),
    ],
)
def test_b25_b54_recipients_refused(argument: str, reply: str) -> None:
    """ADR-02, ADR-03, ADR-06, ADR-11, ADR-13, ADR-14, EXT-03."""
    assert rcpt(argument).startswith(reply)


def test_adr13_private_literals_where_they_are_allowed() -> None:
    rules = Rules(allow_private_addresses=True)
    assert rcpt("TO:<b@[10.1.2.3]>", rules) == "b@[10.1.2.3]"
    assert rcpt("TO:<b@[0.0.0.0]>", rules).startswith("550 5.7.1")


@given(st.text(st.sampled_from('FROMT:<>ab.@"\\ =\r\n\0é[]1'), max_size=40))
def test_b54_no_argument_raises_and_no_accepted_address_has_control_characters(text: str) -> None:
    for argument in (f"FROM:{text}", f"TO:{text}", text):
        sender = acceptance.mail(argument, Rules(), extended=True, now=NOW)
        recipient = forward_path(argument, Rules(), extended=True)
        assert isinstance(sender, Reply) or sender.reverse_path.isprintable()
        assert isinstance(recipient, Reply) or recipient.address.isprintable()


# ---------------------------------------------------------------- aliases
ALIASES = {"root": ("ops@admin.test", "boss@admin.test"), "postmaster": ("mail@admin.test",), "*": ("all@admin.test",)}


@pytest.mark.parametrize(
    ("aliases", "postmaster", "name", "targets"),
    [
        (ALIASES, "pm@admin.test", "Root", ["ops@admin.test", "boss@admin.test"]),
        (ALIASES, "pm@admin.test", "postmaster", ["mail@admin.test"]),
        (ALIASES, "pm@admin.test", "www-data", ["all@admin.test"]),
        ({"*": ("all@admin.test",)}, "pm@admin.test", "Postmaster", ["pm@admin.test"]),
        ({"*": ("all@admin.test",)}, None, "postmaster", ["all@admin.test"]),
        ({"root": ("ops@admin.test",)}, "pm@admin.test", "www-data", ["pm@admin.test"]),
        ({}, "pm@admin.test", '"Root"', ["pm@admin.test"]),
    ],
)
def test_local_mail_goes_where_the_aliases_say(
    aliases: Mapping[str, tuple[str, ...]], postmaster: str | None, name: str, targets: list[str]
) -> None:
    resolved = local_mail(aliases, postmaster).resolve(parse_address(name))
    original = f"{name}@{HOSTNAME}"
    assert resolved == tuple(NewRecipient(target, "admin.test", original) for target in targets)


def test_without_a_postmaster_local_mail_is_refused() -> None:
    for name in ("root", "postmaster", "root@localhost"):
        assert local_mail({"cron": ("c@admin.test",)}, None).resolve(parse_address(name)) == NO_LOCAL_MAILBOX
    assert str(NO_LOCAL_MAILBOX).startswith("550 5.1.1")


def test_the_address_for_the_trace_has_a_domain() -> None:
    answer = forward_path("TO:<root>", Rules(), extended=True)
    assert isinstance(answer, ForwardPath)
    assert answer.address == f"root@{HOSTNAME}"


@given(st.binary(max_size=40) | st.text(max_size=20).map(str.encode))
def test_adr14_whatever_octets_a_path_has_it_is_an_address_or_a_refusal(octets: bytes) -> None:
    """With SMTPUTF8: what is taken is UTF-8 that parses again, to the same mailbox."""
    path = (octets + "@Bücher.example".encode()).decode("latin-1")
    answer = forward_path(f"TO:<{path}>", Rules(), extended=True, utf8=True)
    if isinstance(answer, Reply):
        assert answer.code in (501, 550, 553, 554, 555)
        return
    for recipient in answer.recipients:
        address = parse_address(recipient.address, utf8=True)
        assert address == address.sendable.least_quoted and address.destination == recipient.destination
