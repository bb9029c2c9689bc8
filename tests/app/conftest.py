"""The world of the end-to-end tests."""

from tests.e2e.conftest import running, world

__all__ = ["running", "world"]
