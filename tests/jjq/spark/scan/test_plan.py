"""Which blocks a query opens, and that what was planned is still read after the store has moved on."""

from __future__ import annotations

import pickle
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coldstore.block.files import BlockFiles
from coldstore.layout.metadata import BlockMetadata, block_id
from coldstore.shared import batch
from coldstore.shared.errors import Conflict, InvalidInput, NotFound, OutOfRange, Unavailable
from coldstore.shared.limits import OFFSET_MAX
from jjq.spark.options import Options
from jjq.spark.scan.native import data_files, glob_between
from jjq.spark.scan.partition import Partition, Times
from jjq.spark.scan.plan import OffsetSpan, View
from tests.jjq.spark.making import SECOND_US, START_US, Made, make
from tests.jjq.spark.serving import Serving

WANTED = batch.schema("bytes")


def view_of(made: Made, **more: Any) -> View:
    return View(Options.parse(made.options(**more)))


def read(parts: list[Partition]) -> list[int]:
    """The offsets that executors find: partitions go through pickle, as on their way to them."""
    sent: list[Partition] = pickle.loads(pickle.dumps(parts))
    return [n for part in sent for found in part.batches() for n in found.column("offset").to_pylist()]


@pytest.mark.parametrize(
    ("start", "end", "span"),
    [
        ("beginning", "end", (0, 70)),
        ("offset:12", "offset:12", (12, 12)),
        ("last:15", "end", (55, 70)),
        ("last:1000", "last:1", (0, 69)),
        ("time:2026-01-01T00:00:10Z", "time:2026-01-01T00:01:00+00:00", (10, 60)),
        ("time:2026-01-01T00:00:10.5Z", "end", (11, 70)),
        ("time:1999-01-01T00:00:00Z", "time:2099-01-01T00:00:00Z", (0, 70)),
        ("ago:99999w", "end", (0, 70)),
    ],
)
def test_every_starting_point_is_resolved_against_the_cold_store(
    tmp_path: Path, start: str, end: str, span: tuple[int, int]
) -> None:
    made = make(tmp_path, [10, 20, 30], [5, 5])
    with closing(view_of(made, start=start, end=end)) as view:
        assert view.span() == span
        assert read(view.partitions(view.span(), WANTED)) == list(range(*span))


@pytest.mark.parametrize(
    ("start", "end", "error", "said"),
    [
        (
            "offset:50",
            "offset:20",
            InvalidInput,
            "start offset:50 is offset 50, after end offset:20, which is 20",
        ),
        ("end", "beginning", InvalidInput, "swap or correct them"),
        ("offset:71", "end", OutOfRange, "offset 71 is outside 0..70"),
        ("subscriber:billing", "end", InvalidInput, "needs option server"),
    ],
)
def test_a_range_that_is_none_is_refused(
    tmp_path: Path, start: str, end: str, error: type[Exception], said: str
) -> None:
    made = make(tmp_path, [10, 20, 30], [5, 5])
    with closing(view_of(made, start=start, end=end)) as view, pytest.raises(error, match=said):
        view.span()


def test_a_queue_is_found_by_its_id_too(tmp_path: Path) -> None:
    made = make(tmp_path, [3])
    assert view_of(made, queue=made.queue.settings.id).settings == made.queue.settings
    with pytest.raises(NotFound, match="no queue other"):
        view_of(made, queue="other")


def test_an_empty_queue_has_an_empty_range(tmp_path: Path) -> None:
    view = view_of(make(tmp_path))
    assert view.span() == (0, 0)
    assert view.partitions(view.span(), WANTED) == []


def test_only_blocks_that_may_hold_such_times_are_opened(tmp_path: Path) -> None:
    made = make(tmp_path, [10, 20, 30], [5, 5])
    times = Times(START_US + 12 * SECOND_US, START_US + 31 * SECOND_US)
    slices = view_of(made).slices(OffsetSpan(0, 70), times)
    assert [part.block.first for part in slices] == [10, 30]
    assert view_of(made).slices(OffsetSpan(0, 70), Times(0, START_US - 1)) == []


def test_row_groups_without_such_times_are_not_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coldstore.shared.limits.ROW_GROUP_BYTES", 1_000)
    made = make(tmp_path, [200])
    view = view_of(made)
    inside = Times(START_US + 100 * SECOND_US, START_US + 101 * SECOND_US)
    found = read(view.partitions(view.span(), WANTED, inside))
    assert {100, 101} <= set(found)
    assert len(found) < 50


def test_small_blocks_are_read_together_and_tasks_are_of_equal_size(tmp_path: Path) -> None:
    made = make(tmp_path, [400] * 30)
    view = view_of(made)
    whole = [len(part.slices) for part in view.partitions(view.span(), WANTED)]
    stored = sum(block.stored_bytes for block in made.queue.list_blocks())
    assert sum(whole) == 30
    assert max(whole) - min(whole) <= max(whole) // 2 + 1
    assert len(whole) >= min(8, stored // 65_536)


def test_each_partition_knows_its_own_blocks_only(tmp_path: Path) -> None:
    made = make(tmp_path, [400] * 30)
    view = view_of(made, columns="offset")
    for part in view.partitions(view.span(), WANTED):
        assert len(pickle.dumps(part)) < 5_000 + 1_000 * len(part.slices)


def test_what_was_planned_is_read_after_young_blocks_were_merged_and_swept(tmp_path: Path) -> None:
    made = make(tmp_path, [10], [5] * 8)
    view = view_of(made)
    parts = view.partitions(view.span(), WANTED)
    made.add(100_000)  # final, and takes the young ones with it
    made.queue.sweep(grace_seconds=-1)
    assert not list((tmp_path / "queues/orders/young").glob("*.parquet"))
    assert read(parts) == list(range(50))
    assert read(view_of(made).partitions(OffsetSpan(48, 52), WANTED)) == [48, 49, 50, 51]


def test_a_view_sees_later_blocks_only_when_it_looks_again(tmp_path: Path) -> None:
    made = make(tmp_path, [10])
    view = view_of(made)
    made.add(5)
    assert view.span() == (0, 10)
    assert view.refresh() == 15
    assert view.span() == (0, 15)


def test_a_server_of_another_store_is_refused(tmp_path: Path, serving: Serving) -> None:
    made = make(tmp_path, [10], name=serving.new_queue())
    with pytest.raises(Conflict, match="is another one than that in"):
        view_of(made, server=serving.address)


def test_files_of_final_and_young_blocks_are_named_once(tmp_path: Path) -> None:
    made = make(tmp_path, [10], [5, 5])
    view = view_of(made)
    files = data_files(view.slices(OffsetSpan(3, 17)), view.files)
    assert files.paths[0] == "data/00000000000000000000.parquet"
    assert [path.split("-")[0] for path in files.paths[1:]] == [
        "young/00000000000000000010",
        "young/00000000000000000015",
    ]
    assert (files.begins, files.ends) == (False, False)
    assert data_files(view.slices(OffsetSpan(0, 20)), view.files)[1:] == (True, True)


def test_the_file_of_a_claim_stands_for_the_young_blocks_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make(tmp_path, [10], [5, 5])
    commit = BlockFiles.commit

    def fail(files: BlockFiles, block: BlockMetadata) -> None:
        if block.kind == "final":
            raise Unavailable("the writer dies after its claim, before the final block is committed")
        commit(files, block)

    monkeypatch.setattr(BlockFiles, "commit", fail)
    with pytest.raises(Unavailable):
        made.add(5)
    view = view_of(made)
    assert [part.block.is_claim for part in view.slices(OffsetSpan(0, 25))] == [False, False, False, True]
    files = data_files(view.slices(OffsetSpan(0, 25)), view.files)
    assert files == (["data/00000000000000000000.parquet", "data/00000000000000000010.parquet"], True, True)
    assert data_files(view.slices(OffsetSpan(12, 25)), view.files) == (files.paths[1:], False, True)
    assert read(view.partitions(view.span(), WANTED)) == list(range(25))


@given(st.integers(0, OFFSET_MAX), st.integers(0, OFFSET_MAX), st.lists(st.integers(0, OFFSET_MAX)))
def test_the_pattern_of_a_run_of_blocks_matches_those_and_no_others(
    low: int, high: int, others: list[int]
) -> None:
    low, high = min(low, high), max(low, high)
    patterns = glob_between(low, high)[1:-1].split(",")
    near = [n for n in (low, low - 1, high, high + 1, (low + high) // 2) if 0 <= n <= OFFSET_MAX]
    for n in {*others, *near}:
        name = f"{block_id(n)}.parquet"
        matched = any(Path(name).match(pattern) for pattern in patterns)
        assert matched == (low <= n <= high), (low, high, n)
