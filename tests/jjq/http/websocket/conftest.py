"""Servers run on uvloop, and in the user's own process on any loop: what both do in their own way is tested on both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest
import uvloop


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    quick = {"uvloop": uvloop.new_event_loop}
    return quick if item.path.name != "test_upgrade.py" else quick | {"asyncio": asyncio.new_event_loop}
