"""Single pushes of jjq and of its peers by turns, in one run.

The disk and the processor of a machine are twice as quick in one minute as in the next, so systems that are measured
one after the other are not compared. Here all of them run, and each has its turn in every round; so has the disk
alone, which shows how late the machine itself is.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from bench.hotstore import Machine
from bench.peers import scale
from bench.peers.system import System
from bench.peers.systems.registry import SYSTEMS
from bench.peers.values import Timed
from bench.peers.work.context import Context
from bench.peers.work.latency import measure
from bench.row import Row, at_least, at_most

ROUNDS = 20
TURN_SECONDS = 0.4  # of pushes, one or many in flight
SUBSCRIBED_SECONDS = 1.0
RATE = 500  # pushes a second to a subscriber
IN_FLIGHT = 64
NAMES = ("jjq", "redis", "nats", "rabbitmq")
_SCALE = scale.Scale(1, TURN_SECONDS, 4_000_000, 0, RATE, SUBSCRIBED_SECONDS, (), 0, 0)


@dataclass
class Turns:
    """What one system has shown so far."""

    single: list[float] = field(default_factory=list)  # pushes a second, one in flight
    many: list[float] = field(default_factory=list)  # … and many
    late: list[float] = field(default_factory=list)  # seconds, from when a push was due to the subscriber


async def by_turns(folder: Path, rounds: int, names: tuple[str, ...] = NAMES) -> list[Row]:
    """Figures of all systems that are installed here; the first is compared with the others."""
    found: dict[str, Turns] = {}
    async with AsyncExitStack() as stack:
        contexts: dict[str, Context] = {}
        for name in names:
            if not SYSTEMS[name].missing():
                context = contexts[name] = await _started(SYSTEMS[name](folder / name))
                stack.push_async_callback(context.stop)
                found[name] = Turns()
        machine = Machine(folder / "disk", 100)
        stack.callback(machine.close)
        queues = {name: await context.queue() for name, context in contexts.items()}
        disk: list[float] = []
        for turn in range(rounds + 1):
            for name, context in contexts.items():
                turns = found[name] if turn else Turns()  # the first round is for getting acquainted
                turns.single.append(await _rate(context, queues[name], 1))
                turns.many.append(await _rate(context, queues[name], IN_FLIGHT))
                turns.late += await measure(context)
            disk += await asyncio.to_thread(_disk_alone, machine)
    return _rows(found, disk)


async def _started(system: System) -> Context:
    system.prepare()
    context = Context(system, _SCALE, lambda *_: None, lambda *_: None)
    await context.start()
    return context


async def _rate(context: Context, queue: str, in_flight: int) -> float:
    client, source = context.connected, Timed(context.values(100), TURN_SECONDS, 1)
    values = iter(source)

    async def push(values: Iterator[bytes]) -> None:
        for value in values:
            await client.push(queue, value)

    began = time.perf_counter()
    await asyncio.gather(*(push(values) for _ in range(in_flight)))
    return source.count / (time.perf_counter() - began)


def _disk_alone(machine: Machine) -> list[float]:
    """As pushes at that rate, with nothing between but a thread and the disk: no system is better."""
    late = []
    began = time.perf_counter()
    for n in range(RATE // 4):
        due = began + n / RATE
        time.sleep(max(0.0, due - time.perf_counter()))
        machine.write()
        late.append(time.perf_counter() - due)
    return late


def _rows(found: dict[str, Turns], disk: list[float]) -> list[Row]:
    """The first system, and how the others compare with it."""
    mine, *others = found
    single = {name: statistics.median(turns.single) for name, turns in found.items()}
    many = {name: statistics.median(turns.many) for name, turns in found.items()}
    middle = {name: statistics.median(turns.late) for name, turns in found.items()}
    most = {name: _p99(turns.late) for name, turns in found.items()}
    rows = [Row(f"push 100 B, 1 in flight, {mine}", single[mine], "/s")]
    for name in others:
        wanted = 1.0 if name == "rabbitmq" else 1.2
        rows.append(at_least(f"… / {name} ({single[name]:,.0f}/s)", single[mine] / single[name], "×", wanted))
    rows.append(Row(f"push 100 B, {IN_FLIGHT} in flight, {mine}", many[mine], "/s"))
    rows += [Row(f"… / {name} ({many[name]:,.0f}/s)", many[mine] / many[name], "×") for name in others]
    rows.append(Row(f"push to subscriber at {RATE}/s, {mine}, p50", 1e3 * middle[mine], "ms"))
    rows.append(Row("… p99", 1e3 * most[mine], "ms"))
    for name in others:
        text = f"{1e3 * middle[name]:.2f} and {1e3 * most[name]:.2f} ms"
        if name == "redis":
            rows.append(at_most(f"… / {name}, p50 ({text})", middle[mine] / middle[name], "×", 1.2))
            rows.append(at_most(f"… / {name}, p99", most[mine] / most[name], "×", 2.0))
        else:
            rows.append(Row(f"… / {name}, p50 ({text})", middle[mine] / middle[name], "×"))
    rows.append(Row(f"write 100 B + fdatasync at {RATE}/s, p50", 1e3 * statistics.median(disk), "ms"))
    rows.append(Row("… p99", 1e3 * _p99(disk), "ms"))
    return rows


def _p99(found: list[float]) -> float:
    return sorted(found)[len(found) * 99 // 100]
