"""A block's data file: Parquet that any engine reads, in bytes that depend on the elements alone.

    compression     zstd, level 1: on a par with snappy in speed and a fifth smaller
    order           rows sorted by offset, and declared so
    encodings       offset and timestamp DELTA_BINARY_PACKED, the rest PLAIN; no dictionaries, since
                    they help neither numbers that count up nor values that differ
    statistics      offset and timestamp, per row group and page (page index)
    checksums       of every page; of the whole file (sha256) in the block's metadata
    row groups      about `limits.ROW_GROUP_BYTES` each, so that a pruned read decodes little
    key-values      jjq.format, jjq.queue (id), jjq.name, jjq.content, jjq.first, jjq.last

The same elements give the same bytes, however they were cut into Arrow chunks and on however many
processors: an owner that repeats a write after a crash produces the file that is already there.
Hence no time, no put id and nothing else of the attempt in the file. (Another version of Arrow may
write other bytes, so where it matters `commit.py` compares elements when digests differ.)
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from coldstore import batch, limits, stitch
from coldstore.errors import DataLoss, InvalidInput
from coldstore.queue import QueueSettings

FORMAT: Final = 1
COLUMNS: Final = ("offset", "timestamp", "key", "value", "headers")

_SORTED: Final = [pq.SortingColumn(0)]
_ENCODINGS: Final = {"offset": "DELTA_BINARY_PACKED", "timestamp": "DELTA_BINARY_PACKED"}
_WITH_STATISTICS: Final = ["offset", "timestamp"]
_PAGE_BYTES: Final = 64 * limits.KIB  # stays in the processor's cache from encoder to compressor
_ROW_BYTES: Final = 24  # what a row costs besides its payload: offset, timestamp, lengths
_INLINE_BYTES: Final = 1 * limits.MIB  # below this a second thread costs more than it saves
_THREADS_MAX: Final = 4


class Encoded:
    """A data file in pieces; later ones may still be encoded while earlier ones are digested and put.

    Iterating waits for each piece. The digest is taken along the way, once, by whoever iterates first.
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

    def _finished(self) -> None:
        if self._digested < len(self._pieces):
            for _ in self:
                pass

    @property
    def size(self) -> int:
        self._finished()
        return self._size

    @property
    def sha256(self) -> str:
        self._finished()
        return self._digest.hexdigest()

    @classmethod
    def of(cls, data: bytes | memoryview) -> Encoded:
        """A data file that is there already."""
        return cls([lambda: memoryview(data)])


def encode(table: pa.Table, settings: QueueSettings) -> Encoded:
    """The data file of these elements, which the caller has checked: dense offsets, the queue's schema."""
    sizes = _row_bytes(table)
    ends = _group_ends(sizes)
    said = _provenance(table, settings)
    if len(ends) == 1 or not _can_stitch():
        return Encoded.of(_encode_file(table, ends, int(sizes.sum()), said))
    return _encode_groups(table, ends, sizes, said)


def _row_bytes(table: pa.Table) -> np.ndarray[Any, np.dtype[np.int64]]:
    # Not Table.nbytes: that depends on how the table is cut, and row groups must not.
    parts = [batch.element_bytes(chunk) for chunk in table.to_batches()]
    return (parts[0] if len(parts) == 1 else np.concatenate(parts)) + _ROW_BYTES


def _group_ends(sizes: np.ndarray[Any, np.dtype[np.int64]]) -> list[int]:
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
    table: pa.Table, ends: Sequence[int], sizes: np.ndarray[Any, np.dtype[np.int64]], said: dict[str, str]
) -> Encoded:
    """Encode row groups side by side, each as a file, which are stitched together piece by piece."""
    pool = ThreadPoolExecutor(min(len(ends), pa.cpu_count(), _THREADS_MAX), "jjq-encode")
    parts = [
        pool.submit(_encode_part, table.slice(start, end - start), int(sizes[start:end].sum()), said)
        for start, end in zip([0, *ends[:-1]], ends, strict=True)
    ]
    pool.shutdown(wait=False)  # no more work is coming; its threads end with the last row group

    def body(at: int) -> memoryview:
        return parts[at].result().body

    def end() -> memoryview:
        return memoryview(stitch.end_of_file([part.result() for part in parts]))

    bodies = [functools.partial(body, at) for at in range(len(parts))]
    return Encoded([lambda: memoryview(stitch.MAGIC), *bodies, functools.cache(end)])


def _encode_part(rows: pa.Table, content_bytes: int, said: dict[str, str]) -> stitch.Part:
    return stitch.take_apart(_encode_file(rows, [rows.num_rows], content_bytes, said))


def _encode_file(
    table: pa.Table, ends: Sequence[int], content_bytes: int, said: dict[str, str]
) -> memoryview:
    """A whole Parquet file with the row groups that end at `ends`."""
    # Worst case: nothing compresses, every page and row group brings its own headers.
    capacity = content_bytes + content_bytes // 64 + 64 * table.num_rows + 4096 * (len(ends) + 16)
    try:
        return _write(pa.allocate_buffer(capacity), table, ends, said)
    except OSError:
        # The estimate was too small. Never seen; but a block must not be refused for it.
        return _write(pa.allocate_buffer(4 * capacity), table, ends, said)


def _write(room: pa.Buffer, table: pa.Table, ends: Sequence[int], said: dict[str, str]) -> memoryview:
    sink = pa.FixedSizeBufferWriter(room)
    with _writer(sink, table.schema) as writer:
        start = 0
        for end in ends:
            # One chunk per row group, or the pages would end where the chunks do.
            rows = table.slice(start, end - start).combine_chunks()
            writer.write_table(rows, row_group_size=end - start)
            start = end
        writer.add_key_value_metadata(said)
    return memoryview(room).cast("B")[: sink.tell()]


def _writer(sink: Any, schema: pa.Schema) -> pq.ParquetWriter:
    return pq.ParquetWriter(
        sink,
        schema,
        version="2.6",
        compression="zstd",
        compression_level=1,
        use_dictionary=False,
        column_encoding=_ENCODINGS,
        data_page_size=_PAGE_BYTES,
        write_statistics=_WITH_STATISTICS,
        write_page_index=True,
        write_page_checksum=True,
        sorting_columns=_SORTED,
        store_schema=False,
    )


@functools.cache
def _can_stitch() -> bool:
    """Whether this version of Arrow writes files that we can put together: tried once, on a small one."""
    values = batch.payload("bytes", [b"a", b"", b"c"], keys=[b"k", None, None])
    table = pa.Table.from_batches([batch.stamp(values, first=7, timestamp_us=1)])
    said = {"jjq.format": str(FORMAT)}
    try:
        parts = [_encode_part(table.slice(at, 1), 64, said) for at in range(3)]
    except ValueError:
        return False
    stitched = stitch.MAGIC + b"".join(part.body for part in parts) + stitch.end_of_file(parts)
    return stitched == bytes(_encode_file(table, [1, 2, 3], 192, said))


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


class BlockFile:
    """A data file whose footer was read. `DataLoss`, naming `key`, for whatever is not such a file."""

    def __init__(self, data: Any, key: str, block: int, check_pages: bool = False) -> None:
        self._buffer = pa.py_buffer(data)
        self._key = key
        self._block = block
        self._check_pages = check_pages
        with self._damage_reported():
            self._footer = pq.read_metadata(pa.BufferReader(self._buffer))
        self.count: int = self._footer.num_rows
        groups = range(self._footer.num_row_groups)
        rows = [self._footer.row_group(i).num_rows for i in groups]
        self._starts = np.concatenate([[0], np.cumsum(rows, dtype=np.int64)])
        if any(count <= 0 for count in rows) or sum(rows) != self.count:
            raise self._damaged("its row groups do not add up")
        self.provenance = {k.decode(): v.decode() for k, v in (self._footer.metadata or {}).items()}

    def unpacked_bytes(self, stop: int | None = None) -> int:
        """What the row groups of the rows before `stop`, by default all, say that they unpack to."""
        high = int(
            np.searchsorted(self._starts, self.count if stop is None else min(stop, self.count), side="left")
        )
        return sum(self._footer.row_group(i).total_byte_size for i in range(high))

    def read(self, start: int = 0, stop: int | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """Rows `start`..`stop` (exclusive, positions within the block), all columns or those named, in that order."""
        names = list(COLUMNS) if columns is None else _known(columns)
        stop = self.count if stop is None else min(stop, self.count)
        start = max(start, 0)
        if start >= stop:
            groups = [0]
            stop = start = 0
        else:
            low = int(np.searchsorted(self._starts, start, side="right")) - 1
            high = int(np.searchsorted(self._starts, stop, side="left"))
            groups = list(range(low, high))
        skipped = int(self._starts[groups[0]])
        with self._damage_reported():
            return self._decode(groups, names).slice(start - skipped, stop - start).select(names)

    def _decode(self, groups: Sequence[int], names: Sequence[str]) -> pa.Table:
        """Decode row groups side by side: within one of them Arrow uses one thread per column, and
        one column, the value, holds nearly everything."""
        threads = min(len(groups), pa.cpu_count(), _THREADS_MAX)
        if threads == 1 or self._footer.serialized_size + len(self._buffer) < _INLINE_BYTES:
            return self._decode_some(groups, names)
        runs = [run.tolist() for run in np.array_split(np.array(groups), threads)]
        with ThreadPoolExecutor(threads, "jjq-decode") as pool:
            return pa.concat_tables(pool.map(lambda run: self._decode_some(run, names), runs))

    def _decode_some(self, groups: Sequence[int], names: Sequence[str]) -> pa.Table:
        file = pq.ParquetFile(
            pa.BufferReader(self._buffer), metadata=self._footer, page_checksum_verification=self._check_pages
        )
        return file.read_row_groups(
            list(groups), columns=list(names), use_threads=False
        ).replace_schema_metadata(None)

    def _damage_reported(self) -> _Reported:
        return _Reported(self)

    def _damaged(self, why: str) -> DataLoss:
        return DataLoss(f"{self._key} is not a readable block: {why}", key=self._key, block=self._block)


class _Reported:
    """Turns whatever Arrow says of bytes that it cannot read into `DataLoss` with key and block."""

    def __init__(self, file: BlockFile) -> None:
        self._file = file

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> Literal[False]:
        if isinstance(error, pa.ArrowException | OSError | ValueError | KeyError | IndexError):
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise self._file._damaged(why) from error
        return False


def _known(columns: Sequence[str]) -> list[str]:
    unknown = [name for name in columns if name not in COLUMNS]
    if unknown or not columns or isinstance(columns, str):
        raise InvalidInput(f"columns {columns!r} are not all known: choose from {', '.join(COLUMNS)}")
    return list(columns)
