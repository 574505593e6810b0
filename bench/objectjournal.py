"""The journal on object storage, over a real S3 server on this machine: what is durable, and how soon.

Client, node and S3 server share the machine, so figures say what the software costs, not what S3 does.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from pathlib import Path

from bench.row import Row, at_least, at_most
from coldstore.objects.port import ObjectStore
from coldstore.shared.batch import payload
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from jjq.node.node import NodeSettings, open_member
from sharding.limits import JOURNAL_FLUSH_SECONDS
from tests.servers.seaweed import running_seaweed

BATCH = 1_000
VALUE_BYTES = 100


def run(quick: bool) -> list[Row]:
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-s3-") as name:
        root = Path(name)
        with running_seaweed(root / "s3", volume_mb=1_024) as s3:
            put = _put_seconds(s3.objects(), 50 if quick else 200)
            settings = NodeSettings(
                root / "data", f"s3://{s3.bucket}/bench", s3.settings(), node="bench", journal="s3"
            )
            return asyncio.run(_measure(settings, put, quick))


def _put_seconds(objects: ObjectStore, count: int) -> float:
    """One put of a small object and one look at another: what an acknowledgement cannot do without."""
    times = []
    for number in range(count):
        start = time.perf_counter()
        objects.put_if_absent(f"put/{number}", b"x" * 300)
        objects.get(f"put/{number}")
        times.append(time.perf_counter() - start)
    return statistics.median(times)


async def _measure(settings: NodeSettings, put: float, quick: bool) -> list[Row]:
    member = await open_member(settings, SystemClock(), SystemChance())
    try:
        await member.engine.store.create_queue("bench")
        store = member.engine.store
        batch = payload("bytes", [os.urandom(VALUE_BYTES) for _ in range(BATCH)])
        end = time.perf_counter() + (3.0 if quick else 10.0)
        start, pushed = time.perf_counter(), 0

        async def produce() -> None:
            nonlocal pushed
            while time.perf_counter() < end:
                await store.push("bench", batch)
                pushed += BATCH

        await asyncio.gather(*(produce() for _ in range(64)))
        speed = pushed * VALUE_BYTES / (time.perf_counter() - start) / 1e6
        single = payload("bytes", [b"x" * VALUE_BYTES])
        waits: list[float] = []

        async def wait_for_one() -> None:
            for _ in range(20 if quick else 60):
                begun = time.perf_counter()
                await store.push("bench", single)
                waits.append(time.perf_counter() - begun)

        await asyncio.gather(*(wait_for_one() for _ in range(16)))
    finally:
        await member.close()
    ack = statistics.median(waits)
    allowed = 1.5 * JOURNAL_FLUSH_SECONDS + put
    return [
        at_least("push 1,000 × 100 B, durable on object storage", speed, "MB/s", 50),
        Row("a small put and a look, p50", put * 1e3, "ms"),
        at_most(
            "acknowledgement of one element, 16 at a time, p50", ack * 1e3, "ms", round(allowed * 1e3, 1)
        ),
    ]
