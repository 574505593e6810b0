"""What a query reads, and what it does not: blocks ruled out by metadata, the tail once, edges alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import jjq
from coldstore.objects.local import LocalObjects
from coldstore.objects.memory import MemoryObjects
from coldstore.shared import batch
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.shared.errors import DataLoss, InvalidInput
from coldstore.shared.limits import BLOCK_BYTES_MIN, MIB
from coldstore.store import ColdStore
from jjq.sql import scan
from jjq.sql.engine import Execution
from jjq.sql.local import LocalQueries
from jjq.sql.query import QueryLimits, make_query
from jjq.sql.source import ColdVerbs, OpenQueues

LIMITS = QueryLimits(None, 256 * MIB, 1, 1)
BLOCKS, PER_BLOCK = 8, 100


class _NoTail:
    """A source whose queue ends with its blocks: reading on fails."""

    def __init__(self, cold: ColdStore, more: int = 0) -> None:
        self._cold = cold
        self._more = more
        self.reads: list[tuple[int, int]] = []

    def queue(self, name: str) -> jjq.QueueInfo:
        from dataclasses import replace

        from jjq.sql.source import _info

        queue = self._cold.open_queue(name)
        found = _info(queue.settings, queue)
        return replace(found, next_offset=found.next_offset + self._more)

    def queue_names(self) -> list[str]:
        return self._cold.queue_names()

    def read(self, queue: str, start: int, end: int) -> Iterator[pa.RecordBatch]:
        self.reads.append((start, end))
        yield batch.stamp(
            batch.payload("bytes", [b"%d" % n for n in range(start, end)]), start, end * 1_000_000
        )

    def system(self, table: str, queues: Any) -> pa.Table:
        raise AssertionError("not asked for")


@pytest.fixture(params=["local", "memory"])
def cold(request: pytest.FixtureRequest, tmp_path: Path) -> ColdStore:
    """Queue q with eight blocks of a hundred elements. Element n says n, at second n."""
    clock = SystemClock()
    objects = LocalObjects(tmp_path) if request.param == "local" else MemoryObjects(clock)
    store = ColdStore(objects, clock, SystemChance())
    queue = store.create_queue("q", block_bytes=BLOCK_BYTES_MIN)
    for block in range(BLOCKS):
        first = block * PER_BLOCK
        values = batch.payload("bytes", [b"%d" % n for n in range(first, first + PER_BLOCK)])
        queue.write_block(batch.stamp(values, first, first * 1_000_000), final=block < BLOCKS - 2)
    return store


def run(cold: ColdStore, query: str, more: int = 0) -> tuple[list[Any], int, _NoTail]:
    """Rows, how many files were opened, and what was read of the tail."""
    source = _NoTail(cold, more)
    execution = Execution(make_query(query), source, OpenQueues(cold), LIMITS)
    try:
        execution.open()
        rows = [row for found in execution.batches() for row in found.to_pylist()]
        return [tuple(row.values()) for row in rows], sum(s.opened for s in execution.scans.values()), source
    finally:
        execution.close()


@pytest.mark.parametrize(
    ("where", "count", "opened"),
    [
        ("true", 800, 8),
        ("offset >= 300 AND offset < 400", 100, 1),
        ("offset BETWEEN 399 AND 400", 2, 2),
        ("offset IN (5, 705)", 2, 2),
        ("offset = 3 OR offset = 4", 2, 1),
        ("timestamp >= make_timestamptz(600 * 1000000)", 200, 2),
        ("timestamp < make_timestamptz(100 * 1000000)", 100, 1),
        ("offset > 100 AND timestamp < make_timestamptz(100 * 1000000)", 0, 0),
        ("offset > 5000", 0, 0),
        ("offset < 0", 0, 0),
        ("NOT offset < 750", 50, 1),
    ],
)
@pytest.mark.parametrize("together", [256, 3])
def test_blocks_are_ruled_out_before_they_are_opened(
    cold: ColdStore, monkeypatch: pytest.MonkeyPatch, where: str, count: int, opened: int, together: int
) -> None:
    monkeypatch.setattr(scan, "SQL_BLOCKS_TOGETHER", together)
    rows, files, _ = run(cold, f"SELECT count(value), sum(octet_length(value)) FROM q WHERE {where}")
    assert (rows[0][0], files) == (count, opened)


def test_offsets_alone_need_no_file(cold: ColdStore) -> None:
    for query, answer in (
        ("SELECT count(*) FROM q", [(810,)]),
        ('SELECT count(*) AS "n ""m" FROM Q', [(810,)]),
        ("SELECT count(*) FROM q AS a, q AS b WHERE a.offset = b.offset", [(810,)]),
        ("SELECT max(offset) FROM q", [(809,)]),
        ("SELECT count(*) FROM q WHERE offset % 2 = 0 AND offset < 500", [(250,)]),
    ):
        rows, files, source = run(cold, query, more=10)
        assert (rows, files, source.reads) == (answer, 0, [])
    rows, files, _ = run(cold, "SELECT count(*) FROM q WHERE timestamp >= make_timestamptz(700000000)")
    assert (rows, files) == ([(100,)], 1)


def test_the_tail_is_read_once_and_only_where_it_may_matter(cold: ColdStore) -> None:
    rows, _, source = run(cold, "SELECT count(value) FROM q WHERE offset < 800", more=10)
    assert (rows, source.reads) == ([(800,)], [])
    rows, _, source = run(
        cold,
        "SELECT a.value AS x, b.value AS y FROM q a JOIN q b USING (offset) WHERE offset >= 799 ORDER BY offset",
        more=10,
    )
    assert [value for value, _ in rows] == [b"%d" % n for n in range(799, 810)]
    assert source.reads == [(800, 810)]


@pytest.mark.parametrize(
    ("query", "offsets", "opened", "reads"),
    [
        ("SELECT offset, value FROM q ORDER BY offset DESC LIMIT 3", [809, 808, 807], 0, 1),
        ("SELECT value, offset FROM q AS t ORDER BY t.offset DESC LIMIT 3 OFFSET 10", [799, 798, 797], 1, 1),
        ("SELECT *, octet_length(value) AS n FROM q ORDER BY offset LIMIT 2", [0, 1], 1, 0),
        ("SELECT value, offset FROM q ORDER BY offset LIMIT 2 OFFSET 99", [99, 100], 2, 0),
        ("SELECT offset, timestamp FROM q ORDER BY offset DESC LIMIT 0", [], 0, 0),
        # Other rows matter, so all of them are looked at.
        ("SELECT min(offset) AS offset, max(value) FROM q ORDER BY offset DESC LIMIT 1", [0], 8, 1),
        (
            "SELECT offset, row_number() OVER (ORDER BY offset) AS r, value FROM q ORDER BY offset DESC LIMIT 1",
            [809],
            8,
            1,
        ),
        ("SELECT offset, (SELECT max(value) FROM q) AS m FROM q ORDER BY offset DESC LIMIT 1", [809], 8, 1),
        ("SELECT 900 - offset AS offset, value FROM q ORDER BY offset DESC LIMIT 1", [900], 8, 1),
        ("SELECT * REPLACE (900 - offset AS offset) FROM q ORDER BY offset DESC LIMIT 1", [900], 8, 1),
        ("SELECT offset, value FROM q WHERE offset < 10 ORDER BY offset DESC LIMIT 1", [9], 1, 0),
        ("SELECT offset, value FROM q ORDER BY value, offset DESC LIMIT 1", [0], 8, 1),
    ],
)
def test_the_edges_of_a_queue_are_read_alone(
    cold: ColdStore, query: str, offsets: list[int], opened: int, reads: int
) -> None:
    source = _NoTail(cold, 10)
    execution = Execution(make_query(query), source, OpenQueues(cold), LIMITS)
    try:
        execution.open()
        rows = [row["offset"] for found in execution.batches() for row in found.to_pylist()]
        assert (rows, len(source.reads)) == (offsets, reads)
        assert sum(each.opened for each in execution.scans.values()) == opened
    finally:
        execution.close()


def test_a_long_tail_goes_to_a_file(cold: ColdStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "SQL_TAIL_BYTES", 10)
    rows, _, _ = run(cold, "SELECT count(value), max(offset) FROM q", more=1_000)
    assert rows == [(1_800, 1_799)]


def test_young_blocks_that_were_merged_and_swept_are_read_from_where_they_are(cold: ColdStore) -> None:
    """The files of a snapshot are gone before the query reads them: it takes a new one."""
    source = _NoTail(cold)
    opened = OpenQueues(cold)
    execution = Execution(make_query("SELECT count(value), sum(offset) FROM q"), source, opened, LIMITS)
    kept = execution._snapshot

    def stale(info: jjq.QueueInfo) -> Any:
        found = kept(info)
        execution._snapshot = kept  # type: ignore[method-assign]
        cold.open_queue("q").merge(everything=True)
        assert cold.open_queue("q").sweep(grace_seconds=-1).young
        return found

    execution._snapshot = stale  # type: ignore[method-assign]
    try:
        execution.open()
        rows = [row for found in execution.batches() for row in found.to_pylist()]
    finally:
        execution.close()
    assert [tuple(row.values()) for row in rows] == [(800, 799 * 800 // 2)]


def test_damage_is_said_and_never_shown(tmp_path: Path) -> None:
    store = ColdStore(LocalObjects(tmp_path), SystemClock(), SystemChance())
    queue = store.create_queue("q")
    values = batch.payload("bytes", [b"%05d" % n * 20 for n in range(2_000)])
    queue.write_block(batch.stamp(values, 0, 0), final=True)
    file = tmp_path / "queues/q/data" / f"{0:020d}.parquet"
    whole = file.read_bytes()
    found: list[DataLoss] = []
    for at in range(200, len(whole) - 8, max(1, len(whole) // 12)):
        damaged = bytearray(whole)
        damaged[at] ^= 0xFF
        file.chmod(0o600)
        file.write_bytes(damaged)
        try:
            rows, _, _ = run(store, "SELECT count(value), sum(offset), sum(octet_length(value)) FROM q")
        except DataLoss as loss:
            found.append(loss)
        else:  # a byte that nothing depends on, such as a statistic
            assert rows == [(2_000, 1_999 * 1_000, 2_000 * 100)]
    assert found
    assert all("verify" in loss.message for loss in found)


async def test_a_cold_store_without_a_server(cold: ColdStore) -> None:
    queries = LocalQueries(lambda: cold, None, limits=LIMITS)

    async def rows(query: str) -> list[Any]:
        return [
            row for found in [b async for b in queries.run(make_query(query))] for row in found.to_pylist()
        ]

    assert await rows("SELECT count(value) AS n FROM q") == [{"n": 800}]
    assert await rows("SELECT name, elements FROM jjq.queues") == [{"name": "q", "elements": 800}]
    assert await rows("SELECT count(*) AS n FROM jjq.blocks WHERE queue = 'q'") == [{"n": 8}]
    assert await rows("SELECT count(*) AS n FROM jjq.blocks WHERE queue = 'x'") == [{"n": 0}]
    for table in ("subscribers", "nodes", "shards"):
        with pytest.raises(InvalidInput, match="servers only"):
            await rows(f"SELECT * FROM jjq.{table}")
    assert [q.name for q in await ColdVerbs(OpenQueues(cold)).list_queues(after="p", limit=1)] == ["q"]
