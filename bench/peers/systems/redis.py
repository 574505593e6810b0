"""Redis Streams: XADD and XREAD through redis-py."""

from __future__ import annotations

import asyncio
import re
import subprocess
from collections.abc import AsyncGenerator, Sequence
from importlib.util import find_spec
from typing import Any

from bench.peers.server import Server, command, free_port
from bench.peers.system import LIST, Client, NotOffered, Start, System

FIELD = b"v"


class Redis(System):
    name = "redis"
    title = "Redis Streams"
    client = "redis.asyncio with hiredis"
    durability = "appendonly yes, appendfsync always"
    fills_relaxed = True
    native_name = "redis-benchmark -c 64"

    @classmethod
    def missing(cls) -> str:
        if command("redis-server") is None:
            return "no redis-server: apt-get install redis-server"
        return "" if find_spec("redis") else "no Python package redis: run it with `make bench`"

    async def start(self, relaxed: bool = False) -> None:
        self.port = free_port()
        data = self.root / "data"
        data.mkdir(parents=True, exist_ok=True)
        sync = "no" if relaxed else "always"
        options = ["--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(data), "--save", ""]
        options += ["--appendonly", "yes", "--appendfsync", sync]
        self.server = Server([command("redis-server") or "", *options], self.root / "log")
        await asyncio.to_thread(self.server.wait_for_port, self.port)
        await self._loaded()

    async def _loaded(self) -> None:
        """It listens before it has read its log."""
        from redis.exceptions import BusyLoadingError

        connection = self._open()
        while True:
            try:
                await connection.ping()
            except BusyLoadingError:
                await asyncio.sleep(0.005)
            else:
                break
        await connection.aclose()

    def _open(self) -> Any:
        import redis.asyncio

        pool = redis.asyncio.BlockingConnectionPool(
            host="127.0.0.1", port=self.port, max_connections=256, timeout=None
        )
        return redis.asyncio.Redis.from_pool(pool)

    async def connect(self) -> Client:
        return _RedisClient(self._open())

    async def native(self, size: int, seconds: float) -> float:
        program = command("redis-benchmark")
        if program is None:
            raise NotOffered("no redis-benchmark: apt-get install redis-tools")
        count = int(20_000 * seconds)
        options = ["-p", str(self.port), "-c", "64", "-n", str(count), "-q"]
        said = await asyncio.to_thread(
            subprocess.run,
            [program, *options, "XADD", "native", "*", "v", "x" * size],
            check=True,
            capture_output=True,
            text=True,
        )
        rates: list[str] = re.findall(r"([\d.]+) requests per second", said.stdout)
        return float(rates[-1])


class _RedisClient(Client):
    def __init__(self, redis: Any) -> None:
        self._redis = redis

    async def create(self, queue: str) -> None:
        return  # the first XADD makes it

    async def push(self, queue: str, value: bytes) -> None:
        await self._redis.xadd(queue, {FIELD: value})

    async def push_list(self, queue: str, values: list[bytes]) -> None:
        pipeline = self._redis.pipeline(transaction=False)
        for value in values:
            pipeline.xadd(queue, {FIELD: value})
        await pipeline.execute()

    async def read(self, queue: str, start: Start) -> AsyncGenerator[Sequence[bytes]]:
        last = b"0"
        if start == "end" and await self._redis.exists(queue):
            last = (await self._redis.xinfo_stream(queue))["last-generated-id"]
        return self._follow(queue, last)

    async def _follow(self, queue: str, last: bytes) -> AsyncGenerator[Sequence[bytes]]:
        while True:
            found = await self._redis.xread({queue: last}, count=LIST, block=1_000)
            if found:
                entries = found[0][1] if isinstance(found, list) else found[queue.encode()][0]
                last = entries[-1][0]
                yield [fields[FIELD] for _, fields in entries]

    async def close(self) -> None:
        await self._redis.aclose()
        await self._redis.connection_pool.disconnect()
