"""Who may import what: the table of the design, and what follows from "time, randomness and the network are given".

`LAYERS` names for each package which of ours, and which third-party and system modules, it may import; what is missing
there is forbidden. Standard modules that only compute are free to all.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

_SYSTEM = (
    "asyncio fcntl importlib logging multiprocessing os random secrets select signal socket sqlite3 ssl subprocess sys"
    " tempfile threading time uuid"
)
SYSTEM = frozenset(_SYSTEM.split())
"""Standard modules that reach beyond computing: the clock, chance, the network, the disk, the process."""
COMMON = "model ports doorbell policy spool.base"

LAYERS = {
    # msgspec, here and below: values that are made for each message, at a tenth of what a frozen dataclass costs
    "model": ("", "idna msgspec"),  # a mailbox is known by its A-labels; the tables are data
    "ports": ("", ""),
    "ports.system": ("model", ""),
    "ports.names": ("model", "msgspec"),
    "ports.sts": ("model", ""),
    "ports.smtp": ("model", "msgspec"),
    "ports.scheduling": ("model", "msgspec"),
    "doorbell": ("model", "asyncio"),
    "unix_socket": ("", "os socket"),
    "passwords": ("", "argon2 asyncio"),
    "policy": ("model ports", "msgspec"),  # ports: the values that adapters and stages exchange (MxAnswer, Randomness)
    "config": ("model policy ports.smtp", "pydantic"),  # policy, ports: the types of their parameters
    "spool.base": ("model doorbell", "msgspec"),
    "spool": ("model doorbell", "aiosqlite asyncio fcntl msgspec os sqlite3 tempfile threading"),
    "spool.process": ("doorbell model spool", "asyncio msgspec os signal socket sys"),
    "dkim": ("", "cryptography"),
    "http": ("", "asyncio ssl"),
    "client_tls": ("", "ssl"),
    "alerts": ("http model ports.system", "asyncio os signal ssl"),
    # policy: which addresses a stranger may lead us to
    "sts": ("client_tls http model policy ports.names ports.sts", "asyncio ssl"),
    "dns": ("model ports.names ports.system", "asyncio dns msgspec socket"),
    "smtp": ("client_tls model ports.smtp", "aiosmtplib asyncio cryptography msgspec os socket ssl"),
    "suppressions": (COMMON, ""),  # what the listener asks, deliveries teach and persons change
    "listener": ("model ports.system policy spool.base suppressions unix_socket", "aiosmtpd asyncio msgspec socket ssl"),
    "scheduler": ("ledger " + COMMON, "asyncio"),
    "ledger": (COMMON, ""),
    "delivery": (COMMON, "asyncio msgspec"),
    "reports": (COMMON, "asyncio"),
    "control": ("model ports.system spool.base suppressions unix_socket", "asyncio msgspec os socket"),
    "observe": ("model", "asyncio logging msgspec os select threading"),
    "app.runtime": ("alerts app config dns listener passwords smtp spool sts " + COMMON,
                    "asyncio random secrets socket time"),
    "app": ("alerts config control delivery dkim dns doctor listener observe reports scheduler smtp spool sts suppressions "
            "unix_socket " + COMMON, "asyncio logging os secrets signal socket ssl sys uvloop"),
    "doctor": ("model ports.names ports.smtp policy", "asyncio"),  # each look has its time
    "demo": ("control model", "asyncio dns rich socket sys tempfile"),  # a program beside the daemon, not a part of it
    "sendmail": ("config control model policy", "os socket tempfile threading"),  # a client in a process of its own
    # model: text made safe; policy: what a header section is
    "cli": ("app config control demo dkim doctor model passwords sendmail", "asyncio click importlib os rich signal sys"),
}  # fmt: skip
CLOCK_METHODS = frozenset({"now", "utcnow", "today"})
"""Of `datetime` and `date`: without an argument that was given, they read the clock."""


def modules() -> list[str]:
    return sorted(".".join(path.relative_to(ROOT).with_suffix("").parts) for path in (ROOT / "mta").rglob("*.py"))


def imported(tree: ast.AST, package: str) -> Iterator[str]:
    """Every module that is imported, also in functions; `from mta import x` is `mta.x`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: -node.level or None] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{module}.{alias.name}" for alias in node.names) if module.startswith("mta") else (module,)


def layer_of(module: str) -> str:
    name = module.removeprefix("mta.")
    while name not in LAYERS:
        name = name.rpartition(".")[0]
    return name


def breaches(module: str, source: str) -> list[str]:
    """What `module` imports, or calls, that its layer may not."""
    layer = layer_of(module)
    ours, others = (set(names.split()) for names in LAYERS[layer])
    tree = ast.parse(source)
    found = []
    for name in imported(tree, module):
        top = name.split(".")[0]
        if top == "mta":
            inner = name.removeprefix("mta.")
            if not any(f"{inner}.".startswith(f"{allowed}.") for allowed in {layer, *ours, "__version__"}):
                found.append(f"imports {name}")
        elif top not in others and (top in SYSTEM or is_third_party(top)):
            found.append(f"imports {name}")
    return found + [f"reads the clock in line {line}" for line in clock_readings(tree)]


def is_third_party(top: str) -> bool:
    return any(top in names.split() for _, names in LAYERS.values()) or top in {"cryptography", "dkim", "psycopg"}


def clock_readings(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in CLOCK_METHODS
            and isinstance(node.func.value, ast.Name | ast.Attribute)
            and ast.unparse(node.func.value) in ("datetime", "date", "datetime.datetime", "datetime.date")
        ):
            yield node.lineno


@pytest.mark.parametrize("module", modules())
def test_a_module_keeps_to_its_layer(module: str) -> None:
    path = ROOT.joinpath(*module.split(".")).with_suffix(".py")
    if module == "mta.__init__":
        assert not list(imported(ast.parse(path.read_text()), "mta"))
    else:
        assert not breaches(module.removesuffix(".__init__"), path.read_text())


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("mta.policy.x", "import asyncio"),
        ("mta.model.x", "def f():\n    from time import time"),
        ("mta.policy.x", "import os.path"),
        ("mta.policy.x", "from datetime import datetime\ndatetime.now()"),
        ("mta.control.x", "import datetime\ndatetime.datetime.utcnow()"),
        ("mta.policy.x", "import pydantic"),
        ("mta.dns.x", "from mta.ports.smtp import Session"),
        ("mta.ports.names", "from mta.ports.smtp import Session"),
        ("mta.delivery.x", "import aiosmtplib"),
        ("mta.listener.x", "from mta.spool import sqlite"),
        ("mta.listener.x", "import mta.spool.sqlite"),
        ("mta.spool.postgres", "from mta.policy import schedule"),
        ("mta.spool.base", "from mta.spool.sqlite import open_sqlite"),
        ("mta.observe.x", "from mta.spool.base import Spool"),
        ("mta.scheduler", "from mta.delivery.worker import Worker"),
        ("mta.cli.x", "from mta.spool.base import Spool"),
        ("mta.config.x", "import os"),
        ("mta.dns.x", "from ..spool import base"),
        ("mta.observe.x", "import random"),
    ],
)
def test_a_breach_is_found(module: str, source: str) -> None:
    assert breaches(module, source)


def test_uvloop_is_the_app_s_and_aiosmtplib_is_smtp_s() -> None:
    for name, user in (("uvloop", "app"), ("aiosmtplib", "smtp")):
        assert [layer for layer, (_, others) in LAYERS.items() if name in others.split()] == [user]
