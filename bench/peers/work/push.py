"""Durable pushes: by lists, one by one through the client's batching, 64 in flight, 1 in flight."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

from bench.peers.scale import SIZES
from bench.peers.system import LIST, chunks
from bench.peers.values import Timed
from bench.peers.work.context import Context

IN_FLIGHT = 64

Push = Callable[[str, Iterator[bytes]], Awaitable[None]]


async def pushes(context: Context) -> None:
    client = context.connected

    async def lists(queue: str, values: Iterator[bytes]) -> None:
        for chunk in chunks(values):
            await client.push_list(queue, chunk)

    async def each(queue: str, values: Iterator[bytes]) -> None:
        await client.push_each(queue, values)

    async def one(queue: str, values: Iterator[bytes]) -> None:
        for value in values:
            await client.push(queue, value)

    async def many(queue: str, values: Iterator[bytes]) -> None:
        await asyncio.gather(*(one(queue, values) for _ in range(IN_FLIGHT)))

    for size in SIZES:
        for name, push, step in (("each", each, 100), ("list", lists, LIST), ("64", many, 1), ("1", one, 1)):
            key = f"push.{name}.{size}"
            await context.attempt((key,), partial(_rounds, context, key, size, push, step))


async def _rounds(context: Context, key: str, size: int, push: Push, step: int) -> None:
    """The clock runs until the last push of the round is acknowledged."""
    queue = await context.queue()
    values = context.values(size)
    await push(queue, iter(values[:IN_FLIGHT]))  # connections, threads and caches
    for _ in range(context.scale.rounds):
        source = Timed(values, context.scale.seconds, step)
        began = time.perf_counter()
        await push(queue, iter(source))
        context.report(key, source.count / (time.perf_counter() - began))


async def native(context: Context) -> None:
    async def measure() -> None:
        for _ in range(max(1, context.scale.rounds // 2)):
            context.report("native", await context.system.native(100, context.scale.seconds))

    await context.attempt(("native",), measure)
