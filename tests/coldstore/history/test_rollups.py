"""Roll-ups: which there are, what they hold, and what opening a long queue costs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coldstore.history import rollups
from coldstore.history.columns import FIELDS
from coldstore.history.rollups import Run
from coldstore.layout import metadata, paths
from coldstore.objects.memory import MemoryObjects
from coldstore.shared import limits
from coldstore.shared.chance import SeededChance
from coldstore.shared.clock import ManualClock
from coldstore.shared.errors import DataLoss
from coldstore.store import ColdStore
from tests.coldstore.making import Made, contents, flip, keys, linked, listed, shape

INDEX = "queues/orders/index/"


@given(st.integers(0, 200_000))
def test_roll_ups_cover_all_but_the_last_few_blocks(count: int) -> None:
    runs = list(rollups.runs(count))
    assert [run.start for run in runs] == [0, *(run.stop for run in runs)][: len(runs)]
    assert count - (runs[-1].stop if runs else 0) < limits.ROLLUP_BLOCKS
    for run in runs:
        assert run.start % (run.stop - run.start) == 0


def test_no_queue_up_to_a_hundred_thousand_blocks_needs_more_than_twenty() -> None:
    assert max(len(list(rollups.runs(count))) for count in range(0, 100_001, 128)) <= 20
    assert len(list(rollups.runs(100_000))) == 6


class Counting:
    """A store that counts what is read of it."""

    def __init__(self, objects: MemoryObjects) -> None:
        self._objects = objects
        self.read: Counter[str] = Counter()

    def __getattr__(self, verb: str) -> Any:
        def counted(key: str, *args: Any, **kwargs: Any) -> Any:
            self.read[f"{verb} {key.split('/')[2] if key.count('/') > 1 else key}"] += 1
            return getattr(self._objects, verb)(key, *args, **kwargs)

        return counted


def long_queue(count: int, unread: int = 0) -> tuple[MemoryObjects, list[Run]]:
    """A queue of `count` blocks whose data was never written, with its roll-ups and metadata.

    The metadata of the first `unread` blocks is empty: only its names may be looked at.
    """
    objects = MemoryObjects(ManualClock())
    queue = ColdStore(objects, ManualClock(), SeededChance(1)).create_queue("orders")
    blocks = listed(count, queue=queue.settings.id)
    firsts = blocks.columns.array("first", count).tolist()
    for first in firsts[:unread]:
        objects.put(paths.meta("orders", first, "final"), b"")
    for row in range(unread, count):
        objects.put(paths.meta("orders", firsts[row], "final"), metadata.encode(blocks[row]))
    runs = list(rollups.runs(count))
    for run in runs:
        rollups.write(objects, queue.settings, blocks, run)
    return objects, runs


@pytest.fixture(scope="module")
def very_long() -> MemoryObjects:
    return long_queue(100_000, unread=100_000 - 100_000 % limits.ROLLUP_BLOCKS)[0]


def test_opening_a_hundred_thousand_blocks_reads_few_objects(very_long: MemoryObjects) -> None:
    counting = Counting(very_long)
    store: Any = ColdStore(counting, ManualClock(), SeededChance(1))
    queue = store.open_queue("orders")
    assert len(queue.list_blocks()) == 100_000
    assert queue.next_offset == 1_000_000
    assert counting.read["get index"] <= 20
    assert counting.read["get meta"] == 100_000 % limits.ROLLUP_BLOCKS
    assert counting.read["list index"] == counting.read["list meta"] == 1


def test_the_blocks_from_roll_ups_are_those_of_the_metadata(very_long: MemoryObjects) -> None:
    store = ColdStore(very_long, ManualClock(), SeededChance(1))
    queue = store.open_queue("orders")
    expected = list(linked(100_000, queue=queue.settings.id))
    for at in (0, 1, 255, 256, 65_535, 65_536, 99_839, 99_840, 99_999):
        assert queue.list_blocks()[at] == expected[at]


def opened(objects: MemoryObjects) -> Any:
    return ColdStore(objects, ManualClock(), SeededChance(1)).open_queue("orders")


@pytest.fixture
def small_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ROLLUP_BLOCKS", 4)


@pytest.mark.parametrize("count", [3, 4, 5, 16, 17, 23, 64, 85])
def test_a_queue_opens_the_same_with_any_roll_up_missing_or_damaged(small_runs: None, count: int) -> None:
    objects, _ = long_queue(count)
    expected = list(opened(objects).list_blocks())
    assert len(expected) == count
    for key in keys(objects, INDEX):
        before = objects.get(key).data
        for damage in (b"", before[:-1], before[:50], before[:30] + b"x" + before[31:], before + b"x"):
            objects.put(key, damage)
            assert list(opened(objects).list_blocks()) == expected
        objects.delete(key)
        assert list(opened(objects).list_blocks()) == expected
        objects.put(key, before)
    for key in keys(objects, INDEX):
        objects.delete(key)
    assert list(opened(objects).list_blocks()) == expected


def test_a_flipped_bit_anywhere_in_a_roll_up_is_noticed(small_runs: None) -> None:
    objects, _ = long_queue(4)
    queue = opened(objects).settings.id
    (key,) = keys(objects, INDEX)
    sound = bytes(objects.get(key).data)
    assert rollups.decode(sound, queue) is not None
    for byte in range(len(sound)):
        damaged = bytearray(sound)
        damaged[byte] ^= 1 << byte % 8
        assert rollups.decode(bytes(damaged), queue) is None


def test_a_roll_up_of_another_queue_or_place_is_not_used(small_runs: None) -> None:
    objects, _ = long_queue(12)
    expected = list(opened(objects).list_blocks())
    first, second, third = keys(objects, INDEX)
    objects.put(first, objects.get(second).data)
    assert list(opened(objects).list_blocks()) == expected
    other = ColdStore(objects, ManualClock(), SeededChance(5)).create_queue("payments")
    blocks = listed(4, queue=other.settings.id)
    rollups.write(objects, other.settings, blocks, Run(0, 4))
    objects.put(first, objects.get(keys(objects, "queues/payments/index/")[0]).data)
    assert list(opened(objects).list_blocks()) == expected
    assert third in keys(objects, INDEX)


def test_a_roll_up_that_contradicts_the_chain_is_not_used(small_runs: None) -> None:
    objects, _ = long_queue(8)
    queue = opened(objects)
    expected = list(queue.list_blocks())
    second = keys(objects, INDEX)[1]
    rollup = rollups.decode(bytes(objects.get(second).data), queue.settings.id)
    assert rollup is not None
    forged = rollups.Rollup(rollup.row, "ab" * 32, rollup.arrays)
    objects.put(second, rollups.encode(forged, queue.settings.id))
    assert list(opened(objects).list_blocks()) == expected


def test_a_file_with_a_strange_name_in_index_is_ignored(small_runs: None) -> None:
    objects, _ = long_queue(5)
    objects.put(INDEX + "README", b"hello")
    assert len(opened(objects).list_blocks()) == 5


def test_what_was_encoded_is_decoded() -> None:
    blocks = listed(300)
    arrays = {name: blocks.columns.array(name, 300) for name in FIELDS}
    decoded = rollups.decode(rollups.encode(rollups.Rollup(0, "ab" * 32, arrays), "q"), "q")
    assert decoded is not None
    assert (decoded.row, decoded.before, decoded.count) == (0, "ab" * 32, 300)
    assert all(np.array_equal(decoded.arrays[name], arrays[name]) for name in FIELDS)


def test_roll_ups_are_written_as_blocks_come(small_runs: None) -> None:
    made = Made()
    for _ in range(21):
        made.push(1)
    spans = [paths.parse_rollup(key) for key in keys(made.objects, INDEX)]
    assert [(span.first, span.next) for span in spans if span] == [(0, 4), (0, 16), (4, 8), (8, 12), (16, 20)]
    assert shape(made.reopened()) == shape(made.queue)
    assert made.queue.verify().ok


def test_the_next_commit_repairs_a_damaged_roll_up(small_runs: None) -> None:
    made = Made()
    for _ in range(16):
        made.push(1)
    key = paths.rollup("orders", 0, 16)
    before = flip(made.objects, key, 60)
    report = made.queue.verify()
    assert [(d.kind, d.key) for d in report.defects] == [("rollup damaged", key)]
    made.queue = made.reopened()
    made.push(1)
    assert made.objects.get(key).data == before
    assert made.queue.verify().ok


def test_metadata_missing_between_roll_ups_is_data_loss(small_runs: None) -> None:
    objects, _ = long_queue(12)
    middle = keys(objects, INDEX)[1]
    objects.delete(middle)
    assert len(opened(objects).list_blocks()) == 12
    objects.delete(paths.meta("orders", 50, "final"))
    before = contents(objects)
    with pytest.raises(DataLoss, match=r"50\.final\.json is missing") as loss:
        opened(objects)
    assert (loss.value.key, loss.value.block) == (paths.meta("orders", 50, "final"), 50)
    for first in (40, 60, 70):
        objects.delete(paths.meta("orders", first, "final"))
    with pytest.raises(DataLoss, match=r"40\.final\.json is missing"):
        opened(objects)
    assert len(contents(objects)) == len(before) - 3
