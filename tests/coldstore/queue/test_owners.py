"""Two owners of one queue, A deposed and B new, in every order of their steps.

A knows the queue as it was before B came. B opens the queue and goes on with what it has. At every
instant `data/` must be a gapless prefix and no final block that was ever committed may be missing; in
the end the queue must verify and hold everything that either owner was told is stored.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest

from coldstore.block import encode as block
from coldstore.block.draft import Draft
from coldstore.block.encode import Encoded
from coldstore.block.files import BlockFiles
from coldstore.block.read import BlockFile
from coldstore.history.block_list import BlockList
from coldstore.layout import paths
from coldstore.layout.metadata import BlockMetadata
from coldstore.layout.queue_settings import QueueSettings
from coldstore.objects.memory import MemoryObjects
from coldstore.objects.port import ObjectInfo, whole
from coldstore.queue.cold_queue import ColdQueue
from coldstore.queue.commit import _Final
from coldstore.queue.quarantine import Cleared
from coldstore.shared import limits
from coldstore.shared.chance import SeededChance
from coldstore.shared.clock import ManualClock
from coldstore.shared.errors import Conflict, DataLoss, NotFound
from coldstore.store import ColdStore
from tests.coldstore.interleave import Actor, Stepped, World, explore
from tests.coldstore.making import Made, contents, elements, read_all

# What an owner does with an open queue: returns the elements that it believes to have stored.
Deed = Callable[[ColdQueue, int], pa.Table]


def write(first: int, count: int, said: str, *, final: bool) -> Deed:
    def deed(queue: ColdQueue, epoch: int) -> pa.Table:
        table = elements(first, count, said=said)
        known = max(0, min(queue.next_offset - first, count))  # others have stored those
        if known < count:
            queue.write_block(table.slice(known), final=final, epoch=epoch)
        return table.slice(known)

    return deed


def merge(queue: ColdQueue, epoch: int) -> pa.Table:
    queue.merge(epoch=epoch)
    return elements(0, 1).slice(0, 0)


def sweep(queue: ColdQueue, epoch: int) -> pa.Table:
    queue.sweep(grace_seconds=-1.0)
    return elements(0, 1).slice(0, 0)


class Owners(World):
    """One run. All that `judged` has seen at the end of another is not judged again."""

    def __init__(
        self, setting: Callable[[Made], None], a: Deed, b: Deed, judged: set[frozenset[object]]
    ) -> None:
        self._judged = judged
        self.made = copied(_settings(setting))
        self._fresh = setting in FRESH
        self._deeds = {"A": a, "B": b}
        self.stored: list[tuple[int, Any]] = []
        self.outcomes: dict[str, str] = {}
        self._finals: dict[str, bytes] = {}
        self._found = [d for k, d in contents(self.made.objects).items() if paths.data_first(k) is not None]
        self._ranges: dict[bytes, tuple[int, int]] = {}
        self._seen: list[ObjectInfo] = []
        # A's view of the queue is older than anything that happens here.
        self._queue_of_a = self._opened(self.made.objects, 1)

    def _opened(self, objects: Any, seed: int) -> ColdQueue:
        return ColdStore(objects, self.made.clock, SeededChance(seed)).open_queue("orders")

    def bodies(self) -> Mapping[str, Callable[[Actor], None]]:
        return {"A": self._a, "B": self._b}

    def _a(self, actor: Actor) -> None:
        queue = self._queue_of_a
        if not self._fresh:
            queue._cleared = Cleared()  # before its first write, long ago
        queue._files.objects = Stepped(self.made.objects, actor)
        self._do("A", queue, 1)

    def _b(self, actor: Actor) -> None:
        for attempt in range(4):  # Fenced by what A still had under way: look again, go on
            queue = self._opened(Stepped(self.made.objects, actor), 20 + attempt)
            self._do("B", queue, 2)
            if self.outcomes["B"] != "Fenced":
                return

    def _do(self, name: str, queue: ColdQueue, epoch: int) -> None:
        try:
            table = self._deeds[name](queue, epoch)
        except Conflict as error:
            self.outcomes[name] = type(error).__name__
            return
        self.stored += zip(table["offset"].to_pylist(), table["value"].to_pylist(), strict=True)
        self.outcomes[name] = "stored"

    def after_step(self) -> None:
        seen = list(self.made.objects.list(""))  # every version has an etag of its own
        if seen == self._seen:
            return
        self._seen = seen
        found = contents(self.made.objects)
        self._check_prefix([data for key, data in found.items() if paths.data_first(key) is not None])
        for key, data in self._finals.items():
            assert found.get(key) == data, f"{key} was changed or deleted"
        self._finals.update({key: data for key, data in found.items() if key.endswith(".final.json")})

    def _check_prefix(self, files: list[bytes]) -> None:
        if len(files) == 2 and files == self._found:
            return  # as it was found, and nothing written yet
        end = 0
        for data in files:
            if data not in self._ranges:
                offsets = BlockFile(data, "k", 0, check_pages=True).read()["offset"].to_pylist()
                assert offsets == list(range(offsets[0], offsets[0] + len(offsets)))
                self._ranges[data] = (offsets[0], offsets[-1] + 1)
            first, next_ = self._ranges[data]
            assert first == end, f"data/ has a gap or a double at {end}"
            end = next_

    def at_end(self) -> None:
        ended = frozenset(
            (*contents(self.made.objects).items(), *self.stored, *self.outcomes.items(), *self._finals)
        )
        if ended not in self._judged:
            self._judge()
            self._judged.add(ended)

    def _judge(self) -> None:
        queue = self.made.reopened(seed=99)
        report = queue.verify()
        assert report.ok, report.defects
        held = dict(read_all(queue))
        assert list(held) == list(range(len(held)))
        for offset, value in self.stored:
            assert held[offset] == value, f"offset {offset} was stored as {value!r}"
        finals = {key for key, _ in self._finals.items()}
        chain = {paths.meta("orders", b.first, "final") for b in queue.list_blocks() if b.kind == "final"}
        assert finals == chain, "a committed final block is not part of the queue"
        assert self.outcomes["B"] == "stored", "the owner must be able to go on"


@functools.cache
def _settings(setting: Callable[[Made], None]) -> Made:
    made = Made()
    setting(made)
    return made


def copied(made: Made) -> Made:
    """The same store an hour later: its young blocks are due for a merge."""
    clock = ManualClock()
    objects = MemoryObjects(clock)
    for key, data in contents(made.objects).items():
        objects.put(key, data)
    clock.advance(limits.YOUNG_SECONDS_MAX)
    return Made(clock, objects)


@pytest.fixture(autouse=True, scope="module")
def files_encoded_once() -> Iterator[None]:
    """The same elements are encoded again and again; their bytes are the same."""
    encode = block.encode
    known: dict[bytes, bytes] = {}

    def remembered(table: pa.Table, settings: QueueSettings) -> Encoded:
        name = repr((table.to_pylist(), settings)).encode()
        if name not in known:
            known[name] = b"".join(encode(table, settings))
        return Encoded.of(known[name])

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(block, "encode", remembered)
        yield


@pytest.fixture(autouse=True)
def one_step_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """An actor is one thread."""

    def one_by_one(self: BlockFiles, keys: list[paths.MetaKey]) -> list[BlockMetadata | None]:
        return [self.find(*key) for key in keys]

    monkeypatch.setattr(BlockFiles, "_find_in_parallel", one_by_one)


def one_final(made: Made) -> None:
    made.push(3, epoch=1)


def final_and_young(made: Made) -> None:
    made.push(3, epoch=1)
    made.push(2, epoch=1, final=False, said="old")


def two_young(made: Made) -> None:
    made.push(3, epoch=1)
    made.push(2, epoch=1, final=False, said="old")
    made.push(2, epoch=1, final=False, said="old")


def merged_and_not_swept(made: Made) -> None:
    two_young(made)
    made.clock.advance(limits.YOUNG_SECONDS_MAX)
    assert made.queue.merge()


def with_strays(made: Made) -> None:
    """A copy that another tool took: files of blocks that its metadata does not know."""
    one_final(made)
    for first, count in ((3, 2), (5, 2)):
        made.objects.put(paths.data("orders", first), stray(made, first, count))


def with_a_stray(made: Made) -> None:
    """Likewise, but the file between is missing: `data/` is no prefix before the stray is gone."""
    one_final(made)
    made.objects.put(paths.data("orders", 5), stray(made, 5, 2))


def stray(made: Made, first: int, count: int, said: str = "lost") -> bytes:
    return whole(block.encode(elements(first, count, said=said), made.queue.settings))


# Where both owners are new: neither has looked at `data/` before.
FRESH = (with_strays, with_a_stray)


def both(*deeds: Deed) -> Deed:
    """One deed after the other."""

    def done(queue: ColdQueue, epoch: int) -> pa.Table:
        return pa.concat_tables([deed(queue, epoch) for deed in deeds])

    return done


def long_ago(deed: Deed) -> Deed:
    """The deed of an owner that knows the queue as it was when it had one block, and slept since."""

    def slept(queue: ColdQueue, epoch: int) -> pa.Table:
        blocks = queue.list_blocks()
        queue._blocks = BlockList(queue.settings.id, blocks.columns, 1)
        return deed(queue, epoch)

    return slept


SCENES: dict[str, tuple[Callable[[Made], None], Deed, Deed]] = {
    "the same final block": (one_final, write(3, 2, "x", final=True), write(3, 2, "x", final=True)),
    "other elements": (one_final, write(3, 2, "a", final=True), write(3, 2, "b", final=True)),
    "the same and more": (one_final, write(3, 2, "x", final=True), write(3, 4, "x", final=True)),
    "the same, but fewer": (one_final, write(3, 4, "x", final=True), write(3, 2, "x", final=True)),
    "other elements and fewer": (one_final, write(3, 4, "a", final=True), write(3, 2, "b", final=True)),
    "both young": (one_final, write(3, 2, "a", final=False), write(3, 3, "b", final=False)),
    "young against final": (one_final, write(3, 2, "a", final=False), write(3, 4, "b", final=True)),
    "final against young": (one_final, write(3, 4, "a", final=True), write(3, 2, "b", final=False)),
    "final over young, twice": (final_and_young, write(5, 2, "a", final=True), write(5, 3, "b", final=True)),
    "final over young against young": (
        final_and_young,
        write(5, 2, "a", final=True),
        write(5, 3, "b", final=False),
    ),
    "young against final over young": (
        final_and_young,
        write(5, 2, "a", final=False),
        write(5, 3, "b", final=True),
    ),
    "merge against merge": (two_young, merge, merge),
    "merge against final over young": (two_young, merge, write(7, 2, "b", final=True)),
    "final over young against merge": (two_young, write(7, 2, "a", final=True), merge),
    "sweep against merge": (two_young, sweep, merge),
    "sweep of merged against young": (merged_and_not_swept, sweep, write(7, 2, "b", final=False)),
    "young of long ago against sweep": (merged_and_not_swept, long_ago(write(3, 2, "a", final=False)), sweep),
    "final of long ago against sweep": (merged_and_not_swept, long_ago(write(3, 9, "a", final=True)), sweep),
    "young against merge": (two_young, write(7, 2, "a", final=False), merge),
    "strays against final": (with_strays, merge, write(3, 4, "b", final=True)),
    "strays against young": (with_strays, merge, write(3, 1, "b", final=False)),
    "strays against a block that would end at one": (with_strays, merge, write(3, 2, "b", final=True)),
    "strays that both find": (
        with_a_stray,
        merge,
        both(write(3, 2, "b", final=True), write(5, 2, "lost", final=True)),
    ),
}


def worlds(scene: str) -> Callable[[], Owners]:
    judged: set[frozenset[object]] = set()
    return lambda: Owners(*SCENES[scene], judged)


@pytest.mark.parametrize("scene", SCENES)
def test_two_owners_lose_nothing_in_any_order(scene: str) -> None:
    runs = sum(1 for _ in explore(worlds(scene)))
    assert runs > 2


def _swapped_at_once(
    final: _Final, prefix: Draft, encoded: Encoded, copy: str | None = None
) -> BlockMetadata:
    if copy is not None:
        final.files.objects.put(final.key, whole(encoded))
    return COMMIT(final, prefix, encoded, None)


COMMIT = _Final.commit
BUGS: dict[str, tuple[str, object, str]] = {
    "no claim": ("_Final.new_first", property(lambda final: final.draft.next), "final against young"),
    "no look behind": ("_check_not_overtaken", lambda *_: None, "young of long ago against sweep"),
    "merge replaces what may be claimed": (
        "_Final.leaves_to_others",
        lambda *_: False,
        "final over young against merge",
    ),
    "a block begins where a stray was": (
        "quarantine.paths.quarantined_first",
        lambda *_: None,
        "strays that both find",
    ),
    "swap before the claim": ("_Final.commit", _swapped_at_once, "other elements"),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_in_the_protocol_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trust the judge: each of these has been, or could have been, a bug."""
    where, wrong, scene = BUGS[bug]
    monkeypatch.setattr(f"coldstore.queue.commit.{where}", wrong)
    with pytest.raises((AssertionError, DataLoss)):
        for _ in explore(worlds(scene)):
            pass


def test_the_explorer_finds_every_outcome() -> None:
    """Trust the explorer: with two actors that each read and then write, a lost update must show."""

    class Counter(World):
        def __init__(self) -> None:
            self.values: dict[str, int] = {"n": 0, "other": 0}

        def get(self, key: str) -> int:
            return self.values[key]

        def put(self, key: str, value: int) -> None:
            self.values[key] = value

        def bodies(self) -> Mapping[str, Callable[[Actor], None]]:
            return {"one": self._add, "two": self._add}

        def _add(self, actor: Actor) -> None:
            stepped = Stepped(self, actor)
            stepped.put("other", 1)
            stepped.put("n", stepped.get("n") + 1)

    runs = [world.values["n"] for world in explore(Counter)]  # type: ignore[attr-defined]
    assert set(runs) == {1, 2}
    assert len(runs) < 20


def test_steps_commute_only_if_neither_sees_the_other() -> None:
    from tests.coldstore.interleave import Step

    assert Step("get", "a").commutes_with(Step("list", "a"))
    assert Step("put", "a/1").commutes_with(Step("put", "a/2"))
    assert not Step("put", "a/1").commutes_with(Step("get", "a/1"))
    assert not Step("put", "a/1").commutes_with(Step("list", "a/"))
    assert not Step("list", "a/").commutes_with(Step("delete", "a/1"))


def test_a_missing_object_is_not_found_through_steps() -> None:
    made = Made()
    actor = Actor("x")
    seen: list[bool] = []

    def body() -> None:
        try:
            Stepped(made.objects, actor).get("nothing")
        except NotFound:
            seen.append(True)

    actor.start(body)
    actor.go()
    assert seen == [True]
