"""A place where the listener is reached."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Scheme(StrEnum):
    """How one speaks there."""

    SMTP = "smtp"
    """In clear; STARTTLS where there is a certificate."""
    TLS = "tls"
    """Inside TLS from the first octet (RFC 8314 section 3.3)."""
    UNIX = "unix"
    """A unix socket: its file's mode says who may connect, and who connects may submit."""


@dataclass(frozen=True, slots=True)
class Door:
    """An IP address and a port (0: any), or for `Scheme.UNIX` a path."""

    host: str = ""
    port: int = 0
    scheme: Scheme = Scheme.SMTP
    path: Path = Path()

    def __str__(self) -> str:
        if self.scheme is Scheme.UNIX:
            return f"unix:{self.path}"
        address = f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
        return f"tls://{address}" if self.scheme is Scheme.TLS else address
