"""Fixtures for every test."""

from __future__ import annotations

from tests.servers.fixtures import moto, proxy, seaweed, seaweed_proxy

__all__ = ["moto", "proxy", "seaweed", "seaweed_proxy"]
