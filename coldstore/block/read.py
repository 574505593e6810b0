"""Read a block's data file: all of it, or some rows and columns.

Offsets are dense, so a range of offsets is a range of rows and is found without statistics.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from coldstore.shared import limits
from coldstore.shared.errors import DataLoss, InvalidInput

COLUMNS: Final = ("offset", "timestamp", "key", "value", "headers")

_TIMESTAMP: Final = COLUMNS.index("timestamp")  # before the only nested column, so its place in the file
_INLINE_BYTES: Final = 1 * limits.MIB  # below this a second thread costs more than it saves
_COMPRESSED: Final = 1.1  # ratio of unpacked to stored bytes from which on a file counts as compressed


class BlockFile:
    """A data file whose footer was read. Anything else gives `DataLoss` that names `key`."""

    def __init__(self, data: Any, key: str, block: int, check_pages: bool = False) -> None:
        self._buffer = pa.py_buffer(data)
        self._key = key
        self._block = block
        self._check_pages = check_pages
        with self._report_damage():
            self._footer = pq.read_metadata(pa.BufferReader(self._buffer))
        self.count: int = self._footer.num_rows
        groups = range(self._footer.num_row_groups)
        rows = [self._footer.row_group(i).num_rows for i in groups]
        self._starts = np.concatenate([[0], np.cumsum(rows, dtype=np.int64)])
        if any(count <= 0 for count in rows) or sum(rows) != self.count:
            raise self._damaged("its row groups do not add up")
        self.provenance = {k.decode(): v.decode() for k, v in (self._footer.metadata or {}).items()}

    def unpacked_bytes(self, stop: int | None = None) -> int:
        """Bytes that the row groups before row `stop`, by default all, claim to unpack to."""
        high = int(
            np.searchsorted(self._starts, self.count if stop is None else min(stop, self.count), side="left")
        )
        return sum(self._footer.row_group(i).total_byte_size for i in range(high))

    def read(self, start: int = 0, stop: int | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """Rows `start`..`stop` (exclusive, positions within the block), all columns or those named, in that order."""
        names = list(COLUMNS) if columns is None else _check_columns(columns)
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
        with self._report_damage():
            return self._decode(groups, names).slice(start - skipped, stop - start).select(names)

    def runs(self, start: int, stop: int, times: tuple[int, int] | None = None) -> Iterator[tuple[int, int]]:
        """Rows `start`..`stop` cut where row groups end, so that each run is decoded by itself; without
        groups in which no timestamp (µs) is within `times`, both ends included."""
        for group, (low, high) in enumerate(pairwise(self._starts.tolist())):
            if low < stop and high > start and (times is None or self._touches(group, *times)):
                yield max(low, start), min(high, stop)

    def _touches(self, group: int, since_us: int, until_us: int) -> bool:
        found = self._footer.row_group(group).column(_TIMESTAMP).statistics
        if found is None or not found.has_min_max:
            return True
        return bool(found.min_raw <= until_us and found.max_raw >= since_us)

    def _decode(self, groups: Sequence[int], names: Sequence[str]) -> pa.Table:
        """Decode row groups in parallel. Within one row group Arrow uses one thread per column, and the column
        `value` holds nearly everything. If values are not compressed, decoding is copying: then memory is the
        limit, not the processor, and one thread does it."""
        threads = min(len(groups), pa.cpu_count(), limits.CODEC_THREADS_MAX)
        if threads == 1 or self.unpacked_bytes() < max(_INLINE_BYTES, _COMPRESSED * len(self._buffer)):
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

    def _report_damage(self) -> _DamageReport:
        return _DamageReport(self)

    def _damaged(self, why: str) -> DataLoss:
        return DataLoss(f"{self._key} is not a readable block: {why}", key=self._key, block=self._block)


class _DamageReport:
    """Turns the errors with which Arrow refuses bytes into `DataLoss` with key and block."""

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


def _check_columns(columns: Sequence[str]) -> list[str]:
    unknown = [name for name in columns if name not in COLUMNS]
    if unknown or not columns or isinstance(columns, str):
        raise InvalidInput(f"columns {columns!r} are not all known: choose from {', '.join(COLUMNS)}")
    return list(columns)
