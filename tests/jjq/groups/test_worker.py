"""Workers: they take, call the handler, ack and nack, touch while it runs, and end in order."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from pathlib import Path

import pytest

import jjq
from jjq.client.client import AsyncClient
from tests.jjq.client.conftest import SMALL
from tests.jjq.groups.conftest import Door, eventually
from tests.servers.waiting import wait_until


async def test_coroutines_handle_tasks_and_failed_ones_come_back_with_their_reason(
    door: Door, client: AsyncClient
) -> None:
    group = await door.group(client, 20, max_attempts=2, backoff=(0.01, 1.0))
    seen: list[tuple[int, int]] = []

    async def handle(task: jjq.Task) -> None:
        seen.append((task.id, task.attempt))
        if task.id in {3, 5} and (task.attempt == 1 or task.id == 5):
            raise ValueError(f"no {task.value!r}")

    async with client.work(group, handle, concurrency=4) as worker:
        await eventually(lambda: _total(client, group, 1))
    assert (worker.handled, worker.failed, worker.lost) == (19, 3, 0)
    assert sorted(seen) == sorted([(n, 1) for n in range(20)] + [(3, 2), (5, 2)])
    buried = await client.peek_task(group, 5)
    assert (buried.state, buried.reason) == ("buried", "ValueError: no b'5'")


async def _total(client: AsyncClient, group: jjq.GroupInfo, total: int) -> bool:
    found = (await client.get_group(group)).tasks
    return found["total"] == total and found["taken"] == 0 and found["delayed"] == 0


async def test_functions_run_in_threads_side_by_side(door: Door, client: AsyncClient) -> None:
    group = await door.group(client, 8)
    barrier = threading.Barrier(4, timeout=20)
    threads: set[str] = set()

    def handle(task: jjq.Task) -> None:
        threads.add(threading.current_thread().name)
        barrier.wait()

    async with client.work(group, handle, concurrency=4):
        await eventually(lambda: _total(client, group, 0))
    assert len(threads) == 4
    assert threading.main_thread().name not in threads


async def test_a_task_is_touched_for_as_long_as_its_handler_runs(door: Door, client: AsyncClient) -> None:
    group = await door.group(client, 1)
    other = await door.client()
    ready, go_on = asyncio.Event(), asyncio.Event()

    async def handle(task: jjq.Task) -> None:
        ready.set()
        await go_on.wait()

    async with client.work(group, handle, ttr=0.6) as worker:
        await asyncio.wait_for(ready.wait(), 20)
        first = (await client.peek_task(group, 0)).until_us or 0
        await eventually(lambda: _later(client, group, first + 600_000))
        assert await other.take(group) == []
        go_on.set()
        await eventually(lambda: _total(client, group, 0))
    assert (worker.handled, worker.lost) == (1, 0)


async def _later(client: AsyncClient, group: jjq.GroupInfo, than_us: int) -> bool:
    found = await client.peek_task(group, 0)
    return found.state == "taken" and (found.until_us or 0) >= than_us


async def test_a_task_that_was_lost_meanwhile_is_counted_and_the_worker_goes_on(
    door: Door, client: AsyncClient
) -> None:
    group = await door.group(client, 2)

    async def handle(task: jjq.Task) -> None:
        if task.id == 0:
            await client.delete_tasks(group, [0])

    async with client.work(group, handle) as worker:
        await eventually(lambda: _total(client, group, 0))
    assert (worker.handled, worker.lost) == (1, 1)


async def test_stopping_finishes_what_runs_and_takes_no_more(door: Door, client: AsyncClient) -> None:
    group = await door.group(client, 5)
    running, go_on = asyncio.Event(), asyncio.Event()

    async def handle(task: jjq.Task) -> None:
        running.set()
        await go_on.wait()

    worker = client.work(group, handle, concurrency=2)
    work = asyncio.create_task(worker.run())
    await asyncio.wait_for(running.wait(), 20)
    worker.stop()
    go_on.set()
    await asyncio.wait_for(work, 20)
    found = (await client.get_group(group)).tasks
    assert (found["done"], found["taken"]) == (worker.handled, 0)
    assert found["ready"] == 5 - worker.handled > 0


async def test_a_worker_that_is_cancelled_gives_its_tasks_back(door: Door, client: AsyncClient) -> None:
    group = await door.group(client, 3)
    running = asyncio.Event()

    async def handle(task: jjq.Task) -> None:
        running.set()
        await asyncio.Event().wait()

    work = asyncio.create_task(client.work(group, handle, concurrency=2).run())
    await asyncio.wait_for(running.wait(), 20)
    work.cancel()
    await asyncio.wait([work])
    assert (await client.get_group(group)).tasks["ready"] == 3


async def test_a_worker_goes_on_when_its_client_becomes_another_session(
    door: Door, client: AsyncClient
) -> None:
    group = await door.group(client)
    async with client.work(group, lambda task: None) as worker:
        await eventually(lambda: _waits(client, group))
        await client.session("another")
        await client.push(group.queue, [b"x", b"y"])
        await eventually(lambda: _total(client, group, 0))
    assert (worker.handled, worker.lost) == (2, 0)


async def test_a_worker_ends_when_its_group_is_gone(door: Door, client: AsyncClient) -> None:
    group = await door.group(client)
    work = asyncio.create_task(client.work(group, print).run())
    await eventually(lambda: _waits(client, group))
    await client.delete_group(group)
    with pytest.raises(jjq.NotFound):
        await asyncio.wait_for(work, 40)


async def _waits(client: AsyncClient, group: jjq.GroupInfo) -> bool:
    return (await client.get_group(group)).waiting > 0


async def test_a_worker_must_be_told_sense(door: Door, client: AsyncClient) -> None:
    group = await door.group(client)
    for wrong in ({"handler": 7}, {"concurrency": 0}, {"ttr": 0.0}):
        with pytest.raises(jjq.InvalidInput):
            client.work(group, **{"handler": print, **wrong})  # type: ignore[arg-type]


def test_a_blocking_worker_drains_at_sigterm(tmp_path: Path) -> None:
    with jjq.open(tmp_path, settings=SMALL) as client:
        client.create_queue("orders")
        group = client.create_group("orders", "g")
        client.push("orders", [b"%d" % n for n in range(50)])

        def handle(task: jjq.Task) -> None:
            if task.id == 10:
                os.kill(os.getpid(), signal.SIGTERM)

        before = signal.getsignal(signal.SIGTERM)
        worker = client.work(group, handle, concurrency=2)
        worker.run()
        assert signal.getsignal(signal.SIGTERM) is before
        found = client.get_group(group).tasks
        assert (found["done"], found["taken"]) == (worker.handled, 0)
        assert worker.handled >= 11


def test_a_blocking_worker_works_in_the_background(tmp_path: Path) -> None:
    with jjq.open(tmp_path, settings=SMALL) as client:
        client.create_queue("orders")
        group = client.create_group("orders", "g")
        client.push("orders", [b"%d" % n for n in range(5)])
        seen: list[bytes | str] = []
        with client.work(group, lambda task: seen.append(task.value)) as worker:
            wait_until(lambda: worker.handled == 5, "all are handled")
        assert sorted(seen) == [b"0", b"1", b"2", b"3", b"4"]
        assert (worker.failed, worker.lost) == (0, 0)
