"""The command line is tested against the same desk as the socket."""

from tests.control.conftest import desk, facts, mail, present, spool

__all__ = ["desk", "facts", "mail", "present", "spool"]
