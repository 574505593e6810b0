"""Keeps the relational view up to date: queues and subscribers, as rows of the catalog.

Only what changed since the last write is written, by a worker thread. The rows are taken while the
engine runs on, so each row is right and the whole is as of about then, which is all that a view of
the past few seconds can be; a restart reads the journal, never this.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import pyarrow as pa

from coldstore.shared import lists
from hotstore.catalog.catalog import Catalog, Outcome
from hotstore.catalog.tables import QUEUES, SUBSCRIBERS
from hotstore.queue.queue import HotQueue
from hotstore.queue.registry import Registry
from hotstore.queue.subscriber import Subscriber
from hotstore.runner import Runner

log = logging.getLogger("jjq.hotstore")


class Relational(Protocol):
    """Whatever wants to know, now and then, what changed."""

    async def write(self) -> None: ...


class NoCatalog:
    """No relational view; for simulations of what lies below it."""

    async def write(self) -> None:
        return None


class CatalogView:
    """Writes the registry's changes into a `Catalog`."""

    def __init__(
        self, catalog: Catalog, registry: Registry, runner: Runner, sequence: Callable[[], int]
    ) -> None:
        self._catalog = catalog
        self._registry = registry
        self._runner = runner
        self._sequence = sequence

    async def write(self) -> None:
        """Write what changed; what could not be written is written next time."""
        registry = self._registry
        changed = registry.changed_queues or registry.changed_subscribers or registry.gone
        if not changed and not self._catalog.behind:  # behind: somebody damaged or removed the file
            return
        queues, registry.changed_queues = registry.changed_queues, set()
        subscribers, registry.changed_subscribers = registry.changed_subscribers, set()
        gone, registry.gone = registry.gone, set()
        everything = (list(registry.queues.values()), list(registry.subscribers.values()))
        sequence = self._sequence()
        outcome = await self._runner.run(lambda: self._store(queues, subscribers, gone, everything, sequence))
        for event in outcome.events:
            log.log(
                logging.INFO if event.kind in ("created", "behind") else logging.WARNING,
                "catalog: %s",
                event.message,
            )
        if not outcome.stored:
            registry.changed_queues |= queues
            registry.changed_subscribers |= {s for s in subscribers if not s.deleted}
            registry.gone |= gone

    def _store(
        self,
        queues: Iterable[HotQueue],
        subscribers: Iterable[Subscriber],
        gone: set[str],
        everything: tuple[Sequence[HotQueue], Sequence[Subscriber]],
        sequence: int,
    ) -> Outcome:
        behind = self._catalog.behind
        if behind:
            queues, subscribers = everything
        alive = [s for s in subscribers if not s.deleted]
        wanted = {s.queue for s in alive}.union(queues)  # a subscriber's queue must be there
        return self._catalog.write(
            queue_table(wanted),
            subscriber_table(alive),
            sequence=sequence,
            gone=sorted(gone),
            everything=behind,
        )


def queue_table(queues: Iterable[HotQueue]) -> pa.Table:
    infos = [queue.info() for queue in queues]
    columns: dict[str, list[Any]] = {
        "id": [i.id for i in infos],
        "name": [i.name for i in infos],
        "content": [i.content for i in infos],
        "block_bytes": [i.block_bytes for i in infos],
        "block_seconds": [float(i.block_seconds) for i in infos],
        "created": [i.created_us for i in infos],
        "first_offset": [i.first_offset for i in infos],
        "next_offset": [i.next_offset for i in infos],
        "cold_offset": [i.cold_offset for i in infos],
    }
    return lists.table(columns, QUEUES)


def subscriber_table(subscribers: Sequence[Subscriber]) -> pa.Table:
    places = [s.durable for s in subscribers]
    columns: dict[str, list[Any]] = {
        "id": [s.id for s in subscribers],
        "name": [s.name for s in subscribers],
        "queue_id": [s.queue.settings.id for s in subscribers],
        "block": [s.queue.block_of(offset) for s, (_, offset) in zip(subscribers, places, strict=True)],
        "offset": [offset for _, offset in places],
        "previous": [previous for previous, _ in places],
        "start": [s.start for s in subscribers],
        "created": [s.created_us for s in subscribers],
        "asleep": [s.asleep for s in subscribers],
    }
    return lists.table(columns, SUBSCRIBERS)
