"""Purge of a queue: no task and no subscriber has anything left. The elements stay, because a log is never changed.

Every task of every worker group becomes done without being worked on, and every subscriber stands at the end. What
was pushed until then can still be read, replayed and queried, and a subscriber or a group can be moved back to it.
To remove the elements themselves, delete the queue.

With `dry_run` the same document says what would happen. The order of the acts is the one of the document, each of them
is durable by itself, and all of them can be repeated: after a failure in the middle, purge again.
"""

from __future__ import annotations

from msgspec import Struct

from hotstore.groups.values import GroupInfo
from jjq.http.replies import Reply, document
from jjq.http.request import Request
from jjq.http.routing import HttpRoute
from jjq.http.v1.documents import Sent
from jjq.http.v1.groups import work_of
from jjq.http.v1.queues import queue_of


class PurgeOrder(Sent):
    dry_run: bool = False


class PurgedGroup(Struct):
    """`tasks`: so many were not done. `taken` of them are in the hands of workers, whose acks will be refused."""

    name: str
    tasks: int
    taken: int


class PurgedSubscriber(Struct):
    """From `offset`, its place before, it passes over `passed` elements."""

    name: str
    offset: int
    passed: int


class PurgeDocument(Struct):
    queue: str
    next_offset: int
    groups: list[PurgedGroup]
    subscribers: list[PurgedSubscriber]


async def _purge(request: Request) -> Reply:
    wanted = await request.decode(PurgeOrder)
    store, name = request.backend.store, queue_of(request)
    queue = await store.get_queue(name)
    groups = [
        await _group(request, each, wanted.dry_run) for each in await work_of(request).list_groups(name)
    ]
    subscribers: list[PurgedSubscriber] = []
    for each in await store.list_subscribers(name):
        async with request.backend.streams.moving(each.id, wanted.dry_run) as moved:
            found = await store.seek(each.id, "end", dry_run=wanted.dry_run)
            moved(found.offset)
        subscribers.append(PurgedSubscriber(each.name, each.offset, found.offset - each.offset))
    return document(PurgeDocument(name, queue.next_offset, groups, subscribers))


async def _group(request: Request, group: GroupInfo, dry_run: bool) -> PurgedGroup:
    count = group.tasks["total"] if dry_run else await work_of(request).purge_group(group.id)
    return PurgedGroup(group.name, count, group.tasks.get("taken", 0))


ROUTES = (
    HttpRoute(
        "POST", "/v1/queues/{queue}/purge", _purge, "purge_queue",
        "All tasks of its groups are done, all subscribers stand at the end; elements stay", queue="queue",
        body=PurgeOrder, reply=PurgeDocument,
    ),
)  # fmt: skip
