"""Memory goes back to the system after large messages, and not while more of them come."""

from __future__ import annotations

import asyncio
import threading

import pytest

from coldstore.shared.limits import BLOCK_SECONDS_DEFAULT
from jjq.limits import LARGE_BYTES, TRIM_AGAIN_SECONDS, TRIM_BYTES
from jjq.server import memory as module
from jjq.server.memory import Memory
from tests.jjq.serving import until


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TRIM_SECONDS", 0.01)
    monkeypatch.setattr(module, "TRIM_SECONDS_MAX", 0.05)
    monkeypatch.setattr(module, "TRIM_AGAIN_SECONDS", (0.05,) * 3)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("sizes", [[LARGE_BYTES], [TRIM_BYTES // 32] * 33], ids=["large", "many"])
async def test_memory_is_given_back_soon_and_several_times_more(sizes: list[int]) -> None:
    memory = Memory()
    memory.used(LARGE_BYTES - 1)
    assert memory._timer is None
    for size in sizes:
        memory.used(size)
    await until(lambda: memory.trims == 4)
    await until(lambda: memory._timer is None)
    memory.used(LARGE_BYTES - 1)  # what was counted before is over
    assert memory._timer is None
    await memory.close()


def test_it_is_given_back_also_after_the_last_block_was_sealed() -> None:
    """What was pushed is freed then, and nothing comes that would say so: 130 MB stayed after 24 pushes of 8 MiB."""
    assert sum(TRIM_AGAIN_SECONDS) > BLOCK_SECONDS_DEFAULT


@pytest.mark.usefixtures("quick")
async def test_one_that_takes_long_delays_the_next_ones_and_replaces_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memory, release = Memory(), threading.Event()
    monkeypatch.setattr(memory, "_trim", lambda _pad: release.wait(30))
    memory.used(LARGE_BYTES)
    await until(lambda: memory._trimming is not None)
    began, busy = memory._again, memory._trimming
    first = memory._timer
    await until(lambda: memory._timer is not first)  # it looked again
    assert (memory._again, memory._trimming, memory.trims) == (began, busy, 0)
    release.set()
    await until(lambda: memory.trims == 4)
    await until(lambda: memory._timer is None)
    await memory.close()


@pytest.mark.usefixtures("quick")
async def test_a_message_begins_it_anew() -> None:
    memory = Memory()
    memory.used(LARGE_BYTES)
    await until(lambda: memory.trims == 2)
    memory.used(LARGE_BYTES)
    await until(lambda: memory.trims == 6)
    await until(lambda: memory._timer is None)
    await memory.close()


@pytest.mark.usefixtures("quick")
async def test_while_large_messages_come_it_is_given_back_now_and_then() -> None:
    memory = Memory()
    loop = asyncio.get_running_loop()
    began, messages = loop.time(), 0
    while memory.trims < 3:
        memory.used(LARGE_BYTES)
        messages += 1
        await asyncio.sleep(0)
    assert loop.time() - began > 2 * 0.05
    assert messages > memory.trims
    await memory.close()
    assert memory._timer is None or memory._timer.cancelled()
