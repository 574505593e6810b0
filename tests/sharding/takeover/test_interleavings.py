"""The very code of journal, fence and documents, in every order of its steps on the store.

The model (model.py) has more freedom, late and repeated puts, and less detail; here every step is real.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import pytest

from coldstore.layout import paths
from coldstore.objects.memory import MemoryObjects
from coldstore.shared.clock import ManualClock
from coldstore.shared.errors import Conflict, DataLoss, Fenced, JjqError
from hotstore.journal.port import Record
from hotstore.runner import InlineRunner
from sharding.documents import shards, tenure
from sharding.documents.shards import Shards
from sharding.documents.tenure import OwnTenure
from sharding.journal import fencing
from sharding.journal import objects as journalobject
from sharding.journal.fencing import FencingWalk, begin
from sharding.journal.object_journal import ObjectJournal
from sharding.takeover.claims import Claims
from tests.coldstore.interleave import Actor, Stepped, World, explore


class Inline:
    """A pool of no threads: an actor is one."""

    def __init__(self, *_: object) -> None:
        return None

    def __enter__(self) -> Inline:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def submit(self, work: Callable[..., Any], *args: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(work(*args))
        return done


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencing, "ThreadPoolExecutor", Inline)
    monkeypatch.setattr(fencing, "JOURNAL_READS_MAX", 1)


def token(name: str) -> str:
    return name.encode().hex().ljust(32, "0")


class Journals(World):
    """Node n1 has one batch in its journal; then its writer and others act."""

    def __init__(self, *actors: str) -> None:
        self.objects = MemoryObjects(ManualClock())
        self.held = begin(self.objects, "n1", "s3", token("a"))
        journal = ObjectJournal(self.objects, self.held, ManualClock())
        list(journal.recover())
        self.first = journal.next_sequence
        journal.append([Record(1, b"0")])
        journal.sync()
        journal.close()
        self.acked = [b"0"]
        self.cold: list[bytes] = []
        self.logs: dict[str, list[bytes]] = {}
        self.late: list[str] = []
        self._actors = actors

    def bodies(self) -> Mapping[str, Callable[[Actor], None]]:
        every = {"A": self._write, "T": self._trim, "B": self._take, "C": self._take, "R": self._restart}
        return {name: every[name] for name in self._actors}

    def _mine(self, actor: Actor) -> tuple[Any, OwnTenure]:
        stepped: Any = Stepped(self.objects, actor)
        return stepped, OwnTenure(stepped, self.held.tenure)

    def _ack(self, who: str, value: bytes) -> None:
        self.acked.append(value)
        found = tenure.read(self.objects, "n1")
        if found is None or found.tenure.state != "open":
            self.late.append(who)

    def _write(self, actor: Actor) -> None:
        """As append and sync do, in this thread."""
        objects, held = self._mine(actor)
        journal = ObjectJournal(objects, held, ManualClock())
        journal._hurry.set()
        with suppress(Fenced):
            batches = 2 if len(self._actors) == 2 else 1  # three actors have orders enough
            for number in range(self.first + 1, self.first + 1 + batches):
                value = b"%d" % (number - self.first)
                (data,) = journalobject.encode([Record(1, value)], number, held.run, held.token)
                journal._put(number, data)
                held.check()
                self._ack("A", value)
        journal._puts.shutdown()
        journal._sweeps.shutdown()

    def _trim(self, actor: Actor) -> None:
        """As trim does with the first batch, which is in the cold store."""
        objects, held = self._mine(actor)
        self.cold = [b"0"]
        with suppress(Fenced):
            held.advance(self.first + 1)
            objects.delete(paths.journal("n1", self.first))

    def _take(self, actor: Actor) -> None:
        objects: Any = Stepped(self.objects, actor)
        found = tenure.read(objects, "n1")
        assert found is not None
        if found.tenure.state == "open":
            try:
                found = tenure.end(objects, found, actor.name)
            except Conflict:
                found = tenure.read(objects, "n1")
                assert found is not None
                if found.tenure.state == "open":
                    return  # it moved on: alive after all
        now = found.tenure
        orphans = [(orphan.first, orphan.run) for orphan in now.orphans]
        if now.state == "ended":
            orphans.append((now.boundary, now.run))
        for first, run in orphans:
            self.logs[actor.name] = self._replayed(objects, first, run, actor.name)

    def _replayed(self, objects: Any, first: int, run: int, who: str) -> list[bytes]:
        before = [] if first <= self.first else [b"0"]  # what is before the boundary is in the cold store
        walk = FencingWalk(objects, "n1", first, run, bytes.fromhex(token(who)))
        batches = journalobject.batches(walk.batches(), None)
        return before + [bytes(record.payload) for batch in batches for record in batch.records]

    def _restart(self, actor: Actor) -> None:
        """Another process of this name: it goes on, or finds its tenure ended."""
        objects: Any = Stepped(self.objects, actor)
        held = begin(objects, "n1", "s3", token("r"))
        now = held.tenure
        first, run = (now.boundary, now.run - 1) if not now.orphans else now.orphans[0][2:0:-1]
        found = self._replayed(objects, first, run, "r")
        with suppress(Fenced):
            held.check()
            self.logs["R"] = found

    def after_step(self) -> None:
        assert not self.late, "acknowledged after the end of the tenure"

    def at_end(self) -> None:
        logs = list(self.logs.values())
        assert all(log == logs[0] for log in logs), f"replays differ: {self.logs}"
        for log in logs:
            missing = [value for value in self.acked if value not in log]
            assert not missing, f"lost: {missing}, {log}"
            assert log == sorted(log)


SCENES = {
    "writer and taker": ("A", "B"),
    "writer and two takers": ("A", "B", "C"),
    "trim and taker": ("T", "B"),
    "writer, trim and taker": ("A", "T", "B"),
    "restart and taker": ("R", "B"),
    "writer and restart": ("A", "R"),
}


@pytest.mark.parametrize("scene", SCENES)
def test_nothing_acknowledged_is_lost_in_any_order(scene: str) -> None:
    assert sum(1 for _ in explore(lambda: Journals(*SCENES[scene]))) > 2


def _no_fence(walk: FencingWalk, number: int) -> bool:
    walk.end, walk.next = number, number + 64
    return True


BUGS: dict[str, tuple[Any, str, object, str]] = {
    "no check after the put": (OwnTenure, "check", lambda held: None, "writer and taker"),
    "no fence": (FencingWalk, "_put_fence", _no_fence, "writer and two takers"),
    "boundary without a condition": (
        tenure,
        "swap",
        lambda objects, found, new: tenure.StoredTenure(
            new, objects.put(paths.tenure("n1"), tenure.encode(new))
        ),
        "trim and taker",
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_in_the_protocol_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, name, wrong, scene = BUGS[bug]
    monkeypatch.setattr(where, name, wrong)
    with pytest.raises((AssertionError, DataLoss)):
        for _ in explore(lambda: Journals(*SCENES[scene])):
            pass


class Swaps(World):
    """A swap of the shards document that is still on its way, while its sender asks whose the queue is."""

    def __init__(self) -> None:
        self.objects = MemoryObjects(ManualClock())
        self.held = begin(self.objects, "a", "s3", token("a"))
        shards.create(self.objects, Shards("orders", "0" * 32, 1, "a", 1))
        found = shards.read(self.objects, "orders")
        assert found is not None
        self.found = found
        self.ours: bool | None = None

    def bodies(self) -> Mapping[str, Callable[[Actor], None]]:
        return {"late": self._late, "asks": self._asks}

    def _late(self, actor: Actor) -> None:
        objects: Any = Stepped(self.objects, actor)
        with suppress(Conflict):
            shards.swap(objects, self.found, self.found.shards.moved("b", 1, None))

    def _asks(self, actor: Actor) -> None:
        objects: Any = Stepped(self.objects, actor)
        try:
            Claims(objects, self.held, InlineRunner())._confirm("orders", 1)
            self.ours = True
        except JjqError:
            self.ours = False

    def at_end(self) -> None:
        found = shards.read(self.objects, "orders")
        assert found is not None
        assert (found.shards.owner == "a") == self.ours, "two nodes believe that the queue is theirs"


def test_a_swap_that_is_on_its_way_does_not_arrive_after_the_queue_is_served_again() -> None:
    worlds = [world.ours for world in explore(Swaps)]  # type: ignore[attr-defined]
    assert set(worlds) == {True, False}


def test_without_a_swap_for_itself_it_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Claims, "_keep", lambda claims, now, epoch: _believed(claims, now))
    with pytest.raises(AssertionError):
        for _ in explore(Swaps):
            pass


def _believed(claims: Claims, now: Shards) -> Shards:
    if not claims.is_ours(now):
        raise Fenced("not ours")
    return now
