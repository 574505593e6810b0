"""SQL: a slice against the whole, a count against plain DuckDB, and a push beside a heavy query.

The slice and the whole ask for the same columns, so the slice is quicker only for what it does not read. Plain DuckDB
reads the very same files, by `read_parquet` of their list.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa

import jjq
from bench.row import Row, at_least, at_most
from coldstore.objects.local import LocalObjects
from coldstore.shared.batch import payload, stamp
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.shared.limits import BLOCK_BYTES_MIN
from coldstore.store import ColdStore
from jjq.sql.local import LocalQueries
from jjq.sql.query import QueryLimits, make_query

VALUE_BYTES = 100
LIMITS = QueryLimits(None, 1 << 30, 1, 2)


def run(quick: bool) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        return [
            *_slices(Path(folder) / "slices", 200 if quick else 1_000, 3 if quick else 5),
            *_counts(Path(folder) / "count", 1_000_000 if quick else 10_000_000, 3 if quick else 5),
            *_beside(Path(folder) / "server", 2.0 if quick else 8.0),
        ]


def _slices(folder: Path, blocks: int, repeats: int) -> list[Row]:
    asker, each = _history(folder, blocks, 1_000)
    first = blocks // 2 * each
    columns = "SELECT count(value), max(timestamp), sum(octet_length(value)) FROM q"
    whole = _time(lambda: asker.ask(columns), repeats)
    by_offset = f"{columns} WHERE offset >= {first} AND offset < {first + each}"
    begin, end = (f"make_timestamptz({offset * 1_000})" for offset in (first, first + each))
    by_time = f"{columns} WHERE timestamp >= {begin} AND timestamp < {end}"
    slice_ = _time(lambda: asker.ask(by_offset), repeats)
    timed = _time(lambda: asker.ask(by_time), repeats)
    return [
        Row(f"all of {blocks:,} blocks", whole * 1e3, "ms"),
        Row("one block of them, by offset", slice_ * 1e3, "ms"),
        Row("one block of them, by time", timed * 1e3, "ms"),
        at_least("slice by offset, quicker than all", whole / slice_, "×", 20),
        at_least("slice by time, quicker than all", whole / timed, "×", 20),
    ]


def _counts(folder: Path, elements: int, repeats: int) -> list[Row]:
    asker, _ = _history(folder, elements // 500_000 or 1, 500_000, block_bytes=1 << 28)
    files = sorted(str(path) for path in (folder / "queues/q/data").glob("*.parquet"))

    connection = duckdb.connect(":memory:", config={"threads": LIMITS.threads})

    def plain(query: str) -> None:
        connection.sql(query.replace("FROM q", f"FROM read_parquet({files})")).fetchall()

    rows: list[Row] = []
    for name, query, target in (
        ("count", "SELECT count(*) FROM q", 0.8),
        ("sum of a column", "SELECT sum(epoch_us(timestamp)) FROM q", None),
        ("all values", "SELECT sum(octet_length(value)) FROM q", None),
    ):
        ours, theirs = _time(lambda q=query: asker.ask(q), repeats), _time(lambda q=query: plain(q), repeats)  # type: ignore[misc]
        rows.append(Row(f"{name}, {elements:,} elements: jjq", ours * 1e3, "ms"))
        rows.append(Row(f"{name}: read_parquet of the same files", theirs * 1e3, "ms"))
        told = f"{name}: speed against plain DuckDB"
        rows.append(
            Row(told, theirs / ours, "×") if target is None else at_least(told, theirs / ours, "×", target)
        )
    return rows


def _beside(folder: Path, seconds: float) -> list[Row]:
    """The slowest hundredth of single pushes, alone and beside a query that never ends."""
    from tests.servers.jjq_server import JjqServer

    with JjqServer(folder) as server, jjq.connect(server.address) as client:
        client.create_queue("orders")
        client.push("orders", [b"x" * VALUE_BYTES] * 10_000)
        _latencies(client, seconds / 4)
        alone = _latencies(client, seconds)
        query = client.sql("SELECT sum(hash(x)) FROM range(1000000000000) t(x), orders", timeout=seconds * 4)
        asking = threading.Thread(target=lambda: _swallow(query), daemon=True)
        asking.start()
        time.sleep(1.5)  # until it runs
        beside = _latencies(client, seconds)
        query.close()
        asking.join(30)
    return [
        Row("push of one element, p99, alone", alone * 1e3, "ms"),
        Row("push of one element, p99, beside a heavy query", beside * 1e3, "ms"),
        at_most("p99 beside a heavy query against alone", beside / alone, "×", 3),
    ]


def _swallow(query: jjq.SqlResult) -> None:
    try:
        query.to_table()
    except jjq.JjqError:
        return  # it is stopped, as was intended


def _latencies(client: jjq.Client, seconds: float) -> float:
    took: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        began = time.perf_counter()
        client.push("orders", [b"x" * VALUE_BYTES])
        took.append(time.perf_counter() - began)
    return statistics.quantiles(took, n=100)[98]


def _history(folder: Path, blocks: int, each: int, block_bytes: int = BLOCK_BYTES_MIN) -> tuple[Asker, int]:
    """Queue q: `blocks` final blocks; element n was pushed n milliseconds after 1970."""
    store = ColdStore(LocalObjects(folder), SystemClock(), SystemChance())
    queue = store.create_queue("q", block_bytes=block_bytes)
    values = payload("bytes", [b"%0*d" % (VALUE_BYTES, n * 7919) for n in range(each)])
    for block in range(blocks):
        queue.write_block(stamp(values, block * each, block * each * 1_000), final=True)
    return Asker(ColdStore(LocalObjects(folder), SystemClock(), SystemChance())), each


class Asker:
    """As a client does that asks again and again, in its own process."""

    def __init__(self, store: ColdStore) -> None:
        self._queries = LocalQueries(lambda: store, None, limits=LIMITS)
        self._loop = asyncio.new_event_loop()

    def ask(self, query: str) -> pa.Table:
        async def answer() -> pa.Table:
            return pa.Table.from_batches([batch async for batch in self._queries.run(make_query(query))])

        return self._loop.run_until_complete(answer())


def _time(work: Callable[[], object], repeats: int) -> float:
    """The best of several, after one that warms up."""
    work()
    took = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        took.append(time.perf_counter() - began)
    return min(took)
