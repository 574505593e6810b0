"""A queue that was about to leave, and stays."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from pathlib import Path

from coldstore.objects.memory import MemoryObjects
from coldstore.shared.batch import payload
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.shared.errors import Fenced
from coldstore.store import ColdStore
from hotstore.opening import open_engine
from hotstore.queue.state import Phase
from hotstore.settings import HotSettings
from tests.hotstore.lifecycle.test_background import until


async def test_a_departure_that_is_cancelled_before_the_journal_knows_of_it_changes_nothing(
    tmp_path: Path,
) -> None:
    clock, chance = SystemClock(), SystemChance()
    cold = ColdStore(MemoryObjects(), clock, chance)
    engine = await open_engine(tmp_path, cold, settings=HotSettings(), clock=clock, chance=chance)
    try:
        await engine.store.create_queue("orders")
        queue = await engine.registry.queue("orders")
        # Given a journal that is busy, so that nothing is formed into a group yet
        release = threading.Event()
        busy = asyncio.create_task(engine.committer.call(lambda: release.wait(60)))
        await asyncio.sleep(0)
        # When a departure begins, and is cancelled while it waits for the journal
        leaving = asyncio.create_task(engine.departures.begin("orders", Fenced("it is node b's", owner="b")))
        await until(lambda: queue.state.phase is Phase.CLOSING, "the departure has begun")
        leaving.cancel()
        await until(lambda: queue.state.phase is Phase.RETURNING, "the departure is called off")
        release.set()
        with suppress(asyncio.CancelledError):
            await leaving
        await busy
        # Then the queue is served as before
        assert queue.state.phase is Phase.OPEN
        assert (await engine.store.push("orders", payload("bytes", [b"a"]))).first_offset == 0
    finally:
        await engine.close()
