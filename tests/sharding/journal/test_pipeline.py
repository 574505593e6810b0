"""Batches behind one another on their way to the store: who appends does not wait for who syncs."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from coldstore.layout import paths
from coldstore.objects.memory import MemoryObjects
from coldstore.shared.errors import Fenced
from hotstore.journal.port import Poisoned, Record
from sharding.documents import tenure
from sharding.journal.object_journal import ObjectJournal
from tests.servers.waiting import wait_until
from tests.sharding.journals import Spoiled, open_journal, recovered

SECONDS = 30.0
TENURE = paths.tenure("n1")


class Line:
    """A journal over a store that stops at the requests that a test names, and counts all of them."""

    def __init__(self) -> None:
        self.memory = MemoryObjects()
        self.asked: Counter[str] = Counter()
        self._stops: dict[str, tuple[threading.Event, threading.Event]] = {}
        spoiled = Spoiled(self.memory)
        self.journal = open_journal(spoiled)
        recovered(self.journal)
        self.asked.clear()
        spoiled.before = self._before
        self._thread = ThreadPoolExecutor(1, "sync")

    def _before(self, verb: str, key: str) -> None:
        self.asked[f"{verb} {key}"] += 1
        if stop := self._stops.get(key):
            stop[0].set()
            assert stop[1].wait(SECONDS), "a test forgot to let a request go on"

    def stop_at(self, key: str) -> Callable[[], None]:
        """Requests for `key` wait from now on, until what is returned is called."""
        stop = self._stops[key] = (threading.Event(), threading.Event())

        def go_on() -> None:
            del self._stops[key]
            stop[1].set()

        return go_on

    def wait_arrived(self, key: str) -> None:
        assert self._stops[key][0].wait(SECONDS)

    def append(self, value: bytes) -> str:
        """Append a batch; the key of its object."""
        return paths.journal("n1", self.journal.append([Record(1, value)]))

    def sync(self) -> Future[None]:
        """In a second thread."""
        return self._thread.submit(self.journal.sync)

    @property
    def checks(self) -> int:
        return self.asked[f"get {TENURE}"]

    def end(self) -> None:
        found = tenure.read(self.memory, "n1")
        assert found is not None
        tenure.end(self.memory, found, "n2")

    def close(self) -> None:
        for _, go_on in list(self._stops.values()):
            go_on.set()
        self._thread.shutdown()
        self.journal.close(clean=False)


@pytest.fixture
def line() -> Iterator[Line]:
    made = Line()
    yield made
    made.close()


def key_after(journal: ObjectJournal, count: int) -> str:
    return paths.journal("n1", journal.next_sequence + count)


def test_a_sync_waits_for_what_was_appended_before_it_and_for_no_more(line: Line) -> None:
    first = line.stop_at(key_after(line.journal, 0))
    line.stop_at(key_after(line.journal, 1))
    key = line.append(b"a")
    line.wait_arrived(key)
    syncing = line.sync()
    wait_until(line.journal._landing.locked, "sync waits for the first put")
    behind = line.append(b"b")  # the sync that is under way does not keep it from being put
    line.wait_arrived(behind)
    assert not syncing.done()
    first()
    syncing.result(SECONDS)


def test_one_look_at_the_tenure_covers_every_put_that_had_landed(line: Line) -> None:
    for value in (b"a", b"b", b"c"):
        line.append(value)
    line.journal.sync()
    assert line.checks == 1
    line.journal.sync()
    assert line.checks == 1, "nothing was put since"


def test_a_batch_that_landed_before_the_look_needs_no_second_one(line: Line) -> None:
    # Given a sync of the first batch, held up until the second has landed as well
    first = line.stop_at(key_after(line.journal, 0))
    line.wait_arrived(line.append(b"a"))
    syncing = line.sync()
    wait_until(line.journal._landing.locked, "sync waits for the first put")
    line.append(b"b")
    line.journal._flying[1].result(SECONDS)
    first()
    syncing.result(SECONDS)
    # Then
    line.journal.sync()
    assert line.checks == 1


def test_what_lands_while_the_tenure_is_looked_at_is_looked_at_again(line: Line) -> None:
    # Given a look that has begun
    look = line.stop_at(TENURE)
    line.append(b"a")
    syncing = line.sync()
    line.wait_arrived(TENURE)
    # When another batch lands
    line.append(b"b")
    line.journal._flying[0].result(SECONDS)
    look()
    syncing.result(SECONDS)
    # Then it is not acknowledged on the strength of that look
    line.end()
    with pytest.raises(Poisoned):
        line.journal.sync()
    assert line.checks == 2


def test_a_put_found_landed_by_who_appends_is_looked_at_all_the_same(line: Line) -> None:
    """The look that is under way when the appending thread finds it must not count for it."""
    look = line.stop_at(TENURE)
    line.append(b"a")
    syncing = line.sync()
    line.wait_arrived(TENURE)
    line.append(b"b")
    line.journal._land()  # as append does where too many puts are in flight
    look()
    syncing.result(SECONDS)
    line.journal.sync()
    assert line.checks == 2


def test_a_put_that_failed_behind_a_batch_does_not_fail_that_batch(line: Line) -> None:
    # Given a second batch whose number is taken
    first = line.stop_at(key_after(line.journal, 0))
    line.memory.put(key_after(line.journal, 1), b"x" * 80)
    line.wait_arrived(line.append(b"a"))
    syncing = line.sync()
    wait_until(line.journal._landing.locked, "sync waits for the first put")
    line.append(b"b")
    assert line.journal._flying[1].exception(SECONDS) is not None
    # When the first lands
    first()
    # Then it is durable, and the second is not
    syncing.result(SECONDS)
    with pytest.raises(Poisoned):
        line.journal.sync()
    with pytest.raises(Poisoned):
        line.append(b"c")


def test_nothing_is_acknowledged_in_a_tenure_that_ended_while_batches_were_in_flight(line: Line) -> None:
    first = line.stop_at(key_after(line.journal, 0))
    line.wait_arrived(line.append(b"a"))
    line.append(b"b")
    syncing = line.sync()
    line.end()
    first()
    failed = syncing.exception(SECONDS)
    assert isinstance(failed, Poisoned)
    assert isinstance(failed.__cause__, Fenced)
