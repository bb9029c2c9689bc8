"""Who may submit: `[[submission.client]]`, and configurations that would be open relays."""

import ipaddress
from pathlib import Path
from types import SimpleNamespace

import pytest

from mta.app.daemon import Daemon
from mta.config.checks import at_doors, warnings
from mta.config.describe import effective
from mta.config.load import load
from mta.config.model import Config
from mta.config.problems import ConfigError, Problem
from mta.model.door import Door, Scheme
from mta.model.envelope import MailClass
from mta.policy.clients import ClientRule
from mta.policy.rates import Rate

RULE = """
[[submission.client]]
user = "shop"
network = "::ffff:10.1.0.0/112"
sender_domains = ["Example.com", "*.example.com"]
null_sender = false
messages = "100/1m"
burst = 20
recipients = "1000/2h"
highest_class = "normal"
max_message_size = "1MiB"
max_recipients = 10
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "mta.toml"


def read(file: Path, text: str) -> Config:
    file.write_text(text)
    return load(file, {"HOME": "/home/ann"})


def refused(file: Path, text: str) -> tuple[Problem, ...]:
    with pytest.raises(ConfigError) as caught:
        read(file, text)
    return caught.value.problems


# ---------------------------------------------------------------- rules
def test_a_rule_says_for_whom_and_what(file: Path) -> None:
    config = read(file, f'{RULE}[[submission.client]]\nnetwork = "192.0.2.0/24"\n')
    first, second = (table.rule for table in config.submission.client)
    assert first == ClientRule(
        user="shop",
        network=ipaddress.ip_network("10.1.0.0/16"),
        sender_domains=("example.com", "*.example.com"),
        null_sender=False,
        messages=Rate(100, 60.0, 20),
        recipients=Rate(1000, 7200.0, 1000),
        highest_class=MailClass.NORMAL,
        max_message_size=2**20,
        max_recipients=10,
    )
    assert second == ClientRule(network=ipaddress.ip_network("192.0.2.0/24"))


def test_a_rule_is_told_in_words(file: Path) -> None:
    found = dict(effective(read(file, RULE)))
    own = {key: words for key, words in found.items() if key.startswith("submission.client[1].")}
    assert own == {
        "submission.client[1].user": "shop",
        "submission.client[1].network": "10.1.0.0/16",
        "submission.client[1].sender_domains": "example.com, *.example.com",
        "submission.client[1].null_sender": "no",
        "submission.client[1].messages": "100 in 1 minute",
        "submission.client[1].burst": "20",
        "submission.client[1].recipients": "1000 in 2 hours",
        "submission.client[1].highest_class": "normal",
        "submission.client[1].max_message_size": "1MiB",
        "submission.client[1].max_recipients": "10",
    }
    assert dict(effective(load(None, {"HOME": "/x"})))["submission.client"] == "all clients may do the same"


@pytest.mark.parametrize(
    ("line", "key", "says"),
    [
        ('user = "a b"', "user", "expected a name of 1 to 64"),
        ('user = ""', "user", "expected a name"),
        ('network = "10.1.0.1/16"', "network", "without host bits"),
        ('sender_domains = []', "sender_domains", "at least one"),
        ('sender_domains = ["*"]', "sender_domains", "expected"),
        ('sender_domains = ["*.*.example.com"]', "sender_domains", "expected"),
        ('messages = "100"', "messages", 'such as "100/1m"'),
        ('messages = "0/1m"', "messages", 'such as "100/1m"'),
        ('messages = "5/0s"', "messages", "above zero"),
        ('messages = "5/1"', "messages", "expected a duration"),
        ('burst = 0', "burst", "1 or more"),
        ('highest_class = "high"', "highest_class", "expected 'urgent', 'normal' or 'bulk'"),
        ('sender_domain = "x.test"', "sender_domain", "did you mean submission.client.sender_domains?"),
    ],
)  # fmt: skip
def test_B52_a_mistake_in_a_rule_is_named(file: Path, line: str, key: str, says: str) -> None:
    [problem] = refused(file, f'[[submission.client]]\nhighest_class = "bulk"\n{line}\n'.replace(
        'highest_class = "bulk"\nhighest_class', "highest_class"))  # fmt: skip
    assert problem.key == f"submission.client.{key}"
    assert says in problem.message


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('messages = "1/1s"', "rule number 2 says not for whom"),
        ('user = "x"\nburst = 3', "burst says nothing without messages, in the rule number 2"),
        ('user = "x"\nrecipients_burst = 3', "recipients_burst says nothing without recipients"),
    ],
)
def test_a_rule_that_says_nothing_is_refused(file: Path, text: str, says: str) -> None:
    [problem] = refused(file, f'[[submission.client]]\nuser = "a"\n[[submission.client]]\n{text}\n')
    assert problem.key == "submission.client"
    assert says in problem.message


def test_B52_a_mistake_is_told_in_the_line_of_its_own_rule(file: Path) -> None:
    text = '[[submission.client]]\nuser = "a"\n[[submission.client]]\nnull_sender = true\nuser = "b c"\n'
    [problem] = refused(file, text)
    assert (problem.key, problem.line) == ("submission.client.user", 5)


def test_a_mistake_in_a_rule_hides_no_other(file: Path) -> None:
    keys = {it.key for it in refused(file, 'postmaster = "x@localhost"\n[[submission.client]]\nuser = 5\n')}
    assert keys == {"postmaster", "submission.client.user"}


# ---------------------------------------------------------------- open relays
def test_an_open_relay_needs_an_admission(file: Path) -> None:
    text = "[submission]\nlisten = ['0.0.0.0:25']\nallow = ['0.0.0.0/0']\n"
    assert [it.key for it in refused(file, text)] == ["submission.allow"]
    admitted = read(file, text + "i_know_this_is_an_open_relay = true\n")
    assert "submission.i_know_this_is_an_open_relay" in [it.key for it in warnings(admitted)]


def test_an_admission_that_is_not_needed_is_not_warned_of(file: Path) -> None:
    config = read(file, "[submission]\ni_know_this_is_an_open_relay = true\n")
    assert "submission.i_know_this_is_an_open_relay" not in [it.key for it in warnings(config)]


def test_a_reachable_listener_needs_somebody_who_may_submit(file: Path) -> None:
    [problem] = refused(file, "[submission]\nlisten = ['0.0.0.0:25']\nallow = []\n")
    assert problem.key == "submission.listen" and "nobody may submit at 0.0.0.0:25" in problem.message
    config = read(file, "[submission]\nlisten = ['0.0.0.0:25']\n")
    assert [it.message for it in warnings(config) if it.key == "submission.allow"] == [
        "only this machine may submit: nobody else at 0.0.0.0:25"
    ]


def test_passwords_are_not_taken_over_a_network_in_clear(file: Path) -> None:
    [problem] = refused(file, "[submission]\nlisten = ['127.0.0.1:25', '192.0.2.1:25']\nusers_file = '/etc/mta/users'\n")
    assert problem.key == "submission.users_file"
    assert "in clear at 192.0.2.1:25" in problem.message
    config = read(file, "[submission]\nusers_file = 'users'\n")
    assert config.submission.users_file == file.parent / "users"
    assert "submission.users_file" in [it.key for it in warnings(config)], "without TLS nobody can log in"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("", None),
        ("[submission.tls]\ncertificate = 'a'\nkey = 'b'\nrequired = true\n", "submission.tls.required"),
        ("[submission]\nproxy_protocol_from = ['127.0.0.1/32']\n", "submission.proxy_protocol_from"),
        ("[submission]\nproxy_protocol_from = ['10.0.0.1/32']\n", None),
        ("[submission]\nproxy_protocol_from = ['127.0.0.1/32']\nlisten = ['127.0.0.1:25', 'unix:s']\n", None),
    ],
)
def test_where_programs_on_this_machine_find_no_way_in_is_warned_of(file: Path, text: str, key: str | None) -> None:
    found = [it.key for it in warnings(read(file, text)) if "mta sendmail" in it.message]
    assert found == ([key] if key else [])


def test_a_rule_for_a_user_needs_users(file: Path) -> None:
    config = read(file, '[[submission.client]]\nuser = "shop"\n')
    assert [it.message for it in warnings(config) if it.key == "submission.client"] == [
        'without users_file nobody can be "shop"'
    ]


# ---------------------------------------------------------------- where it is really listened at
def test_an_open_relay_is_seen_at_the_doors_that_are_open(file: Path) -> None:
    """systemd's sockets take the place of `listen`, and a reload leaves the doors as they are."""
    config = read(file, '[submission]\nlisten = ["127.0.0.1:25"]\nallow = ["198.0.0.0/8"]\n')
    (problem,) = at_doors(config, [Door("0.0.0.0", 25)])
    assert problem.key == "submission.allow" and "open relay on 0.0.0.0:25" in problem.message
    assert not [*at_doors(config, [Door("127.0.0.1", 25), Door(scheme=Scheme.UNIX, path=Path("/run/x"))])]
    meant = read(file, '[submission]\ni_know_this_is_an_open_relay = true\nallow = ["198.0.0.0/8"]\n')
    assert not [*at_doors(meant, [Door("0.0.0.0", 25)])]


def test_a_reload_that_would_open_a_relay_changes_nothing(file: Path) -> None:
    before = read(file, "")
    daemon = Daemon(before, SimpleNamespace(), lambda fact: None, SimpleNamespace())  # type: ignore[arg-type]
    daemon.listener = SimpleNamespace(doors=(Door("0.0.0.0", 25),))  # type: ignore[assignment]
    with pytest.raises(ConfigError):
        daemon.reload(read(file, '[submission]\nallow = ["198.0.0.0/8"]\n'))
    assert daemon.config is before
