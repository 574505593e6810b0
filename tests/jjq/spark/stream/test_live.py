"""Streams with the live tail of a real server, which seals, merges and is pushed to meanwhile."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from coldstore.shared.errors import Conflict, NotFound
from coldstore.shared.limits import BLOCK_BYTES_MIN
from tests.jjq.spark.making import offsets
from tests.jjq.spark.serving import Serving
from tests.jjq.spark.stream.reading import ALL, batches, flat, read, reader, streaming
from tests.servers.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VALUES = [b"%0300d" % n for n in range(500)]  # more than one block takes two of these
PUSHES = 24


def test_a_stream_follows_a_queue_that_is_sealed_and_merged_meanwhile(
    spark: SparkSession, serving: Serving, tmp_path: Path
) -> None:
    queue = serving.new_queue(block_bytes=BLOCK_BYTES_MIN, block_seconds=1.0)
    frame = (
        spark.readStream.format("jjq")
        .options(**serving.options(queue, root=serving.root, columns="offset", maxOffsetsPerTrigger=3_000))
        .load()
    )
    query = (
        frame.writeStream.format("parquet")
        .option("path", str(tmp_path / "out"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )

    def push() -> None:
        pause = threading.Event()
        for n in range(PUSHES):
            serving.client.push(queue, VALUES)
            serving.client.push(queue, [b"a few more"])
            pause.wait(0.05 if n % 8 else 1.1)  # now and then long enough for a young block

    pushing = threading.Thread(target=push)
    try:
        pushing.start()
        pushing.join()
        query.processAllAvailable()
    finally:
        query.stop()
    kinds = {block.kind for block in serving.client.list_blocks(queue)}
    assert "final" in kinds  # blocks were sealed, so the border moved
    assert offsets(spark.read.parquet(str(tmp_path / "out"))) == list(range(PUSHES * 501))


def test_history_is_read_from_the_cold_store_and_only_the_tail_from_the_server(serving: Serving) -> None:
    queue = serving.new_queue(block_bytes=BLOCK_BYTES_MIN)
    for _ in range(4):
        serving.client.push(queue, VALUES)
    wait_until(lambda: serving.client.get_queue(queue).cold_offset == 2_000, "blocks are cold")
    serving.client.push(queue, [b"hot"] * 10)
    with streaming(serving.options(queue, root=serving.root)) as stream:
        ((start, end),) = batches(stream)
        parts = stream.partitions(start, end)
        assert flat(read(stream, start, end)) == list(range(2_010))
    cold = sum(part.end - part.start for partition in parts for part in partition.slices)
    tails = [partition.tail for partition in parts if partition.tail is not None]
    assert (cold, tails) == (2_000, [(2_000, 2_010)])


def test_a_server_alone_is_enough(serving: Serving) -> None:
    queue = serving.new_queue(block_bytes=BLOCK_BYTES_MIN)
    serving.client.push(queue, VALUES)
    with streaming(serving.options(queue, maxBytesPerTrigger=100_000)) as stream:
        found = [flat(read(stream, *batch)) for batch in batches(stream)]
    assert flat(found) == list(range(500))
    assert [len(part) for part in found] == pytest.approx([320, 180], abs=30)  # of 300 bytes and an offset


def test_elements_that_become_cold_after_the_plan_are_read_once(serving: Serving) -> None:
    queue = serving.new_queue(block_bytes=BLOCK_BYTES_MIN, block_seconds=1.0)
    serving.client.push(queue, [b"hot"] * 100)
    with streaming(serving.options(queue, root=serving.root)) as stream:
        start = stream.initialOffset()
        end = stream.latestOffset(start, ALL)
        planned = stream.partitions(start, end)
        wait_until(lambda: serving.client.get_queue(queue).cold_offset == 100, "the block is cold")
        before = [batch.column("offset").to_pylist() for part in planned for batch in stream.read(part)]
        assert flat(before) == flat(read(stream, start, end)) == list(range(100))


def test_a_stream_begins_where_a_subscriber_is_and_needs_it_no_more(serving: Serving) -> None:
    queue = serving.new_queue()
    serving.client.push(queue, [b"x"] * 10)
    subscriber = serving.client.create_subscriber(queue, "billing", "offset:4")
    options = serving.options(queue, start="subscriber:billing")
    with streaming(options) as stream:
        start = stream.initialOffset()
        assert start["offset"] == 4
    serving.client.delete_subscriber(subscriber)
    with streaming(options) as stream:
        assert stream.latestOffset(start, ALL)["offset"] == 10
    with pytest.raises(NotFound, match="billing"):
        reader(options).initialOffset()


def test_a_root_that_is_not_the_servers_is_refused(serving: Serving, tmp_path: Path) -> None:
    from tests.jjq.spark.making import make

    queue = serving.new_queue()
    make(tmp_path, [10], name=queue)
    with pytest.raises(Conflict, match="another one"):
        reader(serving.options(queue, root=str(tmp_path))).initialOffset()
