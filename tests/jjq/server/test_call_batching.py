"""Calls that come together go on together, and nobody waits for those who do not come."""

from __future__ import annotations

import asyncio

from jjq.server.call_batching import Crowd


async def began(crowd: Crowd, count: int) -> list[asyncio.Task[None]]:
    """`count` calls at the door, each told of before any of them takes its turn."""
    for _ in range(count):
        crowd.came()
    tasks = [asyncio.create_task(crowd.turn()) for _ in range(count)]
    await asyncio.sleep(0)
    return tasks


async def test_a_call_that_is_alone_does_not_wait() -> None:
    # Given one call after the other
    crowd = Crowd()
    for _ in range(40):
        (task,) = await began(crowd, 1)
        # Then each has its turn at once
        assert task.done()
        crowd.went()


async def test_calls_that_come_together_have_their_turn_together() -> None:
    # Given that five came together at first, which was seen by waiting
    crowd = Crowd()
    await asyncio.gather(*await began(crowd, 5))
    for _ in range(5):
        crowd.went()
    # When four come, then a fifth
    tasks = await began(crowd, 4)
    assert not any(task.done() for task in tasks)
    tasks += await began(crowd, 1)
    await asyncio.sleep(0)
    # Then all go on in the same step
    assert all(task.done() for task in tasks)


async def test_many_do_not_wait_to_the_end() -> None:
    crowd = Crowd()
    tasks = await began(crowd, 100)
    await asyncio.sleep(0)
    assert sum(task.done() for task in tasks) >= 96  # three times 32; the others wait for more
    await asyncio.gather(*tasks)


async def test_who_waited_in_vain_waits_no_more() -> None:
    # Given a call whose client left before its request came, so that one seems to be open for ever
    crowd = Crowd()
    crowd.came()
    (task,) = await began(crowd, 1)
    assert not task.done()
    await task
    crowd.went()
    # Then the next ones are alone again
    for _ in range(40):
        (task,) = await began(crowd, 1)
        assert task.done()
        crowd.went()


async def test_a_call_that_is_cancelled_holds_nobody_up() -> None:
    crowd = Crowd()
    one, other = await began(crowd, 2)
    one.cancel()
    await asyncio.wait({one})
    crowd.went()
    await other
    assert one.cancelled()
    assert not other.cancelled()
