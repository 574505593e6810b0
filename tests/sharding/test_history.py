"""History is for everyone: a node reads cold blocks of queues that others own."""

from __future__ import annotations

from pathlib import Path

import pytest

from coldstore.shared.errors import InvalidInput, NotFound, OutOfRange
from sharding.documents.shards import Range
from tests.hotstore.kit import fill
from tests.sharding.members import BLOCK_BYTES, cluster, push


async def test_another_node_reads_what_is_cold_and_sees_what_is_added(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        a, b = await made.open("a"), await made.open("b")
        await a.engine.store.create_queue("orders", block_bytes=BLOCK_BYTES)
        written = await fill(a.engine.store, "orders", 9)
        await a.engine.store.seal("orders")

        async def read(start: int, end: int) -> list[bytes]:
            batches = [batch async for batch in b.ownership.read_history("orders", start, end)]
            return [value for batch in batches for value in batch.column("value").to_pylist()]

        assert await read(0, 9) == written
        assert await read(3, 8) == written[3:8]
        assert await read(5, 5) == []
        with pytest.raises(OutOfRange) as refused:
            await read(0, 10)
        assert refused.value.next == 9
        await push(a, "orders", b"more")
        await a.engine.store.seal("orders")
        assert await read(8, 10) == [written[8], b"more"]
        blocks = await b.ownership.list_history("orders")
        assert blocks[0].first_offset == 0
        assert blocks[-1].last_offset == 9
        assert not b.ownership.owns("orders")
        with pytest.raises(NotFound):
            await b.ownership.list_history("nothing")


async def test_ranges_say_who_serves_what(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        a = await made.open("a")
        await a.engine.store.create_queue("orders")
        found = await a.ownership.set_ranges("orders", [Range(10, 20, "c"), Range(0, 5, "b")])
        assert found.ranges == (Range(0, 5, "b"), Range(10, 20, "c"))
        assert found.epoch == 1
        served = [found.server_of(offset) for offset in (0, 5, 12, 20)]
        assert served == [Range(0, 5, "b"), Range(5, 10, "a"), Range(10, 20, "c"), Range(20, -1, "a")]
        assert a.ownership.held()["orders"] == found
        for wrong in ([Range(0, 5, "b"), Range(4, 6, "c")], [Range(5, 5, "b")], [Range(0, 5, "no/node")]):
            with pytest.raises(InvalidInput):
                await a.ownership.set_ranges("orders", wrong)
        await made.open("b")
        moved = await a.ownership.hand_over("orders", "b")
        assert moved.ranges == (Range(10, 20, "c"),), "the owner serves all that no other does"
