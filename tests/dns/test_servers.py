from pathlib import Path

from mta.dns.servers import REREAD, REST, NameServers, system_servers

A, B, C = ("192.0.2.1", 53), ("192.0.2.2", 53), ("192.0.2.3", 53)


def test_the_given_order_holds_among_the_healthy() -> None:
    servers = NameServers(lambda: [A, B, C])
    assert servers.in_order(0.0) == [A, B, C]
    servers.failed(A, 0.0)
    assert servers.in_order(1.0) == [B, C, A]
    servers.answered(A)
    assert servers.in_order(1.0) == [A, B, C]


def test_after_its_rest_a_silent_server_costs_one_question_alone() -> None:
    servers = NameServers(lambda: [A, B])
    servers.failed(A, 0.0)
    assert servers.in_order(REST) == [A, B]
    assert servers.in_order(REST) == [B, A]


def test_with_all_of_them_silent_all_are_asked() -> None:
    servers = NameServers(lambda: [A, B])
    servers.failed(A, 0.0)
    servers.failed(B, 0.0)
    assert servers.in_order(1.0) == [A, B]


def test_the_list_is_read_again() -> None:
    """A machine that gets its network after the daemon has started."""
    lists = [[A], [B]]
    servers = NameServers(lambda: lists.pop(0))
    assert servers.in_order(0.0) == [A]
    assert servers.in_order(REREAD - 1) == [A]
    assert servers.in_order(REREAD) == [B]


def test_the_systems_servers(tmp_path: Path) -> None:
    conf = tmp_path / "resolv.conf"
    conf.write_text("search corp.test\nnameserver 192.0.2.1\nnameserver 2001:db8::1\noptions ndots:5 rotate\n")
    assert list(system_servers(str(conf))) == [A, ("2001:db8::1", 53)]


def test_without_any_the_local_one_is_meant(tmp_path: Path) -> None:
    conf = tmp_path / "resolv.conf"
    for text in ("", "# nothing\n", "nameserver no-address\n", "nameserver\n"):
        conf.write_text(text)
        assert list(system_servers(str(conf))) == [("127.0.0.1", 53)]
    assert list(system_servers(str(tmp_path / "missing"))) == [("127.0.0.1", 53)]
