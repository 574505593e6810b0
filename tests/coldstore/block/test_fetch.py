"""Fetching data files."""

from __future__ import annotations

import hashlib
import threading
from typing import Any

import pytest

from coldstore.block import fetch
from coldstore.objects.memory import MemoryObjects
from coldstore.objects.port import Object
from coldstore.shared.errors import NotFound, Unavailable


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "_PART_BYTES", 10)


def stored(data: bytes) -> MemoryObjects:
    objects = MemoryObjects()
    objects.put("k", data)
    return objects


@pytest.mark.parametrize("size", [0, 1, 9, 10, 11, 20, 25, 400])
def test_all_bytes_come_in_order_with_their_digest(size: int) -> None:
    data = bytes(i % 251 for i in range(size))
    fetched = fetch.fetch(stored(data), "k", size)
    assert fetched.data.to_pybytes() == data
    assert fetched.sha256 == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("size", [5, 35])
def test_an_object_that_is_longer_or_shorter_than_expected_shows_it(size: int) -> None:
    data = b"x" * size
    assert len(fetch.fetch(stored(data + b"yz"), "k", size).data) == size + 1
    assert len(fetch.fetch(stored(data[:-3]), "k", size).data) == size - 3
    assert len(fetch.fetch(stored(b""), "k", size).data) == 0


@pytest.mark.parametrize("size", [5, 35])
def test_a_missing_object_is_not_found(size: int) -> None:
    with pytest.raises(NotFound):
        fetch.fetch(MemoryObjects(), "k", size)


def test_a_part_that_cannot_be_read_fails_the_whole() -> None:
    objects: Any = stored(b"x" * 100)
    get = objects.get

    def flaky(key: str, start: int = 0, end: int | None = None) -> Object:
        if start == 50:
            raise Unavailable("down")
        found: Object = get(key, start, end)
        return found

    objects.get = flaky
    with pytest.raises(Unavailable):
        fetch.fetch(objects, "k", 100)


def test_parts_are_read_side_by_side() -> None:
    objects: Any = stored(b"x" * 40)
    get = objects.get
    together = threading.Barrier(4, timeout=10)

    def meeting(key: str, start: int = 0, end: int | None = None) -> Object:
        together.wait()
        found: Object = get(key, start, end)
        return found

    objects.get = meeting
    assert len(fetch.fetch(objects, "k", 40).data) == 40
