"""The world of the end-to-end tests."""

from tests.e2e.conftest import world

__all__ = ["world"]
