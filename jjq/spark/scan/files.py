"""The data files behind a range of offsets, for those who read Parquet by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from coldstore.block.files import Shelf
from jjq.spark.scan.partition import Slice


class DataFiles(NamedTuple):
    """Paths relative to the queue's folder; whether they begin and end exactly where the range does."""

    paths: list[str]
    begins: bool
    ends: bool


def data_files(slices: Sequence[Slice], shelf: Shelf) -> DataFiles:
    """The files that together hold every element of `slices` once, and perhaps some before and after."""
    kept: list[Slice] = []
    for part in slices:
        # A claim's file begins before its block, with the elements of the young blocks before it.
        while kept and kept[-1].block.first >= part.block.file_first:
            kept.pop()
        kept.append(part)
    paths = [part.block.path for part in kept]
    finals = [at for at, part in enumerate(kept) if part.block.kind == "final"]
    if finals:
        # Only the last final block can be one whose file is still to be put in its place. Until it is,
        # and for ever after, its copy has the same bytes (commit.py).
        last_final = kept[finals[-1]].block
        paths[finals[-1]] = shelf.committed(last_final).copy or last_final.path
    return DataFiles(
        paths, kept[0].block.file_first == slices[0].start, slices[-1].end == kept[-1].block.next
    )
