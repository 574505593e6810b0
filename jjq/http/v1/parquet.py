"""Answers as one Parquet file: for people who export what they see. Larger amounts go as Arrow, or by Spark."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from coldstore.shared.errors import InvalidInput
from jjq.http.replies import BytesReply
from jjq.limits import HTTP_PARQUET_BYTES_MAX

PARQUET: Final = "application/vnd.apache.parquet"


async def parquet_reply(
    batches: AsyncGenerator[pa.RecordBatch, None], empty: pa.Schema | None = None
) -> BytesReply:
    """All batches in one file; `empty` is the schema of a file without any."""
    found: list[pa.RecordBatch] = []
    size = 0
    async with aclosing(batches):
        async for batch in batches:
            found.append(batch)
            size += batch.nbytes
            if size > HTTP_PARQUET_BYTES_MAX:
                raise InvalidInput(
                    f"the file would have more than {HTTP_PARQUET_BYTES_MAX} bytes: ask for less, or for an Arrow "
                    f"stream, which has no limit"
                )
    return BytesReply(await asyncio.to_thread(_write, found, empty), PARQUET.encode())


def _write(batches: list[pa.RecordBatch], empty: pa.Schema | None) -> bytes:
    table = pa.Table.from_batches(batches, None if batches else empty)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    written: bytes = sink.getvalue().to_pybytes()
    return written
