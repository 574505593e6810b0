"""Routes of subscribers: create, look at, move, and take elements."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable

from coldstore.shared.errors import InvalidInput
from hotstore.port import Popped
from jjq.http.replies import BytesReply, Reply, document
from jjq.http.request import JSON, Request
from jjq.http.routing import HttpRoute, Parameter
from jjq.http.v1 import documents as doc
from jjq.http.v1.element_text import item, write_elements
from jjq.http.v1.elements import ARROW
from jjq.http.v1.queues import PAGE, queue_of, requested_page
from jjq.limits import HTTP_PAGE_ELEMENTS_MAX, WAIT_SECONDS_MAX
from jjq.wire import arrow_ipc


def _id(request: Request) -> str:
    return f"{queue_of(request)}/{request.params['subscriber']}"


async def _list(request: Request) -> Reply:
    queue = queue_of(request) if "queue" in request.params else ""
    page = requested_page(request, f"subscribers {queue}")
    found = await request.backend.store.list_subscribers(queue or None, after=page.place, limit=page.limit)
    some, token = page.cut(found, lambda subscriber: subscriber.id)
    return document(doc.SubscriberPage([doc.subscriber_document(each) for each in some], token))


async def _create(request: Request) -> Reply:
    wanted = await request.decode(doc.NewSubscriber)
    made = await request.backend.store.create_subscriber(
        queue_of(request), wanted.name, wanted.start, clamp=wanted.clamp, dry_run=wanted.dry_run
    )
    if wanted.dry_run:
        return document(doc.subscriber_document(made))
    location = [(b"location", f"/v1/queues/{made.queue}/subscribers/{made.name}".encode())]
    return document(doc.subscriber_document(made), 201, location)


async def _get(request: Request) -> Reply:
    request.query()
    return document(doc.subscriber_document(await request.backend.store.get_subscriber(_id(request))))


async def _delete(request: Request) -> Reply:
    subscriber = _id(request)
    await request.backend.store.delete_subscriber(subscriber)
    request.backend.streams.deleted(subscriber)
    return BytesReply(b"", status=204)


async def _seek(request: Request) -> Reply:
    wanted = await request.decode(doc.SeekOrder)
    subscriber = _id(request)
    async with request.backend.streams.moving(subscriber, wanted.dry_run) as moved:
        found = await request.backend.store.seek(
            subscriber, wanted.start, clamp=wanted.clamp, dry_run=wanted.dry_run
        )
        moved(found.offset)
    return document(doc.subscriber_document(found))


async def _sleep(request: Request) -> Reply:
    return document(doc.subscriber_document(await request.backend.store.sleep(_id(request))))


async def _wakeup(request: Request) -> Reply:
    return document(doc.subscriber_document(await request.backend.store.wakeup(_id(request))))


async def _confirm(request: Request) -> Reply:
    wanted = await request.decode(doc.Confirmation)
    await request.backend.store.confirm(_id(request), wanted.offset)
    return BytesReply(b"", status=204)


async def _pop(request: Request) -> Reply:
    form = request.accepts((JSON, ARROW))
    wanted = await request.decode(doc.PopOrder)
    subscriber, store = _id(request), request.backend.store

    async def take(wait: float) -> Popped:
        return await store.pop(subscriber, wanted.max, wait, position=wanted.position)

    return await _answer(request, await _patient(request, take, wanted.wait_seconds), form)


async def _peek(request: Request) -> Reply:
    request.query("max", "wait_seconds")
    form = request.accepts((JSON, ARROW))
    most = max(1, request.number("max", 1, HTTP_PAGE_ELEMENTS_MAX))
    subscriber, store = _id(request), request.backend.store

    async def look(wait: float) -> Popped:
        return await store.peek(subscriber, most, wait)

    return await _answer(request, await _patient(request, look, request.seconds("wait_seconds") or 0.0), form)


async def _patient(request: Request, take: Callable[[float], Awaitable[Popped]], wait: float) -> Popped:
    """Look at once; wait only if there is nothing. A client that hangs up meanwhile takes nothing with it."""
    if not math.isfinite(wait) or not 0 <= wait <= WAIT_SECONDS_MAX:
        raise InvalidInput(f"wait_seconds must be between 0 and {WAIT_SECONDS_MAX:g}, not {wait}")
    backend = request.backend
    backend.outgoing.check_room()
    popped = await take(0.0)
    if popped.batch.num_rows or not wait or backend.drain.stopping:
        return popped
    return await request.while_connected(backend.drain.wait(take(wait)))


async def _answer(request: Request, popped: Popped, form: str) -> Reply:
    backend = request.backend
    backend.metrics.meter("http_pop").moved(popped.batch.num_rows)
    place = [(b"jjq-position", b"%d" % popped.position), (b"jjq-next", b"%d" % popped.next)]
    if form == ARROW:
        return BytesReply(b"".join(arrow_ipc.encode(popped.batch)), ARROW.encode(), headers=place)
    content = await backend.content_of(queue_of(request))
    texts = await backend.scheduler.run(write_elements(popped.batch, content, item))
    head = b'{"position":%d,"next":%d,"elements":[' % (popped.position, popped.next)
    return BytesReply(head + texts.removesuffix(b",") + b"]}", headers=place)


_ALL, _ONE = "/v1/queues/{queue}/subscribers", "/v1/queues/{queue}/subscribers/{subscriber}"

ROUTES = (
    HttpRoute(
        "GET", "/v1/subscribers", _list, "list_all_subscribers", "All subscribers, by queue and name", "read",
        reply=doc.SubscriberPage, parameters=PAGE,
    ),
    HttpRoute(
        "GET", _ALL, _list, "list_subscribers", "The subscribers of a queue", "read", "queue",
        reply=doc.SubscriberPage, parameters=PAGE,
    ),
    HttpRoute(
        "POST", _ALL, _create, "create_subscriber", "Create a subscriber at a starting point", "pop", "queue",
        body=doc.NewSubscriber, reply=doc.SubscriberDocument, status=201,
    ),
    HttpRoute("GET", _ONE, _get, "get_subscriber", "A subscriber", "pop|read", "queue", reply=doc.SubscriberDocument),
    HttpRoute("DELETE", _ONE, _delete, "delete_subscriber", "Delete a subscriber", "pop", "queue", status=204),
    HttpRoute(
        "POST", f"{_ONE}/seek", _seek, "seek", "Move a subscriber to a starting point", "pop", "queue",
        body=doc.SeekOrder, reply=doc.SubscriberDocument,
    ),
    HttpRoute(
        "POST", f"{_ONE}/sleep", _sleep, "sleep", "Unload a subscriber; its position stays", "pop", "queue",
        reply=doc.SubscriberDocument,
    ),
    HttpRoute(
        "POST", f"{_ONE}/wakeup", _wakeup, "wakeup", "Load a subscriber's block ahead of its first pop", "pop",
        "queue", reply=doc.SubscriberDocument,
    ),
    HttpRoute(
        "POST", f"{_ONE}/confirm", _confirm, "confirm", "Everything before an offset was handled", "pop", "queue",
        body=doc.Confirmation, status=204,
    ),
    HttpRoute(
        "POST", f"{_ONE}/pop", _pop, "pop", "Take elements, and move past them", "pop", "queue", waits=True,
        body=doc.PopOrder, reply=doc.ElementPage, gives=(ARROW,),
    ),
    HttpRoute(
        "GET", f"{_ONE}/peek", _peek, "peek", "Look at the next elements", "pop|read", "queue", waits=True,
        reply=doc.ElementPage, gives=(ARROW,),
        parameters=(
            Parameter("max", "at most so many elements", "integer"),
            Parameter("wait_seconds", "how long to wait for the first element", "number"),
        ),
    ),
)  # fmt: skip
