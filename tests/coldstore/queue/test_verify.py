"""Verifying: a sound queue is found sound, and every defect of another is found and named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from coldstore.block import encode as blocks
from coldstore.history import rollups
from coldstore.layout import metadata, paths, sealed_json
from coldstore.queue.verify import Report
from coldstore.shared import failpoint, limits
from coldstore.shared.errors import InvalidInput, NotFound, Unavailable
from tests.coldstore.making import Made, contents, elements, flip, keys


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    """Final blocks 0, 10, … 50, young ones 60 and 70, a roll-up of the first four."""
    monkeypatch.setattr(limits, "ROLLUP_BLOCKS", 4)
    made = Made()
    for _ in range(6):
        made.push(10)
    made.push(10, final=False)
    made.push(10, final=False)
    return made


def found(report: Report) -> list[tuple[str, int | None]]:
    return [(defect.kind, defect.block) for defect in report.defects]


def test_a_sound_queue_is_found_sound(made: Made) -> None:
    report = made.store.verify("orders")
    assert report.ok
    assert (report.queue, report.blocks, report.elements) == ("orders", 8, 80)
    assert report.stored_bytes == sum(block.stored_bytes for block in made.queue.list_blocks())
    assert report.chain == made.queue.list_blocks()[5].chain
    assert report.notes == ()


def test_an_empty_queue_is_sound() -> None:
    report = Made().queue.verify()
    assert report.ok
    assert (report.blocks, report.elements) == (0, 0)


def test_progress_is_told_block_by_block(made: Made) -> None:
    told: list[tuple[int, int, int]] = []
    report = made.store.verify("orders", lambda done, total, read: told.append((done, total, read)))
    assert [done for done, _, _ in told] == list(range(1, 9))
    assert {total for _, total, _ in told} == {8}
    assert told[-1][2] == report.stored_bytes


def test_verifying_changes_nothing(made: Made) -> None:
    flip(made.objects, paths.data("orders", 10), 50)
    before = contents(made.objects)
    made.store.verify("orders")
    assert contents(made.objects) == before


def data_damaged(made: Made) -> None:
    flip(made.objects, paths.data("orders", 10), 50)


def data_truncated(made: Made) -> None:
    key = paths.data("orders", 10)
    made.objects.put(key, made.objects.get(key).data[:-5])


def data_missing(made: Made) -> None:
    made.objects.delete(paths.data("orders", 10))


def data_swapped(made: Made) -> None:
    one, two = paths.data("orders", 10), paths.data("orders", 20)
    first, second = made.objects.get(one).data, made.objects.get(two).data
    made.objects.put(one, second)
    made.objects.put(two, first)


def young_data_missing(made: Made) -> None:
    made.objects.delete("queues/orders/" + made.queue.list_blocks()[6].path)


def metadata_damaged(made: Made) -> None:
    flip(made.objects, paths.meta("orders", 10, "final"), 80)


def metadata_missing(made: Made) -> None:
    made.objects.delete(paths.meta("orders", 50, "final"))


def metadata_missing_under_a_roll_up(made: Made) -> None:
    made.objects.delete(paths.meta("orders", 10, "final"))


def first_metadata_missing(made: Made) -> None:
    made.objects.delete(paths.meta("orders", 0, "final"))


def young_metadata_damaged(made: Made) -> None:
    flip(made.objects, paths.meta("orders", 60, "young"), 80)


def young_metadata_missing(made: Made) -> None:
    made.objects.delete(paths.meta("orders", 60, "young"))


def chain_forged(made: Made) -> None:
    """Well sealed metadata with a chain digest that continues another history."""
    forged = replace(made.queue.list_blocks()[4], chain="ab" * 32)
    made.objects.put(paths.meta("orders", 40, "final"), metadata.encode(forged))


def rollup_damaged(made: Made) -> None:
    flip(made.objects, paths.rollup("orders", 0, 40), 90)


def rollup_forged(made: Made) -> None:
    key = paths.rollup("orders", 0, 40)
    rollup = rollups.decode(bytes(made.objects.get(key).data), made.queue.settings.id)
    assert rollup is not None
    arrays = {**rollup.arrays, "raw_bytes": rollup.arrays["raw_bytes"] + 1}
    made.objects.put(key, rollups.encode(rollups.Rollup(0, rollup.before, arrays), made.queue.settings.id))


def stray_data(made: Made) -> None:
    made.objects.put(paths.data("orders", 7_000), b"whatever")


def stray_metadata(made: Made) -> None:
    made.objects.put("queues/orders/meta/notes", b"whatever")


def stray_rollup(made: Made) -> None:
    made.objects.put("queues/orders/index/notes", b"whatever")


DEFECTS: list[tuple[Callable[[Made], None], list[tuple[str, int | None]]]] = [
    (data_damaged, [("data damaged", 10)]),
    (data_truncated, [("data damaged", 10)]),
    (data_missing, [("data missing", 10)]),
    (data_swapped, [("data damaged", 10), ("data damaged", 20)]),
    (young_data_missing, [("data missing", 60)]),
    (metadata_damaged, [("metadata damaged", 10)]),
    (metadata_missing, [("metadata missing", 50)]),
    (metadata_missing_under_a_roll_up, [("metadata missing", 10)]),
    (first_metadata_missing, [("metadata missing", 0)]),
    (young_metadata_damaged, [("metadata damaged", 60)]),
    (young_metadata_missing, [("metadata missing", 60)]),
    (chain_forged, [("link broken", 40), ("link broken", 50)]),
    (rollup_damaged, [("rollup damaged", None)]),
    (rollup_forged, [("rollup damaged", None)]),
    (stray_data, [("stray file", 7_000)]),
    (stray_metadata, [("stray file", None)]),
    (stray_rollup, [("stray file", None)]),
]


def data_of_the_last_blocks_missing(made: Made) -> None:
    """As `cp` leaves it that read data/ first."""
    for first in (40, 50):
        made.objects.delete(paths.data("orders", first))


def metadata_of_the_last_blocks_missing(made: Made) -> None:
    """As `cp` leaves it that read meta/ first: data of blocks that came later."""
    for kind, firsts in (("final", (30, 40, 50)), ("young", (60, 70))):
        for first in firsts:
            made.objects.delete(paths.meta("orders", first, kind))  # type: ignore[arg-type]
    made.objects.delete(paths.rollup("orders", 0, 40))


def a_roll_up_younger_than_the_metadata(made: Made) -> None:
    made.objects.delete(paths.data("orders", 40))
    for kind, firsts in (("final", (30, 40, 50)), ("young", (60, 70))):
        for first in firsts:
            made.objects.delete(paths.meta("orders", first, kind))  # type: ignore[arg-type]


def a_hole_before_the_last_data(made: Made) -> None:
    made.objects.delete(paths.data("orders", 40))


def a_cut_and_damage(made: Made) -> None:
    data_of_the_last_blocks_missing(made)
    data_damaged(made)


def stray_within(made: Made) -> None:
    made.objects.put(paths.data("orders", 15), b"whatever")


CUTS: list[tuple[Callable[[Made], None], int | None]] = [
    (data_of_the_last_blocks_missing, 40),
    (metadata_of_the_last_blocks_missing, 30),
    (a_roll_up_younger_than_the_metadata, 30),
    (young_data_missing, 60),
    (young_metadata_missing, 60),
    (metadata_missing, 50),
    (stray_data, 80),
    (a_hole_before_the_last_data, None),
    (a_cut_and_damage, None),
    (stray_within, None),
    (data_missing, None),
    (data_damaged, None),
    (metadata_missing_under_a_roll_up, None),
    (first_metadata_missing, None),
    (metadata_damaged, None),
    (chain_forged, None),
    (rollup_damaged, None),
    (stray_metadata, None),
]


@pytest.mark.parametrize(("harm", "cut"), CUTS)
def test_a_tail_that_is_cut_off_is_told_from_damage(
    made: Made, harm: Callable[[Made], None], cut: int | None
) -> None:
    harm(made)
    report = made.store.verify("orders")
    assert (report.ok, report.cut) == (False, cut)
    assert report.verdict == ("damaged" if cut is None else "cut off")


def test_a_sound_queue_is_not_cut_off(made: Made) -> None:
    report = made.store.verify("orders")
    assert (report.verdict, report.cut) == ("ok", None)


def test_whatever_lies_under_queues_is_looked_at(made: Made) -> None:
    made.store.create_queue("payments").write_block(elements(0, 3))
    made.store.create_queue("orders-2")
    made.objects.delete(paths.queue("payments"))
    made.objects.put("queues/notes.txt", b"hello")
    made.objects.put("queues/_old/data/1.parquet", b"hello")
    assert made.store.entries() == ["_old", "notes.txt", "orders", "orders-2", "payments"]
    reports = {name: made.store.verify(name) for name in made.store.entries()}
    assert reports["orders"].ok
    assert reports["orders-2"].ok
    assert found(reports["payments"]) == [("queue document missing", None)]
    assert reports["payments"].defects[0].key == paths.queue("payments")
    assert "metadata of 1 blocks" in reports["payments"].defects[0].text
    assert found(reports["notes.txt"]) == found(reports["_old"]) == [("stray file", None)]
    assert all(reports[name].verdict == "damaged" for name in ("payments", "notes.txt", "_old"))
    for name in ("order", "notes", "nothing"):
        with pytest.raises(NotFound):
            made.store.verify(name)


def test_a_queue_that_is_being_imported_is_named_and_no_defect(made: Made) -> None:
    made.store.begin_import("history")
    report = made.store.verify("history")
    assert report.ok
    assert "being imported" in report.notes[0]


@pytest.mark.parametrize(("harm", "expected"), DEFECTS)
def test_each_defect_is_found_and_named_once(
    made: Made, harm: Callable[[Made], None], expected: list[tuple[str, int | None]]
) -> None:
    harm(made)
    report = made.store.verify("orders")
    assert not report.ok
    assert found(report) == expected
    for defect in report.defects:
        assert defect.key.startswith("queues/orders/")
        assert defect.text


def test_all_defects_are_reported_and_not_only_the_first(made: Made) -> None:
    data_missing(made)
    young_metadata_damaged(made)
    rollup_damaged(made)
    stray_data(made)
    flip(made.objects, paths.data("orders", 40), 50)
    report = made.store.verify("orders")
    assert sorted(found(report), key=str) == sorted(
        [
            ("data missing", 10),
            ("data damaged", 40),
            ("metadata damaged", 60),
            ("rollup damaged", None),
            ("stray file", 7_000),
        ],
        key=str,
    )


def test_data_that_lies_with_the_right_digest_is_found() -> None:
    """Somebody rewrites a data file and its metadata alike; only the elements tell."""
    made = Made()
    made.push(5)
    table = elements(0, 5, at_us=1)
    lies = [
        table.set_column(0, table.schema.field("offset"), pa.array([0, 1, 2, 4, 4])),
        elements(0, 5, at_us=99),
    ]
    for lie in lies:
        data = b"".join(blocks.encode(lie, made.queue.settings))
        encoded = blocks.Encoded.of(data)
        forged = replace(
            made.queue.list_blocks()[0],
            sha256=encoded.sha256,
            stored_bytes=encoded.size,
            min_timestamp_us=1,
            max_timestamp_us=1,
            chain=metadata.link(metadata.genesis(made.queue.settings.id), 0, 4, encoded.sha256),
        )
        made.objects.put(paths.data("orders", 0), data)
        made.objects.put(paths.meta("orders", 0, "final"), metadata.encode(forged))
        report = made.store.verify("orders")
        assert found(report) == [("data wrong", 0)]


def test_a_newer_format_stops_it_with_a_request_to_upgrade(made: Made) -> None:
    made.objects.put(paths.meta("orders", 10, "final"), sealed_json.seal({"novelty": 1}, 2))
    with pytest.raises(InvalidInput, match="upgrade jjq"):
        made.store.verify("orders")


def test_files_that_wait_are_notes_and_no_defects() -> None:
    made = Made()
    made.push(2)
    made.push(2, final=False)
    failpoint.arm("block.data_put")
    with pytest.raises(Unavailable):
        made.push(3)
    report = made.queue.verify()
    assert report.ok
    assert any("is not committed" in note for note in report.notes)
    made.clock.advance(limits.YOUNG_SECONDS_MAX)
    made.push(3)
    report = made.queue.verify()
    assert report.ok
    assert any("waits to be swept" in note for note in report.notes)


def test_a_swap_that_is_not_finished_is_a_note_and_the_copy_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    from coldstore.queue import commit

    made = Made()
    other = made.reopened(seed=5)
    failpoint.arm("block.data_put")
    with pytest.raises(Unavailable):
        other.write_block(elements(0, 4, said="lost"))
    settle = commit.settle

    def dies(*_: object) -> None:
        raise Unavailable("killed before the swap")

    monkeypatch.setattr(commit, "settle", dies)
    with pytest.raises(Unavailable):
        made.push(3)
    queue = made.reopened()
    assert queue.read_block(0).column("value").to_pylist() == [b"value 0", b"value 1", b"value 2"]
    report = queue.verify()
    assert report.ok
    assert any("waits to be replaced by young/" in note for note in report.notes)
    monkeypatch.setattr(commit, "settle", settle)
    queue.write_block(elements(3, 2))
    made.clock.advance(limits.SWEEP_GRACE_SECONDS + 1)
    queue.sweep()
    report = queue.verify()
    assert report.ok
    (note,) = report.notes
    assert "quarantine/" in note  # what the replaced file held
    assert len(keys(made.objects, paths.young_folder("orders"))) == 1, "the copy is named and stays"


def test_a_copy_that_is_damaged_too_is_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    from coldstore.queue import commit

    made = Made()
    made.objects.put(paths.data("orders", 0), b"left by somebody else")
    monkeypatch.setattr(commit, "settle", lambda *_: None)
    made.push(3)
    (copy,) = keys(made.objects, paths.young_folder("orders"))
    assert made.store.verify("orders").ok
    flip(made.objects, copy, 20)
    assert found(made.store.verify("orders")) == [("data damaged", 0)]
    made.objects.delete(copy)
    assert found(made.store.verify("orders")) == [("data damaged", 0)]
