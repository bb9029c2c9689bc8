"""From a file to a configuration, or to all its mistakes."""

import ipaddress
from collections.abc import Callable
from pathlib import Path

import pytest

from mta.config.load import load, named
from mta.config.model import Config
from mta.config.problems import ConfigError, Problem
from mta.model.door import Door, Scheme
from mta.model.envelope import MailClass
from mta.policy.schedule import DEFAULTS
from mta.ports.smtp import Timeouts

ENVIRON = {"HOME": "/home/ann"}
Read = Callable[[str], Config]
Refuse = Callable[[str], tuple[Problem, ...]]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def from_text(text: str) -> Config:
        path = tmp_path / "mta.toml"
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        return load(path, ENVIRON)

    return from_text


@pytest.fixture
def refused(read: Read) -> Refuse:
    def problems(text: str) -> tuple[Problem, ...]:
        with pytest.raises(ConfigError) as caught:
            read(text)
        return caught.value.problems

    return problems


# ---------------------------------------------------------------- what is taken
def test_without_a_file_the_defaults_hold_and_need_no_root() -> None:
    config = load(None, ENVIRON)
    assert config.submission.listen == (Door("127.0.0.1", 2525),)
    assert config.spool.path == Path("/home/ann/.local/state/mta/spool.db")
    assert config.control.socket == Path("/home/ann/.local/state/mta/control.sock")
    assert (config.hostname, config.postmaster, config.local_domains, config.aliases) == (None, None, ("localhost",), {})
    assert config.delivery.timeouts == Timeouts()
    assert dict(config.classes) == {mail_class: DEFAULTS[mail_class.label] for mail_class in MailClass}


def test_the_state_is_kept_where_the_environment_says() -> None:
    assert load(None, ENVIRON | {"XDG_STATE_HOME": "/state"}).spool.path == Path("/state/mta/spool.db")
    assert load(None, ENVIRON | {"XDG_STATE_HOME": "not/absolute"}).spool.path.is_relative_to("/home/ann")


def test_what_a_file_omits_has_its_default(read: Read) -> None:
    assert read('hostname = "mail.example.com"\n').model_copy(update={"hostname": None}) == load(None, ENVIRON)


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.example.com/services/T0/B0?x=1",
        "https://hooks.example.com:8443",
        "http://localhost:8080/alert",
        "http://127.0.0.1/",
        "http://[::1]:8080/",
    ],
)
def test_whom_to_call_and_when_to_warn(read: Read, url: str) -> None:
    config = read(
        f"""
        [spool]
        min_free = "0B"
        [alerts]
        interval = "1m"
        command = ["/usr/local/bin/page", "--now"]
        webhook = "{url}"
        [alerts.warning]
        urgent = "90s"
        [alerts.critical]
        pending = 0
        """
    )
    assert config.spool.min_free == 0
    alerts = config.alerts
    assert (alerts.interval, alerts.command, alerts.webhook) == (60, ("/usr/local/bin/page", "--now"), url)
    assert (alerts.warning.urgent, alerts.warning.bulk, alerts.critical.pending) == (90, 86400, 0)


def test_the_interface_s_values_are_read(read: Read) -> None:
    config = read(
        """
        hostname = "mail.example.com"
        postmaster = "postmaster@example.com"
        local_domains = ["localhost", "Box.Example.COM"]
        [spool]
        url = "sqlite:/var/lib/mta/spool.db"
        [submission]
        listen = ["127.0.0.1:25", "[::1]:25", "0.0.0.0:26"]
        max_message_size = "512KiB"
        allow = ["127.0.0.0/8", "::ffff:10.0.0.0/104"]
        [aliases]
        "*" = "postmaster@example.com"
        Root = ["ann@example.com", "bob@example.com"]
        [dns]
        nameservers = ["127.0.0.1:5353", "127.0.0.1", "[::1]"]
        [delivery.timeouts]
        connect = "300ms"
        [class.urgent]
        give_up_after = "6s"
        factor = 3
        deadline = "5s"
        [lanes]
        urgent_reserve = 0
        bulk_share = 0.5
        fair_by = "sender"
        """
    )
    assert config.local_domains == ("localhost", "box.example.com")
    assert config.spool.path == Path("/var/lib/mta/spool.db")
    assert config.submission.listen == (Door("127.0.0.1", 25), Door("::1", 25), Door("0.0.0.0", 26))
    assert config.submission.max_message_size == 524288
    assert config.submission.allow == (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("10.0.0.0/8"))
    assert config.aliases == {"*": ("postmaster@example.com",), "root": ("ann@example.com", "bob@example.com")}
    assert config.dns.nameservers == (("127.0.0.1", 5353), ("127.0.0.1", 53), ("::1", 53))
    assert config.delivery.timeouts == Timeouts(connect=0.3)
    urgent = config.classes[MailClass.URGENT]
    assert (urgent.give_up_after, urgent.factor, urgent.max_interval, urgent.deadline) == (6, 3, 300, 5)
    assert config.classes[MailClass.BULK].deadline == 0
    assert (config.lanes.urgent_reserve, config.lanes.bulk_share, config.lanes.fair_by) == (0, 0.5, "sender")


def test_relative_paths_count_from_the_file(read: Read, tmp_path: Path) -> None:
    config = read('[spool]\nurl = "sqlite:x.db"\n[control]\nsocket = "c.sock"\n')
    assert (config.spool.path, config.control.socket) == (tmp_path / "x.db", tmp_path / "c.sock")


def test_B52_a_byte_order_mark_hides_no_key(read: Read) -> None:
    assert read('\ufeffhostname = "mail.example.com"\r\n').hostname == "mail.example.com"


# ---------------------------------------------------------------- what is refused
def test_B52_all_mistakes_are_told_at_once_with_key_and_line(refused: Refuse) -> None:
    problems = refused(
        """\
IgnoreIpv6 = true
hostname = "laptop."
[spool]
urll = 'x'
[submission]
listen = [
  "127.0.0.1:25",  # [not a table]
  ":25",
]
max_recipients = 0
[aliases]
"*" = "me@localhost"
[class.urgent]
retry_max_age = "5 days"
[worker]
""",
    )
    assert [(problem.line, problem.key) for problem in problems] == [
        (1, "IgnoreIpv6"),
        (2, "hostname"),
        (4, "spool.urll"),
        (6, "submission.listen"),
        (10, "submission.max_recipients"),
        (12, "aliases.*"),
        (14, "class.urgent.retry_max_age"),
        (15, "worker"),
    ]


@pytest.mark.parametrize(
    ("text", "key", "says"),
    [
        ("[spool]\nurll = 'x'", "spool.urll", "did you mean spool.url?"),
        ("[dilivery]", "dilivery", "did you mean delivery?"),
        ("[submission]\nMax_Recipients = 5", "submission.Max_Recipients", "did you mean submission.max_recipients?"),
        ("listen = ['127.0.0.1:25']", "listen", "did you mean submission.listen?"),
        ("[class.urgnt]", "class.urgnt", "did you mean class.urgent?"),
        ("[urgent]", "urgent", "did you mean class.urgent?"),
        ("[spool]\nmin_free = 64", "spool.min_free", "expected a size in quotes"),
        ("[alerts]\ncommand = '/bin/page --now'", "alerts.command", "expected a list of words such as"),
        ("[alerts]\ncommand = ['page']", "alerts.command", 'expected the program with its whole path, not "page"'),
        ("[alerts]\ncommand = ['/bin/page', 1]", "alerts.command", "expected a list of words such as"),
        ("[alerts]\nwebhook = 'http://hooks.example.com/x'", "alerts.webhook", 'expected "https:"'),
        ("[alerts]\nwebhook = 'http://127.0.0.1@hooks.example.com/'", "alerts.webhook", "no user name"),
        ("[alerts]\nwebhook = 'http://127.0.0.1.example.com/'", "alerts.webhook", 'expected "https:"'),
        ("[alerts]\nwebhook = 'hooks.example.com'", "alerts.webhook", "expected a URL such as"),
        ("[alerts]\nwebhook = 'https://'", "alerts.webhook", "expected a URL such as"),
        ("[alerts]\nwebhook = 'https://h:99999/'", "alerts.webhook", "expected a URL (Port out of range"),
        ("[alerts]\nwebhook = 'https://[::1/'", "alerts.webhook", "expected a URL ("),
        ("[alerts]\nwebhook = 'https://h/a b'", "alerts.webhook", "expected a URL such as"),
        ("[alerts]\nwebhook = 'https://h/\\r\\nX: y'", "alerts.webhook", "expected a URL such as"),
        ("[alerts.warning]\nurgent = 5", "alerts.warning.urgent", "in quotes such as"),
        ("[alerts.critical]\npending = -1", "alerts.critical.pending", "expected 0 or more"),
        ("[queues]", "queues", "unknown key; known here: hostname,"),
        ("[lanes]\nurgent_reserve = 0.95", "lanes.urgent_reserve", "expected 0.9 or less, not 0.95"),
        ("[lanes]\nurgent_reserve = -0.1", "lanes.urgent_reserve", "expected 0.0 or more"),
        ("[lanes]\nbulk_share = 0.6", "lanes.bulk_share", "expected 0.5 or less"),
        ("[lanes]\nbulk_share = nan", "lanes.bulk_share", "expected a finite number"),
        ("[lanes]\nfair_by = 'class'", "lanes.fair_by", "expected 'destination' or 'sender'"),
        ("[lanes]\nurgent = 0.1", "lanes.urgent", "did you mean class.urgent?"),
        ("[submission]\nmax_hold = '0s'", "submission.max_hold", "above zero"),
        ("[submission]\nmax_hold = '300ms'", "submission.max_hold", 'at least "1s"'),
        ("[submission]\ndeliver_by = 'loose'", "submission.deliver_by", "expected 'strict' or 'handover'"),
        ("[class.urgent]\ndeadline = 600", "class.urgent.deadline", "expected a duration in quotes"),
        ("[delivery.timeouts]\nquit = '1s'", "delivery.timeouts.quit", "unknown key"),
        ("[class.normal]\ngive_up_after = '5 days'", "class.normal.give_up_after", 'such as "300ms"'),
        ("[class.normal]\ngive_up_after = -1", "class.normal.give_up_after", "in quotes such as"),
        ("[class.normal]\ngive_up_after = '-1s'", "class.normal.give_up_after", "expected a duration"),
        ("[class.normal]\ngive_up_after = '0s'", "class.normal.give_up_after", "above zero"),
        ("[class.normal]\nfactor = 0.5", "class.normal.factor", "expected 1.0 or more, not 0.5"),
        ("[class.normal]\nfactor = 1e5", "class.normal.factor", "expected 100.0 or less"),
        ("[class.normal]\nfactor = inf", "class.normal.factor", "expected a finite number"),
        ("[class.normal]\njitter = 1", "class.normal.jitter", "expected less than 1"),
        ("[class.normal]\njitter = nan", "class.normal.jitter", "expected a finite number"),
        ("[class.normal]\nmax_attempts = -1", "class.normal.max_attempts", "expected 0 or more, not -1"),
        ("[class.normal]\nmax_attempts = 2.0", "class.normal.max_attempts", "expected a whole number, not 2.0"),
        ("[submission]\nmax_recipients = true", "submission.max_recipients", "expected a whole number, not true"),
        ("[submission]\nmax_connections = '5'", "submission.max_connections", 'expected a whole number, not "5"'),
        ("[submission]\nmax_message_size = 5", "submission.max_message_size", 'such as "512KiB"'),
        ("[submission]\nmax_message_size = '25MB'", "submission.max_message_size", 'not "25MB"'),
        ("[submission]\nbare_newlines = 'keep'", "submission.bare_newlines", "expected 'normalize' or 'reject'"),
        ("[submission]\nheader_checks = 'off'", "submission.header_checks", "expected 'strict' or 'lenient'"),
        ("[submission]\nlong_lines = 'wrap'", "submission.long_lines", "expected 'refuse' or 'encode'"),
        ("[submission]\nlisten = '127.0.0.1:25'", "submission.listen", "expected a list"),
        ("[submission]\nlisten = []", "submission.listen", "expected at least one"),
        (
            "[submission]\nlisten = ['localhost:2525']",
            "submission.listen",
            'expected an IP address, as in "127.0.0.1:25" or "[::1]:25", not "localhost:2525"',
        ),
        ("[submission]\nlisten = ['127.0.0.1:25', '127.0.0.1:25']", "submission.listen", "given twice"),
        ("[submission]\nallow = ['10.0.0.1/8']", "submission.allow", 'such as "10.0.0.0/8"'),
        ("[delivery]\nallow_private_addresses = 'yes'", "delivery.allow_private_addresses", "expected true or false"),
        ("[delivery]\nport = 0", "delivery.port", "expected 1 or more"),
        ("[delivery]\nmax_sessions = 0", "delivery.max_sessions", "expected 1 or more"),
        ("[delivery]\ntimeouts = 3", "delivery.timeouts", "expected a table, not 3"),
        ("spool = 'sqlite:x'", "spool", "expected a table"),
        ("control = 5", "control", "expected a table"),
        ("class = []", "class", "expected a table, not a list"),
        ("[spool]\nurl = 'postgresql://mta@db/mta'", "spool.url", "not built in yet"),
        ("[spool]\nurl = '/var/lib/mta/spool.db'", "spool.url", 'expected "sqlite:" and a file'),
        ("[spool]\nurl = 'sqlite://x/y'", "spool.url", 'expected "sqlite:" and a file'),
        (
            "[spool]\nretention = '1d'\ncontent_retention = '2d'",
            "spool.content_retention",
            "at most spool.retention (1 day)",
        ),
        (f"[control]\nsocket = '/{'x' * 120}'", "control.socket", "at most 100 octets"),
        ("[control]\nsocket = ''", "control.socket", "expected a path"),
        ("postmaster = 'postmaster'", "postmaster", "an address with its domain"),
        ("postmaster = 'ann@example.com\\r\\nx'", "postmaster", "expected an address"),
        ("postmaster = 'postmaster@localhost'", "postmaster", "leads back here"),
        ("[aliases]\nroot = []", "aliases.root", "at least one address"),
        ("[aliases]\nroot = 'ann'", "aliases.root", "an address with its domain"),
        ("[aliases]\n'root@localhost' = 'ann@example.com'", "aliases.root@localhost", 'expected the name alone: "root"'),
        ("[aliases]\nroot = 'a@example.com'\nRoot = 'b@example.com'", "aliases", '"root" is given twice'),
        ("[log]\nformat = 'xml'", "log.format", "expected 'kv' or 'json'"),
        ("[dns]\nnameservers = ['localhost']", "dns.nameservers", "expected an IP address"),
    ],
)
def test_B52_a_mistake_is_named_by_its_key_and_what_was_expected(refused: Refuse, text: str, key: str, says: str) -> None:
    [problem] = refused(text)
    assert problem.key == key
    assert says in problem.message
    assert problem.line == len(text.splitlines()) or key in ("aliases", "submission.listen")


@pytest.mark.parametrize(
    "listen",
    [
        ":25",
        "*:25",
        "25",
        "localhost:25",
        "127.0.0.1",
        "::1:25",
        "[::1]",
        "[127.0.0.1]:25",
        "127.0.0.1:0",
        "127.0.0.1:65536",
        "127.0.0.1:٣",
        "127.0.0.1:065536",
        "[]:25",
        "",
    ],
)
def test_B52_a_listen_address_says_exactly_where(refused: Refuse, listen: str) -> None:
    [problem] = refused(f"[submission]\nlisten = ['{listen}']")
    assert problem.key == "submission.listen"
    assert problem.message.startswith("expected")


@pytest.mark.parametrize(
    "name", ["laptop.", "my host", "-x", "bücher.example", "", "a..b", "192.0.2.1", "[192.0.2.999]", "x\\r\\ny"]
)
def test_B53_a_name_that_no_server_may_be_greeted_with_is_refused(refused: Refuse, name: str) -> None:
    [problem] = refused(f'hostname = "{name}"')
    assert problem.key == "hostname"
    assert "expected" in problem.message
    assert problem.line == 1


def test_B53_a_name_in_u_labels_is_told_its_a_labels(refused: Refuse) -> None:
    """EXT-09: EHLO comes before anybody knows of SMTPUTF8 (RFC 6531 section 3.7.1)."""
    for key in ('hostname = "bücher.example"', 'local_domains = ["bücher.example"]'):
        [problem] = refused(key)
        assert '"xn--bcher-kva.example"' in problem.message


@pytest.mark.parametrize(
    "name", ["mail.example.com", "localhost", "[192.0.2.1]", "[IPv6:2001:db8::1]", "xn--bcher-kva.example"]
)
def test_B53_a_domain_name_or_an_address_literal_is_taken(read: Read, name: str) -> None:
    assert read(f'hostname = "{name}"').hostname == name


def test_B52_a_key_given_twice_is_named_with_both_lines(refused: Refuse) -> None:
    [problem] = refused('[spool]\nretention = "1d"\nurl = "sqlite:x"\nretention = "2d"\n')
    assert (problem.line, problem.key, problem.message) == (4, "spool.retention", "is given twice, first in line 2")
    [problem] = refused('[spool]\nretention = "1d"\n[log]\n[spool]\n')
    assert (problem.line, problem.key) == (4, "spool")


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("hostname = mail", 1, "no TOML: Invalid value"),
        ("\n[spool\n", 2, "no TOML"),
        ("\n\nhostname = '\udce9'\n", 3, "expected UTF-8"),
    ],
)
def test_what_is_no_toml_is_told_with_its_line(refused: Refuse, text: str, line: int, says: str) -> None:
    [problem] = refused(text)
    assert problem.line == line
    assert says in problem.message


def test_a_file_that_cannot_be_read_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't be read: No such file"):
        load(tmp_path / "none.toml", ENVIRON)
    with pytest.raises(ConfigError, match="can't be read: Is a directory"):
        load(tmp_path, ENVIRON)


def test_a_mistake_s_text_cannot_break_its_line(refused: Refuse) -> None:
    [problem] = refused('"a\\nb\\u001b[31m" = 1\n')
    assert str(problem).startswith("a\\x0ab\\x1b[31m: unknown key")


# ---------------------------------------------------------------- open relays and loops
@pytest.mark.parametrize(
    ("listen", "allow"),
    [
        ("127.0.0.1:25", "0.0.0.0/0"),
        ("127.0.0.1:25", "::/0"),
        ("127.0.0.1:25", "::ffff:0:0/96"),
        ("0.0.0.0:25", "8.8.8.0/24"),
        ("192.0.2.1:25", "128.0.0.0/1"),
        ("[::]:25", "2001:db8::/32"),
        ("0.0.0.0:25", "8.0.0.0/6"),
    ],
)
def test_an_open_relay_is_refused(refused: Refuse, listen: str, allow: str) -> None:
    [problem] = refused(f"[submission]\nlisten = ['{listen}']\nallow = ['127.0.0.0/8', '{allow}']\n")
    assert (problem.key, problem.line) == ("submission.allow", 3)
    assert "open relay" in problem.message


@pytest.mark.parametrize("allow", ["10.0.0.0/8", "192.168.1.0/24", "fd00::/8", "192.0.2.7/32", "2001:db8::1/128"])
def test_private_networks_and_single_addresses_may_submit_from_outside(read: Read, allow: str) -> None:
    config = read(f"[submission]\nlisten = ['0.0.0.0:25']\nallow = ['{allow}']\n")
    assert [str(network) for network in config.submission.allow] == [allow]


@pytest.mark.parametrize("target", ["x@localhost", "x@LOCALHOST", "x@mail.example.com", "x@Box.example"])
def test_an_alias_that_leads_back_here_is_refused(refused: Refuse, target: str) -> None:
    [problem] = refused(
        f"hostname = 'mail.example.com'\nlocal_domains = ['box.example']\n[aliases]\nroot = ['a@example.com', '{target}']\n"
    )
    assert (problem.key, problem.line) == ("aliases.root", 4)
    assert f"{target} leads back here" in problem.message


# ---------------------------------------------------------------- the machine's own name
def test_B53_the_machine_s_name_completes_a_configuration_without_one(read: Read) -> None:
    assert named(read(""), "box.example.com").hostname == "box.example.com"


@pytest.mark.parametrize("name", ["laptop.", "my host", "", "bücher"])
def test_B53_a_machine_s_name_that_is_no_good_says_what_to_set(read: Read, name: str) -> None:
    with pytest.raises(ConfigError, match="set hostname in the configuration"):
        named(read(""), name)


def test_a_machine_s_name_may_show_that_an_alias_leads_back(read: Read) -> None:
    with pytest.raises(ConfigError, match=r"aliases\.root: x@box\.example\.com leads back here"):
        named(read("[aliases]\nroot = 'x@box.example.com'\n"), "box.example.com")


# ---------------------------------------------------------------- doors
def test_each_kind_of_door(read: Read, tmp_path: Path) -> None:
    config = read(
        "[submission]\nlisten = ['127.0.0.1:25', 'tls://[::]:465', 'unix:/run/mta/submit.sock', 'unix:here.sock']\n"
        "socket_mode = '0666'\nallow = ['10.0.0.0/8']\n"
        "[submission.tls]\ncertificate = 'mail.pem'\nkey = 'credential:mail.key'\n"
    )
    assert config.submission.listen == (
        Door("127.0.0.1", 25),
        Door("::", 465, Scheme.TLS),
        Door(scheme=Scheme.UNIX, path=Path("/run/mta/submit.sock")),
        Door(scheme=Scheme.UNIX, path=tmp_path / "here.sock"),
    )
    assert config.submission.socket_mode == 0o666
    assert config.submission.tls.certificate == str(tmp_path / "mail.pem")
    assert config.submission.tls.key == "credential:mail.key"


TLS = "[submission.tls]\ncertificate = 'a'\nkey = 'b'"


@pytest.mark.parametrize(
    ("text", "key", "part"),
    [
        ("[submission]\nlisten = ['tls://127.0.0.1:465']", "submission.listen", '"tls://127.0.0.1:465" needs certificate'),
        ("[submission]\nlisten = ['tls://mail:465']", "submission.listen", 'not "tls://mail:465"'),
        ("[submission]\nlisten = ['smtp://127.0.0.1:465']", "submission.listen", 'not "smtp://127.0.0.1:465"'),
        ("[submission]\nlisten = ['unix:']", "submission.listen", "expected a path"),
        ("[submission]\nlisten = ['unix:/a', 'unix:/a']", "submission.listen", "given twice"),
        (f"[submission]\nlisten = ['127.0.0.1:25', 'tls://127.0.0.1:25']\n{TLS}", "submission.listen", "given twice"),
        ("[control]\nsocket = '/a'\n[submission]\nlisten = ['unix:/a']", "submission.listen", "is control.socket"),
        ("[submission]\nsocket_mode = '660x'", "submission.socket_mode", 'expected a mode such as "0660"'),
        ("[submission]\nsocket_mode = 432", "submission.socket_mode", "expected text in quotes"),
        ("[submission.tls]\ncertificate = 'a'", "submission.tls.key", "missing"),
        ("[submission.tls]\nkey = 'a'", "submission.tls.certificate", "missing"),
        ("[submission.tls]\nkey = 'credential:../a'", "submission.tls.key", "the name of a credential"),
        ("[submission.tls]\nrequired = true", "submission.tls.required", "no client could begin TLS"),
        (
            "[submission]\nproxy_protocol_from = ['0.0.0.0/0']",
            "submission.proxy_protocol_from",
            '"0.0.0.0/0" could claim any address, which would be an open relay',
        ),
        (
            "[submission]\nproxy_protocol_from = ['10.0.0.1/32']\nallow = ['198.51.100.0/24']",
            "submission.allow",
            "would be an open relay on the other side of a proxy",
        ),
    ],
)
def test_what_is_wrong_with_doors(refused: Refuse, text: str, key: str, part: str) -> None:
    found = refused(text)
    assert [problem.key for problem in found if part in problem.message] == [key], found
