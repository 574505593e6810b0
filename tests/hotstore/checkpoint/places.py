"""A data directory on a real disk with a cold store beside it, for tests of its checkpoints."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import duckdb

from coldstore.objects.local import LocalObjects
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.store import ColdStore
from hotstore.checkpoint.checkpoint_store import CheckpointName
from hotstore.engine import Engine
from hotstore.opening import open_engine
from tests.hotstore.kit import BLOCK_BYTES, fill, push, settings

Position = tuple[int, int, bool]


class DataPlace:
    """Where a store lies, stopped or running."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data = path / "data"
        self.before: dict[str, Position] = {}  # for a fixture to tell

    @asynccontextmanager
    async def opened(self, *, clean: bool = True) -> AsyncIterator[Engine]:
        """Serve. Nothing happens on its own. Not `clean`: as after kill -9, but that the lock is given back."""
        cold = ColdStore(LocalObjects(self.path / "cold"), SystemClock(), SystemChance())
        hot = settings(maintain_seconds=1e6, checkpoint_seconds=1e-9)
        engine = await open_engine(self.data, cold, settings=hot, clock=SystemClock(), chance=SystemChance())
        try:
            yield engine
        finally:
            if not clean:
                engine.checkpointer._changed = lambda: False  # type: ignore[method-assign]
            await engine.close()

    @property
    def checkpoints(self) -> list[Path]:
        """Oldest first."""
        found = sorted((self.data / "checkpoints").glob("*.duckdb"))
        return [path for path in found if CheckpointName.parse(path.name)]

    @property
    def quarantined(self) -> list[str]:
        return sorted(path.name for path in (self.data / "quarantine").glob("*"))

    def ask(self, query: str) -> list[Any]:
        """Of the newest checkpoint, as a tool would."""
        with duckdb.connect(str(self.checkpoints[-1]), read_only=True) as connection:
            return connection.execute(query).fetchall()


async def positions(engine: Engine) -> dict[str, Position]:
    return {i.id: (i.previous, i.offset, i.asleep) for i in await engine.store.list_subscribers()}


async def busy(engine: Engine, producer: str = "p") -> None:
    """Two queues, blocks, subscribers in several of them, one deleted, one asleep; a producer."""
    store = engine.store
    for name in ("a", "b"):
        await store.create_queue(name, block_bytes=BLOCK_BYTES)
        await fill(store, name, 9)
        await store.seal(name)
        for n in range(3):
            await push(store, name, b"%d" % n, producer=producer, sequence=n)
    for n, start in enumerate(("beginning", "offset:5", "end", "last:1")):
        await store.create_subscriber("a", f"s{n}", start)
        await store.pop(f"a/s{n}", 2)
    await store.create_subscriber("b", "gone")
    await store.delete_subscriber("b/gone")
    await store.create_subscriber("b", "s", "offset:4")
    await store.sleep("b/s")
