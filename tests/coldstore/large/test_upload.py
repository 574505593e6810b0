"""Large objects: whole, right and written once, on every store."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from coldstore.large.download import check_object, read_part
from coldstore.layout import paths
from coldstore.objects.memory import MemoryObjects
from coldstore.objects.parts import parts_of
from coldstore.objects.port import ObjectStore
from coldstore.shared import failpoint
from coldstore.shared.errors import DataLoss, InvalidInput, NotFound, Unavailable
from tests.coldstore.large.making import LARGE, SMALL, digest, upload


@pytest.mark.parametrize("data", [b"", SMALL, LARGE], ids=["empty", "small", "large"])
def test_an_object_is_read_back_whole_and_in_ranges(objects: ObjectStore, data: bytes) -> None:
    key = upload(objects, data)

    assert objects.get(key).data == data
    check_object(objects, "q", digest(data), len(data))
    if data:
        assert read_part(objects, "q", digest(data), 3, 7) == data[3:7]


@pytest.mark.parametrize("data", [SMALL, LARGE], ids=["small", "large"])
def test_of_sixteen_writers_of_the_same_bytes_one_object_is_left(objects: ObjectStore, data: bytes) -> None:
    with ThreadPoolExecutor(16) as pool:
        keys = set(pool.map(lambda _: upload(objects, data), range(16)))

    assert [info.key for info in objects.list("")] == list(keys)
    check_object(objects, "q", digest(data), len(data))
    assert list(parts_of(objects).open_uploads(keys.pop())) == []


@pytest.mark.parametrize("data", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("wrong", ["sha256", "size"])
def test_what_is_not_as_announced_is_never_visible(objects: ObjectStore, data: bytes, wrong: str) -> None:
    sha256 = digest(b"other") if wrong == "sha256" else digest(data)
    size = len(data) + 1 if wrong == "size" else len(data)

    with pytest.raises(InvalidInput, match=r"sha256|announced"):
        upload(objects, data, sha256, size)

    assert list(objects.list("")) == []
    assert list(parts_of(objects).open_uploads(paths.large("q", sha256))) == []


@pytest.mark.parametrize("point", ["object.part_put", "object.complete"])
def test_an_upload_that_was_broken_off_shows_nothing(objects: ObjectStore, point: str) -> None:
    failpoint.arm(point, 1)
    with pytest.raises(Unavailable):
        upload(objects, LARGE)
    assert list(objects.list("")) == []

    upload(objects, LARGE)

    check_object(objects, "q", digest(LARGE), len(LARGE))


def test_a_damaged_or_missing_object_is_named() -> None:
    objects = MemoryObjects()
    key = upload(objects, SMALL)
    objects.put(key, SMALL[:-1] + b"?")
    with pytest.raises(DataLoss, match=key) as damaged:
        check_object(objects, "q", digest(SMALL), len(SMALL))
    assert damaged.value.key == key
    check_object(objects, "q", digest(SMALL), len(SMALL), read=False)

    objects.put(key, SMALL[:5])
    with pytest.raises(DataLoss, match="5 bytes"):
        check_object(objects, "q", digest(SMALL), len(SMALL))
    with pytest.raises(DataLoss, match="ends before"):
        read_part(objects, "q", digest(SMALL), 0, 10)

    objects.delete(key)
    with pytest.raises(DataLoss, match=f"{key} is gone"):
        check_object(objects, "q", digest(SMALL), len(SMALL))
    with pytest.raises(DataLoss, match=f"{key} is gone"):
        read_part(objects, "q", digest(SMALL), 0, 10)


def test_an_upload_whose_store_forgot_it_says_to_begin_again() -> None:
    with pytest.raises(NotFound, match="begin again"):
        parts_of(MemoryObjects()).put_part("key", "u1", 0, b"")
