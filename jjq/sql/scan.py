"""One queue as DuckDB reads it: the blocks of the cold store, and then the tail, each element once.

A snapshot is taken first (`take_snapshot`): how far the queue goes, and then the list of its blocks. Everything before
the end of that list comes from its files, the rest from the server by offsets. A block that is sealed or merged
meanwhile changes nothing: the files of the list stay for a grace period, and offsets name the same elements for ever.

DuckDB asks a table for columns and a filter (`scanner`), as it does with any data set of Arrow:

    blocks       are ruled out by offsets and timestamps in their metadata, before a file is opened. Many are ruled out
                 together first
    row groups   are ruled out by their statistics, by Arrow
    columns      that nobody asks for are not read. A query that needs offsets only reads no file: offsets are dense
    the tail     is fetched when a filter does not rule it out, once per query

Page checksums are verified while reading. The sha256 of whole files is not: that would read all columns of a block
for a few rows of it. `jjq verify` does it.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs

from coldstore.block.files import BlockFiles
from coldstore.history.block_list import BlockList
from coldstore.layout import paths
from coldstore.layout.metadata import BlockMetadata
from coldstore.shared import batch
from coldstore.shared.batch import TIMESTAMP, Content
from coldstore.shared.errors import JjqError
from jjq.limits import (
    SQL_BATCH_BYTES,
    SQL_BLOCKS_TOGETHER,
    SQL_ROWS,
    SQL_SCAN_ROWS,
    SQL_TAIL_BYTES,
)
from jjq.sql.object_files import ScanFailures, file_system
from jjq.sql.statement import Edge

_FORMAT: Final = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(
        pre_buffer=True, page_checksum_verification=True
    )
)
_NO_FILES: Final = fs.LocalFileSystem()  # of fragments that are never opened
_NAMES: Final = ("first", "last", "min_timestamp", "max_timestamp")

ReadRange = Callable[[int, int], Iterable[pa.RecordBatch]]
Array = np.ndarray[Any, np.dtype[np.int64]]


class QueueSnapshot:
    """A queue up to `end`: blocks up to where their list ends, then elements that `read_tail` brings."""

    def __init__(
        self,
        name: str,
        content: Content,
        blocks: BlockList,
        end: int,
        files: BlockFiles | None,
        read_tail: ReadRange,
    ) -> None:
        self.name = name
        self.schema = batch.schema(content)
        self.blocks = blocks
        self.end = max(end, blocks.next_offset)
        self.files = files
        self.read_tail = read_tail

    @property
    def row_bytes(self) -> int:
        """About how large an element is, by the last blocks."""
        some = self.blocks[-4:] if len(self.blocks) else []
        return sum(block.raw_bytes for block in some) // max(1, sum(block.count for block in some))


class QueueScan(ds.Dataset):  # type: ignore[misc]
    """A queue, as a data set that DuckDB pushes columns and filters down to."""

    def __init__(
        self,
        snapshot: QueueSnapshot,
        failures: ScanFailures,
        *,
        edge: Edge | None = None,
    ) -> None:
        """The query may want no more than an `edge` of the queue."""
        # The base class is abstract and has no constructor to call.
        self._snapshot = snapshot
        self._failures = failures
        self._first, self._end = 0, snapshot.end
        if edge is not None:
            self._first = max(0, snapshot.end - edge.rows) if edge.last else 0
            self._end = snapshot.end if edge.last else min(snapshot.end, edge.rows)
        self._tail: ds.Dataset | None = None
        self._spool: IO[bytes] | None = None
        self._sizes: dict[str, int] = {}
        self.opened = 0  # files that were not ruled out, of all scans; tests look at it
        files = snapshot.files
        self._system = None if files is None else file_system(files.objects, self._sizes, failures)

    @property
    def schema(self) -> pa.Schema:
        return self._snapshot.schema

    @property
    def rows(self) -> int:
        """How many elements the queue has."""
        return self._snapshot.end

    @property
    def batch_rows(self) -> int:
        """How many of its rows make a batch that is neither small nor too large."""
        return max(16, min(SQL_ROWS, SQL_BATCH_BYTES // max(1, self._snapshot.row_bytes)))

    def scanner(
        self, columns: list[str] | None = None, filter: pc.Expression | None = None, **_: Any
    ) -> ds.Scanner:
        """The rows of all parts that `filter` does not rule out."""
        try:
            return self._offsets_alone(columns, filter) or self._all_parts(columns, filter)
        except JjqError as error:
            self._failures.note(error)
            raise

    def close(self) -> None:
        """Let go of the tail."""
        self._tail = None
        if self._spool is not None:
            self._spool.close()

    # Offsets need no file ---------------------------------------------------------------------------

    def _offsets_alone(self, columns: list[str] | None, filter: pc.Expression | None) -> ds.Scanner | None:
        """Offsets are dense: where nothing else is asked for, they are counted instead of read."""
        if columns is None or set(columns) != {"offset"}:
            return None
        known = pa.schema([self.schema.field("offset")])
        reader = pa.RecordBatchReader.from_batches(known, self._count(known))
        try:
            return ds.Scanner.from_batches(reader, columns=columns, filter=filter)
        except (pa.ArrowInvalid, KeyError):  # the filter looks at another column
            return None

    def _count(self, known: pa.Schema) -> Iterator[pa.RecordBatch]:
        for first in range(self._first, self._end, SQL_SCAN_ROWS):
            numbers = np.arange(first, min(first + SQL_SCAN_ROWS, self._end), dtype=np.int64)
            column = pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])
            yield pa.RecordBatch.from_arrays([column], schema=known)

    # Blocks and tail ----------------------------------------------------------------------------------

    def _all_parts(self, columns: list[str] | None, filter: pc.Expression | None) -> ds.Scanner:
        if (self._first, self._end) != (0, self._snapshot.end):
            edge = _between(self._first, self._end - 1)
            filter = edge if filter is None else edge & filter
        parts: list[ds.Dataset] = []
        fragments, odd = self._blocks(filter)
        if fragments:
            parts.append(ds.FileSystemDataset(fragments, self.schema, _FORMAT, self._system))
        if odd:
            parts.append(ds.InMemoryDataset(pa.concat_tables(odd)))
        tail = self._tail_part(filter)
        if tail is not None:
            parts.append(tail)
        if not parts:
            parts.append(ds.InMemoryDataset(self.schema.empty_table()))
        rows = min(SQL_SCAN_ROWS, 8 * self.batch_rows)
        return ds.UnionDataset(self.schema, parts).scanner(columns=columns, filter=filter, batch_size=rows)

    def _blocks(self, filter: pc.Expression | None) -> tuple[list[ds.Fragment], list[pa.Table]]:
        """Files of the blocks that may have rows; and the elements of blocks whose file holds others, too."""
        files, blocks = self._snapshot.files, self._snapshot.blocks
        if files is None or not len(blocks):
            return [], []
        fragments: list[ds.Fragment] = []
        odd: list[pa.Table] = []
        for at in range(len(blocks)) if filter is None else self._not_ruled_out(filter):
            block = blocks[at]
            if block.file_first == block.first:
                fragments.append(self._fragment(files.key(block.path), block))
            else:
                odd.append(files.read(block))
        self.opened += len(fragments) + len(odd)
        return fragments, odd

    def _not_ruled_out(self, filter: pc.Expression) -> Iterator[int]:
        """Blocks that a filter does not rule out by their metadata. Many are first ruled out together."""
        count = len(self._snapshot.blocks)
        first, last, least, most = _bounds(self._snapshot.blocks)
        step = max(SQL_BLOCKS_TOGETHER, math.isqrt(count))

        def left(runs: Iterable[tuple[int, int]]) -> Iterator[int]:
            probes = {
                str(low): probe_fragment(
                    str(low),
                    _guarantee(first[low], last[high - 1], least[low:high].min(), most[low:high].max()),
                )
                for low, high in runs
            }
            return (int(fragment.path) for fragment in not_ruled_out(probes, self.schema, filter))

        for low in left((at, min(at + step, count)) for at in range(0, count, step)):
            yield from left((at, at + 1) for at in range(low, min(low + step, count)))

    def _fragment(self, key: str, block: BlockMetadata) -> ds.Fragment:
        self._sizes[key] = block.stored_bytes
        return _FORMAT.make_fragment(key, self._system)

    def _tail_part(self, filter: pc.Expression | None) -> ds.Dataset | None:
        start, end = self._snapshot.blocks.next_offset, self._snapshot.end
        if start >= end:
            return None
        probe = probe_fragment("tail", _between(start, end - 1))
        if not not_ruled_out({"tail": probe}, self.schema, filter):
            return None
        if self._tail is None:
            self._tail = ds.InMemoryDataset(self._fetch_tail(start, end))
        return self._tail

    def _fetch_tail(self, start: int, end: int) -> pa.Table:
        """The elements after the blocks; a long tail goes to a temporary file, and is mapped from there."""
        batches: list[pa.RecordBatch] = []
        size = 0
        source = iter(self._snapshot.read_tail(start, end))
        for found in source:
            batches.append(found)
            size += found.nbytes
            if size > SQL_TAIL_BYTES:
                return self._spooled(batches, source)
        return pa.Table.from_batches(batches, self.schema)

    def _spooled(self, begun: list[pa.RecordBatch], rest: Iterator[pa.RecordBatch]) -> pa.Table:
        self._spool = tempfile.NamedTemporaryFile(prefix="jjq-sql-", suffix=".arrow")  # noqa: SIM115 - kept open
        with pa.ipc.new_file(pa.PythonFile(self._spool, mode="w"), self.schema) as writer:
            for some in (begun, rest):
                for found in some:
                    writer.write_batch(found)
        self._spool.flush()
        return pa.ipc.open_file(pa.memory_map(self._spool.name)).read_all()


def _bounds(blocks: BlockList) -> tuple[Array, ...]:
    """First and last offset, least and greatest timestamp of all blocks, as columns."""
    young = blocks.young
    late = (
        [block.first for block in young],
        [block.last for block in young],
        [block.min_timestamp_us for block in young],
        [block.max_timestamp_us for block in young],
    )
    return tuple(
        np.concatenate([blocks.columns.array(name, blocks.final_count), np.array(values, dtype=np.int64)])
        for name, values in zip(_NAMES, late, strict=True)
    )


def _guarantee(first: int, last: int, least_us: int, most_us: int) -> pc.Expression:
    """What holds for every element of some blocks."""
    time = pc.field("timestamp")
    return _between(first, last) & (time >= _time(least_us)) & (time <= _time(most_us))


def _between(first: int, last: int) -> pc.Expression:
    offset = pc.field("offset")
    return (offset >= int(first)) & (offset <= int(last))


def _time(us: int) -> pa.Scalar:
    # Not pa.scalar, which may import pandas.
    return pa.Array.from_buffers(TIMESTAMP, 1, [None, pa.py_buffer(np.int64(us).tobytes())])[0]


def probe_fragment(name: str, known: pc.Expression) -> ds.Fragment:
    """No file: a name, and what is known of its rows, to be asked whether a filter rules them out."""
    return _FORMAT.make_fragment(name, _NO_FILES, partition_expression=known)


def not_ruled_out(
    made: dict[str, ds.Fragment], schema: pa.Schema, filter: pc.Expression | None
) -> list[ds.Fragment]:
    """The fragments that a filter does not rule out by what is known of them."""
    if filter is None:
        return list(made.values())
    data = ds.FileSystemDataset(list(made.values()), schema, _FORMAT)
    return [made[fragment.path] for fragment in data.get_fragments(filter=filter)]


def find_file(text: str) -> str | None:
    """The data file that a message of Arrow is about, by its key."""
    at = text.find(paths.QUEUES)
    return None if at < 0 else text[at:].partition(".parquet")[0] + ".parquet"
