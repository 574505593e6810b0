"""Where a job works: a cold store, or for an import an empty place that becomes one."""

from __future__ import annotations

from coldstore.objects.settings import S3Settings
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.store import ColdStore
from jjq.spark import cold


def store_or_new(root: str, s3: S3Settings) -> ColdStore:
    """The cold store at `root`; `NotFound` if other things are there."""
    objects = cold.objects(root, s3)
    if next(objects.list(""), None) is None:
        return ColdStore(objects, SystemClock(), SystemChance())
    return cold.store(root, s3)
