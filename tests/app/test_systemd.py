"""Sockets that systemd has opened (sd_listen_fds(3))."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mta.app.systemd import Notifier, inherited_sockets

_PROGRAM = """
import os, socket, sys
tcp, tls, unix = socket.socket(), socket.socket(), socket.socket(socket.AF_UNIX)
for number, sock in enumerate((tcp, tls, unix), 100):
    os.dup2(sock.fileno(), number)
for number in (3, 4, 5):
    os.dup2(number + 97, number)
from mta.app.systemd import inherited_sockets
found = inherited_sockets({"LISTEN_PID": os.environ.get("PID", str(os.getpid())), "LISTEN_FDS": "3", **NAMES})
print(*(scheme for scheme, _ in found))
"""


def _schemes(names: dict[str, str], environ: dict[str, str] | None = None) -> str:
    program = _PROGRAM.replace("NAMES", repr(names))
    surroundings = {"PYTHONPATH": str(Path(__file__).parents[2]), **(environ or {})}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=surroundings)
    return done.stdout.strip()


def test_their_names_and_kinds_say_what_is_spoken_there() -> None:
    assert _schemes({"LISTEN_FDNAMES": "mta.socket:tls:tls"}) == "smtp tls unix"
    assert _schemes({"LISTEN_FDNAMES": "plain"}) == "smtp smtp unix"
    assert _schemes({}) == "smtp smtp unix"


def test_those_of_another_process_are_not_ours() -> None:
    assert _schemes({}, {"PID": "1"}) == ""


def _refusal(program: str) -> str:
    surroundings = {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=surroundings)
    return done.stderr


def test_a_descriptor_that_is_no_socket_is_named() -> None:
    program = _PROGRAM.replace("NAMES", "{}").replace("os.dup2(number + 97, number)", "os.close(number)")
    assert "LISTEN_FDS promises a socket as file descriptor 3, and there is none (Bad file descriptor)" in _refusal(program)


def test_a_socket_that_is_no_stream_is_named() -> None:
    program = _PROGRAM.replace("NAMES", "{}").replace("(socket.AF_UNIX)", "(type=socket.SOCK_DGRAM)")
    told = "OSError: [Errno 22] the socket that is file descriptor 5 is no stream: expected ListenStream="
    assert told in _refusal(program)


@pytest.mark.parametrize("promised", ["three", "-1", "", "1.0"])
def test_a_promise_that_is_no_number_is_named(promised: str) -> None:
    with pytest.raises(OSError, match=f'LISTEN_FDS is "{promised}", which is no number of sockets'):
        inherited_sockets({"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": promised})
    assert inherited_sockets({"LISTEN_PID": "1", "LISTEN_FDS": promised}) == [], "it is not for us"


@pytest.mark.parametrize(("period", "seconds"), [("30000000", 30), ("soon", 0), ("", 0)])
def test_a_watchdog_without_a_time_is_none(period: str, seconds: int) -> None:
    assert Notifier({"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": period}).watchdog == seconds
