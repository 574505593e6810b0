"""Writing, reading and finding blocks."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coldstore.shared import failpoint, limits
from coldstore.shared.errors import (
    Conflict,
    DataLoss,
    Fenced,
    InvalidInput,
    NotFound,
    OutOfRange,
    Unavailable,
)
from tests.coldstore.making import START_US, Made, contents, elements, keys, read_all, shape


def test_what_was_written_is_read_by_whoever_opens_the_queue() -> None:
    made = Made()
    made.push(3)
    made.push(2, final=False)
    made.push(4, final=False)
    expected = [(i, f"value {i}".encode()) for i in range(9)]
    assert read_all(made.queue) == expected
    assert read_all(made.reopened()) == expected
    assert shape(made.reopened()) == [("final", 0, 2), ("young", 3, 4), ("young", 5, 8)]


def test_a_final_block_takes_the_young_blocks_before_it_along() -> None:
    made = Made()
    made.push(2, final=False)
    made.push(2, final=False)
    (block,) = made.push(3)
    assert shape(made.queue) == shape(made.reopened()) == [("final", 0, 6)]
    assert block == made.queue.block_for(0)
    assert len(read_all(made.reopened())) == 7


def test_a_record_batch_is_as_good_as_a_table() -> None:
    made = Made()
    made.queue.write_block(elements(0, 3).to_batches()[0])
    assert made.queue.next_offset == 3


def test_blocks_link_to_one_another() -> None:
    made = Made()
    for _ in range(4):
        made.push(5)
    queue = made.reopened()
    assert [queue.next_block(first) for first in (0, 5, 10, 15)] == [5, 10, 15, None]
    assert [queue.previous_block(first) for first in (0, 5, 10, 15)] == [None, 0, 5, 10]
    assert queue.block_for(7).first == 5
    with pytest.raises(NotFound):
        queue.next_block(7)
    with pytest.raises(OutOfRange) as outside:
        queue.block_for(20)
    assert (outside.value.first, outside.value.next) == (0, 20)


def test_a_block_is_found_by_time() -> None:
    made = Made()
    for _ in range(3):
        made.push(2)
        made.clock.advance(60)
    queue = made.reopened()
    found = [queue.block_at(START_US + seconds * 1_000_000) for seconds in (-1, 0, 1, 60, 61, 120)]
    assert [block.first if block else None for block in found] == [0, 0, 2, 2, 4, 4]
    assert queue.block_at(START_US + 121_000_000) is None


def test_times_that_go_back_are_stored_and_found() -> None:
    made = Made()
    made.push(2)
    made.clock.jump(-3_600)
    made.push(2)
    made.clock.jump(7_200)
    made.push(2)
    queue = made.reopened()
    assert [b.min_timestamp_us - START_US for b in queue.list_blocks()] == [0, -3_600_000_000, 3_600_000_000]
    block = queue.block_at(START_US + 1)
    assert block is not None
    assert block.first == 4


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(1, 6), st.booleans()), min_size=1, max_size=6), st.data())
def test_a_range_of_a_block_is_that_part_of_it(parts: list[tuple[int, bool]], data: st.DataObject) -> None:
    made = Made()
    for count, final in parts:
        made.push(count, final=final)
    queue = made.reopened()
    block = data.draw(st.sampled_from(list(queue.list_blocks())))
    start = data.draw(st.none() | st.integers(block.first - 2, block.next + 2))
    end = data.draw(st.none() | st.integers(block.first - 2, block.next + 2))
    columns = data.draw(st.sampled_from([None, ["value"], ["value", "offset"]]))
    read = queue.read_block(block.first, start, end, columns)
    low = block.first if start is None else max(start, block.first)
    high = block.next if end is None else min(end, block.next)
    whole = queue.read_block(block)
    expected = whole.slice(low - block.first, max(0, high - low))
    assert read.equals(expected if columns is None else expected.select(columns))


def test_an_unknown_block_is_not_found_and_an_unknown_column_is_refused() -> None:
    made = Made()
    made.push(4)
    with pytest.raises(NotFound, match="no block 00000000000000000002"):
        made.queue.read_block(2)
    with pytest.raises(InvalidInput, match="columns"):
        made.queue.read_block(0, columns=["colour"])


def _broken(change: Any) -> pa.Table:
    table = elements(0, 5)
    return change(table)


@pytest.mark.parametrize(
    ("change", "said", "position"),
    [
        (lambda t: t.slice(0, 0), "at least one element", None),
        (lambda t: t.drop_columns(["key"]), "a bytes queue holds offset int64", None),
        (
            lambda t: t.rename_columns(["offset", "timestamp", "key", "v", "headers"]),
            "bytes queue holds",
            None,
        ),
        (
            lambda t: pa.concat_tables([t.slice(0, 2), t.slice(3)]),
            "element 2: its offset is 3 where 2 was due",
            2,
        ),
        (lambda t: pa.concat_tables([t.slice(1), t.slice(0, 1)]), "element 4: its offset is 0 where 5", 4),
        (lambda t: pa.concat_tables([t, t]), "element 5: its offset is 0 where 5 was due", 5),
    ],
)
def test_elements_that_are_no_block_are_refused(change: Any, said: str, position: int | None) -> None:
    made = Made()
    before = contents(made.objects)
    with pytest.raises(InvalidInput, match=said) as error:
        made.queue.write_block(_broken(change))
    assert error.value.position == position
    assert contents(made.objects) == before


def test_a_null_value_is_refused_with_its_position() -> None:
    made = Made()
    table = elements(0, 3).set_column(
        3, pa.field("value", pa.binary(), nullable=False), pa.chunked_array([pa.array([b"a", None, b"c"])])
    )
    with pytest.raises(InvalidInput, match="element 1: its value is null") as error:
        made.queue.write_block(table)
    assert error.value.position == 1


def test_negative_offsets_and_epochs_are_refused() -> None:
    made = Made()
    with pytest.raises(InvalidInput, match="offsets start at 0"):
        made.queue.write_block(elements(-2, 4))
    with pytest.raises(InvalidInput, match="epoch is -1"):
        made.push(1, epoch=-1)


def test_elements_of_another_content_type_are_refused() -> None:
    made = Made()
    with pytest.raises(InvalidInput, match="value string"):
        made.queue.write_block(elements(0, 2, content="text"))


def test_a_gap_is_refused() -> None:
    made = Made()
    made.push(3)
    with pytest.raises(Conflict, match="goes on at offset 3, but the block starts at 5"):
        made.queue.write_block(elements(5, 2))


def test_writing_the_same_elements_again_gives_the_blocks_that_hold_them() -> None:
    made = Made()
    first = made.push(3)
    second = made.push(2, final=False)
    before = contents(made.objects)
    assert made.queue.write_block(elements(0, 5)) == first + second
    assert made.reopened().write_block(elements(3, 2)) == second
    assert contents(made.objects) == before


def test_writing_the_same_elements_and_more_adds_what_is_more() -> None:
    made = Made()
    (first,) = made.push(3, final=False)
    blocks = made.queue.write_block(elements(1, 5), final=False)
    assert [(b.first, b.last) for b in blocks] == [(0, 2), (3, 5)]
    assert blocks[0] == first


def test_other_elements_at_offsets_that_are_taken_are_fenced_off() -> None:
    made = Made()
    made.push(3, epoch=4)
    before = contents(made.objects)
    with pytest.raises(Fenced, match="was committed by epoch 4"):
        made.queue.write_block(elements(0, 3, said="other"), epoch=5)
    assert contents(made.objects) == before


def test_an_owner_of_an_older_epoch_is_fenced_off() -> None:
    made = Made()
    made.push(3, epoch=4)
    for final in (True, False):
        with pytest.raises(Fenced):
            made.push(1, epoch=3, final=final)
    assert made.push(1, epoch=4)


def test_a_reader_sees_new_blocks_when_it_refreshes() -> None:
    made = Made()
    reader = made.reopened()
    old = reader.list_blocks()
    made.push(3)
    made.push(2, final=False)
    assert reader.next_offset == 0
    assert reader.refresh().next_offset == reader.next_offset == 5
    assert len(old) == 0
    made.push(4)
    reader.refresh()
    assert shape(reader) == shape(made.queue)


POINTS = ["block.data_put", "block.metadata_put", "rollup.put"]


@pytest.mark.parametrize("final", [True, False])
@pytest.mark.parametrize("point", ["block.data_put", "block.metadata_put"])
@pytest.mark.parametrize("nth", [1, 2])
def test_a_write_of_unknown_outcome_may_be_repeated(point: str, nth: int, final: bool) -> None:
    made = Made()
    made.push(2)
    made.push(2, final=False)
    table = elements(4, 3)
    failpoint.arm(point, nth)
    try:
        made.queue.write_block(table, final=final)
    except Unavailable:
        assert made.queue.next_offset == 4
    finally:
        failpoint.disarm()
    made.queue.write_block(table, final=final)
    assert read_all(made.queue) == [(i, f"value {i}".encode()) for i in range(7)]
    assert made.queue.verify().ok
    assert read_all(made.reopened()) == read_all(made.queue)


def test_a_roll_up_that_fails_does_not_fail_the_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ROLLUP_BLOCKS", 2)
    made = Made()
    made.push(1)
    put = made.objects.put

    def down(key: str, data: Any) -> str:
        raise Unavailable("down")

    made.objects.put = down
    made.push(1)
    assert made.queue.next_offset == 2
    assert keys(made.objects, "queues/orders/index/") == []
    made.objects.put = put
    made.push(1)
    assert len(keys(made.objects, "queues/orders/index/")) == 1


def test_a_young_block_swept_since_it_was_listed_is_read_from_the_final_one() -> None:
    made = Made()
    made.push(3, final=False)
    made.push(2, final=False)
    reader = made.reopened()
    young = reader.list_blocks()[1]
    made.push(4)
    made.clock.advance(limits.SWEEP_GRACE_SECONDS + 1)
    assert made.queue.sweep().young == 2
    assert reader.read_block(young).column("offset").to_pylist() == [3, 4]
    assert shape(reader) == [("final", 0, 8)]
    assert reader.read_block(young, start=4, columns=["value"]).to_pylist() == [{"value": b"value 4"}]


def test_a_young_block_that_is_lost_is_reported_as_such() -> None:
    made = Made()
    (young,) = made.push(3, final=False)
    made.objects.delete("queues/orders/" + young.path)
    with pytest.raises(DataLoss, match="is missing") as loss:
        made.queue.read_block(0)
    assert (loss.value.key, loss.value.block) == ("queues/orders/" + young.path, 0)


def test_a_cache_is_asked_for_data_files() -> None:
    made = Made()
    (block,) = made.push(3)
    asked: list[tuple[str, str, int]] = []

    class Cache:
        def get(self, key: str, sha256: str, size: int) -> bytes:
            asked.append((key, sha256, size))
            return bytes(made.objects.get(key).data)

    from coldstore.store import ColdStore

    queue = ColdStore(made.objects, made.clock, made.store._chance, Cache()).open_queue("orders")
    assert queue.read_block(0).num_rows == 3
    assert asked == [("queues/orders/" + block.path, block.sha256, block.stored_bytes)]
    assert queue.verify().ok
    assert len(asked) == 1, "verify must not trust a cache"


def test_many_threads_read_while_one_writes() -> None:
    from concurrent.futures import ThreadPoolExecutor

    made = Made()
    made.push(2)
    done = False

    def read() -> int:
        reads = 0
        while not done or reads == 0:
            said = read_all(made.queue)
            assert said == [(i, f"value {i}".encode()) for i in range(len(said))]
            reads += 1
        return reads

    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(read) for _ in range(3)]
        for i in range(60):
            made.push(1 + i % 3, final=i % 4 == 3)
        done = True
        assert all(reader.result() for reader in readers)
