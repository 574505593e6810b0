"""A world whose journal has threads of its own, as in a server, and a test's journal around it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeVar

from hotstore.engine import Runners
from hotstore.journal.port import Journal
from tests.hotstore.kit import BLOCK_BYTES, World

J = TypeVar("J")


@asynccontextmanager
async def threaded(around: Callable[[Journal], J]) -> AsyncIterator[tuple[World, J]]:
    """Started, with queue `q` and its subscriber `s`; everything but the journal runs inline."""
    world = World()
    made: list[J] = []
    world.runners = lambda: replace(Runners.inline(), threaded=True)

    def wrap(journal: Journal) -> Any:
        made.append(around(journal))
        return made[-1]

    world.wrap = wrap
    await world.start()
    await world.store.create_queue("q", block_bytes=BLOCK_BYTES)
    await world.store.create_subscriber("q", "s", "beginning")
    yield world, made[-1]
    await world.close()
