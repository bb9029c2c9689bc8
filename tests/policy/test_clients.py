"""Rules for clients: which holds, which senders it lets through, which priority."""

import ipaddress

import pytest
from msgspec.structs import replace

from mta.model.envelope import MailClass
from mta.model.reply import Reply
from mta.policy.acceptance import Mail, mail
from mta.policy.clients import ANYTHING, ClientRule, lowered, rule_for, welcome
from mta.policy.requests import NO_REQUESTS, Wish
from mta.policy.trace import Arrival, Prepared, client_at, prepare
from tests.support.submission import settings

SHOP = ClientRule(user="shop")
OFFICE = ClientRule(network=ipaddress.ip_network("10.1.0.0/16"))
BOTH = ClientRule(user="shop", network=ipaddress.ip_network("10.1.0.0/16"))
INSIDE, OUTSIDE = ipaddress.ip_address("10.1.2.3"), ipaddress.ip_address("192.0.2.1")


@pytest.mark.parametrize(
    ("user", "peer", "found"),
    [
        ("shop", INSIDE, BOTH),
        ("shop", OUTSIDE, SHOP),
        ("", INSIDE, OFFICE),
        ("other", INSIDE, OFFICE),
        ("other", OUTSIDE, ANYTHING),
        ("", None, ANYTHING),
        ("shop", None, SHOP),
        ("", ipaddress.ip_address("2001:db8::1"), ANYTHING),
    ],
)
def test_the_first_rule_that_fits_holds(user: str, peer: object, found: ClientRule) -> None:
    assert rule_for((BOTH, SHOP, OFFICE), user, peer) is found


@pytest.mark.parametrize(
    ("sender", "may"),
    [
        ("ann@example.com", True),
        ("ann@EXAMPLE.com", True),
        ("ann@news.example.net", True),
        ("ann@a.b.example.net", True),
        ("ann@example.net", False),
        ("ann@badexample.com", False),
        ("ann@example.com.evil.test", False),
        ('"x@example.com"@evil.test', False),
        ("ann@[192.0.2.1]", False),
        ("", True),
    ],
)
def test_sender_domains(sender: str, may: bool) -> None:
    rule = ClientRule(user="shop", sender_domains=("example.com", "*.example.net"))
    refusal = rule.sender_refusal(sender)
    assert (refusal is None) == may
    assert may or str(refusal).startswith("550 5.7.1 ")


@pytest.mark.parametrize(
    ("sender", "may"),
    [
        ("jörg@müller.example", True),
        ("jörg@MÜLLER.example", True),
        ("jörg@xn--mller-kva.example", True),
        ("jörg@post.bücher.example", True),
        ("jörg@muller.example", False),
        ("jörg@bücher.example", False),
    ],
)
def test_ext11_a_sender_s_domain_is_known_by_its_a_labels(sender: str, may: bool) -> None:
    """As configured; the address itself goes on in U-labels, since its local part needs SMTPUTF8 anyhow."""
    heard_of = mail(f"FROM:<{sender}> SMTPUTF8".encode().decode("latin-1"), settings(), extended=True, now=0.0)
    assert isinstance(heard_of, Mail)
    rule = ClientRule(user="shop", sender_domains=("xn--mller-kva.example", "*.xn--bcher-kva.example"))
    assert (rule.sender_refusal(heard_of.reverse_path) is None) == may


def test_adr18_the_null_sender_is_the_rule_s() -> None:
    assert ClientRule(null_sender=True).sender_refusal("") is None
    assert str(ClientRule(null_sender=False).sender_refusal("")).startswith("550 5.7.1 ")


@pytest.mark.parametrize(
    ("highest", "asked", "found", "mail_class"),
    [
        (MailClass.URGENT, 9, 9, MailClass.URGENT),
        (MailClass.NORMAL, 9, 0, MailClass.NORMAL),
        (MailClass.NORMAL, 0, 0, MailClass.NORMAL),
        (MailClass.NORMAL, -3, -3, MailClass.BULK),
        (MailClass.BULK, 4, -1, MailClass.BULK),
        (MailClass.BULK, None, None, MailClass.BULK),
    ],
)
def test_pri02_a_priority_is_lowered_and_its_class_with_it(
    highest: MailClass, asked: int | None, found: int | None, mail_class: MailClass
) -> None:
    rule = ClientRule(user="shop", highest_class=highest)
    by_nature = MailClass.NORMAL if not asked else MailClass.URGENT if asked > 0 else MailClass.BULK
    wish = lowered(Wish(asked, by_nature), rule.highest_priority)
    assert (wish.priority, wish.mail_class) == (found, mail_class)


def test_pri02_the_reply_to_mail_says_the_new_priority() -> None:
    assert str(welcome(5, 0)) == "250 2.3.6 0 is the new priority of the message: you may not use 5"
    assert [str(welcome(asked, 0)) for asked in (None, 0, -4)] == ["250 2.1.0 Ok"] * 3


URGENT = NO_REQUESTS._replace(priority=6)
CLIENT = replace(client_at(INSIDE), hello="c.test", extended=True)
ARRIVAL = Arrival(CLIENT, "mail.out.test", "Q1", "", 1.7e9, URGENT, 1.7e9, highest=0)


def test_pri02_pri04_the_lowered_priority_is_what_is_written() -> None:
    """The header field that agreed with the parameter says the lowered one too, and so does the trace."""
    made = prepare(b"From: a@b.test\r\nMT-Priority: 6\r\nSubject: x\r\n\r\n", ARRIVAL, complete=True, max_hold=1.0)
    assert isinstance(made, Prepared)
    assert (made.wish.priority, made.wish.mail_class) == (0, MailClass.NORMAL)
    assert made.by.count(b"MT-Priority: 0\r\n") == 1
    assert b"MT-Priority: 6" not in made.by
    assert b"\tPRIORITY 0;" in made.by


@pytest.mark.parametrize("field", [b"Priority: urgent", b"MT-Priority: 9"])
def test_pri02_pri05_a_field_is_lowered_without_a_word(field: bytes) -> None:
    arrival = replace(ARRIVAL, requests=NO_REQUESTS)
    made = prepare(b"From: a@b.test\r\n" + field + b"\r\n\r\n", arrival, complete=True, max_hold=1.0)
    assert isinstance(made, Prepared)
    assert made.wish.mail_class is MailClass.NORMAL


# ---------------------------------------------------------------- the parameter AUTH
def heard(argument: str, *, offers_auth: bool = True) -> Mail | Reply:
    return mail(argument, settings(), extended=True, now=0.0, offers_auth=offers_auth)


@pytest.mark.parametrize("value", ["<>", "ann@example.com", "e+3Dmc2@example.com"])
def test_ext15_auth_is_taken_at_mail_and_counts_for_nothing(value: str) -> None:
    """RFC 4954 section 5."""
    found = heard(f"FROM:<a@example.com> SIZE=5 AUTH={value}")
    assert isinstance(found, Mail)
    assert found.reverse_path == "a@example.com"


@pytest.mark.parametrize("parameter", ["AUTH", "AUTH=a+3", "AUTH=a+zz", "AUTH=<> AUTH=<>"])
def test_ext03_a_bad_auth_at_mail_is_refused(parameter: str) -> None:
    assert str(heard(f"FROM:<a@example.com> {parameter}")).startswith("501 5.5.4 ")


def test_ext03_auth_at_mail_is_unknown_where_auth_is_not_offered() -> None:
    assert str(heard("FROM:<a@example.com> AUTH=<>", offers_auth=False)).startswith("555 5.5.4 ")
