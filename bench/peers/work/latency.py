"""From the call of a push to the element in a subscriber's hands, at a rate that all systems can do."""

from __future__ import annotations

import asyncio
import statistics
import struct
import time
from collections.abc import AsyncGenerator, Sequence

from bench.peers.work.consume import closed
from bench.peers.work.context import Context

STAMP = struct.Struct(">d")
REPEATS = 3


async def latency(context: Context) -> None:
    for _ in range(min(REPEATS, context.scale.rounds)):
        found = sorted(await measure(context))
        context.report("latency.p50", statistics.median(found) * 1e3)
        context.report("latency.p99", found[min(len(found) - 1, len(found) * 99 // 100)] * 1e3)


async def measure(context: Context) -> list[float]:
    """Seconds from when a push was due to its element at the subscriber."""
    client = context.connected
    queue = await context.queue()
    count = int(context.scale.rate * context.scale.latency_seconds)
    source = await client.read(queue, "end")
    following = asyncio.Event()
    reader = asyncio.ensure_future(_receive(source, count + 1, following))
    await client.push(queue, _stamped())  # the first one opens connections, and does not count
    await following.wait()
    pushes = []
    began = time.perf_counter()
    for n in range(count):
        # Late is late: a push that had to wait for the loop is stamped when it should have been made.
        due = began + n / context.scale.rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        pushes.append(asyncio.ensure_future(client.push(queue, _stamped(due))))
    await asyncio.gather(*pushes)
    return (await reader)[1:]


def _stamped(due: float | None = None) -> bytes:
    return STAMP.pack(time.perf_counter() if due is None else due) + bytes(92)


async def _receive(
    source: AsyncGenerator[Sequence[bytes]], count: int, following: asyncio.Event
) -> list[float]:
    found: list[float] = []
    async for values in source:
        now = time.perf_counter()
        following.set()
        found += [now - STAMP.unpack_from(value)[0] for value in values]
        if len(found) >= count:
            break
    await closed(source)
    return found
