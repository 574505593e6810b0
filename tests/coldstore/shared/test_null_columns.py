"""Columns of nulls that take no memory are what pyarrow's own are."""

from __future__ import annotations

import pyarrow as pa
import pytest

from coldstore.shared.batch import HEADERS, payload
from coldstore.shared.limits import BATCH_ELEMENTS_MAX
from coldstore.shared.lists import null_column

KINDS = [pa.binary(), HEADERS, pa.string()]
MANY = 70_000  # more than share the smaller one of the two buffers


@pytest.mark.parametrize("count", [0, 1, 100, MANY])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_they_are_nulls_and_stay_so_on_the_way(kind: pa.DataType, count: int) -> None:
    column = null_column(count, kind)
    column.validate(full=True)
    assert column.equals(pa.nulls(count, kind))
    batch = pa.record_batch([column], names=["x"])
    for part in (batch, batch.slice(count // 2), pa.concat_batches([batch, batch])):
        back = pa.ipc.read_record_batch(part.serialize(), part.schema)
        back.validate(full=True)
        assert back.column(0).null_count == part.num_rows
    pa.concat_arrays([column, pa.nulls(3, kind)]).validate(full=True)


def test_a_slice_of_a_payload_carries_nothing_of_the_rest() -> None:
    whole, small = (payload("bytes", [b"x" * 100] * count) for count in (5_000, 1_000))
    assert abs(whole.slice(1_000, 1_000).serialize().size - small.serialize().size) < 200


def test_columns_of_large_batches_take_no_memory_either() -> None:
    """24 pushes of 640,000 elements without keys and headers kept 120 MB of zeros in memory."""
    columns = [
        null_column(count, kind)
        for count in (100, 640_000, BATCH_ELEMENTS_MAX)
        for kind in (pa.binary(), HEADERS)
    ]
    places = {buffer.address for column in columns for buffer in column.buffers() if buffer}
    assert len(places) <= 3  # nothing, and two of zeros
