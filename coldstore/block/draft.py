"""A draft: elements about to become a block, after a check that a block may hold them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from coldstore import compute as pc
from coldstore.shared import batch, limits, lists
from coldstore.shared.batch import Content
from coldstore.shared.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Draft:
    """Elements with dense offsets, and the figures that the block's metadata will have."""

    table: pa.Table
    first: int
    min_timestamp_us: int
    max_timestamp_us: int

    @property
    def count(self) -> int:
        return int(self.table.num_rows)

    @property
    def next(self) -> int:
        return self.first + self.count

    @property
    def raw_bytes(self) -> int:
        return batch.raw_bytes(self.table)

    def cut(self, start: int, end: int) -> Draft:
        """The elements with offsets `start`..`end` (exclusive)."""
        return _measure(self.table.slice(start - self.first, end - start), start)

    def head(self, size: int) -> Draft:
        """The first elements, of about `size` bytes; at least one."""
        if size >= self.raw_bytes:
            return self
        low, high = 1, self.count  # the first count whose elements have as much
        while low < high:
            middle = (low + high) // 2
            if batch.raw_bytes(self.table.slice(0, middle)) >= size:
                high = middle
            else:
                low = middle + 1
        over = batch.raw_bytes(self.table.slice(0, low)) - size
        under = size - batch.raw_bytes(self.table.slice(0, low - 1))
        return self.cut(self.first, self.first + (low if low == 1 or over <= under else low - 1))


def make_draft(elements: pa.RecordBatch | pa.Table, content: Content) -> Draft:
    """A draft of `elements`, or `InvalidInput` that names the position at fault."""
    table = elements if isinstance(elements, pa.Table) else pa.Table.from_batches([elements])
    if table.num_rows == 0:
        raise InvalidInput("a block has at least one element")
    wanted = batch.schema(content)
    if not table.schema.equals(wanted):
        raise InvalidInput(
            f"the elements are {_describe(table.schema)}; a {content} queue holds {_describe(wanted)}"
        )
    if table.nbytes > limits.FINAL_BYTES_MAX:
        raise InvalidInput(
            f"{table.nbytes} bytes are too many for one block: at most {limits.FINAL_BYTES_MAX}; split them"
        )
    for name in ("offset", "timestamp", "value"):
        if table.column(name).null_count:
            position = pc.index(table.column(name).is_null(), lists.scalar(True, pa.bool_())).as_py()
            raise InvalidInput(f"element {position}: its {name} is null", position=position)
    first = table.column("offset")[0].as_py()
    _check_dense(table.column("offset"), first)
    return _measure(table, first)


def concat(parts: list[pa.Table], content: Content) -> Draft:
    """A draft of several tables whose elements follow one another."""
    return make_draft(pa.concat_tables(parts), content)


def _measure(table: pa.Table, first: int) -> Draft:
    times = pc.min_max(table.column("timestamp").cast(pa.int64()))
    return Draft(table, first, times["min"].as_py(), times["max"].as_py())


def _check_dense(offsets: pa.ChunkedArray, first: int) -> None:
    if first < 0:
        raise InvalidInput(f"element 0: its offset is {first}; offsets start at 0", position=0)
    position = 0
    for chunk in offsets.chunks:
        wrong = _first_wrong(lists.numbers(chunk), first + position)
        if wrong is not None:
            at = position + wrong
            raise InvalidInput(
                f"element {at}: its offset is {chunk[wrong].as_py()} where {first + at} was due; a block has no gap",
                position=at,
            )
        position += len(chunk)


def _first_wrong(found: np.ndarray[Any, Any], start: int) -> int | None:
    differs = found != np.arange(start, start + len(found), dtype=np.int64)
    return int(differs.argmax()) if differs.any() else None


def _describe(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
