"""jjq's own client, the same for a server and for a store in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence

import jjq
from bench.peers.system import Client, Start
from coldstore.shared.errors import Exhausted


class JjqClient(Client):
    """Positions of subscribers are stored, as they always are with jjq; peers keep them in the client."""

    def __init__(self, client: jjq.aio.Client) -> None:
        self._client = client
        self._subscribers = 0

    async def create(self, queue: str) -> None:
        await self._client.create_queue(queue)

    async def push(self, queue: str, value: bytes) -> None:
        await self.push_list(queue, [value])

    async def push_list(self, queue: str, values: list[bytes]) -> None:
        while True:
            try:
                await self._client.push(queue, values)
            except Exhausted as error:  # the cold store is behind: what it asks us to wait counts
                await asyncio.sleep(error.retry_after)
            else:
                return

    async def push_each(self, queue: str, values: Iterable[bytes]) -> None:
        async with self._client.producer(queue) as producer:
            for value in values:
                await producer.push(value)

    async def read(self, queue: str, start: Start) -> AsyncGenerator[Sequence[bytes]]:
        self._subscribers += 1
        subscriber = await self._client.create_subscriber(queue, f"s{self._subscribers}", start)
        return self._follow(subscriber.id)

    async def _follow(self, subscriber: str) -> AsyncGenerator[Sequence[bytes]]:
        subscription = self._client.subscribe(subscriber)
        try:
            async for batch in subscription.batches():
                yield batch.column("value").to_pylist()
        finally:
            await subscription.close()

    async def replay_arrow(self, queue: str) -> AsyncIterator[int]:
        async for batch in self._client.replay(queue):
            yield batch.num_rows

    async def close(self) -> None:
        await self._client.close()
