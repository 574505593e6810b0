"""Routes of Sqew's messages: enqueue, poll, ack, nack, peek, purge, requeue.

A message is leased by a poll for the queue's visibility time; its token is the number of that attempt. An ack or nack
with the token is for that lease only. Without a token the id alone counts, whoever holds the message.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import msgspec

from coldstore.shared.batch import elements, payload
from coldstore.shared.errors import NotFound
from coldstore.shared.limits import KIB
from hotstore.groups.values import Take, TakenTasks, TaskChange, TaskInfo, TaskOutcomes, TaskState, TaskVerb
from hotstore.port import Push
from jjq.access.quotas import SPENDER
from jjq.access.signatures import HEADER as SIGNATURE
from jjq.client.groups.push_options import option_headers
from jjq.http.problems import HttpRefusal
from jjq.http.replies import BytesReply, Reply, document
from jjq.http.request import Request
from jjq.http.routing import HttpRoute, Parameter
from jjq.http.sqew.catalogue import SqewCatalogue, SqewQueue, not_found
from jjq.http.sqew.documents import (
    AckedCount,
    AckOrder,
    DeletedCount,
    LeasedMessage,
    LeasedMessages,
    LeaseReference,
    NackedCount,
    NackOrder,
    NewMessage,
    RequeuedCount,
    SqewMessage,
)
from jjq.http.v1.elements import trace_of
from jjq.limits import (
    HTTP_JSON_BYTES_MAX,
    IDEMPOTENCY_CHARS_MAX,
    SQEW_BATCH_MAX,
    SQEW_DELAY_MS_MAX,
    SQEW_LOOK_AHEAD,
    SQEW_PAYLOAD_BYTES_MAX,
    SQEW_POLL_MS,
    SQEW_POLL_MS_MAX,
)
from jjq.server.groups.group_verbs import take_tasks, work_of
from jjq.wire.repeated_elements import Steps

_MS_US: Final = 1_000
_SECOND_MS: Final = 1_000
_STEP_BYTES: Final = 64 * KIB  # of messages that are written in one step
_LOOKED_AT: Final[tuple[tuple[TaskState, ...], ...]] = (("ready",), ("taken", "delayed"))
_DELAY: Final = "jjq-delay"
_ENCODER: Final = msgspec.json.Encoder()


class MessageRoutes:
    """The handlers of messages, over the queues of a catalogue."""

    def __init__(self, catalogue: SqewCatalogue) -> None:
        self._catalogue = catalogue

    async def _queue(self, request: Request) -> SqewQueue:
        return await self._catalogue.find(request.backend, request.params["queue"])

    async def enqueue(self, request: Request) -> Reply:
        request.query()
        queue, backend = await self._queue(request), request.backend
        if backend.keys is not None:
            request.verify = partial(backend.keys.check_signature, queue.name, request.header(SIGNATURE))
        sent = await request.decode(NewMessage, HTTP_JSON_BYTES_MAX)
        value = msgspec.json.format(bytes(sent.payload), indent=-1)
        most = request.most or SQEW_PAYLOAD_BYTES_MAX
        if len(value) > most:
            raise HttpRefusal(413, f"Payload has {len(value)} bytes; at most {most} are taken: send less")
        options = {"delay": sent.delay_ms / _SECOND_MS or None, "priority": -sent.priority or None}
        headers = option_headers(options)
        if (trace := trace_of(request)) is not None:
            headers["traceparent"] = trace.encode()
        batch = payload("bytes", [value], None, [headers] if headers else None)
        producer = _producer(request.header("idempotency-key") or sent.idempotency_key)
        push = Push(queue.name, batch, producer, None if producer is None else 0)
        try:
            receipt = await backend.store.append(push)
        except NotFound:
            raise not_found(queue.name) from None
        if (usage := SPENDER.get()) is not None:
            usage.spend(receipt.count, batch.nbytes)
        created = receipt.timestamp_us // _MS_US
        message = SqewMessage(
            receipt.first_offset + 1, queue.id, value.decode(), 0, created + sent.delay_ms, created
        )
        return document(message, 200 if receipt.duplicate else 201)

    async def poll(self, request: Request) -> Reply:
        query = request.query("batch", "wait_ms", "visibility_ms")
        most = _limit(request, "batch")
        wait = request.number("wait_ms", SQEW_POLL_MS, SQEW_POLL_MS_MAX) / _SECOND_MS
        lease_ms = request.number("visibility_ms", 0, SQEW_DELAY_MS_MAX) if "visibility_ms" in query else None
        if lease_ms == 0:
            raise HttpRefusal(400, "visibility_ms is 0: lease a message for a millisecond at least")
        queue, backend = await self._queue(request), request.backend
        ttr = None if lease_ms is None else lease_ms / _SECOND_MS
        take = Take(queue.group, most, 0.0, ttr=ttr)
        backend.outgoing.check_room()
        work = work_of(backend.store)
        try:
            taken = await take_tasks(work, backend.drain, take)
            if not len(taken.attempts) and wait:
                patient = take_tasks(work, backend.drain, take._replace(wait=wait))
                taken = await request.while_connected(patient)
        except NotFound:
            raise not_found(queue.name) from None
        texts = await backend.scheduler.run(_leased(queue, taken))
        return BytesReply(b'{"messages":[' + b",".join(texts) + b"]}")

    async def ack(self, request: Request) -> Reply:
        wanted = await request.decode(AckOrder)
        queue = await self._queue(request)
        ids, attempts = _leases(wanted)
        if attempts is None:
            return document(AckedCount((await _change(request, queue, "delete", ids, None)).changed))
        return document(AckedCount((await _change(request, queue, "ack", ids, attempts)).changed))

    async def nack(self, request: Request) -> Reply:
        wanted = await request.decode(NackOrder)
        queue = await self._queue(request)
        ids, attempts = _leases(wanted)
        if attempts is None:
            ids, attempts = await _held(request, queue, ids)
        delay = None if wanted.delay_ms is None else wanted.delay_ms / _SECOND_MS
        states = (await _change(request, queue, "nack", ids, attempts, delay)).states
        requeued = states.get("ready", 0) + states.get("delayed", 0)
        return document(NackedCount(requeued, states.get("done", 0) + states.get("buried", 0)))

    async def requeue(self, request: Request) -> Reply:
        request.query("limit")
        queue = await self._queue(request)
        count = await work_of(request.backend.store).kick(queue.group, request.number("limit", 10**9, 10**9))
        return document(RequeuedCount(count))

    async def peek(self, request: Request) -> Reply:
        request.query("limit")
        most = _limit(request, "limit")
        try:
            queue = await self._queue(request)
        except HttpRefusal:
            return document([])  # so it is with Sqew
        shown: list[SqewMessage] = []
        for states in _LOOKED_AT:  # those that are ready became available before all others will
            if len(shown) < most:
                found = await _listed(request, queue, states, max(most, SQEW_LOOK_AHEAD))
                shown += sorted(found, key=lambda message: (message.available_at, message.id))
        return document(shown[:most])

    async def purge(self, request: Request) -> Reply:
        request.query()
        try:
            queue = await self._queue(request)
        except HttpRefusal:
            return document(DeletedCount(0))  # so it is with Sqew
        return document(DeletedCount(await work_of(request.backend.store).purge_group(queue.group)))

    async def get(self, request: Request) -> Reply:
        request.query()
        queue, number = await self._queue(request), _number(request)
        try:
            task = await work_of(request.backend.store).peek_task(queue.group, number - 1)
        except NotFound:
            raise _no_message(number) from None
        if task.state == "done":
            raise _no_message(number)
        return document(_message(queue, task))

    async def remove(self, request: Request) -> Reply:
        request.query()
        queue, number = await self._queue(request), _number(request)
        if not (await _change(request, queue, "delete", [number - 1], None)).changed:
            raise _no_message(number)
        return BytesReply(b"", status=204)


async def _listed(
    request: Request, queue: SqewQueue, states: tuple[TaskState, ...], most: int
) -> list[SqewMessage]:
    work = work_of(request.backend.store)
    found = [await work.list_tasks(queue.group, state=state, limit=most) for state in states]
    return [_message(queue, task) for tasks in found for task in tasks]


def _limit(request: Request, name: str) -> int:
    most = request.number(name, 1, SQEW_BATCH_MAX)
    if not most:
        raise HttpRefusal(400, f"{name} is 0: ask for 1 to {SQEW_BATCH_MAX} messages")
    return most


def _number(request: Request) -> int:
    text = request.params["message"]
    if not text.isascii() or not text.isdigit() or not 1 <= len(text) <= 18 or text == "0":
        raise HttpRefusal(404, f"Message {text[:60]} not found")
    return int(text)


def _no_message(number: int) -> HttpRefusal:
    return HttpRefusal(404, f"Message {number} not found")


def _producer(key: str | None) -> str | None:
    if key is None:
        return None
    if not 1 <= len(key) <= IDEMPOTENCY_CHARS_MAX:
        raise HttpRefusal(400, f"Idempotency-Key must have 1 to {IDEMPOTENCY_CHARS_MAX} characters")
    return f"sqew-{hashlib.sha256(key.encode()).hexdigest()[:40]}"


def _message(queue: SqewQueue, task: TaskInfo) -> SqewMessage:
    """Attempts are polls that did not end in an ack; the one under way does not count yet."""
    attempts = task.attempt - (task.state == "taken")
    created = task.created_us // _MS_US
    if task.until_us is not None:
        available = task.until_us // _MS_US
    else:
        available = created + round(float(task.headers.get(_DELAY, b"0")) * _SECOND_MS)
    return SqewMessage(task.id + 1, queue.id, _text(task.value), attempts, available, created)


def _leased(queue: SqewQueue, taken: TakenTasks) -> Steps[list[bytes]]:
    """The messages of a poll as JSON, in steps."""
    done: list[bytes] = []
    size = 0
    for at, element in enumerate(elements(taken.elements)):
        if size >= _STEP_BYTES:
            size = 0
            yield
        attempt, until = taken.attempts[at], taken.deadlines_us[at] // _MS_US
        created = round(element.timestamp.timestamp() * _SECOND_MS)
        message = LeasedMessage(
            element.offset + 1, queue.id, _text(element.value), attempt - 1, until, created, until, str(attempt)
        )  # fmt: skip
        done.append(_ENCODER.encode(message))
        size += len(done[-1])
    return done


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "backslashreplace")


def _leases(wanted: AckOrder) -> tuple[list[int], list[int] | None]:
    """Tasks and their attempts; None: the request names no attempt."""
    given = [each for each in (wanted.id, wanted.ids, wanted.messages) if each is not None]
    if len(given) != 1 or (wanted.token is not None and wanted.id is None):
        raise HttpRefusal(422, "send id and token, or ids, or messages with an id and a token each")
    if wanted.ids is not None:
        return [number - 1 for number in wanted.ids], None
    every = wanted.messages or [LeaseReference(wanted.id or 0, wanted.token)]
    ids = [each.id - 1 for each in every]
    tokens = [each.token for each in every]
    if all(token is None for token in tokens):
        return ids, None
    if not all(
        token is not None and token.isascii() and token.isdigit() and len(token) < 10 for token in tokens
    ):
        raise HttpRefusal(422, "each message needs the token that its poll has answered")
    return ids, [int(token or 0) for token in tokens]


async def _held(request: Request, queue: SqewQueue, ids: Sequence[int]) -> tuple[list[int], list[int]]:
    """Those of the messages that are leased now, and their attempts."""
    found: list[tuple[int, int]] = []
    for task in ids:
        try:
            info = await work_of(request.backend.store).peek_task(queue.group, task)
        except NotFound:
            continue
        if info.state == "taken":
            found.append((task, info.attempt))
    return [task for task, _ in found], [attempt for _, attempt in found]


async def _change(
    request: Request,
    queue: SqewQueue,
    verb: TaskVerb,
    ids: list[int],
    attempts: list[int] | None,
    delay: float | None = None,
) -> TaskOutcomes:
    """Finished and written even if the client has gone. A token that is over is a conflict."""
    if not ids:
        return TaskOutcomes(0)
    change = TaskChange(queue.group, verb, ids, attempts, "", delay)
    work = asyncio.ensure_future(work_of(request.backend.store).change_tasks(change))
    request.backend.drain.keep(work)
    try:
        outcomes = await asyncio.shield(work)
    except NotFound:
        raise not_found(queue.name) from None
    late = next((error for error in outcomes.errors if error.state not in (None, "done")), None)
    if late is not None and attempts is not None:
        rest = f"; {outcomes.changed} others were changed" if len(ids) > 1 else ""
        raise HttpRefusal(
            409, f"Message {late.id + 1} is not leased with this token any more{rest}: poll again"
        )
    return outcomes


_LIMIT: Final = Parameter("limit", f"how many, 1 to {SQEW_BATCH_MAX}", "integer")
_POLL: Final = (
    Parameter("batch", f"how many at most, 1 to {SQEW_BATCH_MAX}", "integer"),
    Parameter("wait_ms", f"how long to wait for a message; {SQEW_POLL_MS} by default", "integer"),
    Parameter("visibility_ms", "how long the messages are leased, instead of the queue's time", "integer"),
)
_KEY: Final = Parameter("Idempotency-Key", "the same key is enqueued once", place="header")


def message_routes(catalogue: SqewCatalogue) -> list[HttpRoute]:
    """The routes of this file."""
    handlers = MessageRoutes(catalogue)
    queue, messages = "/queues/{queue}", "/queues/{queue}/messages"
    look: dict[str, Any] = {"reply": list[SqewMessage], "parameters": (_LIMIT,), "plain_errors": True}
    return [
        HttpRoute(
            "POST", messages, handlers.enqueue, "sqew_enqueue", "Enqueue a message", "push", "queue",
            body=NewMessage, reply=SqewMessage, status=201, parameters=(_KEY,), plain_errors=True,
        ),
        HttpRoute("GET", messages, handlers.peek, "sqew_messages", "Messages, the next first", "work|read", "queue",
                  **look),
        HttpRoute("GET", f"{queue}/peek", handlers.peek, "sqew_peek", "The same", "work|read", "queue", **look),
        HttpRoute(
            "DELETE", messages, handlers.purge, "sqew_purge", "Delete all messages", queue="queue",
            reply=DeletedCount, plain_errors=True,
        ),
        HttpRoute(
            "GET", f"{messages}/{{message}}", handlers.get, "sqew_message", "A message", "work|read", "queue",
            reply=SqewMessage, plain_errors=True,
        ),
        HttpRoute(
            "DELETE", f"{messages}/{{message}}", handlers.remove, "sqew_remove", "Delete a message", "work", "queue",
            status=204, plain_errors=True,
        ),
        HttpRoute(
            "POST", f"{queue}/poll", handlers.poll, "sqew_poll", "Lease messages", "work", "queue", waits=True,
            reply=LeasedMessages, parameters=_POLL, plain_errors=True,
        ),
        HttpRoute(
            "POST", f"{queue}/ack", handlers.ack, "sqew_ack", "Messages are done", "work", "queue", body=AckOrder,
            reply=AckedCount, plain_errors=True,
        ),
        HttpRoute(
            "POST", f"{queue}/nack", handlers.nack, "sqew_nack", "Messages failed", "work", "queue", body=NackOrder,
            reply=NackedCount, plain_errors=True,
        ),
        HttpRoute(
            "POST", f"{queue}/dlq/requeue", handlers.requeue, "sqew_requeue", "Messages that failed are ready again",
            "work", "queue", reply=RequeuedCount, parameters=(_LIMIT,), plain_errors=True,
        ),
    ]  # fmt: skip
