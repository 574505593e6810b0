"""The hot-hot block against a list, however it was pushed, gathered, cut and looked at."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coldstore.shared.batch import payload, payload_bytes, schema
from hotstore.queue.tail import TailBlock, cut, first_at
from tests.hotstore.kit import Seen, seen

FIRST = 100


def made(counts: list[int], size: int = 3) -> tuple[TailBlock, list[Seen]]:
    """A block of pushes with so many elements each, a second apart, and the list it must agree with."""
    block = TailBlock(FIRST)
    log: list[Seen] = []
    for n, count in enumerate(counts):
        values = [b"%d.%d" % (n, i) + b"x" * size for i in range(count)]
        batch = payload("bytes", values)
        block.append(batch, batch.nbytes, n * 1_000_000, 7 + n, float(n))
        log += [Seen(FIRST + len(log) + i, n * 1_000_000, value) for i, value in enumerate(values)]
    return block, log


pushes = st.lists(st.integers(1, 40), min_size=1, max_size=90)


@given(pushes, st.data())
def test_any_slice_is_that_of_the_list(counts: list[int], data: st.DataObject) -> None:
    block, log = made(counts)
    for _ in range(5):
        start = data.draw(st.integers(0, len(log) - 1))
        rows = data.draw(st.integers(1, len(log) + 5))
        found = block.slice(FIRST + start, rows, 1 << 30)
        assert seen(found) == log[start : start + rows]
        assert found.schema.equals(schema("bytes"))


@given(pushes, st.integers(0, 3_000), st.integers(1, 5_000))
def test_a_slice_is_cut_where_it_passes_the_bytes_and_has_at_least_one(
    counts: list[int], at: int, most: int
) -> None:
    block, log = made(counts, size=30)
    start = at % len(log)
    found = block.slice(FIRST + start, len(log), most)
    assert found.num_rows >= 1
    assert found.nbytes <= most or found.num_rows == 1
    assert seen(found) == log[start : start + found.num_rows]


@given(pushes, st.integers(-10, 5_000))
def test_dropping_the_front_leaves_the_rest(counts: list[int], offset: int) -> None:
    block, log = made(counts)
    sequence = block.sequence
    block.drop_before(FIRST + offset)
    left = log[max(0, offset) :]
    assert len(block) == len(left)
    assert (block.first, block.next) == (FIRST + len(log) - len(left), FIRST + len(log))
    assert (block.bytes > 0) == bool(left)
    assert block.sequence == sequence, "the journal may still be needed from there on"
    if left:
        assert seen(block.slice(block.first, len(left), 1 << 30)) == left
        assert seen(block.table()) == left
        batch = payload("bytes", [b"more"])
        block.append(batch, batch.nbytes, 10**12, 99, 0.0)
        assert seen(block.slice(block.next - 1, 1, 1))[0].value == b"more"


@given(pushes, st.integers(-1_000_000, 95_000_000))
def test_a_time_leads_to_the_first_element_that_is_not_before_it(counts: list[int], at: int) -> None:
    block, log = made(counts)
    later = [e.offset for e in log if e.timestamp_us >= at]
    assert block.at_time(at) == (later[0] if later else None)
    assert (block.min_us, block.max_us) == (log[0].timestamp_us, log[-1].timestamp_us)


def test_a_million_single_pushes_read_as_one() -> None:
    # Given many pushes of one element
    block, log = made([1] * 5_000)
    # Then they lie in few pieces, and the whole is one table
    assert block.table().column("value").num_chunks <= 5 + 32 + 32
    assert seen(block.slice(FIRST, 5_000, 1 << 30)) == log


def test_reading_between_pushes_changes_nothing() -> None:
    block = TailBlock(FIRST)
    log: list[Seen] = []
    for n in range(200):
        batch = payload("bytes", [b"%d" % n])
        block.append(batch, batch.nbytes, n, n, 0.0)
        log.append(Seen(FIRST + n, n, b"%d" % n))
        assert seen(block.slice(FIRST + n // 2, 300, 1 << 30)) == log[n // 2 :]


def test_a_position_outside_is_our_mistake() -> None:
    block, log = made([3])
    for position in (FIRST - 1, FIRST + len(log)):
        with pytest.raises(AssertionError):
            block.slice(position, 1, 1)


def most_rows(batch: pa.RecordBatch, most: int) -> int:
    """How many elements of the beginning have at most so many bytes; one at least."""
    fitting = [n for n in range(1, batch.num_rows + 1) if payload_bytes(batch.slice(0, n)) <= most]
    return max(fitting, default=1)


@given(st.lists(st.integers(0, 200), min_size=1, max_size=60), st.integers(1, 12_000))
def test_cut_keeps_a_prefix_within_the_bytes(sizes: list[int], most: int) -> None:
    batch = pa.record_batch({"value": [b"x" * size for size in sizes]})
    kept = cut(batch, most)
    assert kept.equals(batch.slice(0, kept.num_rows))
    assert 1 <= kept.num_rows <= most_rows(batch, most)
    if payload_bytes(batch) <= most:
        assert kept.num_rows == batch.num_rows, "nothing had to be cut"


@given(st.integers(10, 200), st.integers(2, 300), st.integers(1_000, 40_000))
def test_of_elements_of_one_size_most_that_fit_are_kept(size: int, count: int, most: int) -> None:
    batch = pa.record_batch({"value": [b"x" * size] * count})
    assert cut(batch, most).num_rows >= 0.5 * most_rows(batch, most)


@pytest.mark.parametrize("size", [1, 10, 100])
def test_a_slice_is_about_as_large_as_it_may_be(size: int) -> None:
    block = TailBlock(FIRST)
    for n in range(2_000):
        batch = payload("bytes", [b"x" * size])
        block.append(batch, batch.nbytes, n, n, 0.0)
    whole = block.slice(FIRST, 2_000, 1 << 30)
    assert whole.num_rows == 2_000
    for most in (5_000, 20_000, 50_000):
        found = block.slice(FIRST, 2_000, most)
        assert found.num_rows >= 0.5 * most_rows(whole, most)
        assert payload_bytes(found) <= most
        assert found.equals(whole.slice(0, found.num_rows))
    assert block.slice(FIRST + 7, 3, 1 << 30).equals(whole.slice(7, 3)), (
        "no more than was asked for, and no less"
    )


@given(st.lists(st.integers(0, 50), max_size=30), st.integers(-1, 51))
def test_first_at_finds_the_first_even_if_times_are_not_in_order(times: list[int], at: int) -> None:
    column = pa.array(times, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    expected = next((n for n, time in enumerate(times) if time >= at), None)
    assert first_at(column, at) == expected
