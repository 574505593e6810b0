"""Small groups are written on the event loop while the disk is quick, and on a thread for a while after it stalled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence

import pytest

from coldstore.shared.clock import ManualClock
from hotstore.journal.port import Journal, Record
from hotstore.write.committer import Committer

QUICK, STALL = 0.0002, 0.015


class TimedDisk:
    """A journal whose syncs take as long as a test says; knows which of them were waited for on the loop."""

    in_flight = 1

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._loop = threading.get_ident()
        self.seconds = QUICK
        self.on_loop: list[bool] = []

    def chapter(self, size: int) -> int:
        return 0

    def append(self, records: Sequence[Record]) -> int:
        return len(self.on_loop)

    def sync(self) -> None:
        self._clock.advance(self.seconds)
        self.on_loop.append(threading.get_ident() == self._loop)


class Single:
    """A push of one small record."""

    bytes = 100

    def __init__(self, committer: Committer) -> None:
        self._committer = committer
        self.settled = asyncio.get_running_loop().create_future()

    def prepare(self) -> None:
        self._committer.touch(self)

    def records(self) -> list[Record]:
        return [Record(1, b"x")]

    def written(self) -> None:
        return None

    def settle(self, sequence: int) -> None:
        self.settled.set_result(sequence)

    def fail(self, error: Exception) -> None:
        self.settled.set_exception(error)


class Writing:
    def __init__(self) -> None:
        clock = ManualClock()
        self.disk = TimedDisk(clock)
        journal: Journal = self.disk  # type: ignore[assignment]  # all that a committer asks of it
        self.committer = Committer(journal, clock, 1 << 20)

    async def write(self, count: int, seconds: float = QUICK) -> list[bool]:
        """One after the other; which of them were waited for on the loop."""
        self.disk.seconds, before = seconds, len(self.disk.on_loop)
        for _ in range(count):
            entry = Single(self.committer)
            self.committer.submit(entry)
            await entry.settled
        return self.disk.on_loop[before:]


@pytest.fixture
async def writing() -> AsyncIterator[Writing]:
    made = Writing()
    made.committer.start(lambda error: None)
    await made.write(100)  # the disk shows that it is quick
    yield made
    await made.committer.close()


async def test_a_quick_disk_is_waited_for_on_the_loop(writing: Writing) -> None:
    assert all(await writing.write(20))


async def test_after_a_stall_others_do_not_wait_for_the_disk(writing: Writing) -> None:
    assert await writing.write(1, STALL) == [True]
    assert await writing.write(17) == [False] * 16 + [True]


async def test_a_disk_that_stalls_again_and_again_hardly_ever_holds_the_loop(writing: Writing) -> None:
    stalls = []
    for _ in range(12):
        stalls += await writing.write(1, STALL)
        await writing.write(60)
    assert stalls == [True] * 4 + [False] * 8  # trusted again after 16, 29 and 58 writes


async def test_a_disk_that_is_quick_again_is_trusted_again(writing: Writing) -> None:
    for _ in range(4):
        await writing.write(1, STALL)
    await writing.write(2_000)
    assert await writing.write(1, STALL) == [True]
    assert await writing.write(17) == [False] * 16 + [True]
