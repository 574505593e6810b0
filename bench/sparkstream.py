"""`readStream` and `write` with Spark: how fast a stream catches up, and how fast rows become elements.

Spark's own start, and that of its Python workers, is left out: a first query warms them. The stream drops what
it reads (`noop`), in batches of a million elements, so that the rate has the cost of many batches in it.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import jjq
from bench.client import running_server
from bench.row import Row, at_least
from coldstore.objects.local import LocalObjects
from coldstore.shared import batch
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.store import ColdStore

VALUE_BYTES = 100
PER_BLOCK = 500_000
PER_BATCH = 1_000_000  # two blocks, so that both cores have work
ROUNDS = 3  # the best counts: others use this machine, too


def run(quick: bool) -> list[Row]:
    """All figures of streams and of writing; none where Spark is not installed."""
    if find_spec("pyspark") is None:
        return []
    from jjq.spark import register
    from jjq.spark.jobs.session import session

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.log.level": "OFF"}
    blocks, rows = (4, 500_000) if quick else (12, 2_000_000)
    with (
        tempfile.TemporaryDirectory(prefix="jjq-bench-") as folder,
        session("bench", "local[2]", conf) as spark,
    ):
        register(spark)
        root = Path(folder)
        made = [_catch_up(spark, root, blocks, 1 if quick else ROUNDS)]
        with running_server(root / "server") as address, jjq.connect(address) as client:
            return made + _with_server(spark, root, address, client, rows)


def _catch_up(spark: Any, root: Path, blocks: int, rounds: int) -> Row:
    queue = ColdStore(LocalObjects(root / "cold"), SystemClock(), SystemChance()).create_queue("history")
    for _ in range(blocks):
        queue.write_block(_elements(queue.next_offset))
    options = {"root": str(root / "cold"), "queue": "history", "maxOffsetsPerTrigger": str(PER_BATCH)}
    _stream(spark, root / "warm", options | {"start": f"last:{PER_BATCH // 10}"})
    seconds = min(_stream(spark, root / f"round-{n}", options) for n in range(rounds))
    return at_least("stream catches up, cold", queue.next_offset / seconds, "elements/s", 300_000)


def _with_server(spark: Any, root: Path, address: str, client: jjq.Client, rows: int) -> list[Row]:
    client.create_queue("written", block_bytes=1 << 30)
    options = {"server": address, "queue": "written"}
    frame = spark.range(0, rows, 1, 2).selectExpr(f"lpad(cast(id AS string), {VALUE_BYTES}, 'x') AS value")
    frame.limit(1_000).write.format("jjq").options(**options).mode("append").save()
    start = time.perf_counter()
    frame.write.format("jjq").options(**options).mode("append").save()
    written = rows / (time.perf_counter() - start)
    count = client.get_queue("written").next_offset
    seconds = _stream(spark, root / "hot", options | {"maxOffsetsPerTrigger": str(PER_BATCH)})
    return [
        Row("stream catches up, through a server", count / seconds, "elements/s"),
        Row("write, two tasks, each row durable", written, "elements/s"),
    ]


def _stream(spark: Any, folder: Path, options: dict[str, str]) -> float:
    """Seconds until a stream has read everything, from its first batch on."""
    frame = spark.readStream.format("jjq").options(**options).load()
    start = time.perf_counter()
    query = (
        frame.writeStream.format("noop")
        .option("checkpointLocation", str(folder))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return time.perf_counter() - start


def _elements(first: int) -> pa.Table:
    chance = np.random.default_rng(first)
    letters = chance.integers(33, 127, size=PER_BLOCK * VALUE_BYTES, dtype=np.uint8)
    ends = np.arange(0, PER_BLOCK * VALUE_BYTES + 1, VALUE_BYTES, dtype=np.int32)
    values = pa.Array.from_buffers(pa.binary(), PER_BLOCK, [None, pa.py_buffer(ends), pa.py_buffer(letters)])
    columns = [pa.nulls(PER_BLOCK, pa.binary()), values, pa.nulls(PER_BLOCK, batch.HEADERS)]
    payload = pa.RecordBatch.from_arrays(columns, schema=batch.payload_schema("bytes"))
    return pa.Table.from_batches([batch.stamp(payload, first, 1_767_225_600_000_000)])
