"""The layout: what goes in comes out, and nothing else is ever taken for a batch."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coldstore.shared.errors import Conflict, DataLoss, InvalidInput
from hotstore.journal import layout
from hotstore.journal.port import Record, StoredRecord
from hotstore.limits import JOURNAL_BATCH_BYTES_MAX, PAGE_BYTES, SEGMENT_BYTES_MIN

numbers = st.integers(0, 2**64 - 1)
HEADER = layout.SegmentHeader(
    number=5, identity=77, segment_bytes=SEGMENT_BYTES_MIN, synced_upto=3, replaces=4
)


def encoded(records: list[Record], number: int = 5, position: int = PAGE_BYTES, identity: int = 77) -> bytes:
    body = layout.lay_out(records, JOURNAL_BATCH_BYTES_MAX)
    segment = HEADER._replace(number=number, identity=identity)
    pieces = layout.encode_batch(body, segment, position, body.span, sequence=9, synced_upto=8, opened_at=2)
    return b"".join(pieces)


@given(
    st.lists(
        st.tuples(st.integers(0, 2**32 - 1), st.lists(st.binary(max_size=40_000), max_size=4)), min_size=1
    )
)
def test_a_batch_round_trips(records: list[tuple[int, list[bytes]]]) -> None:
    data = encoded([Record(kind, tuple(parts)) for kind, parts in records])
    assert len(data) % PAGE_BYTES == 0
    header = layout.decode_batch(data, 0, 5, PAGE_BYTES, 77)
    assert header is not None
    assert (header.sequence, header.synced_upto, header.opened_at, header.span) == (9, 8, 2, len(data))
    body = memoryview(data)[layout.HEADER_BYTES :][: header.body_bytes]
    assert layout.body_is_sound(header, body, 5, PAGE_BYTES)
    stored = layout.decode_records(body, header.records, None)
    assert [(kind, bytes(payload)) for kind, payload in stored] == [
        (kind, b"".join(parts)) for kind, parts in records
    ]


def test_payloads_start_at_multiples_of_eight() -> None:
    data = encoded([Record(1, b"abc"), Record(2, b"defghijkl"), Record(3, b"")])
    assert data.index(b"abc") % 8 == 0
    assert data.index(b"defghijkl") % 8 == 0


@given(numbers, numbers, numbers, numbers)
def test_a_segment_header_round_trips(number: int, identity: int, synced_upto: int, replaces: int) -> None:
    header = layout.SegmentHeader(number, identity, SEGMENT_BYTES_MIN, synced_upto, replaces)
    page = layout.encode_segment(header)
    assert layout.decode_segment(page[:PAGE_BYTES], number) == header
    assert page[PAGE_BYTES:] == bytes(PAGE_BYTES)


def test_a_batch_counts_only_in_its_own_segment_life_and_place() -> None:
    data = encoded([Record(1, b"payload")])
    assert layout.decode_batch(data, 0, 5, PAGE_BYTES, 77)
    assert layout.decode_batch(data, 0, 5, PAGE_BYTES, None), (
        "a segment without header knows it by its number"
    )
    assert not layout.decode_batch(data, 0, 5, PAGE_BYTES, 78)
    assert not layout.decode_batch(data, 0, 6, PAGE_BYTES, 77)
    assert not layout.decode_batch(data, 0, 5, 2 * PAGE_BYTES, 77)


def test_the_body_of_another_life_is_not_sound_under_this_header() -> None:
    header = layout.decode_batch(encoded([Record(1, b"payload")]), 0, 5, PAGE_BYTES, 77)
    other = layout.decode_batch(encoded([Record(1, b"payload")], identity=78), 0, 5, PAGE_BYTES, 78)
    assert header is not None
    assert other is not None
    assert header.body_crc != other.body_crc


def test_no_single_bit_of_a_header_can_change_unseen() -> None:
    batch, segment = encoded([Record(1, b"x")]), layout.encode_segment(HEADER)
    for bit in range(8 * layout.HEADER_BYTES):
        at, mask = bit // 8, 1 << bit % 8
        for data in (batch, segment):
            flipped = bytearray(data[:PAGE_BYTES])
            flipped[at] ^= mask
            assert layout.decode_batch(bytes(flipped), 0, 5, PAGE_BYTES, None) is None
            assert layout.decode_segment(bytes(flipped), 5) is None


def test_a_segment_of_a_newer_version_is_refused_whatever_else_it_changed() -> None:
    fields = bytearray(200)
    struct.pack_into("<4sHH", fields, 0, layout.SEGMENT_MAGIC, layout.VERSION + 1, 204)
    crc = layout.checksum(layout.seed(0, 5, 0), bytes(fields))
    page = (bytes(fields) + struct.pack("<I", crc)).ljust(PAGE_BYTES, b"\0")
    with pytest.raises(Conflict, match="newer"):
        layout.decode_segment(page, 5)


def test_an_unknown_kind_is_refused_and_a_known_one_is_not() -> None:
    data = layout.RECORD.pack(9, 0)
    assert layout.decode_records(memoryview(data), 1, {9}) == [StoredRecord(9, memoryview(b""))]
    with pytest.raises(Conflict, match="kind 9"):
        layout.decode_records(memoryview(data), 1, {8})


def test_records_that_do_not_fill_their_body_are_data_loss() -> None:
    with pytest.raises(DataLoss):
        layout.decode_records(memoryview(layout.RECORD.pack(1, 0) * 2), 1, None)


def test_a_batch_larger_than_the_limit_is_refused_before_it_is_copied() -> None:
    piece = bytes(JOURNAL_BATCH_BYTES_MAX // 4)
    with pytest.raises(InvalidInput, match="at most"):
        layout.lay_out([Record(1, (piece,) * 5)], 2**40)


def test_large_pieces_are_not_copied() -> None:
    piece = bytes(100_000)
    body = layout.lay_out([Record(1, (b"head", piece, b"tail")), Record(2, piece)], 2**40)
    assert sum(each is piece for each in body.pieces) == 2
