"""Journals on object storage for tests: opened as a node, again and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coldstore.objects.port import Body, ObjectStore
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import ManualClock
from coldstore.shared.errors import Unavailable
from hotstore.journal.port import Journal, JournalBatch, Record
from sharding.journal.fencing import begin
from sharding.journal.object_journal import ObjectJournal

Content = list[tuple[int, bytes]]


def open_journal(objects: ObjectStore, node: str = "n1", clock: ManualClock | None = None) -> ObjectJournal:
    held = begin(objects, node, "s3", SystemChance().token())
    return ObjectJournal(objects, held, clock or ManualClock())


def content_of(batch: JournalBatch) -> Content:
    return [(record.kind, bytes(record.payload)) for record in batch.records]


def recovered(journal: Journal) -> list[Content]:
    return [content_of(batch) for batch in journal.recover()]


def write(journal: Journal, *values: bytes) -> list[int]:
    """Each value as a batch of its own, durable."""
    numbers = []
    for value in values:
        numbers.append(journal.append([Record(1, value)]))
        journal.sync()
    return numbers


class Spoiled:
    """An object store of which one verb does something else first: fails, or lets others act."""

    def __init__(self, inner: ObjectStore) -> None:
        self._inner = inner
        self.before: Callable[[str, str], None] = lambda verb, key: None
        self.after: Callable[[str, str], None] = lambda verb, key: None

    def __getattr__(self, verb: str) -> Any:
        work = getattr(self._inner, verb)

        def spoiled(key: str, *args: Any, **kwargs: Any) -> Any:
            self.before(verb, key)
            result = work(key, *args, **kwargs)
            self.after(verb, key)
            return result

        return spoiled

    def put_if_absent(self, key: str, data: Body) -> str:
        self.before("put_if_absent", key)
        etag = self._inner.put_if_absent(key, data)
        self.after("put_if_absent", key)
        return etag


def lost() -> Unavailable:
    return Unavailable("the reply was lost, by order of a test")
