"""A payload that comes serialized is journaled as it came, counted as it is, and read like any other."""

from __future__ import annotations

import pyarrow as pa
import pytest

from coldstore.shared.batch import payload
from coldstore.shared.limits import KIB
from coldstore.shared.push import Push
from hotstore.write.push import PushEntry
from tests.hotstore.kit import World, read_all

BATCH = payload("bytes", [b"a", b"bb"], keys=[b"k", None])


def entry(batch: pa.RecordBatch, serialized: pa.Buffer | None) -> PushEntry:
    return PushEntry(None, Push("q", batch, serialized=serialized))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "batch", [BATCH, BATCH.select(["value"])], ids=["as it came", "made to fit the queue"]
)
async def test_it_is_read_back_after_a_power_cut(batch: pa.RecordBatch) -> None:
    world = await World().start()
    await world.store.create_queue("q")
    await world.store.push("q", batch, serialized=batch.serialize())
    await world.power_cut()
    await world.restart()
    assert [element.value for element in await read_all(world.store, "q")] == [b"a", b"bb"]
    await world.close()


def test_nothing_is_serialized_again() -> None:
    message = BATCH.serialize()
    assert entry(BATCH, message).columns is message


@pytest.mark.parametrize("more", [0, 300 * KIB])
def test_all_of_it_counts_also_what_no_column_uses(more: int) -> None:
    message = pa.py_buffer(bytes(BATCH.serialize()) + bytes(more))
    assert entry(BATCH, message).bytes == message.size
