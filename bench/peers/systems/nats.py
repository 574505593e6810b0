"""NATS JetStream: file storage, through nats-py."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from importlib.util import find_spec
from typing import Any

from bench.peers.server import Server, command, free_port
from bench.peers.system import LIST, Client, Inbox, Start, System, chunks


class Nats(System):
    name = "nats"
    title = "NATS JetStream"
    client = "nats-py"
    durability = "file storage, sync_interval: always"
    fills_relaxed = True
    no_native = "its generator, `nats bench`, is not in the package of the server"

    @classmethod
    def missing(cls) -> str:
        if command("nats-server") is None or not find_spec("nats"):
            return "no nats-server or nats-py, both from PyPI: run it with `make bench`"
        return ""

    async def start(self, relaxed: bool = False) -> None:
        self.port = free_port()
        self.root.mkdir(parents=True, exist_ok=True)
        config = self.root / "nats.conf"
        sync = "2m" if relaxed else "always"
        config.write_text(
            f'listen: "127.0.0.1:{self.port}"\n'
            f'jetstream {{ store_dir: "{self.root / "data"}", sync_interval: {sync}, max_file_store: 100GB }}\n'
        )
        self.server = Server([command("nats-server") or "", "-c", str(config)], self.root / "log")
        await asyncio.to_thread(self.server.wait_for_port, self.port)

    async def connect(self) -> Client:
        import nats

        return _NatsClient(await nats.connect(f"nats://127.0.0.1:{self.port}"))


class _NatsClient(Client):
    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._stream = connection.jetstream(timeout=60, publish_async_max_pending=LIST)

    async def create(self, queue: str) -> None:
        await self._stream.add_stream(name=queue, subjects=[queue], storage="file")

    async def push(self, queue: str, value: bytes) -> None:
        await self._stream.publish(queue, value)

    async def push_list(self, queue: str, values: list[bytes]) -> None:
        await asyncio.gather(*[await self._stream.publish_async(queue, value) for value in values])

    async def push_each(self, queue: str, values: Iterable[bytes]) -> None:
        for value in values:
            await self._stream.publish_async(queue, value)
        await self._stream.publish_async_completed()

    async def fill(self, queue: str, values: Iterable[bytes]) -> None:
        """Only the last of a list asks for an acknowledgement: the server takes them in order."""
        for chunk in chunks(values):
            for value in chunk[:-1]:
                await self._connection.publish(queue, value)
            await self._stream.publish(queue, chunk[-1])

    async def read(self, queue: str, start: Start) -> AsyncGenerator[Sequence[bytes]]:
        inbox = Inbox()

        async def came(message: Any) -> None:
            inbox.add(message.data)

        policy = "all" if start == "beginning" else "new"
        options = {"ordered_consumer": True, "deliver_policy": policy}
        subscription = await self._stream.subscribe(queue, cb=came, **options)
        return inbox.batches(subscription.unsubscribe)

    async def close(self) -> None:
        await self._connection.close()
