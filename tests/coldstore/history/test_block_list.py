"""The list of blocks, against a list that looks at every block."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coldstore.history.block_list import BlockList
from coldstore.history.columns import BlockColumns
from coldstore.layout import paths
from coldstore.layout.metadata import BlockMetadata, genesis, link
from coldstore.shared.errors import NotFound, OutOfRange
from tests.coldstore.making import QUEUE_ID, linked, listed

LENGTHS = st.lists(st.tuples(st.integers(1, 5), st.integers(-20, 20), st.integers(0, 9)), max_size=12)


def made(lengths: list[tuple[int, int, int]], final_count: int) -> list[BlockMetadata]:
    """Blocks of these lengths and times, of which the first `final_count` are final."""
    like = next(iter(linked(1)))
    chain = genesis(QUEUE_ID)
    blocks: list[BlockMetadata] = []
    first = 0
    for at, (length, time, spread) in enumerate(lengths):
        last = first + length - 1
        chain = link(chain, first, last, like.sha256)
        final = at < final_count
        block = replace(
            like,
            kind="final" if final else "young",
            first=first,
            last=last,
            min_timestamp_us=time,
            max_timestamp_us=time + spread,
            previous=blocks[-1].first if blocks else None,
            path=paths.data_path(first) if final else paths.young_path(first, "ab"),
            chain=chain if final else None,
        )
        blocks.append(block)
        first = last + 1
    return blocks


def listing(blocks: list[BlockMetadata]) -> BlockList:
    found = BlockList.empty(QUEUE_ID)
    for block in blocks:
        found = found.with_finals([block]) if block.kind == "final" else found.with_young(block)
    return found


@given(LENGTHS, st.integers(0, 12))
def test_it_holds_the_blocks_in_order(lengths: list[tuple[int, int, int]], finals: int) -> None:
    naive = made(lengths, finals)
    found = listing(naive)
    assert list(found) == naive
    assert len(found) == len(naive)
    assert found[:] == naive
    assert found[1:3] == naive[1:3]
    assert found.last == (naive[-1] if naive else None)
    assert found.next_offset == sum(length for length, _, _ in lengths)
    assert found.final_next == sum(length for length, _, _ in lengths[:finals])


@given(LENGTHS, st.integers(0, 12), st.integers(-2, 70))
def test_the_block_for_an_offset_is_the_one_that_holds_it(
    lengths: list[tuple[int, int, int]], finals: int, offset: int
) -> None:
    naive = made(lengths, finals)
    expected = next((block for block in naive if block.first <= offset <= block.last), None)
    if expected is None:
        with pytest.raises(OutOfRange) as outside:
            listing(naive).block_for(offset)
        assert (outside.value.first, outside.value.next) == (0, naive[-1].next if naive else 0)
    else:
        assert listing(naive).block_for(offset) == expected


@given(LENGTHS, st.integers(0, 12), st.integers(-25, 35))
def test_the_block_at_a_time_is_the_first_that_reaches_it(
    lengths: list[tuple[int, int, int]], finals: int, time: int
) -> None:
    naive = made(lengths, finals)
    expected = next((block for block in naive if block.max_timestamp_us >= time), None)
    assert listing(naive).block_at(time) == expected


@given(LENGTHS, st.integers(0, 12))
def test_next_and_previous_lead_along_all_blocks(lengths: list[tuple[int, int, int]], finals: int) -> None:
    naive = made(lengths, finals)
    found = listing(naive)
    for left, right in pairwise(naive):
        assert found.next_block(left.first) == right.first
        assert found.previous_block(right.first) == left.first
    if naive:
        assert found.next_block(naive[-1].first) is None
        assert found.previous_block(0) is None


@pytest.mark.parametrize("first", [-1, 5, 30, 99])
def test_an_unknown_block_id_is_not_found(first: int) -> None:
    with pytest.raises(NotFound, match="no block"):
        listed(3).next_block(first)


def test_an_index_outside_the_list_is_refused() -> None:
    with pytest.raises(IndexError):
        listed(3)[3]
    assert listed(3)[-1].first == 20


def test_a_reader_of_an_old_list_is_not_disturbed_by_new_blocks() -> None:
    blocks = list(linked(300))
    old = listing(blocks[:100])
    before = list(old)
    newer = old.with_finals(blocks[100:])
    assert list(old) == before
    assert old.next_offset == 1_000
    assert list(newer) == blocks


def test_two_continuations_of_one_list_do_not_mix() -> None:
    one, two = list(linked(2)), made([(10, 0, 0), (3, 0, 0)], 2)
    start = listing(one[:1])
    two[1] = replace(two[1], chain=link(one[0].chain or "", 10, 12, two[1].sha256))
    left, right = start.with_finals(one[1:]), start.with_finals(two[1:])
    assert left[1] == one[1]
    assert right[1] == two[1]


def test_final_blocks_take_the_place_of_the_young_they_cover() -> None:
    naive = made([(2, 0, 0), (3, 0, 0), (4, 0, 0)], 0)
    merged = replace(
        naive[0],
        kind="final",
        last=4,
        path=paths.data_path(0),
        chain=link(genesis(QUEUE_ID), 0, 4, naive[0].sha256),
    )
    assert [(b.kind, b.first) for b in listing(naive).with_finals([merged])] == [("final", 0), ("young", 5)]


def test_a_block_that_does_not_follow_is_refused() -> None:
    first, _, third = linked(3)
    with pytest.raises(AssertionError, match="does not follow"):
        listing([first]).with_finals([third])
    young = replace(third, kind="young", chain=None, path=paths.young_path(20, "ab"))
    with pytest.raises(AssertionError, match="does not follow"):
        listing([first]).with_young(young)


def test_a_final_block_never_ends_within_a_young_one() -> None:
    naive = made([(4, 0, 0), (4, 0, 0)], 0)
    straddling = replace(
        naive[0],
        kind="final",
        last=1,
        path=paths.data_path(0),
        chain=link(genesis(QUEUE_ID), 0, 1, naive[0].sha256),
    )
    with pytest.raises(AssertionError, match="within a young block"):
        listing(naive[1:] and naive).with_finals([straddling])


def test_columns_of_different_length_are_refused() -> None:
    arrays = {name: BlockColumns().array(name, 0) for name in ("first",)}
    with pytest.raises(KeyError):
        BlockColumns(arrays)
