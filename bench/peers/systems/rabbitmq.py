"""RabbitMQ Streams: the stream plugin, through rstream. Streams are never fsynced: see `durability`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.peers.server import Server, command, free_port
from bench.peers.system import Client, Inbox, Start, System

DEBIAN = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")  # the one on the path changes to another user


class RabbitMq(System):
    name = "rabbitmq"
    title = "RabbitMQ Streams"
    client = "rstream"
    durability = "none: a stream is acknowledged when written, and the kernel writes it to disk when it likes"
    weaker = True
    no_native = "its generator, stream-perf-test, is not in the Debian package"

    @classmethod
    def missing(cls) -> str:
        if not _program() or command("epmd") is None:
            return "no rabbitmq-server: apt-get install rabbitmq-server"
        return "" if find_spec("rstream") else "no Python package rstream: run it with `make bench`"

    async def start(self, relaxed: bool = False) -> None:
        self._port, self.amqp_port, epmd = free_port(), free_port(), free_port()
        self.root.mkdir(parents=True, exist_ok=True)
        config = self.root / "rabbitmq.conf"
        config.write_text(
            f"listeners.tcp.1 = 127.0.0.1:{self.amqp_port}\n"
            f"stream.listeners.tcp.1 = 127.0.0.1:{self._port}\n"
            f"stream.advertised_host = 127.0.0.1\nstream.advertised_port = {self._port}\n"
        )
        plugins = self.root / "plugins"
        plugins.write_text("[rabbitmq_stream].\n")
        settings = {
            "HOME": str(self.root),
            "ERL_EPMD_PORT": str(epmd),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": "bench@localhost",
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_CONFIG_FILE": str(config),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins),
            "RABBITMQ_MNESIA_BASE": str(self.root / "data"),
            "RABBITMQ_LOG_BASE": str(self.root / "logs"),
            "RABBITMQ_PID_FILE": str(self.root / "pid"),
        }
        # Its name service stays a daemon if it starts it itself: ours ends with us.
        self._epmd = Server([command("epmd") or "", "-port", str(epmd)], self.root / "epmd.log", settings)
        await asyncio.to_thread(self._epmd.wait_for_port, epmd)
        self.server = Server([_program()], self.root / "log", settings)
        await asyncio.to_thread(self.server.wait_for_port, self._port)

    async def stop(self) -> None:
        await super().stop()
        await asyncio.to_thread(self._epmd.stop)

    def pid(self) -> int | None:
        """The shell script that was started waits for the one that does the work."""
        import psutil

        if self.server is None:
            return None
        found = [p.pid for p in psutil.Process(self.server.pid).children(True) if p.name().startswith("beam")]
        return found[0] if found else self.server.pid

    def not_yet(self) -> tuple[type[Exception], ...]:
        from rstream.exceptions import StreamNotAvailable

        return (StreamNotAvailable,)

    async def connect(self) -> Client:
        from rstream import Producer

        where = {"host": "127.0.0.1", "port": self._port, "username": "guest", "password": "guest"}
        producer = Producer(**where)
        await producer.start()
        return _RabbitClient(where, producer)


def _program() -> str:
    return str(DEBIAN) if DEBIAN.exists() else command("rabbitmq-server") or ""


class _RabbitClient(Client):
    def __init__(self, where: dict[str, Any], producer: Any) -> None:
        self._where = where
        self._producer = producer

    async def create(self, queue: str) -> None:
        await self._producer.create_stream(queue)

    async def push(self, queue: str, value: bytes) -> None:
        await self._producer.send_wait(queue, value, timeout=60)

    async def push_list(self, queue: str, values: list[bytes]) -> None:
        confirmed = _Confirmed()
        confirmed.expected = len(values)
        await self._producer.send_batch(queue, values, on_publish_confirm=confirmed)
        await confirmed.all.wait()

    async def push_each(self, queue: str, values: Iterable[bytes]) -> None:
        confirmed = _Confirmed()
        count = 0
        for value in values:
            await self._producer.send(queue, value, on_publish_confirm=confirmed)
            count += 1
        confirmed.expect(count)
        await confirmed.all.wait()

    async def read(self, queue: str, start: Start) -> AsyncGenerator[Sequence[bytes]]:
        from rstream import Consumer, ConsumerOffsetSpecification, OffsetType

        inbox = Inbox()
        consumer = Consumer(**self._where)
        await consumer.start()

        async def came(message: bytes, _: Any) -> None:
            inbox.add(message)

        place = OffsetType.FIRST if start == "beginning" else OffsetType.NEXT
        await consumer.subscribe(queue, came, offset_specification=ConsumerOffsetSpecification(place, None))
        return inbox.batches(consumer.close)

    async def close(self) -> None:
        await self._producer.close()


class _Confirmed:
    """Counts confirmations; the client calls it once for each element."""

    def __init__(self) -> None:
        self.all = asyncio.Event()
        self.expected = 0
        self._count = 0

    def __call__(self, status: Any) -> None:
        if not status.is_confirmed:
            raise ConnectionError(f"RabbitMQ refused element {status.message_id}")
        self._count += 1
        if self._count == self.expected:
            self.all.set()

    def expect(self, count: int) -> None:
        self.expected = count
        if self._count == count:
            self.all.set()
