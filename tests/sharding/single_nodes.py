"""Servers that believe to be alone, in one process, over one object store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from coldstore.layout import paths
from coldstore.objects.memory import MemoryObjects
from coldstore.objects.port import ObjectStore
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import ManualClock
from coldstore.store import ColdStore
from hotstore.engine import Engine
from sharding.documents import tenure
from sharding.single_node import open_single_node
from tests.hotstore.kit import push, settings
from tests.sharding.journals import Spoiled, lost
from tests.sharding.members import SLOW, everything


class World:
    """Servers that believe to be alone, over one store; time moves by hand, and nothing happens on its own."""

    def __init__(self, folder: Path, objects: ObjectStore | None = None) -> None:
        self.clock = ManualClock()
        self.objects: Any = Spoiled(MemoryObjects(self.clock)) if objects is None else objects
        self.folder = folder
        self._open: list[Engine] = []

    async def open(self, name: str, *, store: str = "here", **changes: Any) -> Engine:
        (self.folder / name).mkdir(exist_ok=True)
        cold = await asyncio.to_thread(ColdStore, self.objects, self.clock, SystemChance())
        hot = settings(maintain_seconds=3_600.0, **changes)
        engine = await open_single_node(
            self.folder / name, cold, store, hot, SLOW, self.clock, SystemChance()
        )
        self._open.append(engine)
        await self.beat(engine)  # the one of the start is over by then, so that it comes in between nowhere
        return engine

    async def beat(self, engine: Engine) -> None:
        await beats_of(engine).beat()

    async def kill(self, engine: Engine) -> None:
        """As kill -9: it says nothing to anybody."""
        _, beats, runner = engine.on_leaving.args  # type: ignore[attr-defined]

        async def silent(_sealed: bool) -> None:
            await beats.close()
            runner.close()

        engine.on_leaving = silent
        await engine.close()

    def away(self) -> None:
        def fail(verb: str, key: str) -> None:
            raise lost()

        self.objects.before = fail

    def back(self) -> None:
        self.objects.before = lambda verb, key: None

    async def end(self) -> None:
        for engine in self._open:
            await engine.close()

    @property
    def found(self) -> tenure.Tenure:
        found = tenure.read(self.objects, paths.SINGLE_NODE)
        assert found is not None
        return found.tenure


def beats_of(engine: Engine) -> Any:
    return engine.on_leaving.args[1]  # type: ignore[attr-defined]


@asynccontextmanager
async def world(folder: Path, objects: ObjectStore | None = None) -> AsyncIterator[World]:
    made = World(folder, objects)
    try:
        yield made
    finally:
        await made.end()


async def filled(engine: Engine, *values: bytes) -> None:
    await engine.store.create_queue("orders")
    for value in values:
        await push(engine.store, "orders", value)


async def values_of(engine: Engine) -> list[bytes | str]:
    return [seen.value for seen in await everything(engine.store, "orders")]
