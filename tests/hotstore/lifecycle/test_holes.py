"""Lost records: data loss for the queues that they may have belonged to, and for no other."""

from __future__ import annotations

import pytest

from coldstore.shared.errors import DataLoss, Unavailable
from hotstore.journal import records
from hotstore.journal.disk_journal import DiskJournal
from hotstore.journal.port import Record
from tests.hotstore.journaled import batches, push_batch
from tests.hotstore.kit import BLOCK_BYTES, World, drain, push, read_all, read_around, values


async def holed() -> World:
    """A queue `q` that lost elements 2 and 3 of 6, and a queue `other` that lost nothing."""
    world = await World().start()
    for name in ("q", "other"):
        await world.store.create_queue(name, block_bytes=BLOCK_BYTES)
    await world.store.create_subscriber("q", "s", "beginning")
    for n in range(0, 6, 2):
        await push(world.store, "q", b"%d" % n, b"%d" % (n + 1))
        await push(world.store, "other", b"%d" % n)
    await world.crash()
    world.disk.corrupt(*push_batch(world, 2), 1)
    return await world.start()


async def test_a_hole_is_data_loss_for_its_queue_alone() -> None:
    # Given
    world = await holed()
    # Then reads around it work
    assert [e.offset for e in await read_around(world.store, "q")] == [0, 1, 4, 5]
    assert values(await world.store.pop("q/s", 9)) == [b"0", b"1"]
    # And what is in it says so, in so many words
    for call in (world.store.pop("q/s", 9), world.store.peek("q/s"), read_all(world.store, "q")):
        with pytest.raises(DataLoss, match=r"queue q: elements 2\.\.3 were acknowledged"):
            await call
    await world.store.seek("q/s", "offset:4")
    assert values(await world.store.pop("q/s", 9)) == [b"4", b"5"]
    # And pushes and seals are refused, before anything is written
    before = world.journal.next_sequence
    for refused in (push(world.store, "q", b"x"), world.store.seal("q")):
        with pytest.raises(DataLoss, match="pushes are refused"):
            await refused
    assert world.journal.next_sequence == before
    # And the other queue knows nothing of it
    assert (await push(world.store, "other", b"6")).first_offset == 3
    await world.store.seal("other")
    assert len(await world.store.list_queues()) == 2


async def test_a_hole_is_still_there_after_more_starts_and_a_clean_end() -> None:
    world = await holed()
    await world.maintain()
    await world.close()
    for _ in range(2):
        await world.start()
        with pytest.raises(DataLoss, match=r"elements 2\.\.3"):
            await push(world.store, "q", b"x")
        assert [e.offset for e in await read_around(world.store, "q")] == [0, 1, 4, 5]
        await world.crash()


async def test_a_refused_push_does_not_grow_the_error() -> None:
    world = await holed()
    depths = []
    for _ in range(3):
        with pytest.raises(DataLoss) as error:
            await push(world.store, "q", b"x")
        depths.append(len(error.traceback))
    assert depths[0] == depths[1] == depths[2]


async def test_elements_that_are_cold_already_are_not_missed() -> None:
    # Given elements that were sealed, and whose journal records are damaged before they were trimmed
    world = await World().start()
    await world.store.create_queue("q", block_bytes=BLOCK_BYTES)
    await push(world.store, "q", b"0", b"1")
    await world.store.seal("q")
    await push(world.store, "q", b"2")
    await world.crash()
    world.disk.corrupt(*push_batch(world, 0), 1)
    # When
    await world.start()
    # Then
    assert world.journal.damage
    assert [e.value for e in await read_all(world.store, "q")] == [b"0", b"1", b"2"]
    assert (await push(world.store, "q", b"3")).first_offset == 3


async def test_whose_elements_were_in_lost_batches_is_told_by_what_follows_them() -> None:
    # Given three queues; the lost batch held the last push to one of them
    world = await World().start()
    for name in ("lost", "before", "after"):
        await world.store.create_queue(name, block_bytes=BLOCK_BYTES)
    for name in ("before", "lost", "after"):
        await push(world.store, name, b"0")
    await world.crash()
    world.disk.corrupt(*push_batch(world, 0, queue=1), 1)
    # When
    await world.start()
    # Then the one that is heard of later is fine, and the others take no pushes: either may be the one
    assert (await push(world.store, "after", b"1")).first_offset == 1
    for name in ("lost", "before"):
        with pytest.raises(DataLoss, match=f"queue {name} may have lost its last elements"):
            await push(world.store, name, b"1")
    assert [e.value for e in await read_all(world.store, "before")] == [b"0"]
    # And so it stays, whatever is written and trimmed, until the loss is accepted
    await world.close()
    await world.start()
    with pytest.raises(DataLoss, match="queue before may have lost its last elements"):
        await push(world.store, "before", b"1")
    assert world.store.gauges()["queues_with_loss"] == 2
    assert (await world.store.accept_loss("before")).in_doubt
    assert world.store.gauges()["queues_with_loss"] == 1
    assert (await push(world.store, "before", b"1")).first_offset == 1
    await world.restart()
    assert (await push(world.store, "before", b"2")).first_offset == 2


async def test_a_queue_whose_row_was_lost_with_its_elements_takes_no_pushes() -> None:
    # Given batches that held the only records of a queue
    world = await World().start()
    await world.store.create_queue("other", block_bytes=BLOCK_BYTES)
    await world.store.create_queue("q", block_bytes=BLOCK_BYTES)
    await push(world.store, "q", b"acknowledged")
    await push(world.store, "other", b"x")
    await world.crash()
    rows = [(name, at) for name, _, at, kinds in batches(world) if kinds == [records.QUEUES]]
    pushed = push_batch(world, 0, queue=2)
    world.disk.corrupt(*rows[1], 1)
    world.disk.corrupt(*pushed, 1)
    # When
    await world.start()
    # Then its offsets are not given out a second time, and new queues are not suspected
    with pytest.raises(DataLoss, match="may have lost"):
        await push(world.store, "q", b"again")
    await world.store.create_queue("new", block_bytes=BLOCK_BYTES)
    assert (await push(world.store, "new", b"x")).first_offset == 0
    assert (await push(world.store, "other", b"y")).first_offset == 1


async def test_elements_of_a_queue_whose_row_was_lost_never_become_those_of_another() -> None:
    # Given a journal that names none of its queues any more, but has their elements
    world = await World().start()
    for name in ("zoo", "ant"):
        await world.store.create_queue(name, block_bytes=BLOCK_BYTES)
        await push(world.store, name, name.encode())
    await world.crash()
    for name, _, at, kinds in list(batches(world)):
        if kinds == [records.QUEUES]:
            world.disk.corrupt(name, at, 1)
    # When they are found again in the cold store, in the order of their names, and more is pushed
    await world.start()
    await world.store.create_queue("bee", block_bytes=BLOCK_BYTES)
    await world.close()
    await world.start()
    # Then
    for name in ("ant", "bee", "zoo"):
        assert [e.value for e in await read_around(world.store, name)] in ([], [name.encode()])


async def test_a_position_beyond_the_end_shows_what_was_lost() -> None:
    # Given a subscriber that has read what is then lost at the end of the journal
    world = await World().start()
    await world.store.create_queue("q", block_bytes=BLOCK_BYTES)
    await world.store.create_subscriber("q", "s", "beginning")
    await push(world.store, "q", b"0")
    await push(world.store, "q", b"1")
    await drain(world.store, "q/s")
    await world.crash()
    world.disk.corrupt(*push_batch(world, 1), 1)
    # When
    await world.start()
    # Then
    assert (await world.store.get_subscriber("q/s")).offset == 2
    with pytest.raises(DataLoss, match=r"elements 1\.\.1 were acknowledged"):
        await push(world.store, "q", b"x")


async def test_another_cold_store_under_the_same_journal_is_noticed() -> None:
    world = await World().start()
    await world.store.create_queue("q", block_bytes=BLOCK_BYTES)
    await push(world.store, "q", b"0")
    await world.crash()
    other = World(seed=1)
    other.disk = world.disk
    await other.start()
    with pytest.raises(DataLoss, match="is this the right cold store"):
        await push(other.store, "q", b"1")
    await other.store.create_queue("q", block_bytes=BLOCK_BYTES)
    with pytest.raises(DataLoss, match="is this the right cold store"):
        await push(other.store, "q", b"1")


async def test_one_damaged_queue_in_the_cold_store_does_not_keep_the_others_from_being_found() -> None:
    # Given a node that lost its disk, and a store in which one queue's settings are damaged
    world = await World().start()
    for name in ("q", "other"):
        await world.store.create_queue(name, block_bytes=BLOCK_BYTES)
        await push(world.store, name, b"0", stage="cold")
    await world.crash()
    world.objects.put("queues/q/queue.json", b"{}")
    world.disk = type(world.disk)(world.clock)
    # When
    await world.start()
    # Then
    assert [q.name for q in await world.store.list_queues()] == ["other"]
    assert (await push(world.store, "other", b"1")).first_offset == 1
    with pytest.raises(DataLoss):
        await push(world.store, "q", b"1")


async def test_what_cannot_be_opened_is_listed_as_the_journal_knows_it() -> None:
    world = await World().start()
    for name in ("q", "other"):
        await world.store.create_queue(name, block_bytes=BLOCK_BYTES)
        await push(world.store, name, b"0", b"1")
        await world.store.create_subscriber(name, "s", "end")
    await world.restart()
    world.objects.down = True
    assert [(q.name, q.next_offset) for q in await world.store.list_queues()] == [("other", 2), ("q", 2)]
    assert [s.id for s in await world.store.list_subscribers()] == ["other/s", "q/s"]
    with pytest.raises(Unavailable):
        await world.store.get_queue("q")


async def test_maintenance_of_one_queue_that_fails_does_not_stop_that_of_the_others() -> None:
    # Given two queues with enough young blocks to merge, of which the first is damaged
    world = await World().start()
    for name in ("a", "b"):
        await world.store.create_queue(name, block_bytes=BLOCK_BYTES)
        for n in range(3):
            await push(world.store, name, bytes([n]) * 25_000)
            await world.store.seal(name)
    (young, *_) = [info.key for info in world.objects.list("queues/a/young/")]
    world.objects.put(young, b"damaged")
    # When
    await world.maintain()
    # Then
    kinds = {name: [b.kind for b in await world.store.list_blocks(name)] for name in ("a", "b")}
    assert kinds == {"a": ["young", "young", "young", "hot-hot"], "b": ["final", "hot-hot"]}


async def test_a_record_of_an_unknown_kind_is_refused_and_nothing_changes() -> None:
    world = await World().start()
    await world.store.create_queue("q", block_bytes=BLOCK_BYTES)
    await world.close()
    journal = DiskJournal(world.disk, world.chance, segment_bytes=world.settings.segment_bytes)
    for _ in journal.recover():
        pass
    journal.append([Record(99, b"from the future")])
    journal.close()
    before = world.disk.files()
    with pytest.raises(Exception, match="kind 99"):
        await world.start()
    assert world.disk.files() == before
