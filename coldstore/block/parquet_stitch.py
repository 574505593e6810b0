"""Stitch one Parquet file out of several files with one row group each.

Arrow encodes a file in one thread, and spends most of that time on one column. So `encode` encodes row groups
in parallel, each as a file of its own. This module puts them together into the file that Arrow would have
written in one thread, byte for byte (a test compares them):

    "PAR1" · row group … row group · column indexes · offset indexes · footer · its length · "PAR1"

Row groups and column indexes are copied unchanged. Offset indexes and the footer hold positions in the file,
which have moved. The ids below are those of parquet.thrift:

    FileMetaData    3 num_rows, 4 row_groups
    RowGroup        1 columns, 5 file_offset, 7 ordinal
    ColumnChunk     2 file_offset, 3 meta_data, 4 offset_index_offset, 5 offset_index_length,
                    6 column_index_offset, 7 column_index_length
    ColumnMetaData  9 data_page_offset
    OffsetIndex     1 page_locations (PageLocation: 1 offset)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from coldstore.block import thrift
from coldstore.block.thrift import Struct

MAGIC: Final = b"PAR1"

_NUM_ROWS, _ROW_GROUPS = 3, 4
_COLUMNS, _GROUP_OFFSET, _ORDINAL = 1, 5, 7
_CHUNK_OFFSET, _META_DATA = 2, 3
_OFFSET_INDEX, _COLUMN_INDEX = 4, 6  # each followed by its length
_DATA_PAGE_OFFSET = 9
# Optional parts that we never request. If one appears, we do not know how to move it.
_UNEXPECTED: Final = {10: "index page", 11: "dictionary page", 14: "bloom filter"}


@dataclass(frozen=True, slots=True)
class FilePart:
    """The parts of a file with one row group."""

    body: memoryview  # the row group itself
    footer: Struct
    group: Struct
    column_indexes: tuple[bytes | None, ...]  # one for each column chunk, like the next
    offset_indexes: tuple[Struct | None, ...]


def split_file(file: memoryview) -> FilePart:
    """The parts of a file with one row group; `ValueError` if it is anything else."""
    try:
        if bytes(file[:4]) != MAGIC or bytes(file[-4:]) != MAGIC:
            raise ValueError("not a Parquet file")
        start = len(file) - 8 - int.from_bytes(file[-8:-4], "little")
        footer, end = thrift.read(file, start)
        groups = footer[_ROW_GROUPS][1][1]
        if end != len(file) - 8 or len(groups) != 1:
            raise ValueError("not one row group")
        chunks: list[Struct] = groups[0][_COLUMNS][1][1]
        body_end = min([start, *(_get(chunk, _COLUMN_INDEX) or start for chunk in chunks)])
        for chunk in chunks:
            for field, what in _UNEXPECTED.items():
                if field in chunk[_META_DATA][1]:
                    raise ValueError(f"a {what} was not expected")
        return FilePart(
            body=file[4:body_end],
            footer=footer,
            group=groups[0],
            column_indexes=tuple(_blob(file, chunk, _COLUMN_INDEX) for chunk in chunks),
            offset_indexes=tuple(_offset_index(file, chunk) for chunk in chunks),
        )
    except (IndexError, KeyError, TypeError) as error:
        raise ValueError(f"not a file that we know how to split: {error!r}") from error


def _blob(file: memoryview, chunk: Struct, field: int) -> bytes | None:
    at = _get(chunk, field)
    return None if at is None else bytes(file[at : at + chunk[field + 1][1]])


def _offset_index(file: memoryview, chunk: Struct) -> Struct | None:
    blob = _blob(file, chunk, _OFFSET_INDEX)
    return None if blob is None else thrift.read(memoryview(blob))[0]


def end_of_file(parts: Sequence[FilePart]) -> bytes:
    """The bytes that follow the row groups in the stitched file."""
    moves = []
    position = len(MAGIC)
    for part in parts:
        moves.append(position - len(MAGIC))
        position += len(part.body)
    tail = bytearray()
    for part in parts:
        _add_indexes(tail, position, part, _COLUMN_INDEX, part.column_indexes)
    for part, move in zip(parts, moves, strict=True):
        moved = [None if index is None else _move_index(index, move) for index in part.offset_indexes]
        _add_indexes(tail, position, part, _OFFSET_INDEX, moved)
    for ordinal, (part, move) in enumerate(zip(parts, moves, strict=True)):
        _move_group(part.group, ordinal, move)
    footer = dict(parts[0].footer)
    _set(footer, _NUM_ROWS, sum(part.footer[_NUM_ROWS][1] for part in parts))
    _set(footer, _ROW_GROUPS, (thrift.STRUCT, [part.group for part in parts]))
    written = thrift.write(footer)
    return bytes(tail) + written + len(written).to_bytes(4, "little") + MAGIC


def _add_indexes(
    tail: bytearray, position: int, part: FilePart, field: int, blobs: Sequence[bytes | None]
) -> None:
    """Append the indexes of a part, and set their positions in its column chunks."""
    for chunk, blob in zip(part.group[_COLUMNS][1][1], blobs, strict=True):
        if blob is not None:
            _set(chunk, field, position + len(tail))
            _set(chunk, field + 1, len(blob))
            tail += blob


def _move_index(index: Struct, move: int) -> bytes:
    for page in index[1][1][1]:
        _set(page, 1, page[1][1] + move)
    return thrift.write(index)


def _move_group(group: Struct, ordinal: int, move: int) -> None:
    if _ORDINAL in group:  # Arrow leaves it out
        _set(group, _ORDINAL, ordinal)
    _shift(group, _GROUP_OFFSET, move)
    for chunk in group[_COLUMNS][1][1]:
        _shift(chunk, _CHUNK_OFFSET, move)
        _shift(chunk[_META_DATA][1], _DATA_PAGE_OFFSET, move)


def _shift(struct: Struct, field: int, move: int) -> None:
    at = _get(struct, field)
    if at:  # zero says that it is not known
        _set(struct, field, at + move)


def _get(struct: Struct, field: int) -> Any:
    return struct[field][1] if field in struct else None


def _set(struct: Struct, field: int, value: Any) -> None:
    struct[field] = (struct[field][0], value)
