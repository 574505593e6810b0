"""What earlier attempts of a task have pushed, taken out of what this one has to push.

A task may run again after it failed, beside itself (speculation), or after a restart of its query. Its rows
are the same then, but after a shuffle not always in the same order, so places alone prove nothing. Earlier
pushes are read back and compared: as long as both go the same way by Arrow alone; from the first difference
on row by row, as sets in which each row counts as often as it is there.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator

import pyarrow as pa

from coldstore.shared.errors import Conflict


def remaining(mine: Iterable[pa.RecordBatch], earlier: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of `mine` that are not in `earlier`; `Conflict` if `earlier` has others."""
    known: Counter[bytes] = Counter()
    pushed: pa.RecordBatch | None = None
    for batch in mine:
        while not known and batch.num_rows:
            pushed = pushed if pushed is not None and pushed.num_rows else next(earlier, None)
            if pushed is None:
                break
            count = min(batch.num_rows, pushed.num_rows)
            if batch.slice(0, count).equals(pushed.slice(0, count)):
                batch, pushed = batch.slice(count), pushed.slice(count)
            else:
                known = Counter(_digests(pushed))
                for more in earlier:
                    known.update(_digests(more))
                pushed = None
        if known:
            batch = _without(batch, known)
        if batch.num_rows:
            yield batch
    left = known.total() + (0 if pushed is None else pushed.num_rows) + sum(b.num_rows for b in earlier)
    if left:
        raise Conflict(
            f"an earlier attempt of this task pushed {left} elements that it does not have now: the rows differ from "
            f"attempt to attempt, so make the query deterministic, and write under a new producer or checkpoint"
        )


def _without(batch: pa.RecordBatch, known: Counter[bytes]) -> pa.RecordBatch:
    """The rows that are not among `known`, which loses those that are."""
    keep = []
    for digest in _digests(batch):
        keep.append(not known[digest])
        if known[digest]:
            known[digest] -= 1
    known += Counter()  # drops what has come down to 0
    return batch.filter(pa.array(keep))


def _digests(batch: pa.RecordBatch) -> Iterator[bytes]:
    """One for each row. Sixteen bytes stand for it, however large it is."""
    for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
        yield hashlib.blake2b(repr(row).encode(), digest_size=16).digest()
