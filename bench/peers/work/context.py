"""What every kind of work gets: the system, a client, how much to do, and where figures go."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from bench.peers.scale import Scale
from bench.peers.system import Client, NotOffered, System
from bench.peers.values import first, pool

TRIAL = 100


@dataclass(slots=True)
class Context:
    """One worker process has one."""

    system: System
    scale: Scale
    report: Callable[[str, float], None]
    absent: Callable[[str, str], None]
    client: Client | None = None
    _queues: int = 0
    _fill_rate: float = 0.0
    _pools: dict[int, list[bytes]] = field(default_factory=dict)

    @property
    def connected(self) -> Client:
        if self.client is None:
            raise RuntimeError("the work did not connect first")
        return self.client

    async def start(self, relaxed: bool = False) -> None:
        await self.system.start(relaxed)
        self.client = await self.system.connect()

    async def stop(self) -> None:
        client, self.client = self.client, None
        if client is not None:
            await client.close()
        await self.system.stop()

    async def queue(self) -> str:
        """A new queue, which nothing has been pushed to."""
        self._queues += 1
        name = f"q{self._queues}"
        await self.connected.create(name)
        return name

    def values(self, size: int) -> list[bytes]:
        if size not in self._pools:
            self._pools[size] = pool(size, self.scale.pool_bytes)
        return self._pools[size]

    async def affordable(self, most: int) -> int:
        """As many elements, at most `most`, as can be pushed in about a round: some fsync for each of them."""
        if not self._fill_rate:
            queue = await self.queue()
            began = time.perf_counter()
            await self.connected.fill(queue, first(self.values(100), TRIAL))
            self._fill_rate = TRIAL / (time.perf_counter() - began)
        return max(TRIAL, min(most, int(self._fill_rate * self.scale.seconds)))

    async def attempt(self, keys: tuple[str, ...], work: Callable[[], Awaitable[None]]) -> None:
        """Do it, or note why the system cannot."""
        try:
            await work()
        except NotOffered as reason:
            for key in keys:
                self.absent(key, str(reason))
