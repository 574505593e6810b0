"""Loading the list of blocks from metadata that is damaged, missing, or changes meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coldstore.layout import metadata, paths
from coldstore.layout.metadata import BlockMetadata
from coldstore.shared import limits
from coldstore.shared.errors import DataLoss
from tests.coldstore.making import Made, contents, flip, keys, read_all, shape

META = "queues/orders/meta/"


def five_blocks() -> Made:
    made = Made()
    for final in (True, True, True, False, False):
        made.push(2, final=final)
    return made


@pytest.mark.parametrize("at", range(5))
def test_a_damaged_metadata_file_is_data_loss_that_names_it(at: int) -> None:
    made = five_blocks()
    key = keys(made.objects, META)[at]
    flip(made.objects, key, 100)
    before = contents(made.objects)
    with pytest.raises(DataLoss) as loss:
        made.reopened()
    assert (loss.value.key, loss.value.block) == (key, 2 * at)
    assert contents(made.objects) == before


@pytest.mark.parametrize("at", range(4))
def test_a_missing_metadata_file_is_data_loss_and_not_a_shorter_queue(at: int) -> None:
    made = five_blocks()
    key = keys(made.objects, META)[at]
    made.objects.delete(key)
    before = contents(made.objects)
    with pytest.raises(DataLoss, match="is missing") as loss:
        made.reopened()
    assert loss.value.block == 2 * at
    assert contents(made.objects) == before


def test_swapped_metadata_files_are_data_loss() -> None:
    made = five_blocks()
    one, two = keys(made.objects, META)[:2]
    first, second = made.objects.get(one).data, made.objects.get(two).data
    made.objects.put(one, second)
    made.objects.put(two, first)
    with pytest.raises(DataLoss, match="describes the final block"):
        made.reopened()


def test_metadata_rolled_back_to_another_history_is_data_loss() -> None:
    made, other = five_blocks(), Made()
    for said in ("another", "history"):
        other.push(2, said=said)
    key = paths.meta("orders", 2, "final")
    made.objects.put(key, other.objects.get(key).data)
    with pytest.raises(DataLoss, match="chain digest"):
        made.reopened()


def test_a_file_with_a_strange_name_is_ignored() -> None:
    made = five_blocks()
    made.objects.put(META + "00000000000000000003.other.json", b"{}")
    made.objects.put(META + "notes", b"{}")
    assert shape(made.reopened()) == shape(made.queue)


def after_list(objects: Any, act: Callable[[], None]) -> None:
    """Let something happen once, after the next listing of metadata."""
    listing = objects.list

    def once(prefix: str, after: str = "") -> Any:
        listed = list(listing(prefix, after))
        if prefix == META:
            objects.list = listing
            act()
        return iter(listed)

    objects.list = once


def test_blocks_merged_and_swept_while_we_look_are_no_loss() -> None:
    made = Made()
    made.push(2)
    made.push(2, final=False)
    made.push(2, final=False)

    def merge_and_sweep() -> None:
        made.push(1)
        made.queue.sweep(grace_seconds=-1)

    after_list(made.objects, merge_and_sweep)
    assert shape(made.reopened()) == [("final", 0, 1), ("final", 2, 6)]


def test_blocks_merged_and_swept_while_a_reader_refreshes_are_no_loss() -> None:
    made = Made()
    made.push(2)
    reader = made.reopened()
    made.push(2, final=False)
    made.push(2, final=False)

    def merge_and_sweep() -> None:
        made.push(1)
        made.queue.sweep(grace_seconds=-1)
        made.push(3, final=False)

    after_list(made.objects, merge_and_sweep)
    reader.refresh()
    assert shape(reader) == [("final", 0, 1), ("final", 2, 6), ("young", 7, 9)]
    assert read_all(reader) == read_all(made.queue)


def test_a_queue_that_never_stops_changing_is_given_up_with_the_loss_it_looks_like() -> None:
    made = five_blocks()
    made.objects.delete(paths.meta("orders", 6, "young"))
    listing = made.objects.list
    count = 0

    def changing(prefix: str, after: str = "") -> Any:
        nonlocal count
        if prefix == META:
            count += 1
            like = metadata.encode(_later(made, 100 + count))
            made.objects.put(paths.meta("orders", 100 + count, "young"), like)
        return listing(prefix, after)

    made.objects.list = changing
    with pytest.raises(DataLoss, match=r"6\.young\.json is missing"):
        made.reopened()
    assert 1 < count < 10


def _later(made: Made, first: int) -> BlockMetadata:
    from dataclasses import replace

    last = made.queue.list_blocks()[-1]
    return replace(last, first=first, last=first, path=paths.young_path(first, "ab"))


def test_refreshing_reads_only_what_is_new() -> None:
    made = Made()
    for _ in range(20):
        made.push(1)
    made.push(1, final=False)
    reader = made.reopened()
    made.push(1, final=False)
    read: list[str] = []
    get = made.objects.get

    def noted(key: str, *range_: Any) -> Any:
        read.append(key)
        return get(key, *range_)

    made.objects.get = noted
    reader.refresh()
    assert read == [paths.meta("orders", 21, "young")]
    assert limits.ROLLUP_BLOCKS > 21


def test_the_last_metadata_file_missing_leaves_its_data_alone() -> None:
    made = Made()
    made.push(2)
    (last,) = made.push(2)
    made.objects.delete(paths.meta("orders", 2, "final"))
    queue = made.reopened()
    assert queue.next_offset == 2
    assert "queues/orders/" + last.path in keys(made.objects)
    report = queue.verify()
    assert report.ok
    assert "is not committed" in report.notes[0]
    # Whoever has the elements commits them again, and the file is adopted as it is.
    from tests.coldstore.making import elements

    (again,) = queue.write_block(elements(2, 2))
    assert again.sha256 == last.sha256
