"""Files that writers leave behind: adopted, left alone or replaced, and never lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coldstore.layout import paths
from coldstore.queue import commit
from coldstore.queue.cold_queue import ColdQueue
from coldstore.shared import failpoint, limits
from coldstore.shared.errors import Conflict, DataLoss, Fenced, Unavailable
from tests.coldstore.making import Made, contents, elements, flip, keys, read_all, shape

DATA = paths.data("orders", 3)


def left_behind(made: Made, count: int, said: str = "value", seed: int = 5) -> bytes:
    """A final block that another owner began and did not commit; returns its file."""
    other = made.reopened(seed)
    failpoint.arm("block.data_put")
    with pytest.raises(Unavailable):
        other.write_block(elements(other.next_offset, count, said=said))
    failpoint.disarm()
    return bytes(made.objects.get(paths.data("orders", other.list_blocks().final_next)).data)


def with_final() -> Made:
    made = Made()
    made.push(3)
    return made


def test_the_same_elements_are_adopted_without_writing_them_again() -> None:
    made = with_final()
    data = left_behind(made, 4)
    puts: list[str] = []
    put = made.objects.put_if_absent

    def noted(key: str, body: object) -> str:
        etag: str = put(key, body)
        puts.append(key)
        return etag

    made.objects.put_if_absent = noted
    (block,) = made.push(4)
    assert made.objects.get(DATA).data == data
    assert all("/meta/" in key for key in puts)
    assert (block.first, block.last) == (3, 6)
    assert made.queue.verify().ok


def test_a_shorter_file_is_adopted_and_the_rest_is_the_next_block() -> None:
    made = with_final()
    data = left_behind(made, 2)
    blocks = made.push(6)
    assert made.objects.get(DATA).data == data
    assert [(b.kind, b.first, b.last) for b in blocks] == [("final", 3, 4), ("young", 5, 8)]
    assert shape(made.reopened()) == [("final", 0, 2), ("final", 3, 4), ("young", 5, 8)]
    assert made.queue.verify().ok


def test_a_rest_that_fills_a_block_is_final_at_once() -> None:
    made = with_final()
    left_behind(made, 2)
    blocks = made.push(2 + limits.BLOCK_BYTES_MIN // 20)
    assert len(blocks) > 1
    assert {b.kind for b in blocks} == {"final"}
    assert made.queue.verify().ok


@pytest.mark.parametrize("before", [0, 0.3, 0.7], ids=["alone", "after little", "after much"])
@pytest.mark.parametrize("final", [True, False])
def test_blocks_are_about_as_large_as_was_asked_for_however_large_what_comes_is(
    before: float, final: bool
) -> None:
    made = Made()
    size = limits.BLOCK_BYTES_MIN
    each = made.push(1, final=False)[0].raw_bytes
    if before:
        made.push(round(before * size / each), final=False)
    made.push(round(7.4 * size / each), final=final)
    blocks = [block for block in made.queue.list_blocks() if block.kind == ("final" if final else "young")]
    large = [block.raw_bytes / size for block in blocks if block.raw_bytes > size / 20]
    assert len(large) >= 6
    assert min(large if final or not before else large[1:]) >= 0.5
    assert max(large) <= 1.26
    assert made.queue.verify().ok
    assert read_all(made.reopened()) == read_all(made.queue)


def replaced(made: Made) -> None:
    """The file is ours, the copy is named, and everything verifies."""
    (copy,) = keys(made.objects, paths.young_folder("orders"))
    assert made.objects.get(DATA).data == made.objects.get(copy).data
    assert made.queue.verify().ok
    assert read_all(made.reopened()) == read_all(made.queue)
    assert all(value.startswith(b"value") for _, value in read_all(made.queue))


def test_a_longer_file_is_replaced() -> None:
    made = with_final()
    left_behind(made, 6)
    made.push(4)
    replaced(made)


def test_other_elements_are_replaced() -> None:
    made = with_final()
    left_behind(made, 4, said="other")
    made.push(4)
    replaced(made)


def test_a_torn_file_is_replaced() -> None:
    made = with_final()
    data = left_behind(made, 4)
    made.objects.put(DATA, data[:-20])
    made.push(4)
    replaced(made)


def test_a_file_with_a_flipped_bit_is_not_adopted() -> None:
    made = with_final()
    data = left_behind(made, 4)
    for byte in (5, len(data) // 3, len(data) // 2, len(data) - 20):
        fresh = with_final()
        fresh.objects.put(DATA, data)
        flip(fresh.objects, DATA, byte)
        fresh.push(4)
        assert fresh.queue.verify().ok
        assert read_all(fresh.reopened())[3:] == [(i, f"value {i}".encode()) for i in range(3, 7)]


def test_a_file_of_another_queue_is_replaced() -> None:
    made = with_final()
    other = Made(seed=9)
    other.push(3)
    left_behind(other, 4)
    made.objects.put(DATA, other.objects.get(DATA).data)
    made.push(4)
    replaced(made)


def test_a_file_that_ends_within_a_young_block_is_replaced() -> None:
    made = Made()
    made.push(3)
    left_behind(made, 3)
    made.push(2, final=False)
    made.push(2, final=False)
    made.push(1)
    assert shape(made.queue) == [("final", 0, 2), ("final", 3, 7)]
    assert made.queue.verify().ok
    assert read_all(made.reopened()) == [(i, f"value {i}".encode()) for i in range(8)]


def test_a_file_that_ends_with_a_young_block_is_adopted() -> None:
    made = Made()
    made.push(3)
    data = left_behind(made, 4)
    made.push(2, final=False)
    made.push(2, final=False)
    made.push(1)
    assert made.objects.get(DATA).data == data
    assert shape(made.queue) == [("final", 0, 2), ("final", 3, 6), ("final", 7, 7)]
    assert made.queue.verify().ok


def test_a_claim_is_part_of_the_queue_and_the_next_final_block_adopts_its_file() -> None:
    made = Made()
    made.push(3)
    made.push(2, final=False)
    failpoint.arm("block.metadata_put")
    with pytest.raises(Unavailable):
        made.push(4)
    queue = made.reopened()
    assert shape(queue) == [("final", 0, 2), ("young", 3, 4), ("young", 5, 8)]
    claim = queue.list_blocks()[-1]
    assert claim.is_claim
    assert queue.read_block(claim, start=6, columns=["value"]).to_pylist() == [
        {"value": b"value 6"},
        {"value": b"value 7"},
        {"value": b"value 8"},
    ]
    data = made.objects.get(DATA).data
    queue.write_block(elements(9, 2))
    assert made.objects.get(DATA).data == data
    assert shape(queue)[:2] == [("final", 0, 2), ("final", 3, 8)]
    assert paths.meta("orders", 5, "young") not in keys(made.objects)
    assert queue.verify().ok


def test_young_blocks_go_on_after_a_claim() -> None:
    made = Made()
    failpoint.arm("block.metadata_put")
    with pytest.raises(Unavailable):
        made.push(4)
    queue = made.reopened()
    queue.write_block(elements(4, 2), final=False)
    assert shape(made.reopened()) == [("young", 0, 3), ("young", 4, 5)]
    made.clock.advance(limits.YOUNG_SECONDS_MAX)
    queue.merge()
    assert made.reopened().verify().ok
    assert len(read_all(made.reopened())) == 6


def test_a_second_owner_is_fenced_off_and_nothing_of_the_first_is_touched() -> None:
    made = with_final()
    zombie = made.reopened(seed=5)
    made.push(4, epoch=2)
    before = contents(made.objects)
    for final in (True, False):
        with pytest.raises(Fenced, match="was committed by epoch 2"):
            zombie.write_block(elements(3, 4, said="other"), final=final, epoch=1)
        for key, data in before.items():
            assert made.objects.get(key).data == data
    assert made.reopened().verify().ok


def test_an_owner_that_slept_through_a_merge_and_a_sweep_is_fenced_off() -> None:
    made = with_final()
    zombie = made.reopened(seed=5)
    made.push(2, final=False, epoch=2)
    made.push(2, epoch=2)
    made.clock.advance(limits.SWEEP_GRACE_SECONDS + 1)
    made.queue.sweep()
    assert paths.meta("orders", 3, "young") not in keys(made.objects)
    with pytest.raises(Fenced):
        zombie.write_block(elements(3, 2, said="other"), final=False, epoch=1)
    assert made.reopened().verify().ok
    assert [value for _, value in read_all(made.reopened())] == [f"value {i}".encode() for i in range(7)]


def test_a_merge_elsewhere_does_not_disturb_the_owner() -> None:
    made = with_final()
    made.push(2, final=False)
    compactor = made.reopened(seed=5)
    made.clock.advance(limits.YOUNG_SECONDS_MAX)
    assert compactor.merge()
    made.push(2, final=False)
    made.push(2)
    assert made.queue.verify().ok
    assert len(read_all(made.reopened())) == 9


def pending_swap(made: Made, monkeypatch: pytest.MonkeyPatch) -> ColdQueue:
    """A queue whose last final block is committed, with its file not yet in its place."""
    left_behind(made, 4, said="other")
    with monkeypatch.context() as patched:

        def dies(*_: object) -> None:
            raise Unavailable("killed before the swap")

        patched.setattr(commit, "settle", dies)
        with pytest.raises(Unavailable):
            made.push(2)
    return made.reopened()


@pytest.mark.parametrize(
    "act",
    [
        lambda queue: queue.write_block(elements(5, 2)),
        lambda queue: queue.write_block(elements(5, 2), final=False),
        lambda queue: queue.merge(),
    ],
    ids=["final", "young", "merge"],
)
def test_the_next_writer_finishes_a_swap_before_anything_else(
    act: Callable[[ColdQueue], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = with_final()
    queue = pending_swap(made, monkeypatch)
    assert b"other" in made.objects.get(DATA).data or len(read_all(queue)) == 5
    act(queue)
    block = queue.block_for(3)
    assert len(made.objects.get(DATA).data) == block.stored_bytes
    replaced_notes = [note for note in queue.verify().notes if "waits to be replaced" in note]
    assert replaced_notes == []


def test_a_swap_that_another_writer_finishes_meanwhile_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    made = with_final()
    queue = pending_swap(made, monkeypatch)
    swap = made.objects.put_if_match

    def quicker(key: str, data: object, etag: str) -> str:
        made.objects.put_if_match = swap
        swap(key, data, etag)
        raise Conflict("another was quicker")

    made.objects.put_if_match = quicker
    queue.write_block(elements(5, 2))
    assert queue.verify().ok


def test_a_missing_file_is_not_settled_but_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    made = with_final()
    queue = pending_swap(made, monkeypatch)
    made.objects.delete(DATA)
    with pytest.raises(DataLoss, match="is missing"):
        queue.write_block(elements(5, 2))


def test_final_metadata_that_vanished_stops_the_next_write() -> None:
    made = with_final()
    made.queue = made.reopened()
    made.objects.delete(paths.meta("orders", 0, "final"))
    with pytest.raises(DataLoss, match=r"0\.final\.json is missing"):
        made.push(1)
