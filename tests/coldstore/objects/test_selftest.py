"""The self-test passes good stores, and finds each way in which a bad one breaks its word."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from coldstore.objects.memory import MemoryObjects
from coldstore.objects.port import Body, Object, ObjectInfo, ObjectStore
from coldstore.objects.selftest import self_test
from coldstore.shared.chance import SeededChance, SystemChance
from coldstore.shared.errors import InvalidInput, NotFound


def test_every_store_of_ours_passes_and_nothing_is_left(objects: ObjectStore) -> None:
    objects.put("key", b"1")

    self_test(objects, SystemChance())
    self_test(objects, SystemChance())

    assert [info.key for info in objects.list("")] == ["key"]


class Overwrites(MemoryObjects):
    """Accepts If-None-Match and ignores it."""

    def put_if_absent(self, key: str, data: Body) -> str:
        return self.put(key, data)


class Swaps(MemoryObjects):
    """Accepts If-Match and ignores it."""

    def put_if_match(self, key: str, data: Body, etag: str) -> str:
        return self.put(key, data)


class Creates(MemoryObjects):
    """Takes If-Match on a missing object for a plain write, as MinIO once did."""

    def put_if_match(self, key: str, data: Body, etag: str) -> str:
        with suppress(NotFound):
            self.head(key)
            return super().put_if_match(key, data, etag)
        return self.put(key, data)


class Looks(MemoryObjects):
    """Looks first and writes then; several writers can look before one writes."""

    def __init__(self) -> None:
        super().__init__()
        self._meet = threading.Barrier(2, timeout=0.2)

    def put_if_absent(self, key: str, data: Body) -> str:
        with suppress(NotFound):
            self.head(key)
            return super().put_if_absent(key, data)
        with suppress(threading.BrokenBarrierError):
            self._meet.wait()
        self._meet.reset()
        return self.put(key, data)


class Repeats(MemoryObjects):
    """Has one etag for every version."""

    def get(self, key: str, start: int = 0, end: int | None = None) -> Object:
        return Object(super().get(key, start, end).data, "same")

    def head(self, key: str) -> ObjectInfo:
        info = super().head(key)
        return ObjectInfo(key, info.size, "same", info.modified_us)

    def put_if_absent(self, key: str, data: Body) -> str:
        super().put_if_absent(key, data)
        return "same"

    def put_if_match(self, key: str, data: Body, etag: str) -> str:
        self.head(key)
        self.put(key, data)
        return "same"


class Forgets(MemoryObjects):
    """Says that it swapped, and does not."""

    def put_if_match(self, key: str, data: Body, etag: str) -> str:
        self.head(key)
        return "swapped"


@pytest.mark.parametrize(
    ("store", "broken"),
    [
        (Overwrites, "put-if-absent overwrote an object"),
        (Swaps, "put-if-match overwrote another version"),
        (Creates, "put-if-match wrote an object that was missing"),
        (Looks, "of several put-if-absent not exactly one won"),
        (Repeats, "two versions have one etag"),
        (Forgets, "put-if-match wrote nothing"),
    ],
)
def test_a_store_that_breaks_its_word_is_found_and_left_clean(
    store: type[MemoryObjects], broken: str
) -> None:
    objects = store()

    with pytest.raises(InvalidInput, match=f"memory: cannot be used: .*{broken}"):
        self_test(objects, SeededChance(1))

    assert list(objects.list("")) == []


def test_a_store_that_lists_nothing_is_still_cleaned(monkeypatch: pytest.MonkeyPatch) -> None:
    objects = MemoryObjects()

    def put_if_match(key: str, data: Body, etag: str) -> str:
        raise RuntimeError("broken off")

    monkeypatch.setattr(objects, "put_if_match", put_if_match)
    with pytest.raises(RuntimeError, match="broken off"):
        self_test(objects, SeededChance(1))

    found: Iterator[ObjectInfo] = objects.list("")
    assert list(found) == []
