"""Other engines read `data/` as it stands."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

from coldstore.objects.local import LocalObjects
from coldstore.shared import batch, limits
from coldstore.shared.batch import Content
from coldstore.shared.chance import SeededChance
from coldstore.shared.clock import ManualClock
from coldstore.store import ColdStore

BLOCKS = 50
PER_BLOCK = 40


@pytest.fixture(params=["bytes", "json"], scope="module")
def content(request: pytest.FixtureRequest) -> Content:
    return request.param


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, content: Content) -> Path:
    """`data/` of a queue with fifty final blocks of several row groups, and two young blocks beside."""
    root = tmp_path_factory.mktemp("store")
    clock = ManualClock()
    queue = ColdStore(LocalObjects(root), clock, SeededChance(1)).create_queue("orders", content=content)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(limits, "ROW_GROUP_BYTES", 1_000)
        for number in range(BLOCKS + 2):
            clock.advance(1)
            queue.write_block(made(content, number, clock.now_us()), final=number < BLOCKS)
    return root / "queues" / "orders" / "data"


def made(content: Content, number: int, at_us: int) -> pa.RecordBatch:
    offsets = range(number * PER_BLOCK, (number + 1) * PER_BLOCK)
    values = [f'{{"n": {offset}}}' for offset in offsets]
    payload = batch.payload(
        content,
        values if content == "json" else [value.encode() for value in values],
        keys=[None if offset % 3 else str(offset).encode() for offset in offsets],
        headers=[{"kind": b"a", "more": b""} if offset % 5 == 0 else None for offset in offsets],
    )
    return batch.stamp(payload, number * PER_BLOCK, at_us)


def test_pyarrow_dataset_reads_the_whole_queue_in_order(folder: Path, content: Content) -> None:
    table = ds.dataset(folder).to_table()
    expected = pa.Table.from_batches([made(content, number, 0) for number in range(BLOCKS)])
    assert table.column("offset").to_pylist() == list(range(BLOCKS * PER_BLOCK))
    for name in ("key", "value", "headers"):
        assert table.column(name).equals(expected.column(name))
    assert table.schema.equals(batch.schema(content))


def test_pyarrow_dataset_prunes_by_offset_and_time(folder: Path) -> None:
    dataset = ds.dataset(folder)
    table = dataset.to_table(filter=(pc.field("offset") >= 95) & (pc.field("offset") < 130))
    assert table.column("offset").to_pylist() == list(range(95, 130))
    fragments = list(dataset.get_fragments(filter=pc.field("offset") == 95))
    assert sum(len(f.split_by_row_group(pc.field("offset") == 95)) for f in fragments) == 1


def test_duckdb_reads_the_whole_queue_in_order(folder: Path, content: Content) -> None:
    files = f"{folder}/*.parquet"
    with duckdb.connect() as connection:
        offsets = connection.execute('select "offset" from read_parquet(?)', [files]).fetchall()
        assert [offset for (offset,) in offsets] == list(range(BLOCKS * PER_BLOCK))
        (row,) = connection.execute(
            'select value, key, headers, epoch_us("timestamp") from read_parquet(?) where "offset" = 45',
            [files],
        ).fetchall()
        types = connection.execute("describe select * from read_parquet(?)", [files]).fetchall()
    assert row[0] == ('{"n": 45}' if content == "json" else b'{"n": 45}')
    assert row[1] == b"45"
    assert dict(row[2]) == {"kind": b"a", "more": b""}
    kinds = {name: kind for name, kind, *_ in types}
    assert kinds["offset"] == "BIGINT"
    assert kinds["timestamp"] == "TIMESTAMP WITH TIME ZONE"
    assert kinds["value"] == ("VARCHAR" if content == "json" else "BLOB")


def test_duckdb_counts_and_groups_over_it(folder: Path) -> None:
    with duckdb.connect() as connection:
        found = connection.execute(
            'select count(*), min("offset"), max("offset"), count(key), count(distinct "offset") from read_parquet(?)',
            [f"{folder}/*.parquet"],
        ).fetchone()
    assert found == (
        BLOCKS * PER_BLOCK,
        0,
        BLOCKS * PER_BLOCK - 1,
        (BLOCKS * PER_BLOCK + 2) // 3,
        BLOCKS * PER_BLOCK,
    )
