"""Final blocks as columns: 100,000 of them in 15 MB. Adding a block does not copy the others.

Every reader of these columns also holds a number of rows and looks no further. Rows below that number never
change, so one writer may add rows while others search. When the arrays are full they are copied into larger
ones; readers keep the old arrays.

Fields that follow from others are not kept: `path`, `previous` and `next` follow from the offsets, the queue
is that of the list, and `copy` is of no use once the next block was written.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from coldstore.layout import paths
from coldstore.layout.metadata import BlockMetadata
from coldstore.shared.errors import check

Array = np.ndarray[Any, Any]

# Name and type. Binary columns hold the values that metadata shows as hexadecimal digits.
FIELDS: Final[Mapping[str, str]] = {
    "first": "<i8",
    "last": "<i8",
    "min_timestamp": "<i8",
    "max_timestamp": "<i8",
    "stored_bytes": "<i8",
    "raw_bytes": "<i8",
    "epoch": "<i8",
    "sha256": "V32",
    "chain": "V32",
    "put_id": "V16",
}
_FIRST_ROWS: Final = 64


class BlockColumns:
    """Rows of final blocks, in order; `peak` is the greatest timestamp up to each."""

    __slots__ = ("_adding", "_arrays", "_peak", "count")

    def __init__(self, arrays: Mapping[str, Array] | None = None) -> None:
        given = arrays if arrays is not None else {name: np.empty(0, kind) for name, kind in FIELDS.items()}
        self._arrays = {name: np.ascontiguousarray(given[name], dtype=kind) for name, kind in FIELDS.items()}
        self.count = len(self._arrays["first"])
        self._adding = threading.Lock()
        check(all(len(array) == self.count for array in self._arrays.values()), "columns differ in length")
        self._peak = (
            np.maximum.accumulate(self._arrays["max_timestamp"]) if self.count else np.empty(0, "<i8")
        )

    @classmethod
    def concat(cls, parts: Iterable[BlockColumns]) -> BlockColumns:
        """The rows of several columns, one after the other."""
        runs = list(parts)
        if not runs:
            return cls()
        return cls({name: np.concatenate([run.array(name, run.count) for run in runs]) for name in FIELDS})

    def array(self, name: str, count: int) -> Array:
        """The first `count` rows of a column; not a copy."""
        return self._arrays[name][:count]

    def peak(self, count: int) -> Array:
        return self._peak[:count]

    def row(self, at: int, queue: str) -> BlockMetadata:
        """The block in row `at`."""
        arrays = self._arrays
        first = arrays["first"].item(at)
        return BlockMetadata(
            queue=queue,
            kind="final",
            first=first,
            last=arrays["last"].item(at),
            min_timestamp_us=arrays["min_timestamp"].item(at),
            max_timestamp_us=arrays["max_timestamp"].item(at),
            stored_bytes=arrays["stored_bytes"].item(at),
            raw_bytes=arrays["raw_bytes"].item(at),
            sha256=arrays["sha256"][at].tobytes().hex(),
            path=paths.data_path(first),
            previous=arrays["first"].item(at - 1) if at else None,
            epoch=arrays["epoch"].item(at),
            put_id=arrays["put_id"][at].tobytes().hex(),
            chain=arrays["chain"][at].tobytes().hex(),
        )

    def extended(self, count: int, blocks: Iterable[BlockMetadata]) -> BlockColumns:
        """These columns with `blocks` after their first `count` rows; shares memory where it can.

        If another caller has already put other rows after `count`, those stay as they are and the
        result is a copy.
        """
        rows = list(blocks)
        if not rows:
            return self
        with self._adding:
            columns: BlockColumns = self
            if count != self.count or count + len(rows) > len(self._peak):
                columns = self._copy_rows(count, max(_FIRST_ROWS, 2 * (count + len(rows))))
            for block in rows:
                columns._append(block)
            return columns

    def _copy_rows(self, count: int, room: int) -> BlockColumns:
        grown = BlockColumns()
        for name, array in self._arrays.items():
            grown._arrays[name] = np.empty(room, FIELDS[name])
            grown._arrays[name][:count] = array[:count]
        grown._peak = np.empty(room, "<i8")
        grown._peak[:count] = self._peak[:count]
        grown.count = count
        return grown

    def _append(self, block: BlockMetadata) -> None:
        at = self.count
        row = {
            "first": block.first,
            "last": block.last,
            "min_timestamp": block.min_timestamp_us,
            "max_timestamp": block.max_timestamp_us,
            "stored_bytes": block.stored_bytes,
            "raw_bytes": block.raw_bytes,
            "epoch": block.epoch,
            "sha256": np.void(bytes.fromhex(block.sha256)),
            "chain": np.void(bytes.fromhex(block.chain or "")),
            "put_id": np.void(bytes.fromhex(block.put_id)),
        }
        for name, value in row.items():
            self._arrays[name][at] = value
        peak = block.max_timestamp_us if at == 0 else max(int(self._peak[at - 1]), block.max_timestamp_us)
        self._peak[at] = peak
        self.count = at + 1
