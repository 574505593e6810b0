"""The contract of PartStore: the same tests over memory, local files, moto and SeaweedFS."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from coldstore.objects.parts import parts_of
from coldstore.objects.port import ObjectStore
from coldstore.shared.errors import NotFound
from coldstore.shared.limits import PART_BYTES

KEY = "queues/q/objects/" + "0" * 64
PARTS = (b"a" * PART_BYTES, b"b" * PART_BYTES, b"end")


def test_parts_become_one_object_that_is_invisible_until_then(objects: ObjectStore) -> None:
    store = parts_of(objects)
    upload = store.begin_parts(KEY)
    with ThreadPoolExecutor(3) as pool:  # at the same time, in any order
        tags = list(pool.map(lambda n: store.put_part(KEY, upload, n, PARTS[n]), range(3)))
    with pytest.raises(NotFound):
        objects.head(KEY)

    store.complete_parts(KEY, upload, tags)

    assert objects.head(KEY).size == 2 * PART_BYTES + 3
    assert objects.get(KEY, PART_BYTES - 1, PART_BYTES + 1).data == b"ab"
    assert objects.get(KEY, 2 * PART_BYTES).data == b"end"
    assert list(store.open_uploads(KEY)) == []


def test_a_part_that_is_put_again_replaces_the_first(objects: ObjectStore) -> None:
    store = parts_of(objects)
    upload = store.begin_parts(KEY)
    store.put_part(KEY, upload, 0, b"one")

    store.complete_parts(KEY, upload, [store.put_part(KEY, upload, 0, b"two")])

    assert objects.get(KEY).data == b"two"


def test_an_upload_that_was_given_up_leaves_nothing(objects: ObjectStore) -> None:
    store = parts_of(objects)
    upload = store.begin_parts(KEY)
    store.put_part(KEY, upload, 0, b"one")

    store.abort_parts(KEY, upload)

    store.abort_parts(KEY, upload)  # once more is no error
    with pytest.raises(NotFound):
        objects.head(KEY)
    assert list(store.open_uploads(KEY)) == []
    assert list(objects.list("")) == []


def test_an_upload_may_get_its_key_in_the_end_where_the_store_says_so(objects: ObjectStore) -> None:
    store = parts_of(objects)
    begun = "queues/q/objects/unnamed" if store.names_at_end else KEY
    upload = store.begin_parts(begun)
    tags = [store.put_part(begun, upload, number, part) for number, part in enumerate(PARTS)]

    store.complete_parts(KEY, upload, tags)

    assert [(info.key, info.size) for info in objects.list("")] == [(KEY, 2 * PART_BYTES + 3)]
    assert list(store.open_uploads(begun)) == []
