"""The contract of ObjectStore.list, over the same four stores."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import pytest

from coldstore.objects.port import ObjectInfo, ObjectStore
from coldstore.shared.errors import InvalidInput

# In order of bytes, which is neither that of directories nor that of names: '+' '-' '.' come before '/'.
TRICKY = [
    "A", "Z/a", "_/x", "a+b/x", "a-b-c/x", "a-b/x", "a-b/y/z", "a.b", "a.b.c/x", "a.json", "a/a-b", "a/a.b/x",
    "a/a/x", "a/a0", "a/b", "a0", "a0/x", "a=b/x", "a@b", "aa/x", "b-", "b/x",
]  # fmt: skip


def keys(found: Iterable[ObjectInfo]) -> list[str]:
    return [info.key for info in found]


def fill(objects: ObjectStore, names: list[str]) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: objects.put(key, key.encode()), names))


def storable(names: list[str]) -> list[str]:
    """Without those that are both object and folder: a file system cannot have them."""
    return [key for key in names if not any(other.startswith(f"{key}/") for other in names)]


def test_an_empty_store_lists_nothing(objects: ObjectStore) -> None:
    assert list(objects.list("")) == list(objects.list("queues/")) == []


def test_keys_come_in_the_order_of_their_bytes(objects: ObjectStore) -> None:
    names = storable(TRICKY)
    fill(objects, names[::-1])

    found = list(objects.list(""))

    assert [info.key for info in found] == sorted(names)
    assert [info.size for info in found] == [len(key) for key in sorted(names)]


def test_a_prefix_is_a_beginning_not_a_folder(objects: ObjectStore) -> None:
    names = storable(TRICKY)
    fill(objects, names)
    for prefix in ("a", "a-", "a-b", "a-b/", "a/", "a/a", "a/a/", "b", "b/x", "b/x/", "zz", "A", "A/"):
        assert keys(objects.list(prefix)) == sorted(k for k in names if k.startswith(prefix)), prefix


def test_listing_goes_on_after_any_key_whether_it_exists_or_not(objects: ObjectStore) -> None:
    names = storable(TRICKY)
    fill(objects, names)
    afters = [
        "",
        "0",
        "A",
        "a",
        "a-",
        "a-b",
        "a-b/",
        "a-b/x",
        "a-b0",
        "a/",
        "a/a",
        "a/a-b",
        "a/a/x",
        "a0",
        "zz",
    ]
    for prefix in ("", "a", "a-b/"):
        for after in (*afters, "a.", "a//", "a~", "a-b/y/zz", "é"):
            expected = sorted(k for k in names if k.startswith(prefix) and k > after)
            assert keys(objects.list(prefix, after)) == expected, (prefix, after)


def test_more_than_a_thousand_keys_are_listed_all(objects: ObjectStore) -> None:
    names = [f"queues/q/meta/{n:020d}.final.json" for n in range(1_020)]
    fill(objects, names)

    assert keys(objects.list("queues/q/meta/")) == names
    assert keys(objects.list("queues/", after=names[5])) == names[6:]
    assert keys(objects.list("queues/q/meta/", after=f"queues/q/meta/{1_017:020d}")) == names[1_017:]


def test_a_listing_shows_each_key_once_while_others_write(objects: ObjectStore) -> None:
    fill(objects, ["a/1", "a/2", "a/3"])

    found = objects.list("a/")
    first = next(found).key
    objects.put("a/0", b"")
    objects.put("a/2", b"again")
    rest = keys(found)

    assert [first, *rest] == ["a/1", "a/2", "a/3"]


def test_a_deleted_object_is_not_listed(objects: ObjectStore) -> None:
    fill(objects, ["a/1", "a/2", "b/1"])

    objects.delete("a/1")
    objects.delete("b/1")

    assert keys(objects.list("")) == ["a/2"]


def test_a_prefix_that_no_key_could_have_is_refused(objects: ObjectStore) -> None:
    for prefix in ("/", "a//", "../", "..", ".tmp/", "a/../b", "a b", "a\x00"):
        with pytest.raises(InvalidInput, match="is not allowed"):
            objects.list(prefix)
