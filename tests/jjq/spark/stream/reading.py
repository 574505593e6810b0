"""A stream reader asked as Spark asks it, but in this process: what it answers, and what its partitions hold."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable

from coldstore.shared.clock import ManualClock
from jjq.spark.schema import spark_schema
from jjq.spark.stream.stream import StreamReader

ALL = ReadAllAvailable()


def reader(options: dict[str, str], columns: tuple[str, ...] = ("offset", "value")) -> StreamReader:
    """A reader, pickled and unpickled: executors get it so."""
    made = StreamReader(options, spark_schema("bytes", columns))
    return pickle.loads(pickle.dumps(made))


@contextmanager
def streaming(options: dict[str, str]) -> Iterator[StreamReader]:
    """A reader whose clock nobody waits for, stopped in the end."""
    stream = reader(options)
    stream._clock = ManualClock()
    try:
        yield stream
    finally:
        stream.stop()


def batches(stream: StreamReader, start: dict[str, Any] | None = None) -> Iterator[tuple[dict, dict]]:
    """Start and end of each batch until nothing new is there."""
    at = stream.initialOffset() if start is None else start
    while (end := stream.latestOffset(at, stream.getDefaultReadLimit())) != at:
        yield at, end
        at = end


def read(stream: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[list[int]]:
    """The offsets in each partition of a batch, read as executors read them."""
    found = []
    for partition in pickle.loads(pickle.dumps(stream.partitions(start, end))):
        columns = [batch.column("offset").to_pylist() for batch in stream.read(partition)]
        found.append([offset for column in columns for offset in column])
    return found


def flat(parts: list[list[int]]) -> list[int]:
    return [offset for part in parts for offset in part]
