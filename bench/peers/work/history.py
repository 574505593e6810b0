"""A long history: writing it, what a push costs on top of it, starting with it, and reading it all."""

from __future__ import annotations

import asyncio
import statistics
import time
from functools import partial
from pathlib import Path

from bench.peers.scale import Scale
from bench.peers.server import stored
from bench.peers.system import NotOffered
from bench.peers.values import first
from bench.peers.work.consume import closed
from bench.peers.work.context import Context

QUEUE = "history"
SIZE = 100
REPLAY_SECONDS = 20.0  # a slower replay is cut there, and its rate counts


async def empty(context: Context) -> None:
    """Start on nothing; memory before any work. It stays on."""
    began = time.perf_counter()
    await context.start()
    await context.connected.create(QUEUE)
    await _first_push(context)
    context.report("start", time.perf_counter() - began)
    context.report("memory.idle", context.system.memory() / 1e6)


async def written(context: Context) -> None:
    """Fill it in steps, and time single pushes after each."""
    system = context.system
    done = 0
    context.values(
        SIZE
    )  # before the start: where the store is in this process they must not count as its memory
    await context.start(relaxed=system.fills_relaxed)
    await context.connected.create(QUEUE)
    for count in context.scale.growth:
        if system.fills_relaxed and done:
            await context.stop()
            await context.start(relaxed=True)
        await context.connected.fill(QUEUE, first(context.values(SIZE), count - done))
        done = count
        if system.fills_relaxed:
            await context.stop()
            await context.start()
        await _first_push(context)
        context.report(f"growth.{count}", statistics.median(await _pushes(context)) * 1e3)
    context.report("memory.written", system.memory() / 1e6)
    await context.stop()
    context.report("stored", stored(Path(system.root / "data")) / done)


async def _pushes(context: Context) -> list[float]:
    times = []
    for value in first(context.values(SIZE), context.scale.growth_pushes):
        began = time.perf_counter()
        await context.connected.push(QUEUE, value)
        times.append(time.perf_counter() - began)
    return times


async def _first_push(context: Context) -> None:
    while True:
        try:
            await context.connected.push(QUEUE, bytes(SIZE))
        except context.system.not_yet():
            await asyncio.sleep(0.01)
        else:
            return


async def restarted(context: Context) -> None:
    """Start on that history, as after a planned stop, and read all of it."""
    for last in range(context.scale.restarts - 1, -1, -1):
        began = time.perf_counter()
        await context.start()
        await _first_push(context)
        context.report("restart", time.perf_counter() - began)
        context.report("memory.restarted", context.system.memory() / 1e6)
        if last:
            await context.stop()
    await context.attempt(("replay",), partial(_replays, context))
    await context.attempt(("replay.arrow",), partial(_replays_arrow, context))
    await context.stop()


def _repeats(scale: Scale) -> range:
    return range(min(3, scale.rounds))


async def _replays(context: Context) -> None:
    if not context.system.many_subscribers:
        raise NotOffered("an element is gone once it was consumed")
    for _ in _repeats(context.scale):
        source = await context.connected.read(QUEUE, "beginning")
        began, seen = time.perf_counter(), 0
        async for values in source:
            seen += len(values)
            if seen >= context.scale.growth[-1] or time.perf_counter() - began > REPLAY_SECONDS:
                break
        context.report("replay", seen * SIZE / (time.perf_counter() - began) / 1e6)
        await closed(source)


async def _replays_arrow(context: Context) -> None:
    for _ in _repeats(context.scale):
        began, seen = time.perf_counter(), 0
        async for rows in context.connected.replay_arrow(QUEUE):
            seen += rows
        context.report("replay.arrow", seen * SIZE / (time.perf_counter() - began) / 1e6)
