"""The journal on object storage keeps the promises of the port, and those of fencing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from coldstore.layout import paths
from coldstore.objects.local import LocalObjects
from coldstore.objects.memory import MemoryObjects
from coldstore.objects.port import ObjectStore
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import ManualClock
from coldstore.shared.errors import Conflict, DataLoss, Fenced, InvalidInput
from hotstore.journal.port import Poisoned, Record
from hotstore.limits import JOURNAL_BATCH_BYTES_MAX
from sharding.documents import tenure
from sharding.journal import objects as journalobject
from sharding.journal.fencing import FencingWalk, begin
from sharding.journal.object_journal import ObjectJournal
from sharding.limits import (
    JOURNAL_PART_BYTES,
    JOURNAL_PUTS_MAX,
    JOURNAL_TRIM_SECONDS,
    JOURNAL_WINDOW,
)
from tests.servers.s3 import S3Server
from tests.sharding.journals import Spoiled, lost, open_journal, recovered, write

Reopen = Callable[[], ObjectJournal]


@pytest.fixture(params=["memory", "local", "seaweed"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectStore]:
    if request.param == "memory":
        yield MemoryObjects()
    elif request.param == "local":
        yield LocalObjects(tmp_path)
    else:
        server: S3Server = request.getfixturevalue("seaweed")
        yield server.objects()


@pytest.fixture
def memory() -> MemoryObjects:
    return MemoryObjects()


def fences(objects: ObjectStore, node: str = "n1") -> list[int]:
    found = []
    for info in objects.list(paths.journal_folder(node)):
        number = paths.journal_sequence(info.key)
        assert number is not None
        if journalobject.decode(objects.get(info.key).data, number, info.key).is_fence:
            found.append(number)
    return found


def test_what_was_synced_is_delivered_in_order_after_a_restart(objects: ObjectStore) -> None:
    journal = open_journal(objects)
    assert recovered(journal) == []
    write(journal, b"a", b"b" * 70_000)
    journal.append([Record(7, (b"c", pa.py_buffer(b"d"))), Record(8, b"")])
    journal.append([Record(9, b"e")])
    journal.sync()
    used = journal.used_bytes
    journal.close()

    again = open_journal(objects)
    assert recovered(again) == [[(1, b"a")], [(1, b"b" * 70_000)], [(7, b"cd"), (8, b"")], [(9, b"e")]]
    assert again.used_bytes == used
    assert again.damage == []
    assert again.next_sequence > journal.next_sequence
    write(again, b"f")
    again.close(clean=False)
    last = open_journal(objects)
    assert recovered(last)[-1] == [(1, b"f")]
    last.close()


def test_more_batches_than_may_fly_at_once_arrive_in_order(objects: ObjectStore) -> None:
    journal = open_journal(objects)
    recovered(journal)
    for number in range(3 * JOURNAL_PUTS_MAX):
        journal.append([Record(1, b"%d" % number)])
    journal.sync()
    journal.close(clean=False)
    again = open_journal(objects)
    assert recovered(again) == [[(1, b"%d" % number)] for number in range(3 * JOURNAL_PUTS_MAX)]
    again.close()


def test_a_large_batch_is_put_in_parts_and_is_there_whole_or_not_at_all(objects: ObjectStore) -> None:
    journal = open_journal(objects)
    recovered(journal)
    records = [Record(n, bytes([n]) * (JOURNAL_PART_BYTES // 2)) for n in range(7)]
    first = journal.append(records)
    journal.sync()
    assert journal.next_sequence - first == 4
    write(journal, b"small")
    second = journal.append(records)
    journal.sync()
    journal.close()
    whole = [(record.kind, bytes(record.payload)) for record in records]  # type: ignore[arg-type]
    again = open_journal(objects)
    assert recovered(again) == [whole, [(1, b"small")], whole]
    again.close()
    # the last part of the last batch did not arrive: the batch was never acknowledged
    objects.delete(paths.journal("n1", second + 4))  # the fence of the restart
    objects.delete(paths.journal("n1", second + 3))
    walk = FencingWalk(objects, "n1", 0, 1, b"t" * 16)
    assert [batch.sequence for batch in journalobject.batches(walk.batches(), None)] == [first, first + 4]
    assert walk.end == second + 3


def test_a_damaged_part_costs_its_batch_and_no_other(memory: MemoryObjects) -> None:
    journal = open_journal(memory)
    recovered(journal)
    first = journal.append([Record(1, bytes(3 * JOURNAL_PART_BYTES))])
    journal.sync()
    write(journal, b"small")
    journal.close()
    key = paths.journal("n1", first + 1)
    memory.put(key, memory.get(key).data[:-1])
    again = open_journal(memory)
    assert recovered(again) == [[(1, b"small")]]
    assert [damage.first for damage in again.damage] == [first + 1]
    again.close()


def test_trim_moves_the_boundary_then_deletes_and_never_a_fence(objects: ObjectStore) -> None:
    clock = ManualClock()
    journal = open_journal(objects, clock=clock)
    recovered(journal)
    numbers = write(journal, *[b"%d" % n for n in range(6)])
    journal.trim(numbers[4])
    assert len(list(objects.list(paths.journal_folder("n1")))) == 7, "a trim so early is not worth a put"
    clock.advance(JOURNAL_TRIM_SECONDS)
    journal.trim(numbers[4])
    journal.close()
    found = tenure.read(objects, "n1")
    assert found is not None
    assert found.tenure.boundary == numbers[4]
    left = [paths.journal_sequence(info.key) for info in objects.list(paths.journal_folder("n1"))]
    assert left == [0, *numbers[4:]]
    again = open_journal(objects)
    assert recovered(again) == [[(1, b"4")], [(1, b"5")]]
    clock.advance(JOURNAL_TRIM_SECONDS)
    again.close()
    assert fences(objects) == [0, numbers[-1] + 1]


def test_a_second_process_of_the_same_name_fences_the_first(objects: ObjectStore) -> None:
    first = open_journal(objects)
    recovered(first)
    write(first, b"a")
    second = open_journal(objects)
    assert recovered(second) == [[(1, b"a")]]
    with pytest.raises(Poisoned):
        write(first, b"b")
    with pytest.raises(Poisoned):
        first.append([Record(1, b"c")])
    write(second, b"d")
    first.close()
    second.close()
    last = open_journal(objects)
    assert recovered(last) == [[(1, b"a")], [(1, b"d")]]
    last.close()


def test_what_arrives_behind_the_fence_is_never_read(memory: MemoryObjects) -> None:
    first = open_journal(memory)
    recovered(first)
    write(first, b"a")
    second = open_journal(memory)
    recovered(second)
    end = fences(memory)[-1]
    for stray in range(end + 1, end + JOURNAL_WINDOW):
        (data,) = journalobject.encode([Record(1, b"stray")], stray, 1, first._held.token)
        memory.put_if_absent(paths.journal("n1", stray), data)
    write(second, b"b")
    first.close(clean=False)
    second.close()
    last = open_journal(memory)
    assert recovered(last) == [[(1, b"a")], [(1, b"b")]]
    last.close()


def test_a_put_that_took_effect_unheard_is_known_as_our_own(memory: MemoryObjects) -> None:
    objects = Spoiled(memory)
    journal = open_journal(objects)
    recovered(journal)
    unheard = [3]

    def lose(verb: str, key: str) -> None:
        if verb == "put_if_absent" and unheard[0]:
            unheard[0] -= 1
            raise lost()

    objects.after = lose
    write(journal, b"a", b"b")
    assert unheard == [1], "each batch was put once, unheard, and recognised"
    journal.close()
    objects.after = lambda verb, key: None
    again = open_journal(objects)
    assert recovered(again) == [[(1, b"a")], [(1, b"b")]]
    again.close()


def test_a_takeover_between_put_and_acknowledgement_is_noticed(memory: MemoryObjects) -> None:
    objects = Spoiled(memory)
    journal = open_journal(objects)
    recovered(journal)
    write(journal, b"a")

    def taken(verb: str, key: str) -> None:
        if verb == "put_if_absent" and key.startswith("journals/"):
            objects.after = lambda verb, key: None
            found = tenure.read(memory, "n1")
            assert found is not None
            tenure.end(memory, found, "n2")

    objects.after = taken
    with pytest.raises(Poisoned, match="n2 has taken"):
        write(journal, b"b")
    journal.close()
    # it was there before the fence, so it belongs to the queue: its outcome is unknown to the client only
    walk = FencingWalk(memory, "n1", 0, 1, b"t" * 16)
    assert len(list(walk.batches())) == 2


def test_all_takers_end_at_the_same_fence(memory: MemoryObjects) -> None:
    journal = open_journal(memory)
    recovered(journal)
    write(journal, b"a", b"b")
    ends = []
    for _ in range(3):
        walk = FencingWalk(memory, "n1", 0, 1, SystemChance().token()[:16].encode())
        assert len(list(walk.batches())) == 2
        ends.append((walk.end, walk.next))
    assert len(set(ends)) == 1
    assert fences(memory) == [0, ends[0][0]]
    with pytest.raises(Poisoned):
        write(journal, b"c")
    journal.close()


def test_a_fence_that_loses_its_place_to_a_batch_goes_behind_it(memory: MemoryObjects) -> None:
    objects = Spoiled(memory)
    journal = open_journal(memory)
    recovered(journal)
    write(journal, b"a")

    def quicker(verb: str, key: str) -> None:
        if verb == "put_if_absent":
            objects.before = lambda verb, key: None
            write(journal, b"b")

    objects.before = quicker
    walk = FencingWalk(objects, "n1", 0, 1, b"t" * 16)
    assert len(list(walk.batches())) == 2
    journal.close()


def test_an_object_that_somebody_deleted_is_a_loss_and_not_the_end(memory: MemoryObjects) -> None:
    journal = open_journal(memory)
    recovered(journal)
    numbers = write(journal, *[b"%d" % n for n in range(JOURNAL_WINDOW + 3)])
    journal.close()
    memory.delete(paths.journal("n1", numbers[1]))
    again = open_journal(memory)
    with pytest.raises(DataLoss, match="somebody deleted it"):
        recovered(again)
    again.close()
    assert fences(memory) == [0]


def test_a_damaged_object_is_reported_and_kept(memory: MemoryObjects) -> None:
    clock = ManualClock()
    journal = open_journal(memory)
    recovered(journal)
    numbers = write(journal, b"a", b"b", b"c")
    journal.close()
    key = paths.journal("n1", numbers[1])
    data = bytearray(memory.get(key).data)
    data[-8] ^= 1
    memory.put(key, bytes(data))
    again = open_journal(memory, clock=clock)
    assert recovered(again) == [[(1, b"a")], [(1, b"c")]]
    assert [(found.kind, found.first) for found in again.damage] == [("corrupt", numbers[1])]
    clock.advance(JOURNAL_TRIM_SECONDS)
    again.trim(again.next_sequence)
    again.close()
    assert memory.get(key).data == bytes(data)


def test_a_store_that_is_away_delays_and_loses_nothing(memory: MemoryObjects) -> None:
    objects = Spoiled(memory)
    journal = open_journal(objects)
    recovered(journal)
    away = [5]

    def fail(verb: str, key: str) -> None:
        if away[0]:
            away[0] -= 1
            raise lost()

    objects.before = fail
    write(journal, b"a")
    assert away == [0]
    away[0] = 1_000_000
    journal.append([Record(1, b"b")])
    journal.hurry()
    with pytest.raises(Poisoned):
        journal.sync()
    journal.close()


def test_a_batch_that_is_empty_or_too_large_is_refused_and_leaves_no_trace(memory: MemoryObjects) -> None:
    journal = open_journal(memory)
    recovered(journal)
    before = journal.next_sequence
    for records in ([], [Record(1, bytes(JOURNAL_BATCH_BYTES_MAX))]):
        with pytest.raises(InvalidInput):
            journal.append(records)
    assert journal.next_sequence == before
    journal.close()


def test_a_journal_is_used_between_recovery_and_close_only(memory: MemoryObjects) -> None:
    journal = open_journal(memory)
    with pytest.raises(AssertionError):
        journal.append([Record(1, b"")])
    recovered(journal)
    with pytest.raises(AssertionError):
        recovered(journal)
    journal.close()
    journal.close()
    with pytest.raises(AssertionError):
        journal.sync()


def test_every_bit_of_an_object_counts() -> None:
    (data,) = journalobject.encode([Record(3, b"value")], 7, 2, b"t" * 16)
    assert journalobject.decode(data, 7, "k").run == 2
    for at in range(len(data)):
        bad = bytearray(data)
        bad[at] ^= 4
        with pytest.raises((DataLoss, Conflict)):
            journalobject.decode(bytes(bad), 7, "k")
    with pytest.raises(DataLoss):
        journalobject.decode(data, 8, "k")
    with pytest.raises(DataLoss):
        journalobject.decode(data[:20], 7, "k")


def test_a_new_tenure_leaves_an_estate_and_begins_behind_its_fence(memory: MemoryObjects) -> None:
    journal = open_journal(memory)
    recovered(journal)
    numbers = write(journal, b"a")
    found = tenure.read(memory, "n1")
    assert found is not None
    tenure.end(memory, found, "n2")
    with pytest.raises(Fenced):
        journal._held.beat()
    held = begin(memory, "n1", "s3", SystemChance().token())
    (orphan,) = held.tenure.orphans
    assert (orphan.since, orphan.run, orphan.first, orphan.end) == (1, 1, 0, numbers[-1] + 1)
    assert (held.tenure.since, held.run, held.tenure.boundary) == (2, 2, orphan.end + JOURNAL_WINDOW)
    assert held.tenure.is_over(1)
    assert not held.tenure.is_over(2)
    fresh = ObjectJournal(memory, held, ManualClock())
    assert recovered(fresh) == []
    write(fresh, b"b")
    tenure.settle(memory, "n1", orphan)
    held.beat()
    assert held.tenure.orphans == ()
    journal.close()
    fresh.close()
