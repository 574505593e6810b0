"""Merging young blocks."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coldstore.layout import paths
from coldstore.layout.metadata import BlockMetadata
from coldstore.queue import merge
from coldstore.shared import failpoint, limits
from coldstore.shared.errors import DataLoss, Unavailable
from tests.coldstore.making import Made, contents, elements, keys, linked, read_all, shape

BLOCK_BYTES = limits.BLOCK_BYTES_MIN


def young(*sizes: int) -> list[BlockMetadata]:
    like = next(iter(linked(1)))
    return [replace(like, first=i, last=i, kind="young", raw_bytes=size) for i, size in enumerate(sizes)]


def test_it_is_due_by_bytes_by_count_or_by_age() -> None:
    assert not merge.due([], 100, 1e9)
    assert not merge.due(young(50, 49), 100, 0.0)
    assert merge.due(young(50, 50), 100, 0.0)
    assert merge.due(young(1), 100, limits.YOUNG_SECONDS_MAX)
    assert not merge.due(young(*[1] * (limits.YOUNG_BLOCKS_MAX - 1)), 100, 0.0)
    assert merge.due(young(*[1] * limits.YOUNG_BLOCKS_MAX), 10_000, 0.0)


@given(st.lists(st.integers(1, 120), min_size=1, max_size=10))
def test_the_front_is_the_shortest_run_that_fills_a_block_or_one_less_if_that_were_too_much(
    sizes: list[int],
) -> None:
    blocks = young(*sizes)
    front = merge.front(blocks, 100)
    assert list(front) == blocks[: len(front)]
    total = merge.total_bytes(front)
    if len(front) < len(blocks):
        assert total >= 100 or (total >= 50 and merge.total_bytes(blocks[: len(front) + 1]) > 125)
    assert merge.total_bytes(front[:-1]) < 100
    assert total <= 125 or merge.total_bytes(front[:-1]) < 50


@given(st.integers(1, 10_000), st.integers(1, 100))
def test_a_share_is_near_the_size_of_a_block_and_all_of_them_are_everything(
    size: int, block_bytes: int
) -> None:
    left, shares = size, []
    while left:
        shares.append(merge.share(left, block_bytes))
        left -= shares[-1]
    assert sum(shares) == size
    assert max(shares) <= 1.25 * block_bytes + 1
    assert len(shares) == 1 or min(shares) >= 0.6 * block_bytes - 1


def push_bytes(made: Made, count: int, epoch: int = 0) -> None:
    """A young block of so many bytes, roughly."""
    made.push(count // 40, final=False, epoch=epoch)


def test_nothing_is_merged_before_it_is_due() -> None:
    made = Made()
    made.push(3, final=False)
    made.push(3, final=False)
    before = contents(made.objects)
    assert made.queue.merge() == []
    assert contents(made.objects) == before


def test_enough_bytes_are_merged_into_full_blocks_in_order() -> None:
    made = Made()
    for _ in range(7):
        push_bytes(made, BLOCK_BYTES // 2)
    expected = read_all(made.queue)
    merged = made.queue.merge()
    assert len(merged) > 1
    assert all(BLOCK_BYTES / 2 <= block.raw_bytes <= 1.25 * BLOCK_BYTES for block in merged)
    assert read_all(made.queue) == read_all(made.reopened()) == expected
    assert made.queue.verify().ok


def test_old_young_blocks_are_merged_even_if_small() -> None:
    made = Made()
    made.push(3)
    made.push(2, final=False)
    made.clock.advance(limits.YOUNG_SECONDS_MAX)
    made.push(2, final=False)
    (block,) = made.queue.merge()
    assert shape(made.queue) == [("final", 0, 2), ("final", 3, 6)]
    assert (block.first, block.last) == (3, 6)


def test_many_young_blocks_are_merged() -> None:
    made = Made()
    for _ in range(limits.YOUNG_BLOCKS_MAX):
        made.push(1, final=False)
    made.queue.merge()
    assert shape(made.reopened()) == [("final", 0, limits.YOUNG_BLOCKS_MAX - 1)]


def test_a_merge_keeps_the_epoch_of_what_it_merges() -> None:
    made = Made()
    for epoch in (1, 2, 3):
        push_bytes(made, BLOCK_BYTES // 2, epoch)
    merged = made.queue.merge(epoch=9)
    assert [block.epoch for block in merged] == [2]
    assert [(block.kind, block.epoch) for block in made.reopened().list_blocks()] == [
        ("final", 2),
        ("young", 3),
    ]
    assert made.queue.verify().ok


def test_a_backlog_of_young_blocks_is_merged_before_new_elements_join() -> None:
    made = Made()
    for _ in range(5):
        push_bytes(made, BLOCK_BYTES // 2)
    count = made.queue.next_offset
    made.push(3)
    blocks = made.queue.list_blocks()
    assert len(blocks) > 1
    assert all(block.kind == "final" and block.raw_bytes < 3 * BLOCK_BYTES for block in blocks)
    assert made.queue.next_offset == count + 3


@pytest.mark.parametrize("point", ["merge.data_put", "merge.metadata_put"])
def test_a_merge_that_fails_half_way_is_finished_by_the_next_one(point: str) -> None:
    made = Made()
    made.push(2)
    for _ in range(3):
        made.push(2, final=False)
    made.clock.advance(limits.YOUNG_SECONDS_MAX)
    failpoint.arm(point)
    with pytest.raises(Unavailable):
        made.queue.merge()
    expected = [(i, f"value {i}".encode()) for i in range(8)]
    assert read_all(made.reopened()) == expected
    queue = made.reopened()
    queue.merge()
    assert shape(queue) == [("final", 0, 1), ("final", 2, 7)]
    assert read_all(queue) == expected
    assert queue.verify().ok


def test_a_longer_merge_adopts_the_file_of_a_shorter_one_that_failed() -> None:
    made = Made()
    made.push(2, final=False)
    made.push(2, final=False)
    made.clock.advance(limits.YOUNG_SECONDS_MAX)
    failpoint.arm("merge.data_put")
    with pytest.raises(Unavailable):
        made.queue.merge()
    made.push(2, final=False)
    queue = made.reopened()
    queue.merge()
    assert shape(queue) == [("final", 0, 3), ("young", 4, 5)]
    assert queue.verify().ok


def test_a_merge_leaves_a_file_alone_that_its_writer_may_yet_commit() -> None:
    made = Made()
    made.push(2, final=False)
    other = made.reopened(seed=7)
    failpoint.arm("block.data_put")
    with pytest.raises(Unavailable):
        other.write_block(elements(2, 3))
    made.clock.advance(limits.YOUNG_SECONDS_MAX)
    before = contents(made.objects)
    assert made.queue.merge() == []
    assert contents(made.objects) == before
    # The queue moves on, here with the same elements cut otherwise, and the file is replaced.
    made.push(1, final=False)
    made.push(2, final=False)
    made.queue.merge()
    assert made.queue.verify().ok
    assert len(read_all(made.reopened())) == 5


def test_a_young_block_that_is_damaged_stops_the_merge_and_nothing_is_deleted() -> None:
    made = Made()
    made.push(2, final=False)
    (second,) = made.push(2, final=False)
    made.objects.put("queues/orders/" + second.path, b"damaged")
    made.clock.advance(limits.YOUNG_SECONDS_MAX)
    before = contents(made.objects)
    with pytest.raises(DataLoss) as loss:
        made.queue.merge()
    assert loss.value.block == 2
    assert contents(made.objects) == before


def test_a_merge_after_another_process_merged_and_swept_finds_nothing_to_do() -> None:
    made = Made()
    made.push(2, final=False)
    made.push(2, final=False)
    made.clock.advance(limits.YOUNG_SECONDS_MAX)
    other = made.reopened()
    made.queue.merge()
    made.clock.advance(limits.SWEEP_GRACE_SECONDS + 1)
    made.queue.sweep()
    assert keys(made.objects, paths.young_folder("orders")) == []
    assert other.merge() == []
    assert shape(other) == [("final", 0, 3)]


@pytest.mark.parametrize("point", ["merge.data_put", "merge.metadata_put"])
@pytest.mark.parametrize("final", [True, False])
def test_new_elements_do_not_wait_for_a_merge(point: str, final: bool) -> None:
    made = Made()
    for _ in range(4):
        push_bytes(made, BLOCK_BYTES // 2)
    before = made.queue.next_offset
    reached, go_on = threading.Event(), threading.Event()

    def wait(_: str) -> None:
        reached.set()
        assert go_on.wait(60)

    failpoint.arm(point, action=wait)
    merging = threading.Thread(target=made.queue.merge)
    merging.start()
    try:
        assert reached.wait(60)
        (added,) = made.push(3, final=final)
        assert (added.kind, added.first) == ("young", before), (
            "there is no final block before the merged ones"
        )
        assert made.queue.next_offset == before + 3
    finally:
        go_on.set()
        merging.join(60)
        failpoint.disarm()
    assert shape(made.queue) == shape(made.reopened())
    merged, *_, last = shape(made.queue)
    assert (merged[0], last) == ("final", ("young", before, before + 2))
    assert len(read_all(made.queue)) == before + 3
    made.push(5)
    assert [kind for kind, _, _ in shape(made.queue)] == ["final", "final"]
    assert not made.store.verify("orders").defects
