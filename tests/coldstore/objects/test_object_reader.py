"""An object as a file: what is read is what a file of the same bytes gives, and only that is fetched."""

from __future__ import annotations

import io

import pytest

from coldstore.objects.memory import MemoryObjects
from coldstore.objects.object_reader import ObjectReader
from coldstore.objects.port import Object
from coldstore.shared.errors import NotFound

DATA = bytes(range(256)) * 4


class Watched(MemoryObjects):
    """Notes which ranges were fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.ranges: list[tuple[int, int | None]] = []

    def get(self, key: str, start: int = 0, end: int | None = None) -> Object:
        self.ranges.append((start, end))
        return super().get(key, start, end)


@pytest.fixture
def objects() -> Watched:
    store = Watched()
    store.put("a", DATA)
    return store


def test_it_reads_as_a_file_of_the_same_bytes(objects: Watched) -> None:
    file, reader = io.BytesIO(DATA), ObjectReader(objects, "a", len(DATA))
    assert reader.readable()
    assert reader.seekable()
    for move, whence, size in ((0, 0, 10), (5, 1, 7), (-8, 2, 100), (0, 0, -1), (2_000, 0, 5), (3, 0, 0)):
        assert reader.seek(move, whence) == file.seek(move, whence)
        assert reader.read(size) == file.read(size)
        assert reader.tell() == file.tell()


def test_only_what_is_read_is_fetched_one_request_each(objects: Watched) -> None:
    reader = ObjectReader(objects, "a", len(DATA))
    reader.seek(-8, io.SEEK_END)
    assert reader.read() == DATA[-8:]
    assert reader.read(4) == b""
    assert objects.ranges == [(len(DATA) - 8, len(DATA))]


def test_a_buffered_reader_over_it_gives_lines(objects: Watched) -> None:
    objects.put("b", b"one\ntwo\nthree")
    assert list(io.BufferedReader(ObjectReader(objects, "b", 13), 8)) == [b"one\n", b"two\n", b"three"]


def test_the_error_of_the_store_is_raised(objects: Watched) -> None:
    with pytest.raises(NotFound):
        ObjectReader(objects, "gone", 5).read(1)
