"""Fixtures of these tests."""

from __future__ import annotations

from tests.jjq.fixtures import any_store, fake, hot, jjq

__all__ = ["any_store", "fake", "hot", "jjq"]
