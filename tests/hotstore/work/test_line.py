"""Takes that wait in line, and go."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from hotstore.groups.values import GroupSettings, Take
from tests.jjq.serving import hot_store, numbers, until


async def test_a_take_that_is_cancelled_just_when_a_task_comes_ends_as_cancelled(tmp_path: Path) -> None:
    async with hot_store(tmp_path) as opened:
        store: Any = opened
        await store.create_queue("orders")
        await store.create_group("orders", "g", GroupSettings())
        await store.pause_group("orders/g")
        await store.push("orders", numbers(0, 1))
        group = await store._desk.group("orders/g")
        waiting = asyncio.create_task(store.take(Take("orders/g", wait=60.0)))
        await until(lambda: group.line)
        waiting.cancel()  # its turn is cancelled, and it has not noticed yet
        group.live.state.paused = False
        group.wake()  # passes over the turn
        assert not group.line
        with pytest.raises(asyncio.CancelledError):
            await waiting


async def test_a_durable_take_that_is_cancelled_before_it_is_written_gives_its_tasks_back(
    tmp_path: Path,
) -> None:
    async with hot_store(tmp_path) as opened:
        store: Any = opened
        await store.create_queue("orders")
        await store.create_group("orders", "g", GroupSettings())
        await store.push("orders", numbers(0, 3))
        disk = threading.Event()
        slow = asyncio.create_task(store._committer.call(disk.wait))  # nothing is written meanwhile
        taking = asyncio.create_task(store.take(Take("orders/g", 2, session="s", stage="synced")))
        await until(lambda: store._desk.at_hand("orders/g").live.counts["taken"] == 2)
        taking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await taking
        disk.set()
        await slow
        counts = (await store.get_group("orders/g")).tasks
        assert (counts["ready"], counts["taken"]) == (3, 0)
        assert (await store.take(Take("orders/g", 2, session="t"))).ids == [0, 1]
