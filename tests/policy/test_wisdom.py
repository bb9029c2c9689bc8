"""What receivers mean by their refusals: their own words, as they send them."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta.model.category import IN_WORDS, Category
from mta.model.outcome import Phase
from mta.model.reply import Reply, finding, parse_reply
from mta.policy.wisdom import TEXT_LIMIT, category
from mta.policy.wisdom_table import PHRASES

USER, FULL, OFF = Category.NO_SUCH_USER, Category.MAILBOX_FULL, Category.MAILBOX_DISABLED
GREY, RATE, MANY = Category.GREYLISTING, Category.RATE_LIMITED, Category.TOO_MANY_CONNECTIONS
DISTRUST, POLICY, CONTENT = Category.REPUTATION, Category.POLICY, Category.CONTENT
SIZE, TLS, AWAY, NOWHERE = Category.SIZE, Category.TLS, Category.UNAVAILABLE, Category.NO_SUCH_DOMAIN

AT_RCPT = [
    # Gmail
    (USER, "550 5.1.1 The email account that you tried to reach does not exist. Please try double-checking the recipient's"),
    (FULL, "452 4.2.2 The recipient's inbox is out of storage space. Please direct the recipient to"),
    (FULL, "552 5.2.2 The email account that you tried to reach is over quota. Please direct the recipient to"),
    (OFF, "550 5.2.1 The email account that you tried to reach is inactive. Learn more at"),
    (OFF, "550 5.2.1 The email account that you tried to reach is disabled."),
    (RATE, "450 4.2.1 The user you are trying to contact is receiving mail at a rate that prevents additional messages"),
    # Outlook.com, Exchange
    (USER, "550 5.5.0 Requested action not taken: mailbox unavailable (S2017062302)."),
    (USER, "550 5.4.1 Recipient address rejected: Access denied. AS(201806281) [DB5EUR03FT006.eop-EUR03.prod.protection]"),
    (USER, "550 5.1.10 RESOLVER.ADR.RecipientNotFound; Recipient ann@example.org not found by SMTP address lookup"),
    (FULL, "554 5.2.2 mailbox full; STOREDRV.Deliver.Exception:QuotaExceededException.MapiExceptionShutoffQuotaExceeded"),
    (DISTRUST, "550 5.7.606 Access denied, banned sending IP [192.0.2.1]. To request removal from this list please visit"),
    (DISTRUST, "550 5.7.511 Access denied, banned sender[192.0.2.1]. To request removal from this list please forward"),
    (DISTRUST, "550 5.7.1 Service unavailable, Client host [192.0.2.1] blocked using Spamhaus. To request removal"),
    (POLICY, "550 5.7.133 RESOLVER.RST.SenderNotAuthenticatedForGroup; authentication required; Delivery restriction check"),
    (AWAY, "451 4.7.0 Temporary server error. Please try again later. PRX5"),
    # Yahoo, AOL
    (USER, "554 delivery error: dd This user doesn't have a yahoo.com account (ann@yahoo.com) [0] - mta1234.mail"),
    (USER, "552 1 Requested mail action aborted, mailbox not found"),
    (FULL, "554 delivery error: dd Requested mail action aborted: user is over quota"),
    # iCloud
    (FULL, "552 5.2.2 <ann@example.org>: user is over quota"),
    (USER, "550 5.1.1 <ann@example.org>: user does not exist"),
    # Postfix
    (USER, "550 5.1.1 <ann@example.org>: Recipient address rejected: User unknown in virtual mailbox table"),
    (USER, "550 5.1.1 <blacklist@example.org>: Recipient address rejected: User unknown in local recipient table"),
    (AWAY, "450 4.1.1 <ann@example.org>: Recipient address rejected: unverified address: Address verification in progress"),
    (POLICY, "554 5.7.1 <ann@example.org>: Relay access denied"),
    (POLICY, "550 5.1.0 <pat@example.net>: Sender address rejected: User unknown in local recipient table"),
    (POLICY, "550 5.1.7 <pat@example.net>: Sender address rejected: undeliverable address: host mx said: User unknown"),
    (POLICY, "553 5.1.8 <pat@example.net>... Domain of sender address pat@example.net does not exist"),
    (POLICY, "550 Invalid sender: no such user"),
    (POLICY, "550 Callback verification failed: user does not exist"),
    (
        DISTRUST,
        "554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen.spamhaus.org; https://www.spamhaus.org/",
    ),
    (DISTRUST, "450 4.7.25 Client host rejected: cannot find your hostname, [192.0.2.1]"),
    (DISTRUST, "450 4.7.1 Client host rejected: cannot find your reverse hostname, [192.0.2.1]"),
    (DISTRUST, "504 5.5.2 <localhost>: Helo command rejected: need fully-qualified hostname"),
    (AWAY, "452 4.3.1 Insufficient system storage"),
    (AWAY, "451 4.3.0 <ann@example.org>: Temporary lookup failure"),
    (AWAY, "450 4.3.2 Service currently unavailable"),
    (AWAY, "450 Requested mail action not taken: mailbox unavailable"),
    (POLICY, "554 5.7.1 <ann@example.org>: Recipient address rejected: Access denied"),
    (DISTRUST, "554 5.7.1 <mail.example.com[192.0.2.1]>: Client host rejected: Access denied"),
    (FULL, "452 4.2.2 <ann@example.org>: Recipient address rejected: Mailbox full"),
    (POLICY, "550 5.7.23 <ann@example.org>: Recipient address rejected: Message rejected due to: SPF fail - not authorized"),
    # greylisting
    (
        GREY,
        "450 4.2.0 <ann@example.org>: Recipient address rejected: Greylisted, see http://postgrey.schweikert.ch/help/x.html",
    ),
    (GREY, "451 4.7.1 Greylisting in action, please come back in 00:05:00"),
    (GREY, "450 4.7.1 <ann@example.org>: Recipient address rejected: Greylisting in effect, please come back later"),
    (GREY, "451 4.7.1 Try again later"),
    (GREY, "451 Temporary failure, please try again later."),
    (GREY, "451 Internal resources are temporarily unavailable - https://community.mimecast.com/docs/DOC-1369#451 [x]"),
    (GREY, "422 4.2.2 Greylisted, please try again in a few moments."),
    (GREY, "451 Your message has been deferred due to grey listing, please retry in 300 seconds"),
    (GREY, "450 4.7.0 Graylisted, please try again in 5 minutes"),
    (USER, "550 5.1.1 <greylist@example.org> unknown user"),
    # Exim, cPanel
    (USER, "550 Unrouteable address"),
    (USER, "550 No Such User Here"),
    (AWAY, "451 Temporary local problem - please try later"),
    (DISTRUST, '550 "JunkMail rejected - mail.example.com [192.0.2.1]:33232 is in an RBL: blocked using Spamhaus"'),
    (POLICY, "550 Verification failed for <shop@example.com> Sender verify failed"),
    (POLICY, "451 Could not complete sender verify callout"),
    (POLICY, "550 relay not permitted"),
    (RATE, "550 Domain example.com has exceeded the max emails per hour (201/200 (100%)) allowed. Message discarded."),
    (USER, "550 Administrative prohibition: no such recipient"),
    # others
    (USER, "550 5.1.1 Not our Customer"),
    (USER, "550 Invalid Recipient - https://community.mimecast.com/docs/DOC-1369#550 [x]"),
    (USER, "550 5.7.1 No such user!"),
    (USER, "550 Message was not accepted -- invalid mailbox. Local mailbox ann@example.org is unavailable: user not found"),
    (USER, "550 Mailbox not found. http://service.mail.qq.com/cgi-bin/help?subtype=1&&id=20022"),
    (USER, "550 Requested action not taken: mailbox unavailable"),
    (USER, "511 sorry, no mailbox here by that name (#5.1.1 - chkuser)"),
    (FULL, "552 5.1.1 5.2.2 sorry, final recipient mailbox is full (chkuser)"),
    (DISTRUST, "550 5.1.1 <shop@example.com> sender is blocklisted"),
    (DISTRUST, "550 csi.mimecast.org Poor Reputation Sender. - https://community.mimecast.com/docs/DOC-1369#550 [x]"),
    (POLICY, "550 Administrative prohibition - envelope blocked - https://community.mimecast.com/docs/DOC-1369#550"),
    (DISTRUST, "550 5.7.0 Blocked - see https://support.proofpoint.com/dnsbl-lookup.cgi?ip=192.0.2.1"),
    (RATE, "550 Ip frequency limited. http://service.mail.qq.com/cgi-bin/help?subtype=1&&id=20022"),
    (RATE, "451 4.7.500 Server busy. Please try again later from [192.0.2.1]. (S77714)"),
    (RATE, "450 4.7.1 Error: too much mail from 192.0.2.1"),
    (RATE, "452 4.5.3 Error: too many recipients"),
    (FULL, "552 Requested mail action aborted: exceeded storage allocation"),
    (FULL, "452 Mailbox size limit exceeded"),
    (NOWHERE, "556 5.1.10 Recipient address has null MX"),
    (TLS, "530 5.7.0 Must issue a STARTTLS command first"),
    (POLICY, "530 5.7.0 Authentication required"),
    (USER, "550 Invalid-Recipient"),
    (USER, "550 5.7.1 ADDRESS_NOT_FOUND"),
    (USER, "550 unknown or illegal alias: ann@example.org"),
    (USER, "550 ann is no longer an employee here"),
    (FULL, "550 User has exhausted allowed storage space"),
    (FULL, "450 User has too many messages on the server"),
    (OFF, "550 Mailbox currently suspended - Please contact the recipient directly"),
    (OFF, "550 5.7.1 this mailbox has been blocked due to inactivity"),
    (POLICY, "553 sorry, that domain isn't in my list of allowed rcpthosts (#5.7.1)"),
    (DISTRUST, "550 OU-001 Unfortunately, messages from 192.0.2.1 weren't sent."),
    (DISTRUST, "550 Mail sending has been blocked due to spam"),
    (AWAY, "451 4.3.2 system load is too high, come again"),
    (Category.UNKNOWN, "550 5.7.1 No"),
    (Category.UNKNOWN, "450 4.0.0 "),
]
BEFORE = [
    (DISTRUST, "421 4.7.0 [TSS04] Messages from 192.0.2.1 temporarily deferred due to unexpected volume or user complaints"),
    (DISTRUST, "421 4.7.1 [TS03] All messages from 192.0.2.1 will be permanently deferred; Retrying will NOT succeed."),
    (DISTRUST, "553 5.7.1 [BL21] Connections will not be accepted from 192.0.2.1, because the ip is in Spamhaus's list"),
    (DISTRUST, "550 5.7.1 Unfortunately, messages from [192.0.2.1] weren't sent. they are on our block list (S3150)."),
    (DISTRUST, "451 4.7.650 The mail server [192.0.2.1] has been temporarily rate limited due to IP reputation."),
    (DISTRUST, "554 IP=192.0.2.1 - A problem occurred. Ask your postmaster for help or to contact tosa@rx.t-online.de"),
    (DISTRUST, "554 gmx.net (mxgmx114) Nemesis ESMTP Service not available No SMTP service IP address is block listed."),
    (DISTRUST, "421 Too many spams from your IP (192.0.2.1), please visit http://postmaster.free.fr/"),
    (
        DISTRUST,
        "554 resimta-po-01v.sys.comcast.net Comcast BL000001 Blocked for spam. Please see http://postmaster.comcast.net",
    ),
    (DISTRUST, "553 5.3.0 flpd589 DNSBL:RBL 521< 192.0.2.1 >_is_blocked.For assistance forward this error"),
    (DISTRUST, "554 Service unavailable; Client host [192.0.2.1] blocked using Barracuda Reputation"),
    (DISTRUST, "554 5.7.1 Blocked - see https://www.spamcop.net/bl.shtml?192.0.2.1"),
    (MANY, "421 mwinf5c04 ME Trop de connexions, veuillez verifier votre configuration. OFR_103"),
    (MANY, "421 Too many concurrent SMTP connections; please try again later."),
    (MANY, "421 4.7.0 mail.example.org Error: too many connections from 192.0.2.1"),
    (MANY, "421 4.3.2 The maximum number of concurrent server connections has exceeded a per-source limit, closing"),
    (TLS, "421 4.7.66 TLS 1.0 and 1.1 are not supported. Please upgrade/update your client to support TLS 1.2."),
    (AWAY, "421 4.3.2 Service shutting down"),
    (AWAY, "421 mail.example.org"),
    (POLICY, "550 5.1.8 <shop@example.com>: Sender address rejected: Domain not found"),
    (Category.UNKNOWN, "550 5.1.1 User unknown"),
]
AT_END = [
    (POLICY, "550 5.7.26 Unauthenticated email from example.com is not accepted due to domain's DMARC policy."),
    (POLICY, "550 5.7.27 This mail has been blocked because the sender is unauthenticated. SPF did not pass"),
    (DISTRUST, "550 5.7.25 The IP address sending this message does not have a PTR record setup, or the corresponding"),
    (DISTRUST, "550 5.7.1 Our system has detected that this message is likely suspicious due to the very low reputation"),
    (RATE, "421 4.7.28 Our system has detected an unusual rate of unsolicited mail originating from your IP address."),
    (TLS, "421 4.7.29 This mail has been rate limited because the connection is not secured by TLS."),
    (CONTENT, "550 5.7.1 Our system has detected that this message is likely unsolicited mail. To reduce the amount"),
    (CONTENT, "552 5.7.0 This message was blocked because its content presents a potential security issue."),
    (SIZE, "552 5.3.4 Your message exceeded Google's message size limits."),
    (POLICY, "550 5.7.515 Access denied, sending domain example.com doesn't meet the required authentication level."),
    (POLICY, "550 5.7.509 Access denied, sending domain example.com does not pass DMARC verification"),
    (POLICY, "554 5.7.9 Message not accepted for policy reasons. See https://senders.yahooinc.com/error-codes"),
    (POLICY, "554 5.7.1 [CS01] Message rejected due to local policy. Please visit https://support.apple.com/en-us/HT204137"),
    (POLICY, "550 5.7.1 rejected by DMARC policy for example.com"),
    (CONTENT, "554 5.7.1 Spam message rejected"),
    (CONTENT, "554 5.7.1 [2] Message rejected under suspicion of SPAM; https://ya.cc/1IrBc"),
    (CONTENT, "550 spam message rejected. Please visit http://help.mail.ru/notspam-support/id?c=x"),
    (CONTENT, "554 DT:SPM 163 smtp12,x. please see http://mail.163.com/help/help_spam_16.htm"),
    (CONTENT, "554 5.7.0 id=1-2 - VIRUS: Eicar-Test-Signature"),
    (CONTENT, "550 maximum allowed line length is 998 octets, got 1024"),
    (CONTENT, "550 5.7.1 Message has a malformed header: From"),
    (SIZE, "552 Message size exceeds maximum permitted"),
    (SIZE, "552 Sorry"),
    (GREY, "451 4.7.1 Greylisted, please try again later"),
    (RATE, "454 4.7.0 Throttling failure: Daily message quota exceeded."),
    (POLICY, "554 Message rejected: Email address is not verified."),
    (AWAY, "451 Requested action aborted: local error in processing"),
]


def _reply(line: str) -> Reply:
    return parse_reply(int(line[:3]), [line[4:]])


CASES = [
    pytest.param(phase, *case, id=f"{phase}-{case[1][:40]}")
    for phase, cases in ((Phase.RCPT, AT_RCPT), (Phase.BANNER, BEFORE), (Phase.FINAL, AT_END))
    for case in cases
]


@pytest.mark.parametrize(("phase", "expected", "line"), CASES)
def test_the_words_of_receivers(phase: Phase, expected: Category, line: str) -> None:
    """Quirks Q1, Q3, Q5, Q7, Q13, Q14 of Table A; the categories of issue 7."""
    assert category(_reply(line), phase) is expected


def test_there_are_enough_of_them() -> None:
    told = [line for cases in (AT_RCPT, BEFORE, AT_END) for _, line in cases]
    assert len(set(told)) >= 100
    assert {expected for cases in (AT_RCPT, BEFORE, AT_END) for expected, _ in cases} == set(Category)


@pytest.mark.parametrize(
    ("expected", "phase", "found"),
    [
        (NOWHERE, Phase.ROUTE, finding("5.1.2", "no such domain")),
        (NOWHERE, Phase.ROUTE, finding("5.1.10", "the domain takes no mail")),
        (AWAY, Phase.CONNECT, finding("4.4.1", "connection refused")),
        (TLS, Phase.TLS, finding("4.7.5", "the certificate is another's")),
        (SIZE, Phase.MAIL, finding("5.3.4", "too large for this server")),
        (Category.UNKNOWN, "", finding("5.4.7", "not delivered in time; the last answer was: 451 4.7.1 Greylisted")),
    ],
)
def test_what_we_found_ourselves(expected: Category, phase: str, found: Reply) -> None:
    assert category(found, phase) is expected


@pytest.mark.parametrize("line", ["250 2.0.0 Ok: greylisted no more", "354 mailbox full of joy", "250 5.1.1 Ok"])
def test_what_takes_the_mail_is_of_no_kind(line: str) -> None:
    assert category(_reply(line), Phase.FINAL) is Category.UNKNOWN


def test_greylisting_is_never_for_good() -> None:
    assert category(_reply("550 5.7.1 Greylisted for ever"), Phase.RCPT) is not GREY


def test_a_status_of_another_class_is_not_believed() -> None:
    """Quirk Q8."""
    assert category(_reply("550 4.2.2 Sorry"), Phase.RCPT) is Category.UNKNOWN


@given(
    code=st.integers(-1, 999) | st.none(),
    enhanced=st.none() | st.from_regex(r"[245]\.\d{1,3}\.\d{1,3}", fullmatch=True),
    text=st.text(max_size=500),
    phase=st.sampled_from(["", *Phase]),
)
def test_it_is_total(code: int | None, enhanced: str | None, text: str, phase: str) -> None:
    assert category(Reply(code, enhanced, text), phase) in Category


@pytest.mark.parametrize(
    "piece", ["a", " ", "<", "@", "user ", "too many ", "exceeds its ", "a@", "quota ", "[1.", "e-mail ", "\u0130"]
)
def test_hostile_text_takes_no_time(piece: str) -> None:
    reply = Reply(450, None, (piece * 3000)[:2000])
    begun = time.process_time()
    for _ in range(20):
        category(reply, Phase.RCPT)
    assert time.process_time() - begun < 1.0  # 50 ms each on the slowest machine; a thousand times that when it backtracks


def test_no_phrase_repeats_without_a_bound() -> None:
    for phrases in (phrases for _, phrases in PHRASES):
        for phrase in phrases:
            assert not re.search(r"(?<!\\)[*+]|\{\d*,\}", phrase), phrase


def test_what_stands_far_behind_is_not_looked_at() -> None:
    assert category(Reply(450, None, "x" * TEXT_LIMIT + " greylisted"), Phase.RCPT) is Category.UNKNOWN


def test_each_category_has_words() -> None:
    assert set(IN_WORDS) == set(Category) - {Category.UNKNOWN}
