"""A block's data file."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coldstore.block import encode, parquet_stitch
from coldstore.block import read as blockfile
from coldstore.block.encode import Encoded
from coldstore.block.read import BlockFile
from coldstore.layout.queue_settings import QueueSettings
from coldstore.shared import batch, limits
from coldstore.shared.batch import Content
from coldstore.shared.chance import SeededChance
from coldstore.shared.errors import DataLoss, InvalidInput
from tests.coldstore.making import QUEUE_ID, START_US, elements

KEYS = st.none() | st.binary(max_size=6)
HEADERS = st.none() | st.dictionaries(st.text(max_size=4), st.binary(max_size=4), max_size=3)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bytes": st.binary(max_size=40),
    "text": st.text(max_size=20),
    "json": st.sampled_from(["null", "1.5", '"é"', "[]", '{"a": [1, {"b": ""}]}']),
}


@st.composite
def tables(draw: st.DrawFn, content: Content) -> pa.Table:
    rows = draw(st.lists(st.tuples(VALUES[content], KEYS, HEADERS), min_size=1, max_size=12))
    values, keys, headers = (list(column) for column in zip(*rows, strict=True))
    payload = batch.check_payload(batch.payload(content, values, keys, headers), content)
    first = draw(st.integers(0, 2**62))
    return pa.Table.from_batches([batch.stamp(payload, first, draw(st.integers(-(2**50), 2**50)))])


def settings_of(content: Content = "bytes") -> QueueSettings:
    return QueueSettings("orders", QUEUE_ID, content)


def encoded(table: pa.Table, content: Content = "bytes") -> bytes:
    return b"".join(encode.encode(table, settings_of(content)))


def alone(table: pa.Table) -> bytes:
    """The file that Arrow writes on its own, with the same row groups."""
    sizes = encode._measure_rows(table)
    style = encode._Style(
        encode._provenance(table, settings_of()), encode._is_compressible(table, int(sizes.sum()))
    )
    return bytes(encode._encode_file(table, encode._cut_groups(sizes), int(sizes.sum()), style))


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row groups of a few elements, so that small tables have many."""
    monkeypatch.setattr(limits, "ROW_GROUP_BYTES", 100)


@pytest.mark.parametrize("content", ["bytes", "text", "json"])
@given(st.data())
def test_elements_of_every_type_come_back_as_they_were(content: Content, data: st.DataObject) -> None:
    table = data.draw(tables(content))
    file = encoded(table, content)
    read = BlockFile(file, "k", 0).read()
    assert read.equals(table)
    assert read.schema.equals(batch.schema(content))


@settings(max_examples=50)
@given(st.data())
def test_many_row_groups_are_stitched_into_the_very_file_that_arrow_writes(data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(limits, "ROW_GROUP_BYTES", data.draw(st.integers(1, 200)))
        patched.setattr(limits, "ROW_GROUP_ELEMENTS_MAX", data.draw(st.integers(1, 8)))
        table = data.draw(tables("bytes"))
        assert encoded(table) == alone(table)


@given(st.data())
def test_the_same_elements_give_the_same_bytes_however_they_are_cut(data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(limits, "ROW_GROUP_BYTES", 100)
        table = data.draw(tables("bytes"))
        at = data.draw(st.integers(0, table.num_rows))
        cut = pa.concat_tables([table.slice(0, at), table.slice(at)])
        copied = pa.Table.from_batches(cut.to_batches()).combine_chunks()
        assert encoded(cut) == encoded(table) == encoded(copied)


def test_a_validity_bitmap_without_nulls_does_not_show_in_the_bytes() -> None:
    table = elements(0, 3).set_column(2, "key", pa.array([b"a", b"b", b"c"]))
    with_null = pa.array([b"a", b"b", b"c", None])
    with_bitmap = table.set_column(2, "key", with_null.slice(0, 3))
    assert with_null.slice(0, 3).buffers()[0] is not None
    assert encoded(with_bitmap) == encoded(table)


def test_large_blocks_are_stitched_as_well() -> None:
    values = [bytes([i % 251]) * (i % 3_000) for i in range(20_000)]
    table = pa.Table.from_batches([batch.stamp(batch.payload("bytes", values), 5, START_US)])
    file = encoded(table)
    assert pq.read_metadata(pa.BufferReader(file)).num_row_groups > 3
    assert file == alone(table)
    assert BlockFile(file, "k", 5, check_pages=True).read().equals(table)


def test_an_arrow_that_writes_other_files_is_left_to_write_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    table = elements(0, 100)
    monkeypatch.setattr(limits, "ROW_GROUP_BYTES", 1_000)
    expected = encoded(table)
    monkeypatch.setattr(encode, "_can_stitch", lambda: False)
    assert encoded(table) == expected
    monkeypatch.undo()

    def refuse(file: memoryview) -> parquet_stitch.FilePart:
        raise ValueError("unknown")

    monkeypatch.setattr(parquet_stitch, "split_file", refuse)
    assert encode._can_stitch.__wrapped__() is False


def test_the_digest_is_that_of_the_pieces_in_order(small_groups: None) -> None:
    made = encode.encode(elements(0, 50), settings_of())
    pieces = list(made)
    assert len(pieces) > 3
    assert made.sha256 == hashlib.sha256(b"".join(pieces)).hexdigest()
    assert made.size == sum(map(len, pieces))
    assert list(made) == pieces


def test_the_digest_is_known_without_putting_the_file() -> None:
    made = Encoded.of(b"some bytes")
    assert made.sha256 == hashlib.sha256(b"some bytes").hexdigest()
    assert made.size == 10


def test_a_file_larger_than_estimated_is_written_all_the_same() -> None:
    table = elements(0, 1_000)
    style = encode._Style(encode._provenance(table, settings_of()))
    too_small = -64 * 1_000 - 4096 * 17 + 6_000  # leaves a quarter of what is needed
    file = encode._encode_file(table, [1_000], too_small, style)
    assert BlockFile(file, "k", 0).read().equals(table)


def test_the_file_has_the_properties_that_the_design_asks_for(small_groups: None) -> None:
    footer = pq.read_metadata(pa.BufferReader(encoded(elements(40, 20))))
    assert footer.num_row_groups > 1
    for i in range(footer.num_row_groups):
        group = footer.row_group(i)
        assert [(c.column_index, c.descending) for c in group.sorting_columns] == [(0, False)]
        columns = {group.column(c).path_in_schema: group.column(c) for c in range(group.num_columns)}
        assert {c.compression for c in columns.values()} == {"ZSTD"}
        assert not any(c.has_dictionary_page for c in columns.values())
        assert all(c.has_offset_index for c in columns.values())
        for name in ("offset", "timestamp"):
            assert columns[name].has_column_index
            assert "DELTA_BINARY_PACKED" in columns[name].encodings
            assert columns[name].statistics.has_min_max
    said = {k.decode(): v.decode() for k, v in footer.metadata.items()}
    assert said == {
        "jjq.format": "1",
        "jjq.queue": QUEUE_ID,
        "jjq.name": "orders",
        "jjq.content": "bytes",
        "jjq.first": "40",
        "jjq.last": "59",
    }


def test_every_page_has_a_checksum(small_groups: None) -> None:
    table = elements(0, 20)
    file = bytearray(encoded(table))
    page = pq.read_metadata(pa.BufferReader(bytes(file))).row_group(1).column(3)
    file[page.data_page_offset + page.total_compressed_size - 1] ^= 1  # inside the compressed value page
    with pytest.raises(DataLoss, match="k is not a readable block"):
        BlockFile(bytes(file), "k", 0, check_pages=True).read()


@settings(max_examples=60)
@given(
    st.integers(-2, 42),
    st.integers(-2, 45),
    st.lists(st.sampled_from(blockfile.COLUMNS), min_size=1, unique=True),
)
def test_a_range_of_some_columns_is_that_part_of_the_whole(start: int, stop: int, columns: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(limits, "ROW_GROUP_BYTES", 200)
        table = elements(7, 40)
        read = BlockFile(encoded(table), "k", 7).read(start, stop, columns)
    low, high = max(start, 0), max(min(stop, 40), start, 0)
    assert read.equals(table.slice(low, high - low).select(columns))


def test_a_pruned_read_decodes_only_the_row_groups_it_needs(
    small_groups: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = BlockFile(encoded(elements(0, 40)), "k", 0)
    decoded: list[int] = []
    decode = BlockFile._decode

    def noted(self: BlockFile, groups: list[int], names: list[str]) -> pa.Table:
        decoded.extend(groups)
        return decode(self, groups, names)

    monkeypatch.setattr(BlockFile, "_decode", noted)
    file.read(20, 21)
    assert len(decoded) == 1
    assert len(file._starts) > 5


@pytest.mark.parametrize("columns", [[], ["valu"], ["value", "x"], "value"])
def test_unknown_columns_are_refused_with_the_known_ones_named(columns: Any) -> None:
    file = BlockFile(encoded(elements(0, 1)), "k", 0)
    with pytest.raises(InvalidInput, match="choose from offset, timestamp, key, value, headers"):
        file.read(columns=columns)


@pytest.mark.parametrize("wrong", [b"", b"PAR1", b"x" * 100, b"PAR1" + b"\xff" * 50 + b"PAR1"])
def test_what_is_no_block_is_refused_with_its_key(wrong: bytes) -> None:
    with pytest.raises(DataLoss, match="k is not a readable block") as loss:
        BlockFile(wrong, "k", 3)
    assert (loss.value.key, loss.value.block) == ("k", 3)


def test_a_file_with_other_columns_is_refused() -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": [1, 2]}), sink)
    with pytest.raises(DataLoss):
        BlockFile(sink.getvalue(), "k", 0).read()


def test_row_groups_follow_the_bytes_of_the_elements() -> None:
    sizes = np.array([10] * 5 + [limits.ROW_GROUP_BYTES * 3] + [10] * 5)
    ends = encode._cut_groups(sizes)
    assert ends[-1] == len(sizes)
    assert ends == sorted(set(ends))
    assert all(0 < end <= len(sizes) for end in ends)


def test_a_row_group_has_at_most_so_many_elements() -> None:
    ends = [0, *encode._cut_groups(np.ones(3 * limits.ROW_GROUP_ELEMENTS_MAX + 5, dtype=np.int64))]
    assert max(np.diff(ends)) == limits.ROW_GROUP_ELEMENTS_MAX


def valued(values: list[bytes]) -> pa.Table:
    return pa.Table.from_batches([batch.stamp(batch.payload("bytes", values), 0, START_US)])


def test_values_that_hardly_compress_are_stored_as_they_are() -> None:
    noise = SeededChance(1)
    unlike = [bytes.fromhex("".join(noise.token() for _ in range(4))) for _ in range(10_000)]
    texts = [noise.token().encode() for _ in range(10_000)]
    repeated = [value for value in unlike[:200] for _ in range(50)]
    for values, codec in (
        (unlike, "UNCOMPRESSED"),
        (texts, "ZSTD"),
        (repeated, "ZSTD"),
        (unlike[:100], "ZSTD"),
    ):
        file = encoded(valued(values))
        group = pq.read_metadata(pa.BufferReader(file)).row_group(0)
        assert group.column(3).path_in_schema == "value"
        assert group.column(3).compression == codec
        assert {group.column(i).compression for i in (0, 1, 2, 4, 5)} == {"ZSTD"}
        assert BlockFile(file, "k", 0).read().equals(valued(values))


def test_whether_values_are_compressed_depends_on_the_elements_alone() -> None:
    noise = SeededChance(1)
    table = valued([bytes.fromhex("".join(noise.token() for _ in range(4))) for _ in range(10_000)])
    cut = pa.concat_tables([table.slice(0, 1_234), table.slice(1_234)])
    assert encoded(cut) == encoded(table)


def test_huge_values_are_sampled_in_part() -> None:
    assert encode._is_compressible(valued([b"x" * 3_000_000, b"y" * 3_000_000]), 6_000_000)
