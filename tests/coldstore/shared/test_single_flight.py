"""Many wait for one load: how often the work is done, who gets its outcome, and what becomes of a failure."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from coldstore.shared.errors import NotFound
from coldstore.shared.single_flight import SingleFlight, ThreadSingleFlight


class Work:
    """Work that ends when it is let go."""

    def __init__(self, error: Exception | None = None) -> None:
        self.runs = 0
        self.go = asyncio.Event()
        self._error = error

    async def __call__(self) -> int:
        self.runs += 1
        run = self.runs
        await self.go.wait()
        if self._error is not None:
            raise self._error
        return run


async def test_all_who_ask_at_a_time_share_one_run_and_who_asks_later_starts_another() -> None:
    loads: SingleFlight[str, int] = SingleFlight()
    work = Work()
    callers = [asyncio.create_task(loads.run("a", work, "load")) for _ in range(5)]
    await asyncio.sleep(0)
    assert "a" in loads
    assert len(loads) == 1

    work.go.set()

    assert await asyncio.gather(*callers) == [1] * 5
    assert "a" not in loads
    assert await loads.run("a", work, "load") == 2


async def test_keys_do_not_wait_for_one_another() -> None:
    loads: SingleFlight[str, int] = SingleFlight()
    slow, quick = Work(), Work()
    quick.go.set()
    waiting = asyncio.create_task(loads.run("slow", slow, "load"))

    assert await loads.run("quick", quick, "load") == 1

    slow.go.set()
    assert await waiting == 1


async def test_whoever_waits_for_the_end_of_some_work_waits_for_that_alone_and_is_told_no_failure() -> None:
    loads: SingleFlight[str, int] = SingleFlight()
    works = {"a~1": Work(), "a~2": Work(NotFound("gone")), "b": Work()}
    tasks = [loads.start(key, work, "load") for key, work in works.items()]
    ended = asyncio.create_task(loads.ended(lambda key: key.startswith("a~")))
    works["a~1"].go.set()
    await tasks[0]
    await asyncio.sleep(0)
    assert not ended.done()
    works["a~2"].go.set()
    await ended
    assert "b" in loads
    assert len(loads) == 1
    works["b"].go.set()
    await tasks[2]


async def test_a_caller_that_is_cancelled_leaves_the_work_to_the_others() -> None:
    loads: SingleFlight[str, int] = SingleFlight()
    work = Work()
    first, second = (asyncio.create_task(loads.run("a", work, "load")) for _ in range(2))
    await asyncio.sleep(0)

    first.cancel()
    work.go.set()

    with pytest.raises(asyncio.CancelledError):
        await first
    assert await second == 1
    assert work.runs == 1


async def test_a_failure_reaches_every_caller_and_is_told_once_even_if_nobody_waits() -> None:
    told: list[tuple[str, BaseException]] = []
    loads: SingleFlight[str, int] = SingleFlight(lambda key, error: told.append((key, error)))
    work = Work(NotFound("there is none: create it"))
    work.go.set()

    outcomes = await asyncio.gather(*(loads.run("a", work, "load") for _ in range(3)), return_exceptions=True)
    assert all(isinstance(outcome, NotFound) for outcome in outcomes)
    assert [key for key, _ in told] == ["a"]

    await asyncio.wait([loads.start("b", work, "load")])
    await asyncio.sleep(0)
    assert [key for key, _ in told] == ["a", "b"]
    assert len(loads) == 0


class Key:
    """Lets `all_here` be set once so many threads have asked: each looks the key up under the lock."""

    def __init__(self, threads: int) -> None:
        self.all_here = threading.Event()
        self._missing = threads

    def __hash__(self) -> int:
        self._missing -= 1
        if not self._missing:
            self.all_here.set()
        return 1


def test_of_many_threads_one_does_the_work() -> None:
    threads = 6
    loads: ThreadSingleFlight[Key, int] = ThreadSingleFlight()
    key = Key(threads)
    runs: list[int] = []

    def work() -> int:
        runs.append(1)
        assert key.all_here.wait(60)
        return 7

    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(loads.run, key, work, "loading") for _ in range(threads)]
        assert [future.result(60) for future in futures] == [7] * threads
    assert runs == [1]
    assert loads.run(key, lambda: 8, "loading") == 8  # nothing is remembered


def test_a_worker_that_is_interrupted_lets_the_others_retry() -> None:
    loads: ThreadSingleFlight[Key, int] = ThreadSingleFlight()
    key = Key(2)

    def work() -> int:
        assert key.all_here.wait(60)
        raise KeyboardInterrupt

    def run() -> str:
        try:
            loads.run(key, work, "reading a")
        except BaseException as error:  # noqa: BLE001 - an interrupt is what this is about
            return f"{type(error).__name__} {error}".strip()
        return "no error"

    with ThreadPoolExecutor(2) as pool:
        outcomes = {future.result(60) for future in [pool.submit(run), pool.submit(run)]}

    assert outcomes == {"KeyboardInterrupt", "Unavailable reading a was interrupted; retry"}
    assert loads.run(key, lambda: 2, "reading a") == 2
