"""Fixtures of these tests."""

from tests.index.object_store import server, store  # noqa: F401 - fixtures
