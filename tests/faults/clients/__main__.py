"""`python -m tests.faults.clients '{"address": …, "http": …, "folder": …, "name": …, "seed": …, "workers": […]}'`.

Runs its workers until standard input ends, and lets them finish what they are at.
"""

from __future__ import annotations

import asyncio
import os
import sys
import traceback
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import orjson

from coldstore.shared.chance import SeededChance
from coldstore.shared.clock import SystemClock
from jjq.cli.lean import without_pandas
from tests.faults.clients.priority import Poster
from tests.faults.clients.pushers import LibraryPusher, OncePusher, PlainPusher, StreamPusher
from tests.faults.clients.readers import Peeker, Popper, Replayer, Seeker, Streamer
from tests.faults.clients.sessions import SessionTaker
from tests.faults.clients.takers import Taker
from tests.faults.clients.worker import Worker
from tests.faults.history import Recorder, open_history

KINDS: dict[str, type[Worker]] = {
    kind.__name__: kind
    for kind in (
        PlainPusher, OncePusher, StreamPusher, LibraryPusher, Popper, Streamer, Peeker, Seeker, Replayer,
        Taker, SessionTaker, Poster,
    )
}  # fmt: skip
LAST_SECONDS = 8.0  # for what is under way when it is time to stop; then its outcome is unknown


async def main(order: dict[str, Any]) -> None:
    clock = SystemClock()
    file = open_history(Path(order["folder"]), order["name"])
    stop = asyncio.Event()
    tasks = []
    for kind, number, queue, door in order["workers"]:
        pen = Recorder(file, number, lambda: round(clock.monotonic() * 1e9))
        chance = SeededChance(order["seed"] * 1_000 + number)
        worker = KINDS[kind](number, queue, order["address"], pen, chance, stop, door, order["http"])
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


async def _told(work: Coroutine[Any, Any, None]) -> None:
    """A failure ends the process at once, with its reason in the log."""
    try:
        await work
    except BaseException:  # noqa: BLE001 - told, and then the process ends
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # to leave in order is to wait for the thread that reads standard input


if __name__ == "__main__":
    without_pandas()  # each run starts several of these
    asyncio.run(_told(main(orjson.loads(sys.argv[1]))))
