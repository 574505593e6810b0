"""Subscribers: one that drains what was just pushed, and many that follow at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from functools import partial

from bench.peers.scale import SUBSCRIBERS
from bench.peers.system import NotOffered
from bench.peers.values import first
from bench.peers.work.context import Context


async def taken(
    source: AsyncGenerator[Sequence[bytes]], count: int, following: asyncio.Event | None = None
) -> None:
    """Until so many came; tells when the first did."""
    seen = 0
    async for values in source:
        seen += len(values)
        if following is not None:
            following.set()
        if seen >= count:
            break


async def closed(*sources: AsyncGenerator[Sequence[bytes]]) -> None:
    """End subscriptions, when their time has been taken."""
    await asyncio.gather(*(source.aclose() for source in sources))


async def tail(context: Context) -> None:
    client = context.connected
    count = await context.affordable(context.scale.fan_elements)
    for _ in range(context.scale.rounds):
        queue = await context.queue()
        await client.fill(queue, first(context.values(100), count))
        source = await client.read(queue, "beginning")
        began = time.perf_counter()
        await taken(source, count)
        context.report("tail", count / (time.perf_counter() - began))
        await closed(source)


async def fan_out(context: Context) -> None:
    for subscribers in SUBSCRIBERS:
        key = f"fan.{subscribers}"
        await context.attempt((key,), partial(_fan, context, key, subscribers))


async def _fan(context: Context, key: str, subscribers: int) -> None:
    """From the first push, when all follow, until the last subscriber has the last element."""
    if subscribers > 1 and not context.system.many_subscribers:
        raise NotOffered("an element goes to one consumer only")
    client = context.connected
    # The more subscribers, the more each element costs: the whole takes about as long.
    count = await context.affordable(int(context.scale.fan_elements / subscribers**0.75))
    values = list(first(context.values(100), count))
    for _ in range(context.scale.rounds):
        queue = await context.queue()
        sources = [await client.read(queue, "end") for _ in range(subscribers)]
        following = [asyncio.Event() for _ in sources]
        readers = asyncio.gather(
            *(taken(source, count + 1, event) for source, event in zip(sources, following, strict=True))
        )
        await client.push(queue, values[0])
        await asyncio.gather(*(event.wait() for event in following))
        began = time.perf_counter()
        await client.fill(queue, values)
        await readers
        context.report(key, subscribers * count / (time.perf_counter() - began))
        await closed(*sources)
