"""Groups of a journal whose writes have a price begin no quicker after one another than it says."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from coldstore.shared.errors import InvalidInput
from sharding.node import MemberSettings
from tests.sharding.members import cluster, push


async def test_pushes_that_come_within_the_interval_share_a_put(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        a = await made.open("a")
        await a.engine.store.create_queue("orders")
        committer = a.engine.committer
        committer.every_seconds = 3_600.0  # the next group begins now, the one after it in an hour
        assert await push(a, "orders", b"0") == 0
        before = committer.groups
        waiting = [asyncio.create_task(push(a, "orders", b"%d" % n)) for n in range(1, 6)]
        done, _ = await asyncio.wait(waiting, timeout=0.2)
        assert not done
        assert committer._timer is not None
        committer._timer.cancel()
        committer._due = 0.0
        committer._in_time()
        assert await asyncio.gather(*waiting) == [1, 2, 3, 4, 5]
        assert committer.groups == before + 1
        last = asyncio.create_task(push(a, "orders", b"6"))
        await asyncio.sleep(0)
        closing = asyncio.create_task(made.close(a))  # closing waits for no interval
        await asyncio.wait_for(closing, 30)
        assert await last == 6


def test_an_interval_must_make_sense() -> None:
    for seconds in (-1.0, 11.0):
        with pytest.raises(InvalidInput):
            MemberSettings("a", "s3", flush_seconds=seconds)
