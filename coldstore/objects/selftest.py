"""A proof that a store's conditional writes hold, run when the store is opened for writing.

Fencing and journals on object storage depend on them. Some stores that speak S3 accept a condition and ignore
it, or write although `If-Match` names a missing object. Such a store must be refused before it loses data. So
every promise is tried once, and then by several writers at the same time.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

from coldstore.objects.port import ObjectStore
from coldstore.shared.chance import Chance
from coldstore.shared.errors import Conflict, InvalidInput, JjqError, NotFound

_WRITERS: Final = 8


def self_test(objects: ObjectStore, chance: Chance) -> None:
    """Return if conditional writes hold, else raise `InvalidInput` that says which do not."""
    key = f"selftest/{chance.token()}"
    try:
        stale = _check_put_if_absent(objects, key)
        _check_match(objects, key, stale)
        _check_missing(objects, key)
        _check_races(objects, key)
    finally:
        with suppress(JjqError):
            objects.delete(key)


def _demand(holds: bool, objects: ObjectStore, broken: str) -> None:
    if not holds:
        raise InvalidInput(f"{objects!r} cannot be used: its conditional writes do not hold ({broken})")


def _refused(write: Callable[[], str]) -> bool:
    try:
        write()
    except Conflict:
        return True
    return False


def _check_put_if_absent(objects: ObjectStore, key: str) -> str:
    etag = objects.put_if_absent(key, b"first")
    _demand(objects.get(key).data == b"first", objects, "a new object reads differently")
    again = _refused(lambda: objects.put_if_absent(key, b"second"))
    _demand(again and objects.get(key).data == b"first", objects, "put-if-absent overwrote an object")
    _demand(objects.head(key).etag == objects.get(key).etag == etag, objects, "one version has two etags")
    return etag


def _check_match(objects: ObjectStore, key: str, stale: str) -> None:
    etag = objects.put_if_match(key, b"third", stale)
    _demand(objects.get(key).data == b"third", objects, "put-if-match wrote nothing")
    _demand(etag != stale, objects, "two versions have one etag")
    again = _refused(lambda: objects.put_if_match(key, b"fourth", stale))
    _demand(again and objects.get(key).data == b"third", objects, "put-if-match overwrote another version")


def _check_missing(objects: ObjectStore, key: str) -> None:
    etag = objects.head(key).etag
    objects.delete(key)
    missing = _refused(lambda: objects.put_if_match(key, b"fifth", etag))
    with suppress(NotFound):
        objects.head(key)
        missing = False
    _demand(missing, objects, "put-if-match wrote an object that was missing")


def _check_races(objects: ObjectStore, key: str) -> None:
    with ThreadPoolExecutor(_WRITERS) as pool:
        names = [b"writer %d" % n for n in range(_WRITERS)]
        lost = pool.map(lambda name: _refused(lambda: objects.put_if_absent(key, name)), names)
        _demand(sum(lost) == _WRITERS - 1, objects, "of several put-if-absent not exactly one won")
        etag = objects.head(key).etag
        lost = pool.map(
            lambda name: _refused(lambda: objects.put_if_match(key, b"next " + name, etag)), names
        )
        _demand(sum(lost) == _WRITERS - 1, objects, "of several put-if-match not exactly one won")
