"""`swap`: read an object, change it, and write it back unless somebody else changed it in between.

This is how every document that several processes share is changed: `queue.json`, `shards.json`, tenures, node
documents. The write is a compare-and-swap (`put_if_match`, or `put_if_absent` where there was no object). If another
process was quicker, `swap` reads again and decides again, a bounded number of times.

It lives beside the port of object stores and not in `shared/`, because rooms must not import each other in a circle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeVar

from coldstore.objects.port import Body, Object, ObjectStore
from coldstore.shared.errors import Conflict, JjqError, NotFound

T = TypeVar("T")

_TRIES: Final = 16


class Change(NamedTuple, Generic[T]):
    """A decision: the bytes to write, None to leave the object as it is; and what to return to the caller of `swap`."""

    data: Body | None
    result: T


class Swapped(NamedTuple, Generic[T]):
    """The result of the last decision, and the etag that the object has now: empty if there is no object."""

    result: T
    etag: str


def swap(
    objects: ObjectStore,
    key: str,
    decide: Callable[[Object | None], Change[T]],
    *,
    busy: JjqError,
    tries: int = _TRIES,
    expect_none: bool = False,
) -> Swapped[T]:
    """Change the object at `key` as `decide` says, which is given the present one, or None.

    `decide` may be called several times. What it raises is raised, even a `Conflict`: only a lost race is tried again.
    After `tries` lost races, `busy` is raised. With `expect_none` the first try assumes that there is no object, and
    saves the read.
    """
    for attempt in range(tries):
        found = None if expect_none and attempt == 0 else _read(objects, key)
        data, result = decide(found)
        if data is None:
            return Swapped(result, "" if found is None else found.etag)
        try:
            if found is None:
                return Swapped(result, objects.put_if_absent(key, data))
            return Swapped(result, objects.put_if_match(key, data, found.etag))
        except Conflict:
            continue
    raise busy


def _read(objects: ObjectStore, key: str) -> Object | None:
    try:
        return objects.get(key)
    except NotFound:
        return None
