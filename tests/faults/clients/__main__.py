"""`python -m tests.faults.clients '{"address": …, "folder": …, "name": …, "seed": …, "workers": […]}'`.

Runs its workers until standard input ends, and lets them finish what they are at.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import orjson

from coldstore.shared.chance import SeededChance
from coldstore.shared.clock import SystemClock
from jjq.cli.lean import without_pandas
from tests.faults.clients.pushers import LibraryPusher, OncePusher, PlainPusher, StreamPusher
from tests.faults.clients.readers import Peeker, Popper, Replayer, Seeker, Streamer
from tests.faults.clients.takers import Taker
from tests.faults.clients.worker import Worker
from tests.faults.history import Recorder, open_history

KINDS: dict[str, type[Worker]] = {
    kind.__name__: kind
    for kind in (
        PlainPusher, OncePusher, StreamPusher, LibraryPusher, Popper, Streamer, Peeker, Seeker, Replayer,
        Taker,
    )
}  # fmt: skip
LAST_SECONDS = 8.0  # for what is under way when it is time to stop; then its outcome is unknown


async def main(order: dict[str, Any]) -> None:
    clock = SystemClock()
    file = open_history(Path(order["folder"]), order["name"])
    stop = asyncio.Event()
    tasks = []
    for kind, number, queue in order["workers"]:
        pen = Recorder(file, number, lambda: round(clock.monotonic() * 1e9))
        chance = SeededChance(order["seed"] * 1_000 + number)
        worker = KINDS[kind](number, queue, order["address"], pen, chance, stop)
        tasks.append(asyncio.create_task(worker.run(), name=kind))
    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await asyncio.wait([*tasks, ended], return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        if task.done():
            task.result()  # none ends by itself: this raises what went wrong
    stop.set()
    _, late = await asyncio.wait(tasks, timeout=LAST_SECONDS)
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)
    for task in set(tasks) - late:
        task.result()


if __name__ == "__main__":
    without_pandas()  # each run starts several of these
    asyncio.run(main(orjson.loads(sys.argv[1])))
