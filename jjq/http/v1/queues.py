"""Routes of queues and their blocks."""

from __future__ import annotations

from coldstore.layout.paths import check_name
from coldstore.shared.results import QueueInfo
from jjq.access.quotas import new_queue
from jjq.http.replies import Reply, document
from jjq.http.request import Request
from jjq.http.routing import LATER, HttpRoute, Parameter
from jjq.http.v1 import documents as doc
from jjq.wire.pages import Page

PAGE = (
    Parameter("page_size", "entries of a page; 0: all at once, if they are not too many", "integer"),
    Parameter("page_token", "next_page_token of the page before"),
)
_DRY_RUN = Parameter("dry_run", "only show what would be done", "boolean")


def requested_page(request: Request, scope: str, *names: str) -> Page:
    """The page that a request asks for; its query may have these names, too."""
    query = request.query("page_size", "page_token", *names)
    return Page.requested(scope, request.number("page_size", 0, 2**31), query.get("page_token", ""))


async def _list(request: Request) -> Reply:
    page = requested_page(request, "queues", "ledgers")
    found = await request.backend.store.list_queues(
        after=page.place, limit=page.limit, ledgers=request.flag("ledgers")
    )
    queues, token = page.cut(found, lambda queue: queue.name)
    return document(doc.QueuePage([doc.queue_document(queue) for queue in queues], token))


async def _create(request: Request) -> Reply:
    wanted = await request.decode(doc.NewQueue)
    request.require("admin", wanted.name)
    made = await _create_queue(request, wanted.name, wanted)
    location = [(b"location", f"/v1/queues/{made.name}".encode())]
    return document(doc.queue_document(made), 201, location)


async def _put(request: Request) -> Reply:
    wanted = await request.decode(doc.QueueChange)
    return document(doc.queue_document(await _create_queue(request, request.params["queue"], wanted)))


async def _create_queue(request: Request, name: str, wanted: doc.NewQueue | doc.QueueChange) -> QueueInfo:
    store = request.backend.store
    async with new_queue(store, name):
        return await store.create_queue(
            name,
            content=wanted.content,
            block_bytes=wanted.block_bytes,
            block_seconds=wanted.block_seconds,
        )


async def _get(request: Request) -> Reply:
    request.query()
    return document(doc.queue_document(await request.backend.store.get_queue(queue_of(request))))


async def _update(request: Request) -> Reply:
    wanted = await request.decode(doc.QueueUpdate)
    changed = await request.backend.store.update_queue(
        queue_of(request), block_bytes=wanted.block_bytes, block_seconds=wanted.block_seconds
    )
    return document(doc.queue_document(changed))


async def _delete(request: Request) -> Reply:
    request.query("grace_seconds", "dry_run")
    done = await request.backend.store.delete_queue(
        queue_of(request), grace_seconds=request.seconds("grace_seconds"), dry_run=request.flag("dry_run")
    )
    return document(doc.deletion_document(done))


async def _undelete(request: Request) -> Reply:
    store, name = request.backend.store, queue_of(request)
    async with new_queue(store, name):
        return document(doc.queue_document(await store.undelete_queue(name)))


async def _seal(request: Request) -> Reply:
    return document(doc.queue_document(await request.backend.store.seal(queue_of(request))))


async def _accept_loss(request: Request) -> Reply:
    wanted = await request.decode(doc.LossDecision)
    lost = await request.backend.store.accept_loss(
        queue_of(request), next_offset=wanted.next_offset, dry_run=wanted.dry_run
    )
    return document(doc.loss_document(lost))


async def _blocks(request: Request) -> Reply:
    queue = queue_of(request)
    page = requested_page(request, f"blocks {queue}", "from_offset")
    begin = max(page.offset, request.number("from_offset", 0))
    found = await request.backend.store.list_blocks(queue, from_offset=begin, limit=page.limit)
    blocks, token = page.cut(found, lambda block: block.last_offset + 1)
    return document(doc.BlockPage([doc.block_document(block) for block in blocks], token))


def queue_of(request: Request) -> str:
    """The queue that the path names. A slash in it would name a subscriber."""
    return check_name(request.params["queue"])


_QUEUES, _QUEUE = "/v1/queues", "/v1/queues/{queue}"

ROUTES = (
    HttpRoute(
        "GET", _QUEUES, _list, "list_queues", "All queues, by name", "read", reply=doc.QueuePage,
        parameters=(*PAGE, Parameter("ledgers", "also the ledgers of worker groups", "boolean")),
    ),
    HttpRoute(
        "POST", _QUEUES, _create, "create_queue", "Create a queue. The same request again answers the same queue",
        queue=LATER, body=doc.NewQueue, reply=doc.QueueDocument, status=201,
    ),
    HttpRoute(
        "PUT", _QUEUE, _put, "put_queue", "Create a queue of this name, if there is none", queue="queue",
        body=doc.QueueChange, reply=doc.QueueDocument,
    ),
    HttpRoute("GET", _QUEUE, _get, "get_queue", "A queue and its extent", "any", "queue", reply=doc.QueueDocument),
    HttpRoute(
        "PATCH", _QUEUE, _update, "update_queue", "Change when blocks are sealed from now on", queue="queue",
        body=doc.QueueUpdate, reply=doc.QueueDocument,
    ),
    HttpRoute(
        "DELETE", _QUEUE, _delete, "delete_queue", "Delete a queue; it can be brought back for the grace period",
        queue="queue", reply=doc.DeletionDocument,
        parameters=(Parameter("grace_seconds", "how long it can be brought back", "number"), _DRY_RUN),
    ),
    HttpRoute(
        "POST", f"{_QUEUE}/undelete", _undelete, "undelete_queue", "Bring a deleted queue back", queue="queue",
        reply=doc.QueueDocument,
    ),
    HttpRoute(
        "POST", f"{_QUEUE}/seal", _seal, "seal_queue", "Write the newest elements to the cold store now",
        queue="queue", reply=doc.QueueDocument,
    ),
    HttpRoute(
        "POST", f"{_QUEUE}/accept-loss", _accept_loss, "accept_loss", "Give up what a queue has lost",
        queue="queue", body=doc.LossDecision, reply=doc.LossDocument,
    ),
    HttpRoute(
        "GET", f"{_QUEUE}/blocks", _blocks, "list_blocks", "The blocks of a queue, oldest first", "read", "queue",
        reply=doc.BlockPage,
        parameters=(*PAGE, Parameter("from_offset", "begin with the block that holds this offset", "integer")),
    ),
)  # fmt: skip
