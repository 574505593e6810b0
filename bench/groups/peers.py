"""Work queues to compare with: one task is taken, and acknowledged, through the usual Python client of each.

All servers sync before they answer, where they have a setting for it. Who answers an acknowledgement is waited for;
AMQP has no answer to one.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import jjq
from bench.peers.system import LIST, System, chunks
from bench.peers.systems.beanstalkd import Beanstalkd, BeanstalkdConnection, put_line
from bench.peers.systems.jjqserver import JjqServer
from bench.peers.systems.nats import Nats
from bench.peers.systems.rabbitmq import RabbitMq
from bench.peers.systems.redis import FIELD, Redis

QUEUE = "work"
GROUP = "workers"


class WorkPeer(ABC):
    """A system with a queue of tasks. `step` takes one task for a worker and acknowledges it."""

    title: ClassVar[str]
    kind: ClassVar[type[System]]
    must_beat: ClassVar[bool] = False

    def __init__(self, root: Path) -> None:
        self._root = root

    @classmethod
    def missing(cls) -> str:
        return cls.kind.missing()

    @abstractmethod
    async def start(self) -> System:
        """Start the server."""

    @abstractmethod
    async def fill(self, values: list[bytes], workers: int) -> None:
        """Push all tasks, and connect the workers."""

    @abstractmethod
    async def step(self, worker: int) -> None:
        """Take one task and acknowledge it."""

    @abstractmethod
    async def close(self) -> None:
        """Disconnect."""


class JjqGroup(WorkPeer):
    title = "jjq"
    kind = JjqServer

    async def start(self) -> System:
        self._server = JjqServer(self._root)
        await self._server.start()
        return self._server

    async def fill(self, values: list[bytes], workers: int) -> None:
        self._client = await jjq.aio.connect(self._server.address)
        await self._client.create_queue(QUEUE)
        self._group = (await self._client.create_group(QUEUE, GROUP)).id
        await self._client.push(QUEUE, values)

    async def step(self, worker: int) -> None:
        tasks = await self._client.take(self._group, 1, 60.0)
        await self._client.ack(self._group, tasks)

    async def close(self) -> None:
        await self._client.close()


class RedisGroup(WorkPeer):
    title = "Redis Streams consumer group, appendfsync always"
    kind = Redis
    must_beat = True

    async def start(self) -> System:
        self._server = Redis(self._root)
        await self._server.start()
        return self._server

    async def fill(self, values: list[bytes], workers: int) -> None:
        import redis.asyncio

        self._redis = redis.asyncio.Redis(port=self._server.port, max_connections=workers + 1)
        await self._redis.xgroup_create(QUEUE, GROUP, id="0", mkstream=True)
        for chunk in chunks(values, LIST):
            pipeline = self._redis.pipeline(transaction=False)
            for value in chunk:
                pipeline.xadd(QUEUE, {FIELD: value})
            await pipeline.execute()

    async def step(self, worker: int) -> None:
        streams: dict[Any, Any] = {QUEUE: ">"}
        found: Any = await self._redis.xreadgroup(GROUP, f"w{worker}", streams, count=1, block=60_000)
        [(_, [(entry, _)])] = found
        await self._redis.xack(QUEUE, GROUP, entry)

    async def close(self) -> None:
        await self._redis.aclose()


class BeanstalkdTube(WorkPeer):
    title = "beanstalkd, fsync at each write"
    kind = Beanstalkd
    must_beat = True

    async def start(self) -> System:
        self._server = Beanstalkd(self._root)
        await self._server.start()
        return self._server

    async def fill(self, values: list[bytes], workers: int) -> None:
        port = self._server.port
        self._connections = [
            BeanstalkdConnection(*await asyncio.open_connection("127.0.0.1", port)) for _ in range(workers)
        ]
        first = self._connections[0]
        for chunk in chunks(values, LIST):
            first.writer.write(b"".join(map(put_line, chunk)))
            for _ in chunk:
                await first.expect(b"INSERTED")

    async def step(self, worker: int) -> None:
        connection = self._connections[worker]
        connection.writer.write(b"reserve\r\n")
        _, job, size = await connection.expect(b"RESERVED")
        await connection.reader.readexactly(int(size) + 2)
        connection.writer.write(b"delete %b\r\n" % job)
        await connection.expect(b"DELETED")

    async def close(self) -> None:
        for connection in self._connections:
            connection.writer.close()


class NatsConsumer(WorkPeer):
    title = "NATS JetStream pull consumer, sync_interval always"
    kind = Nats

    async def start(self) -> System:
        self._server = Nats(self._root)
        await self._server.start()
        return self._server

    async def fill(self, values: list[bytes], workers: int) -> None:
        import nats

        self._connection = await nats.connect(f"nats://127.0.0.1:{self._server.port}")
        stream = self._connection.jetstream(timeout=60, publish_async_max_pending=LIST)
        await stream.add_stream(name=QUEUE, subjects=[QUEUE], storage="file", retention="workqueue")
        for chunk in chunks(values, LIST):
            await asyncio.gather(*[await stream.publish_async(QUEUE, value) for value in chunk])
        self._pulls = [await stream.pull_subscribe(QUEUE, GROUP) for _ in range(workers)]

    async def step(self, worker: int) -> None:
        [message] = await self._pulls[worker].fetch(1, timeout=60)
        await message.ack_sync(timeout=60)

    async def close(self) -> None:
        await self._connection.close()


class RabbitQuorum(WorkPeer):
    """A channel for each worker, with one message unacknowledged at a time."""

    title = "RabbitMQ quorum queue (its acks have no answer)"
    kind = RabbitMq

    @classmethod
    def missing(cls) -> str:
        return RabbitMq.missing() or (
            "" if find_spec("aio_pika") else "no Python package aio-pika: run it with `make bench`"
        )

    async def start(self) -> System:
        self._server = RabbitMq(self._root)
        await self._server.start()
        return self._server

    async def fill(self, values: list[bytes], workers: int) -> None:
        import aio_pika

        self._connection = await aio_pika.connect(f"amqp://guest:guest@127.0.0.1:{self._server.amqp_port}/")
        channel = await self._connection.channel()
        kind: Any = {"x-queue-type": "quorum"}
        await channel.declare_queue(QUEUE, durable=True, arguments=kind)
        push = channel.default_exchange.publish
        for chunk in chunks(values, LIST):
            await asyncio.gather(*(push(aio_pika.Message(value), QUEUE) for value in chunk))
        self._came: list[asyncio.Queue[Any]] = [asyncio.Queue() for _ in range(workers)]
        for came in self._came:
            own = await self._connection.channel()
            await own.set_qos(1)
            queue = await own.declare_queue(QUEUE, durable=True, arguments=kind)
            await queue.consume(came.put)

    async def step(self, worker: int) -> None:
        message = await self._came[worker].get()
        await message.ack()

    async def close(self) -> None:
        await self._connection.close()


PEERS: tuple[type[WorkPeer], ...] = (JjqGroup, BeanstalkdTube, RedisGroup, NatsConsumer, RabbitQuorum)
