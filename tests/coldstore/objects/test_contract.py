"""The contract of ObjectStore: the same tests over memory, local files, moto and SeaweedFS."""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator
from itertools import product

import pyarrow as pa
import pytest

from coldstore.objects.port import ObjectStore
from coldstore.shared.clock import SystemClock
from coldstore.shared.errors import Conflict, InvalidInput, NotFound
from coldstore.shared.limits import KEY_CHARS_MAX, MIB
from tests.coldstore.objects import races

REFUSED_KEYS = [
    "", "/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/../b", ".hidden", "a/.hidden", "a b",
    "a\n", "a\x00b", "a\x7f", "a\\b", "a:b", "a*", "a?", "ä", "a\ud800", "a" * 2_000,
]  # fmt: skip

VERBS: list[Callable[[ObjectStore, str, str], object]] = [
    lambda objects, key, etag: objects.get(key),
    lambda objects, key, etag: objects.head(key),
    lambda objects, key, etag: objects.put(key, b"2"),
    lambda objects, key, etag: objects.put_if_absent(key, b"2"),
    lambda objects, key, etag: objects.put_if_match(key, b"2", etag),
    lambda objects, key, etag: objects.delete(key),
]
RANGES = [
    (0, None), (0, 10), (0, 5), (3, 7), (9, 10), (4, None), (0, 99), (5, 99), (3, 3), (0, 0), (10, 10),
    (10, None), (10, 12), (99, None), (99, 100),
]  # fmt: skip


def test_what_was_put_is_read_back(objects: ObjectStore) -> None:
    etag = objects.put("queues/orders/queue.json", b"{}")

    found = objects.get("queues/orders/queue.json")

    assert (found.data, found.etag) == (b"{}", etag)


def test_an_overwrite_is_a_new_version(objects: ObjectStore) -> None:
    first = objects.put("key", b"old")

    second = objects.put("key", b"new!")

    assert first != second
    assert (objects.get("key").data, objects.head("key").etag) == (b"new!", second)


def test_every_verb_names_a_version_by_the_same_etag(objects: ObjectStore) -> None:
    def etags() -> set[str]:
        return {objects.head("key").etag, objects.get("key").etag, next(objects.list("key")).etag}

    first = objects.put_if_absent("key", b"1")
    assert etags() == {first}
    second = objects.put("key", b"2")
    assert etags() == {second}
    third = objects.put_if_match("key", b"3", second)
    assert etags() == {third}
    assert len({first, second, third}) == 3


def test_head_says_size_and_age(objects: ObjectStore) -> None:
    now_us = SystemClock().now_us()

    objects.put("key", b"12345")

    info = objects.head("key")
    assert (info.key, info.size) == ("key", 5)
    assert abs(info.modified_us - now_us) < 60_000_000
    assert list(objects.list("")) == [info]


def test_what_is_not_there_is_not_found(objects: ObjectStore) -> None:
    objects.put("folder/key", b"")
    for key in ("key", "folder", "folder/other", "folder/key/below", "other/key"):
        with pytest.raises(NotFound):
            objects.get(key)
        with pytest.raises(NotFound):
            objects.get(key, 0, 0)
        with pytest.raises(NotFound):
            objects.head(key)


def test_put_if_absent_leaves_what_is_there(objects: ObjectStore) -> None:
    etag = objects.put_if_absent("key", b"first")

    with pytest.raises(Conflict):
        objects.put_if_absent("key", b"second")

    assert (objects.get("key").data, objects.get("key").etag) == (b"first", etag)


def test_put_if_absent_writes_again_after_a_delete(objects: ObjectStore) -> None:
    objects.put_if_absent("key", b"first")
    objects.delete("key")

    objects.put_if_absent("key", b"second")

    assert objects.get("key").data == b"second"


def test_put_if_match_swaps_the_version_that_was_read(objects: ObjectStore) -> None:
    objects.put("key", b"first")
    read = objects.get("key")

    etag = objects.put_if_match("key", b"second", read.etag)

    assert (objects.get("key").data, objects.get("key").etag) == (b"second", etag)


def test_an_object_changed_since_it_was_read_is_not_overwritten(objects: ObjectStore) -> None:
    read = objects.put("key", b"first")
    objects.put("key", b"of another writer")

    with pytest.raises(Conflict):
        objects.put_if_match("key", b"second", read)

    assert objects.get("key").data == b"of another writer"


def test_put_if_match_never_creates_an_object(objects: ObjectStore) -> None:
    etag = objects.put("other", b"first")

    with pytest.raises(Conflict):
        objects.put_if_match("key", b"second", etag)

    assert [info.key for info in objects.list("")] == ["other"]


def test_the_etag_of_a_deleted_object_opens_nothing(objects: ObjectStore) -> None:
    etag = objects.put("key", b"first")
    objects.delete("key")

    with pytest.raises(Conflict):
        objects.put_if_match("key", b"second", etag)
    objects.put_if_absent("key", b"third")
    with pytest.raises(Conflict):
        objects.put_if_match("key", b"fourth", etag)

    assert objects.get("key").data == b"third"


def test_of_16_writers_of_an_absent_object_one_wins(objects: ObjectStore) -> None:
    winners = races.race_threads(objects, races.absent)

    assert winners == [objects.get("race").data]


def test_of_16_writers_with_one_etag_one_wins(objects: ObjectStore) -> None:
    objects.put("race", b"before")

    winners = races.race_threads(objects, races.match)

    assert winners == [objects.get("race").data]


def test_a_range_is_cut_as_python_cuts(objects: ObjectStore) -> None:
    etag = objects.put("key", b"0123456789")

    for start, end in RANGES:
        found = objects.get("key", start, end)
        assert (found.data, found.etag) == (b"0123456789"[start:end], etag), (start, end)


def test_an_empty_object_has_empty_ranges(objects: ObjectStore) -> None:
    etag = objects.put_if_absent("key", b"")

    assert objects.head("key").size == 0
    for start, end in ((0, None), (0, 0), (0, 1), (1, None), (1, 2)):
        found = objects.get("key", start, end)
        assert (found.data, found.etag) == (b"", etag), (start, end)


def test_a_range_that_cannot_be_is_refused(objects: ObjectStore) -> None:
    objects.put("key", b"0123456789")

    for start, end in ((-1, None), (0, -1), (5, 4)):
        with pytest.raises(InvalidInput, match="byte range"):
            objects.get("key", start, end)


def test_a_key_may_have_every_allowed_character(objects: ObjectStore) -> None:
    key = f"{string.ascii_letters}/{string.digits}/_._=@+-/a...b/Z"

    objects.put_if_absent(key, b"1")
    objects.put_if_match(key, b"2", objects.head(key).etag)

    assert objects.get(key).data == b"2"
    assert [info.key for info in objects.list("")] == [info.key for info in objects.list(key)] == [key]
    objects.delete(key)
    assert list(objects.list("")) == []


def test_a_key_may_be_about_as_long_as_s3_allows(objects: ObjectStore) -> None:
    room = KEY_CHARS_MAX - 40  # the stores on S3 have a prefix of their own
    key = "/".join(["x" * 200] * 5)[:room]

    objects.put(key, b"long")

    assert objects.get(key).data == b"long"
    assert [info.key for info in objects.list(key[:500])] == [key]


def test_a_key_outside_the_allowed_form_is_refused_by_every_verb(objects: ObjectStore) -> None:
    etag = objects.put("key", b"1")
    for key, use in product(REFUSED_KEYS, VERBS):
        with pytest.raises(InvalidInput, match="is not allowed"):
            use(objects, key, etag)
    assert [info.key for info in objects.list("")] == ["key"]


def test_delete_removes_one_object_and_may_be_repeated(objects: ObjectStore) -> None:
    objects.put("folder/one", b"1")
    objects.put("folder/two", b"2")

    objects.delete("folder/one")
    objects.delete("folder/one")
    objects.delete("never/was")
    objects.delete("folder")

    assert [info.key for info in objects.list("")] == ["folder/two"]
    with pytest.raises(NotFound):
        objects.get("folder/one")


def test_anything_with_a_buffer_can_be_put(objects: ObjectStore) -> None:
    values = pa.array(range(1_000), pa.int64()).buffers()[1]
    large = bytearray(b"0123456789")

    objects.put("arrow", values)
    objects.put_if_absent("slice", memoryview(large)[2:5])
    objects.put_if_match("slice", memoryview(large)[3:7], objects.head("slice").etag)
    objects.put("wide", memoryview(values).cast("B").cast("q"))

    assert objects.get("arrow").data == objects.get("wide").data == values.to_pybytes()
    assert objects.get("slice").data == b"3456"
    large[:] = b"overwritten"
    assert objects.get("slice").data == b"3456"


class Pieces:
    """A body in the making: every iteration makes the same pieces."""

    def __init__(self, *made: bytes) -> None:
        self._made = made

    def __iter__(self) -> Iterator[memoryview]:
        return (memoryview(piece) for piece in self._made)


def test_a_body_may_come_in_pieces(objects: ObjectStore) -> None:
    large = bytes(range(256)) * (MIB // 128)

    objects.put("key", Pieces())
    assert objects.get("key").data == b""
    etag = objects.put("key", Pieces(b"one ", b"", b"two"))
    assert objects.get("key").data == b"one two"
    objects.put_if_match("key", Pieces(large, b"and more", large), etag)
    assert objects.get("key").data == large + b"and more" + large
    objects.put_if_absent("new", Pieces(large, b"end"))
    assert objects.get("new").data == large + b"end"


def test_a_body_that_cannot_be_finished_leaves_nothing(objects: ObjectStore) -> None:
    def broken() -> Iterator[memoryview]:
        yield memoryview(b"begun")
        raise RuntimeError("cannot be encoded")

    for put in (objects.put, objects.put_if_absent):
        with pytest.raises(RuntimeError, match="cannot be encoded"):
            put("key", broken())

    assert list(objects.list("")) == []


def test_an_object_of_64_mib_is_read_back_whole_and_in_part(objects: ObjectStore) -> None:
    data = bytes(range(256)) * (64 * MIB // 256)

    objects.put_if_absent("large", memoryview(data))

    assert objects.head("large").size == len(data)
    assert objects.get("large").data == data
    assert objects.get("large", 40 * MIB - 5, 40 * MIB + 5).data == data[40 * MIB - 5 : 40 * MIB + 5]
