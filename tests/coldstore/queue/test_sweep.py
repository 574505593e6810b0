"""Sweeping: what goes, what stays, and that a crash in between does no harm."""

from __future__ import annotations

from typing import Any

import pytest

from coldstore.layout import paths
from coldstore.queue.sweep import Swept
from coldstore.shared import failpoint, limits
from coldstore.shared.errors import Unavailable
from tests.coldstore.making import Made, contents, elements, flip, keys, read_all, shape

GRACE = limits.SWEEP_GRACE_SECONDS
YOUNG = paths.young_folder("orders")


def merged() -> Made:
    """Two young blocks, merged into a final one just now."""
    made = Made()
    made.push(3)
    made.push(2, final=False)
    made.push(2, final=False)
    made.clock.advance(limits.YOUNG_SECONDS_MAX)
    made.queue.merge()
    assert shape(made.queue) == [("final", 0, 2), ("final", 3, 6)]
    return made


def test_merged_young_files_go_after_the_grace_period() -> None:
    made = merged()
    assert len(keys(made.objects, YOUNG)) == 2
    made.clock.advance(GRACE + 1)
    assert made.queue.sweep() == Swept(young=2)
    assert keys(made.objects, YOUNG) == []
    assert not [key for key in keys(made.objects) if key.endswith(".young.json")]
    assert len(read_all(made.reopened())) == 7
    assert made.queue.sweep() == Swept()


def test_the_grace_period_counts_from_the_merge() -> None:
    made = Made()
    made.push(2, final=False)
    made.clock.advance(10 * GRACE)
    made.queue.merge()
    assert made.queue.sweep() == Swept()
    made.clock.advance(GRACE - 1)
    assert made.queue.sweep() == Swept()
    made.clock.advance(2)
    assert made.queue.sweep() == Swept(young=1)


def test_young_blocks_that_are_not_merged_stay_for_ever() -> None:
    made = merged()
    made.push(2, final=False)
    made.clock.advance(100 * GRACE)
    made.queue.sweep()
    assert len(keys(made.objects, YOUNG)) == 1
    assert len(read_all(made.reopened())) == 9


def test_a_clock_that_goes_back_sweeps_nothing() -> None:
    made = merged()
    made.clock.jump(-30 * GRACE)
    assert made.queue.sweep() == Swept()


def orphan(made: Made, first: int) -> str:
    """A young data file whose metadata was never put."""
    key = paths.young("orders", first, "abcd")
    made.objects.put(key, b"never committed")
    return key


def test_an_orphan_inside_the_final_blocks_goes_and_one_after_them_stays() -> None:
    made = merged()
    inside, after = orphan(made, 4), orphan(made, 7)
    assert made.queue.sweep() == Swept()
    made.clock.advance(GRACE + 1)
    assert made.queue.sweep() == Swept(young=2, orphans=1)
    assert inside not in keys(made.objects)
    assert after in keys(made.objects)


def test_a_file_beside_the_one_that_metadata_names_is_an_orphan() -> None:
    made = merged()
    beside = orphan(made, 3)
    made.clock.advance(GRACE + 1)
    assert made.queue.sweep() == Swept(young=2, orphans=1)
    assert beside not in keys(made.objects)


def damaged_metadata(made: Made) -> None:
    flip(made.objects, paths.meta("orders", 3, "young"), 30)


def damaged_final_data(made: Made) -> None:
    flip(made.objects, paths.data("orders", 3), 30)


def missing_final_data(made: Made) -> None:
    made.objects.delete(paths.data("orders", 3))


def damaged_final_metadata(made: Made) -> None:
    flip(made.objects, paths.meta("orders", 3, "final"), 30)


def missing_final_metadata(made: Made) -> None:
    made.objects.delete(paths.meta("orders", 3, "final"))


@pytest.mark.parametrize(
    "harm", [damaged_final_data, missing_final_data, damaged_final_metadata, missing_final_metadata]
)
def test_nothing_is_swept_while_the_final_block_is_not_proven(harm: Any) -> None:
    made = merged()
    orphan(made, 4)
    made.clock.advance(GRACE + 1)
    harm(made)
    before = contents(made.objects)
    made.queue.sweep()  # knows the list from before the harm
    assert contents(made.objects) == before


def test_a_young_block_whose_metadata_is_damaged_stays() -> None:
    made = merged()
    made.clock.advance(GRACE + 1)
    damaged_metadata(made)
    assert made.queue.sweep().young == 1
    kept = [paths.young_first(key) for key in keys(made.objects, YOUNG)]
    assert kept == [3]
    assert made.queue.sweep().doubtful >= 1


@pytest.mark.parametrize("point", ["sweep.metadata_deleted", "sweep.data_deleted"])
@pytest.mark.parametrize("nth", [1, 2])
def test_a_sweep_that_dies_half_way_is_finished_by_the_next(point: str, nth: int) -> None:
    made = merged()
    made.clock.advance(GRACE + 1)
    failpoint.arm(point, nth)
    with pytest.raises(Unavailable):
        made.queue.sweep()
    failpoint.disarm()
    queue = made.reopened()
    assert queue.verify().ok
    assert len(read_all(queue)) == 7
    queue.sweep()
    assert keys(made.objects, YOUNG) == []
    assert not [key for key in keys(made.objects) if key.endswith(".young.json")]


def test_files_with_strange_names_stay() -> None:
    made = merged()
    made.objects.put(YOUNG + "notes.txt", b"hello")
    made.clock.advance(GRACE + 1)
    made.queue.sweep()
    assert keys(made.objects, YOUNG) == [YOUNG + "notes.txt"]


def claim_left_behind() -> Made:
    """A writer that died between the metadata of a final block and the deletion of its claim."""
    made = Made()
    made.push(3)
    delete = made.objects.delete
    made.objects.delete = lambda key: None
    made.push(2)
    made.objects.delete = delete
    assert paths.meta("orders", 3, "young") in keys(made.objects)
    return made


def test_a_claim_left_behind_is_ignored_and_swept() -> None:
    made = claim_left_behind()
    assert shape(made.reopened()) == [("final", 0, 2), ("final", 3, 4)]
    assert made.queue.verify().ok
    assert made.queue.sweep() == Swept()
    made.clock.advance(GRACE + 1)
    assert made.queue.sweep() == Swept(orphans=1)
    assert paths.meta("orders", 3, "young") not in keys(made.objects)
    assert paths.data("orders", 3) in keys(made.objects)
    assert made.reopened().verify().ok


def test_a_claim_that_holds_the_end_of_the_queue_stays_and_so_does_its_file() -> None:
    made = Made()
    made.push(3)
    made.push(2, final=False)
    failpoint.arm("block.metadata_put")  # after the claim, before the final metadata
    with pytest.raises(Unavailable):
        made.push(2)
    made.clock.advance(100 * GRACE)
    queue = made.reopened()
    assert shape(queue) == [("final", 0, 2), ("young", 3, 4), ("young", 5, 6)]
    before = contents(made.objects)
    assert queue.sweep() == Swept()
    assert contents(made.objects) == before
    assert len(read_all(queue)) == 7


def test_a_claim_on_a_copy_protects_the_copy() -> None:
    made = Made()
    made.push(3)
    made.push(2, final=False)
    other = made.reopened(seed=5)
    failpoint.arm("block.data_put")
    with pytest.raises(Unavailable):
        other.write_block(elements(5, 2, said="lost"))
    failpoint.arm("block.metadata_put")
    with pytest.raises(Unavailable):
        made.push(2)  # claims with a copy, since the file of the other is there
    queue = made.reopened()
    claim = queue.list_blocks()[-1]
    assert (claim.first, claim.file_first, claim.is_claim) == (5, 3, True)
    queue.write_block(elements(7, 1), final=False)
    made.clock.advance(100 * GRACE)
    queue.merge()
    queue.sweep()
    assert [value for _, value in read_all(queue)][5:] == [b"value 5", b"value 6", b"value 7"]
    made.clock.advance(100 * GRACE)
    queue.sweep()
    assert queue.verify().ok
    assert read_all(made.reopened()) == read_all(queue)


def test_superseded_roll_ups_go_after_the_grace_period(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ROLLUP_BLOCKS", 4)
    made = Made()
    for _ in range(20):
        made.push(1)
    index = paths.rollup_folder("orders")
    assert len(keys(made.objects, index)) == 5
    assert made.queue.sweep() == Swept()
    made.clock.advance(GRACE + 1)
    assert made.queue.sweep() == Swept(rollups=3)
    assert keys(made.objects, index) == [paths.rollup("orders", 0, 16), paths.rollup("orders", 16, 20)]
    assert len(made.reopened().list_blocks()) == 20


def test_roll_ups_inside_a_damaged_one_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ROLLUP_BLOCKS", 4)
    made = Made()
    for _ in range(17):
        made.push(1)
    flip(made.objects, paths.rollup("orders", 0, 16), 50)
    made.clock.advance(GRACE + 1)
    assert made.queue.sweep().rollups == 0
    assert len(made.reopened().list_blocks()) == 17
