"""A store in this process whose blocks a test seals when it likes, with a server over it for Spark."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coldstore.shared.batch import payload
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.shared.limits import BLOCK_BYTES_MIN, MIB
from hotstore.settings import HotSettings
from hotstore.store import HotStore
from jjq.node.node import NodeSettings, open_node
from tests.jjq.serving import served


@dataclass
class Sealed:
    """Queue `orders`, whose element n says n."""

    store: HotStore
    address: str
    root: str
    pushed: int = 0

    async def push(self, count: int) -> None:
        values = [b"value %d" % n for n in range(self.pushed, self.pushed + count)]
        await self.store.push("orders", payload("bytes", values))
        self.pushed += count

    async def seal(self) -> int:
        """The hot-hot block becomes a cold one; the offset up to which everything is cold."""
        return (await self.store.seal("orders")).cold_offset

    def options(self, **more: Any) -> dict[str, str]:
        """What to tell `format("jjq")`, cold blocks and tail."""
        return {"root": self.root, "server": self.address, "queue": "orders"} | more


@asynccontextmanager
async def sealed(folder: Path) -> AsyncIterator[Sealed]:
    hot = HotSettings(segment_bytes=32 * MIB, journal_bytes_max=256 * MIB)
    engine = await open_node(NodeSettings(folder, hot=hot), SystemClock(), SystemChance())
    try:
        await engine.store.create_queue("orders", block_bytes=BLOCK_BYTES_MIN)
        async with served(engine.store) as serving:
            yield Sealed(engine.store, serving.server.address, str(folder / "cold"))
    finally:
        await engine.close()
