"""Routes of Sqew's queues: create, list, show, delete, statistics, compact; and /health."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import UNSET, Meta, Struct, UnsetType

from hotstore.groups.values import GroupSettings, RetryBackoff
from jjq.access.quotas import new_queue
from jjq.http.replies import BytesReply, Reply, document
from jjq.http.request import Request
from jjq.http.routing import LATER, HttpRoute
from jjq.http.sqew.catalogue import SqewCatalogue, SqewQueue
from jjq.http.v1.documents import Name, Sent
from jjq.limits import SQEW_DELAY_MS_MAX, SQEW_MAX_ATTEMPTS, SQEW_VISIBILITY_MS
from jjq.server.groups.group_verbs import work_of

_TEXT: Final = b"text/plain; charset=utf-8"
_SECOND_MS: Final = 1_000
# Half a second × 2^attempts, give or take a tenth; attempts are counted before, so the first delay is a second.
_BACKOFF: Final = RetryBackoff(base=1.0, factor=2.0, max=3_600.0, jitter=0.1)


class NewSqewQueue(Sent):
    """`dlq`: messages that failed too often are kept and can be requeued; else they are dropped."""

    name: Name
    max_attempts: Annotated[int, Meta(ge=1, le=1_000)] = SQEW_MAX_ATTEMPTS
    visibility_ms: Annotated[int, Meta(ge=1, le=SQEW_DELAY_MS_MAX)] = SQEW_VISIBILITY_MS
    dlq: bool = False


class SqewQueueDocument(Struct):
    """A queue. Fields that are as usual are left out: so it is what Sqew answers."""

    id: int
    name: str
    max_attempts: int
    visibility_ms: int | UnsetType = UNSET
    dlq: bool | UnsetType = UNSET


class SqewStats(Struct):
    """Messages that can be polled, are leased, are delayed, or failed too often; the age of the oldest ready one."""

    ready: int
    leased: int
    delayed: int
    dlq: int
    oldest_age_ms: int


class SqewCompacted(Struct):
    """`cold_offset`: all messages before it are on the object store."""

    compacted: bool
    cold_offset: int


def _shown(queue: SqewQueue) -> SqewQueueDocument:
    visibility = UNSET if queue.visibility_ms == SQEW_VISIBILITY_MS else queue.visibility_ms
    return SqewQueueDocument(
        queue.id, queue.name, queue.max_attempts, visibility, True if queue.dlq else UNSET
    )


def _settings(wanted: NewSqewQueue) -> GroupSettings:
    return GroupSettings(
        driver="arrival",
        ttr=wanted.visibility_ms / _SECOND_MS,
        max_attempts=wanted.max_attempts,
        on_exhausted="bury" if wanted.dlq else "drop",
        backoff=_BACKOFF,
    )


async def _health(request: Request) -> Reply:
    return BytesReply(b"ok", _TEXT)


def queue_routes(catalogue: SqewCatalogue) -> list[HttpRoute]:
    """The routes of this file."""

    async def list_(request: Request) -> Reply:
        request.query()
        return document([_shown(queue) for queue in await catalogue.every(request.backend)])

    async def create(request: Request) -> Reply:
        wanted = await request.decode(NewSqewQueue)
        request.require("admin", wanted.name)
        async with new_queue(request.backend.store, wanted.name):
            made = await catalogue.create(request.backend, wanted.name, _settings(wanted))
        return document(_shown(made), 201)

    async def show(request: Request) -> Reply:
        request.query()
        return document(_shown(await catalogue.find(request.backend, request.params["queue"])))

    async def delete(request: Request) -> Reply:
        request.query()
        await catalogue.delete(request.backend, request.params["queue"])
        return BytesReply(b"", status=204)

    async def stats(request: Request) -> Reply:
        request.query()
        queue = await catalogue.find(request.backend, request.params["queue"])
        found = await work_of(request.backend.store).group_statistics(queue.group)
        tasks, oldest = found.tasks, round(found.oldest_ready_seconds * _SECOND_MS)
        return document(SqewStats(tasks["ready"], tasks["taken"], tasks["delayed"], tasks["buried"], oldest))

    async def compact(request: Request) -> Reply:
        queue = await catalogue.find(request.backend, request.params["queue"])
        sealed = await request.backend.store.seal(queue.name)
        return document(SqewCompacted(True, sealed.cold_offset))

    return [
        HttpRoute(
            "GET", "/health", _health, "sqew_health", "Whether the process answers", "", gives=("text/plain",),
            plain_errors=True,
        ),
        HttpRoute(
            "GET", "/queues", list_, "sqew_list", "Queues of Sqew, by id", "read", reply=list[SqewQueueDocument],
            plain_errors=True,
        ),
        HttpRoute(
            "POST", "/queues", create, "sqew_create", "Create a queue of Sqew", queue=LATER,
            body=NewSqewQueue, reply=SqewQueueDocument, status=201, plain_errors=True,
        ),
        HttpRoute(
            "GET", "/queues/{queue}", show, "sqew_show", "A queue of Sqew", "any", "queue", reply=SqewQueueDocument,
            plain_errors=True,
        ),
        HttpRoute(
            "DELETE", "/queues/{queue}", delete, "sqew_delete", "Delete a queue and its messages", queue="queue",
            status=204, plain_errors=True,
        ),
        HttpRoute(
            "GET", "/queues/{queue}/stats", stats, "sqew_stats", "Messages by state", "work|read", "queue",
            reply=SqewStats, plain_errors=True,
        ),
        HttpRoute(
            "POST", "/queues/{queue}/compact", compact, "sqew_compact", "Write messages to the object store now",
            queue="queue", reply=SqewCompacted, plain_errors=True,
        ),
    ]  # fmt: skip
