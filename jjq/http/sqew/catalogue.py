"""The queues of Sqew: each is a queue of JSON with one worker group, `sqew-<id>`.

Ids of queues are one sequence over the whole store: every creation is an element of the queue `sqew.queues`, and its
offset is the number, less one. So no id is used twice, also if two nodes create queues at the same time.

A deleted queue is deleted as any other: with its elements, after the grace period. If a queue of that name is created
before that, the old one is brought back and the new group begins at its end, so old messages are not seen again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import orjson

from coldstore.shared.batch import payload
from coldstore.shared.bounded_dict import BoundedDict
from coldstore.shared.errors import Conflict, InvalidInput, NotFound
from coldstore.shared.push import Push
from hotstore.groups.values import GroupInfo, GroupSettings
from jjq.http.backend import Backend
from jjq.http.problems import HttpRefusal
from jjq.limits import HINTS_MAX, SQEW_QUEUE_SECONDS
from jjq.server.groups.group_verbs import work_of

CREATIONS: Final = "sqew.queues"
_GROUP: Final = re.compile(r"sqew-([1-9]\d{0,17})")
_SECOND_MS: Final = 1_000


@dataclass(frozen=True, slots=True)
class SqewQueue:
    """A queue as Sqew shows it. `group` is where its messages are tasks."""

    id: int
    name: str
    group: str
    settings: GroupSettings

    @property
    def max_attempts(self) -> int:
        return self.settings.max_attempts or 0

    @property
    def visibility_ms(self) -> int:
        return round(self.settings.ttr * _SECOND_MS)

    @property
    def dlq(self) -> bool:
        return self.settings.on_exhausted == "bury"


class SqewCatalogue:
    """Finds, creates and deletes queues of Sqew. What it finds it knows for `SQEW_QUEUE_SECONDS`."""

    def __init__(self) -> None:
        self._known: BoundedDict[str, tuple[SqewQueue, float]] = BoundedDict(HINTS_MAX)

    async def find(self, backend: Backend, name: str) -> SqewQueue:
        """The queue of this name; 404 if there is none."""
        known = self._known.get(name)
        now = backend.clock.monotonic()
        if known is not None and now < known[1]:
            return known[0]
        found = await self._look(backend, name)
        if found is None:
            raise not_found(name)
        self._known[name] = (found, now + SQEW_QUEUE_SECONDS)
        return found

    async def every(self, backend: Backend) -> list[SqewQueue]:
        """All queues of Sqew, by id."""
        groups = await work_of(backend.store).list_groups()
        found = [queue for group in groups if (queue := _queue_of(group)) is not None]
        return sorted(found, key=lambda queue: queue.id)

    async def create(self, backend: Backend, name: str, settings: GroupSettings) -> SqewQueue:
        """A new queue; 409 if there is one."""
        if await self._look(backend, name) is not None:
            raise exists(name)
        await _make_queue(backend, name)
        number = await _next_number(backend, name)
        group = await work_of(backend.store).create_group(name, f"sqew-{number}", settings, start="end")
        first = await self._look(backend, name)
        if first is not None and first.id != number:  # somebody else was quicker
            await work_of(backend.store).delete_group(group.id, force=True)
            raise exists(name)
        return SqewQueue(number, name, group.id, settings)

    async def delete(self, backend: Backend, name: str) -> None:
        """Delete a queue and its messages; 404 if there is none."""
        queue = await self._look(backend, name)
        self._known.pop(name)
        if queue is None:
            raise not_found(name)
        await work_of(backend.store).delete_group(queue.group, force=True)
        await backend.store.delete_queue(name)

    async def _look(self, backend: Backend, name: str) -> SqewQueue | None:
        try:
            groups = await work_of(backend.store).list_groups(name)
        except (NotFound, InvalidInput):  # no queue has such a name, or can have it
            return None
        found = [queue for group in groups if (queue := _queue_of(group)) is not None]
        return min(found, key=lambda queue: queue.id, default=None)


def _queue_of(group: GroupInfo) -> SqewQueue | None:
    number = _GROUP.fullmatch(group.name)
    return None if number is None else SqewQueue(int(number[1]), group.queue, group.id, group.settings)


async def _make_queue(backend: Backend, name: str) -> None:
    """A queue of JSON of this name: a new one, the one that there is, or a deleted one, brought back."""
    try:
        await backend.store.create_queue(name, content="json")
    except Conflict:
        try:
            queue = await backend.store.undelete_queue(name)
        except NotFound:
            queue = None
        if queue is None:
            raise  # its files are being removed: the error says when the name is free
        if queue.content != "json":
            raise HttpRefusal(
                409, f"Queue '{name}' is a queue of {queue.content} and not of Sqew: choose another name"
            ) from None


async def _next_number(backend: Backend, name: str) -> int:
    push = Push(CREATIONS, payload("text", [orjson.dumps({"name": name}).decode()]))
    try:
        receipt = await backend.store.append(push)
    except NotFound:
        await backend.store.create_queue(CREATIONS, content="json")
        receipt = await backend.store.append(push)
    return receipt.first_offset + 1


def not_found(name: str) -> HttpRefusal:
    return HttpRefusal(404, f"Queue '{name[:200]}' not found")


def exists(name: str) -> HttpRefusal:
    return HttpRefusal(409, f"Queue '{name}' already exists")
