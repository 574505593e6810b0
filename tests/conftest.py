"""Fixtures and settings for every test."""

from __future__ import annotations

import os

from hypothesis import settings

from tests.servers.fixtures import moto, proxy, seaweed, seaweed_proxy

__all__ = ["moto", "proxy", "seaweed", "seaweed_proxy"]

# A property does not fail because the machine is busy. By default every run tries the same examples, so
# that a change is judged by what it changes; HYPOTHESIS_PROFILE=long looks for new ones.
settings.register_profile("default", deadline=None, derandomize=True, database=None)
settings.register_profile("long", deadline=None, max_examples=1_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# Tests start hundreds of processes. Each would compile all of jjq anew, a quarter of what its start costs.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
