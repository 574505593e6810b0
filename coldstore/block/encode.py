"""Encode a block's data file: Parquet that any engine reads, in bytes that depend on the elements alone.

    compression     zstd, level 1: smaller than snappy and as quick. Values that it would shrink by less than a
                    fifth, such as ciphertext, are stored as they are: twice as quick to write and read
    order           rows sorted by offset, and declared so
    encodings       offset and timestamp DELTA_BINARY_PACKED, the rest PLAIN; no dictionaries: they help
                    neither numbers that count up nor values that differ. In a ledger, numbers are
                    DELTA_BINARY_PACKED and words have dictionaries (coldstore.layout.ledger)
    statistics      of offset and timestamp, for each row group and page (page index)
    checksums       of every page; of the whole file (sha256) in the block's metadata
    row groups      about `limits.ROW_GROUP_BYTES` each, so that a pruned read decodes little
    key-values      jjq.format, jjq.queue (id), jjq.name, jjq.content, jjq.first, jjq.last

The same elements give the same bytes, however they are cut into Arrow chunks, and on however many
processors: an owner that repeats a write after a crash writes the file that is already there. So the file
holds no time, no put id, and nothing else of the attempt. (Another version of Arrow may write other bytes.
Where it matters, `queue/commit.py` compares elements when digests differ.)

Several threads encode the row groups of a block, and `parquet_stitch` puts them together. docs/decisions.md
says what that buys.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from coldstore.block import parquet_stitch
from coldstore.layout.queue_settings import QueueSettings
from coldstore.shared import batch, limits

FORMAT: Final = 1

_SORTED: Final = [pq.SortingColumn(0)]
_ENCODINGS: Final = {"offset": "DELTA_BINARY_PACKED", "timestamp": "DELTA_BINARY_PACKED"}
_WITH_STATISTICS: Final = ["offset", "timestamp"]
_PAGE_BYTES: Final = 64 * limits.KIB  # stays in the processor's cache from encoder to compressor
_ROW_BYTES: Final = 24  # what a row costs besides its payload: offset, timestamp, lengths

_LEVEL: Final = 1
_CODECS: Final = dict.fromkeys(
    ("offset", "timestamp", "key", "value", "headers.key_value.key", "headers.key_value.value"), "zstd"
)
# Of a ledger's numbers, which differ little from row to row, the differences are kept; of words, which repeat, a list.
_LEDGER_WORDS: Final = [
    f"value.{field.name}" for field in batch.LEDGER_FIELDS if pa.types.is_string(field.type)
]
_LEDGER_NUMBERS: Final = [
    f"value.{field.name}" for field in batch.LEDGER_FIELDS if not pa.types.is_string(field.type)
]
_LEDGER_CODECS: Final = dict.fromkeys((*_LEDGER_NUMBERS, *_LEDGER_WORDS), "zstd")
_LEDGER_ENCODINGS: Final = {**_ENCODINGS, **dict.fromkeys(_LEDGER_NUMBERS, "DELTA_BINARY_PACKED")}
_WORTHWHILE: Final = 0.8  # compress values only if they shrink to this share or less
_SAMPLES: Final = 8
_SAMPLE_BYTES: Final = 16 * limits.KIB


class Encoded:
    """A data file in pieces. The first pieces can be digested and put while others are still being encoded.

    Iterating waits for each piece. The first iteration also takes the digest.
    """

    def __init__(self, pieces: Sequence[Callable[[], memoryview]]) -> None:
        self._pieces = pieces
        self._digest = hashlib.sha256()
        self._digested = 0
        self._size = 0

    def __iter__(self) -> Iterator[memoryview]:
        for at, piece in enumerate(self._pieces):
            view = piece()
            if at == self._digested:
                self._digest.update(view)
                self._digested += 1
                self._size += len(view)
            yield view

    def _finish(self) -> None:
        if self._digested < len(self._pieces):
            for _ in self:
                pass

    @property
    def size(self) -> int:
        self._finish()
        return self._size

    @property
    def sha256(self) -> str:
        self._finish()
        return self._digest.hexdigest()

    @classmethod
    def of(cls, data: bytes | memoryview) -> Encoded:
        """A data file whose bytes are there already."""
        return cls([lambda: memoryview(data)])


def encode(table: pa.Table, settings: QueueSettings) -> Encoded:
    """The data file of a table. The caller has checked that offsets are dense and that the schema is the queue's."""
    sizes = _measure_rows(table)
    ends = _cut_groups(sizes)
    style = _Style(_provenance(table, settings), _is_compressible(table, int(sizes.sum())))
    if len(ends) == 1 or settings.content == "ledger" or not _can_stitch():
        return Encoded.of(_encode_file(table, ends, int(sizes.sum()), style))
    return _encode_groups(table, ends, sizes, style)


@dataclass(frozen=True, slots=True)
class _Style:
    """Settings that all row groups of a block share."""

    key_values: dict[str, str]
    compressed: bool = True  # of the values; the other columns are always compressed


def _is_compressible(table: pa.Table, content_bytes: int) -> bool:
    """Whether values are worth compressing, judged by samples. The same elements give the same answer."""
    if content_bytes < _SAMPLES * _SAMPLE_BYTES:
        return True
    rows = max(1, _SAMPLE_BYTES * table.num_rows // content_bytes)
    if pa.types.is_struct(table.schema.field("value").type):
        return True
    values = table.column("value").cast(pa.binary())
    parts = []
    for at in range(_SAMPLES):
        run = values.slice(at * table.num_rows // _SAMPLES, rows)
        parts.append(b"".join(value[:_SAMPLE_BYTES] for value in run.to_pylist()))
    sample = b"".join(parts)
    packed = pa.Codec("zstd", _LEVEL).compress(sample, asbytes=True)
    return len(packed) <= _WORTHWHILE * len(sample)


def _measure_rows(table: pa.Table) -> np.ndarray[Any, np.dtype[np.int64]]:
    # Not Table.nbytes, which depends on how the table is cut into chunks. Row groups must not.
    parts = [batch.element_bytes(chunk) for chunk in table.to_batches()]
    return (parts[0] if len(parts) == 1 else np.concatenate(parts)) + _ROW_BYTES


def _cut_groups(sizes: np.ndarray[Any, np.dtype[np.int64]]) -> list[int]:
    """Row positions at which row groups end; the last one is the number of rows."""
    total = np.cumsum(sizes)
    marks = np.arange(limits.ROW_GROUP_BYTES, int(total[-1]), limits.ROW_GROUP_BYTES)
    ends = {int(end) for end in np.searchsorted(total, marks)} | {len(sizes)}
    ends.discard(0)
    return list(_split_long(sorted(ends)))


def _split_long(ends: Sequence[int]) -> Iterator[int]:
    start = 0
    for end in ends:
        yield from range(start + limits.ROW_GROUP_ELEMENTS_MAX, end, limits.ROW_GROUP_ELEMENTS_MAX)
        yield end
        start = end


def _encode_groups(
    table: pa.Table, ends: Sequence[int], sizes: np.ndarray[Any, np.dtype[np.int64]], style: _Style
) -> Encoded:
    """Encode row groups in parallel, each as a file, and stitch the files together piece by piece."""
    pool = ThreadPoolExecutor(min(len(ends), pa.cpu_count(), limits.CODEC_THREADS_MAX), "jjq-encode")
    parts = [
        pool.submit(_encode_part, table.slice(start, end - start), int(sizes[start:end].sum()), style)
        for start, end in zip([0, *ends[:-1]], ends, strict=True)
    ]
    pool.shutdown(wait=False)  # no more work is coming; its threads end with the last row group

    def body(at: int) -> memoryview:
        return parts[at].result().body

    def end() -> memoryview:
        return memoryview(parquet_stitch.end_of_file([part.result() for part in parts]))

    bodies = [functools.partial(body, at) for at in range(len(parts))]
    return Encoded([lambda: memoryview(parquet_stitch.MAGIC), *bodies, functools.cache(end)])


def _encode_part(rows: pa.Table, content_bytes: int, style: _Style) -> parquet_stitch.FilePart:
    return parquet_stitch.split_file(_encode_file(rows, [rows.num_rows], content_bytes, style))


def _encode_file(table: pa.Table, ends: Sequence[int], content_bytes: int, style: _Style) -> memoryview:
    """A whole Parquet file with the row groups that end at `ends`."""
    # Worst case: nothing compresses, every page and row group brings its own headers.
    capacity = content_bytes + content_bytes // 64 + 64 * table.num_rows + 4096 * (len(ends) + 16)
    try:
        return _write(pa.allocate_buffer(capacity), table, ends, style)
    except OSError:
        # The estimate was too small. This was never seen, but must not be a reason to refuse a block.
        return _write(pa.allocate_buffer(4 * capacity), table, ends, style)


def _write(room: pa.Buffer, table: pa.Table, ends: Sequence[int], style: _Style) -> memoryview:
    sink = pa.FixedSizeBufferWriter(room)
    with open_writer(sink, table.schema, style.compressed) as writer:
        start = 0
        for end in ends:
            # One chunk per row group, or the pages would end where the chunks do.
            rows = table.slice(start, end - start).combine_chunks()
            writer.write_table(rows, row_group_size=end - start)
            start = end
        writer.add_key_value_metadata(style.key_values)
    return memoryview(room).cast("B")[: sink.tell()]


def open_writer(sink: Any, schema: pa.Schema, compressed: bool = True) -> pq.ParquetWriter:
    codecs = _CODECS if compressed else {**_CODECS, "value": "none"}
    ledger = pa.types.is_struct(schema.field("value").type)
    if ledger:
        codecs = {**codecs, **_LEDGER_CODECS}
    return pq.ParquetWriter(
        sink,
        schema,
        version="2.6",
        compression=codecs,
        compression_level={name: _LEVEL for name, codec in codecs.items() if codec == "zstd"},
        use_dictionary=_LEDGER_WORDS if ledger else False,
        column_encoding=_LEDGER_ENCODINGS if ledger else _ENCODINGS,
        data_page_size=_PAGE_BYTES,
        write_statistics=_WITH_STATISTICS,
        write_page_index=True,
        write_page_checksum=True,
        sorting_columns=_SORTED,
        store_schema=False,
    )


@functools.cache
def _can_stitch() -> bool:
    """Whether we can stitch the files of this version of Arrow. Tried once, on a small file."""
    values = batch.payload("bytes", [b"a", b"", b"c"], keys=[b"k", None, None])
    table = pa.Table.from_batches([batch.stamp(values, first=7, timestamp_us=1)])
    style = _Style({"jjq.format": str(FORMAT)})
    try:
        parts = [_encode_part(table.slice(at, 1), 64, style) for at in range(3)]
    except ValueError:
        return False
    stitched = (
        parquet_stitch.MAGIC + b"".join(part.body for part in parts) + parquet_stitch.end_of_file(parts)
    )
    return stitched == bytes(_encode_file(table, [1, 2, 3], 192, style))


def _provenance(table: pa.Table, settings: QueueSettings) -> dict[str, str]:
    offsets = table.column("offset")
    return {
        "jjq.format": str(FORMAT),
        "jjq.queue": settings.id,
        "jjq.name": settings.name,
        "jjq.content": settings.content,
        "jjq.first": str(offsets[0].as_py()),
        "jjq.last": str(offsets[-1].as_py()),
    }
