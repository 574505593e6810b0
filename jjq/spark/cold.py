"""Open the cold store from the driver or an executor. Each process opens it by itself, once."""

from __future__ import annotations

from functools import lru_cache

from coldstore.objects.open import open_objects
from coldstore.objects.port import ObjectStore
from coldstore.objects.settings import S3Settings
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.shared.errors import NotFound
from coldstore.store import ColdStore


@lru_cache(maxsize=8)
def objects(root: str, s3: S3Settings) -> ObjectStore:
    """The object store at `root`. Kept, since a connection costs more to make than a block to read."""
    return open_objects(root, s3=s3, clock=SystemClock(), chance=SystemChance())


def store(root: str, s3: S3Settings) -> ColdStore:
    """The cold store at `root`, which must be one: `NotFound` says so before anything is listed."""
    found = ColdStore(objects(root, s3), SystemClock(), SystemChance())
    if found.id is None:
        raise NotFound(f"{root} is not a jjq store, it has no jjq.json: give the root of a cold store")
    return found


def store_or_new(root: str, s3: S3Settings) -> ColdStore:
    """The cold store at `root`, or a new one if `root` is empty; `NotFound` if something else is there."""
    found = objects(root, s3)
    if next(found.list(""), None) is None:
        return ColdStore(found, SystemClock(), SystemChance())
    return store(root, s3)
