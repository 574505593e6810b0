"""Read, change, compare-and-swap: no change of another process is lost, and nobody tries for ever."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from coldstore.objects.memory import MemoryObjects
from coldstore.objects.port import Object
from coldstore.objects.swap import Change, swap
from coldstore.shared.clock import ManualClock
from coldstore.shared.errors import Conflict, NotFound, Unavailable

BUSY = Unavailable("key k keeps changing: try again")


@pytest.fixture
def objects() -> MemoryObjects:
    return MemoryObjects(ManualClock())


def append(text: bytes) -> Callable[[Object | None], Change[bytes]]:
    def decide(found: Object | None) -> Change[bytes]:
        new = (b"" if found is None else found.data) + text
        return Change(new, new)

    return decide


def test_an_object_is_made_and_then_changed(objects: MemoryObjects) -> None:
    assert swap(objects, "k", append(b"a"), busy=BUSY).result == b"a"
    changed = swap(objects, "k", append(b"b"), busy=BUSY)
    assert changed.result == b"ab"
    assert objects.get("k") == Object(b"ab", changed.etag)


def test_no_data_leaves_the_object_as_it_is(objects: MemoryObjects) -> None:
    assert swap(objects, "k", lambda found: Change(None, found), busy=BUSY) == (None, "")
    with pytest.raises(NotFound):
        objects.get("k")
    etag = objects.put("k", b"a")

    assert swap(objects, "k", lambda found: Change(None, "as it is"), busy=BUSY) == ("as it is", etag)
    assert objects.get("k").etag == etag


def test_a_lost_race_is_decided_anew_on_what_is_there_now(objects: MemoryObjects) -> None:
    objects.put("k", b"a")
    seen: list[bytes] = []

    def decide(found: Object | None) -> Change[None]:
        assert found is not None
        seen.append(found.data)
        if len(seen) == 1:
            objects.put("k", b"b")  # another process, between our read and our write
        return Change(found.data + b"!", None)

    swap(objects, "k", decide, busy=BUSY)

    assert seen == [b"a", b"b"]
    assert objects.get("k").data == b"b!"


def test_an_object_that_vanishes_or_appears_in_between_is_a_lost_race_too(objects: MemoryObjects) -> None:
    objects.put("k", b"a")
    seen: list[bytes | None] = []

    def decide(found: Object | None) -> Change[None]:
        seen.append(None if found is None else found.data)
        if len(seen) == 1:
            objects.delete("k")
        elif len(seen) == 2:
            objects.put("k", b"c")
        return Change(b"mine", None)

    swap(objects, "k", decide, busy=BUSY)

    assert seen == [b"a", None, b"c"]


def test_after_so_many_lost_races_it_gives_up_and_has_written_nothing(objects: MemoryObjects) -> None:
    objects.put("k", b"0")
    tried = 0

    def decide(found: Object | None) -> Change[None]:
        nonlocal tried
        tried += 1
        objects.put("k", b"%d" % tried)
        return Change(b"mine", None)

    with pytest.raises(Unavailable, match="keeps changing"):
        swap(objects, "k", decide, busy=BUSY, tries=3)
    assert tried == 3
    assert objects.get("k").data == b"3"


def test_a_refusal_of_the_decision_is_final_even_if_it_is_a_conflict(objects: MemoryObjects) -> None:
    tried: list[None] = []

    def decide(found: Object | None) -> Change[None]:
        tried.append(None)
        raise Conflict("the queue exists: choose another name")

    with pytest.raises(Conflict, match="choose another name"):
        swap(objects, "k", decide, busy=BUSY)
    assert len(tried) == 1


def test_the_read_is_saved_where_no_object_is_expected(objects: MemoryObjects) -> None:
    seen: list[bytes | None] = []

    def decide(found: Object | None) -> Change[None]:
        seen.append(None if found is None else found.data)
        return Change(b"new", None)

    swap(objects, "k", decide, busy=BUSY, expect_none=True)
    swap(objects, "k", decide, busy=BUSY, expect_none=True)

    assert seen == [None, None, b"new"]


def test_of_many_writers_none_loses_its_change(objects: MemoryObjects) -> None:
    def run(number: int) -> None:
        swap(objects, "k", append(b"%d," % number), busy=BUSY, tries=1_000)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(run, range(40)))

    written = objects.get("k").data.decode().rstrip(",").split(",")
    assert sorted(map(int, written)) == list(range(40))
