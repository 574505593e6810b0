"""Importing: nothing is seen before everything is, whatever happens in between."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from coldstore.block.draft import make_draft
from coldstore.block.read import BlockFile
from coldstore.layout import paths, sealed_json
from coldstore.layout.metadata import BlockMetadata
from coldstore.queue import bulk_import
from coldstore.queue.bulk_import import Ticket
from coldstore.shared import failpoint, limits
from coldstore.shared.errors import Conflict, DataLoss, InvalidInput, NotFound, Unavailable
from tests.coldstore.making import Made, contents, elements, flip, keys, read_all

BLOCKS = 5
LENGTH = 10
POINTS = failpoint.IMPORT_NAMES


@pytest.fixture(autouse=True)
def _disarmed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(limits, "ROLLUP_BLOCKS", 4)
    yield
    failpoint.disarm()


@dataclass
class Import:
    """An import of 50 elements in five blocks."""

    made: Made
    name: str = "history"
    said: str = "old"

    @property
    def objects(self) -> Any:
        return self.made.objects

    def begin(self, **more: Any) -> Ticket:
        return self.made.store.begin_import(self.name, block_bytes=limits.BLOCK_BYTES_MIN, **more)

    def staged(self, ticket: Ticket, blocks: int = BLOCKS) -> list[BlockMetadata]:
        """Last first: nothing depends on the order."""
        found = []
        for at in reversed(range(blocks)):
            table = elements(ticket.first + at * LENGTH, LENGTH, said=self.said)
            found.append(bulk_import.stage(self.objects, ticket, make_draft(table, "bytes")))
        return bulk_import.chain_blocks(ticket, found, "ab" * 16)

    def run(self, **more: Any) -> Ticket:
        ticket = self.begin(**more)
        blocks = self.staged(ticket)
        bulk_import.publish(self.objects, ticket, blocks)
        bulk_import.show(self.objects, ticket, blocks)
        bulk_import.forget(self.objects, ticket)
        return ticket

    def values(self) -> list[bytes]:
        return [value for _, value in read_all(self.made.store.open_queue(self.name))]

    def data_is_a_prefix(self) -> bool:
        end = 0
        for key in keys(self.objects, paths.data_folder(self.name)):
            offsets = BlockFile(self.objects.get(key).data, key, end).read()["offset"].to_pylist()
            if offsets != list(range(end, end + len(offsets))):
                return False
            end += len(offsets)
        return True


OLD = [b"old %d" % n for n in range(BLOCKS * LENGTH)]


def test_an_import_makes_a_queue_that_verifies_and_goes_on() -> None:
    job = Import(Made())
    job.run()
    assert job.values() == OLD
    queue = job.made.store.open_queue("history")
    assert [block.kind for block in queue.list_blocks()] == ["final"] * BLOCKS
    assert keys(job.objects, paths.young_folder("history")) == []
    assert len(keys(job.objects, paths.rollup_folder("history"))) == 1
    queue.write_block(elements(50, 3))
    report = job.made.store.verify("history")
    assert (report.ok, report.elements, report.notes) == (True, 53, ())


def test_until_it_is_shown_nobody_sees_the_queue_or_takes_its_name() -> None:
    job = Import(Made())
    ticket = job.begin()
    blocks = job.staged(ticket)
    bulk_import.publish(job.objects, ticket, blocks)
    store = job.made.store
    assert store.queue_names() == [settings.name for settings in store.list_queues()] == ["orders"]
    for use in (store.open_queue, store.create_queue):
        with pytest.raises(Conflict, match="is being imported"):
            use("history")
    bulk_import.show(job.objects, ticket, blocks)
    assert store.queue_names() == ["history", "orders"]
    assert job.values() == OLD


class Watching:
    """Objects that look at `data/` before and after every change."""

    def __init__(self, job: Import, inner: Any) -> None:
        self._job, self._inner = job, inner
        self.looks = 0

    def __getattr__(self, verb: str) -> Any:
        inner = getattr(self._inner, verb)
        if verb in ("get", "head", "list"):
            return inner

        def watched(*args: Any, **more: Any) -> Any:
            done = inner(*args, **more)
            assert Import(replace(self._job.made, objects=self._inner), self._job.name).data_is_a_prefix()
            self.looks += 1
            return done

        return watched


def test_data_is_a_prefix_at_every_instant_also_when_it_is_taken_back() -> None:
    job = Import(Made())
    watching = Watching(job, job.objects)
    ticket = job.begin()
    blocks = job.staged(ticket)
    bulk_import.publish(watching, ticket, blocks[:4])
    bulk_import.abandon(watching, ticket)
    assert watching.looks > 16


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("nth", [1, 3])
def test_a_crash_anywhere_leaves_nothing_visible_and_the_next_run_ends_it(point: str, nth: int) -> None:
    job = Import(Made())
    failpoint.arm(point, nth if point not in ("import.begun", "import.rolled_up", "import.shown") else 1)
    with pytest.raises(Unavailable):
        job.run()
    assert failpoint.armed() == {}, "the point was reached"
    if point == "import.shown":  # it was done
        assert job.values() == OLD
        assert job.made.store.verify("history").ok
        return
    with pytest.raises(Conflict):
        job.made.store.open_queue("history")
    assert job.data_is_a_prefix()
    job.run()
    assert job.values() == OLD
    assert job.made.store.verify("history").ok
    assert keys(job.objects, paths.young_folder("history")) == []


def test_a_rerun_does_not_put_again_what_is_staged() -> None:
    job = Import(Made())
    job.staged(job.begin())
    before = {key: job.objects.head(key).etag for key in keys(job.objects, paths.young_folder("history"))}
    assert len(before) == BLOCKS
    job.staged(job.begin())
    assert {key: job.objects.head(key).etag for key in before} == before


def test_a_second_import_takes_the_first_one_over_which_then_stops() -> None:
    job = Import(Made())
    first = job.begin()
    blocks = job.staged(first)
    bulk_import.publish(job.objects, first, blocks[:2])
    other = Import(job.made, said="new")
    second = other.begin()
    with pytest.raises(Conflict, match="took queue history over"):
        bulk_import.publish(job.objects, first, blocks[2:])
    with pytest.raises(Conflict):
        bulk_import.show(job.objects, first, blocks)
    fresh = other.staged(second)
    job.objects.put(paths.data("history", 0), b"put by the first one, late")
    bulk_import.publish(job.objects, second, fresh)
    bulk_import.show(job.objects, second, fresh)
    bulk_import.forget(job.objects, second)
    assert other.values()[:2] == [b"new 0", b"new 1"]
    assert job.made.store.verify("history").ok


def test_abandoning_leaves_nothing_of_a_new_queue() -> None:
    job = Import(Made())
    before = contents(job.objects)
    ticket = job.begin()
    bulk_import.publish(job.objects, ticket, job.staged(ticket))
    bulk_import.abandon(job.objects, ticket)
    assert contents(job.objects) == before
    with pytest.raises(NotFound):
        job.made.store.open_queue("history")
    with pytest.raises(Conflict):
        bulk_import.abandon(job.objects, ticket)


def test_an_existing_queue_is_refused_unless_it_is_said_to_be_idle() -> None:
    made = Made()
    made.push(7)
    job = Import(made, "orders")
    with pytest.raises(Conflict, match="queue orders exists"):
        job.run()
    ticket = job.run(idle=True)
    assert ticket.first == 7
    assert job.values()[6:9] == [b"value 6", b"old 7", b"old 8"]
    assert made.store.verify("orders").ok


def test_abandoning_leaves_an_existing_queue_as_it_was() -> None:
    made = Made()
    made.push(7)
    before = contents(made.objects)
    job = Import(made, "orders")
    ticket = job.begin(idle=True)
    bulk_import.publish(made.objects, ticket, job.staged(ticket))
    again = job.begin()  # taken over by a run that need not be told again
    assert (again.first, again.before) == (ticket.first, ticket.before)
    bulk_import.abandon(made.objects, again)
    assert contents(made.objects) == before


def test_a_queue_with_young_blocks_is_not_idle() -> None:
    made = Made()
    made.push(3, final=False)
    with pytest.raises(Conflict, match="compact --all"):
        Import(made, "orders").begin(idle=True)
    made.queue.merge(everything=True)
    assert Import(made, "orders").begin(idle=True).first == 3


def test_a_queue_with_a_block_that_a_server_did_not_finish_is_not_idle() -> None:
    made = Made()
    made.push(3)
    failpoint.arm("block.data_put")
    with pytest.raises(Unavailable):
        made.push(3)
    before = contents(made.objects)
    with pytest.raises(Conflict, match="did not finish"):
        Import(made, "orders").begin(idle=True)
    assert contents(made.objects) == before


def test_a_queue_whose_owner_is_up_is_refused() -> None:
    made = Made()
    made.objects.put(paths.shards("orders"), sealed_json.seal({"owner": "n1"}, 1))
    made.objects.put(paths.node("n1"), b"its document")
    with pytest.raises(Conflict, match="belongs to node n1, which is running"):
        Import(made, "orders").begin(idle=True)
    made.objects.delete(paths.node("n1"))
    assert Import(made, "orders").begin(idle=True).first == 0


def test_other_settings_than_those_of_the_queue_are_refused() -> None:
    made = Made()
    with pytest.raises(Conflict, match="exists with content=bytes"):
        made.store.begin_import("orders", content="text", idle=True)
    with pytest.raises(InvalidInput, match="block_bytes"):
        made.store.begin_import("other", block_bytes=1)
    assert made.store.queue_names() == ["orders"]


def test_a_staged_file_that_is_damaged_or_gone_stops_the_import() -> None:
    job = Import(Made())
    ticket = job.begin()
    blocks = job.staged(ticket)
    staged = keys(job.objects, paths.young_folder("history"))
    flip(job.objects, staged[1], 40)
    with pytest.raises(DataLoss) as loss:
        bulk_import.publish(job.objects, ticket, blocks)
    assert loss.value.block == LENGTH
    job.objects.delete(staged[1])
    with pytest.raises(DataLoss, match="run the import again"):
        bulk_import.publish(job.objects, ticket, blocks)
    assert job.data_is_a_prefix()


def test_everything_that_is_young_can_be_merged_at_once() -> None:
    made = Made()
    made.push(3, final=False)
    made.push(3, final=False)
    assert made.queue.merge() == []
    (block,) = made.queue.merge(everything=True)
    assert (block.first, block.last) == (0, 5)
    assert made.queue.merge(everything=True) == []
