"""The verbs that are one request and one reply: decode, ask the store, encode."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pyarrow as pa

from coldstore.shared.errors import InvalidInput
from hotstore.port import Popped, Push, Receipt, Store
from jjq.access.quotas import SPENDER, new_queue
from jjq.limits import LARGE_BYTES, WAIT_SECONDS_MAX
from jjq.server.cluster_port import Clustered, Hint
from jjq.server.loop_steps import StepScheduler
from jjq.server.open_streams import Streams
from jjq.server.outgoing import Outgoing
from jjq.server.shutdown import Drain
from jjq.v1 import jjq_pb2 as pb
from jjq.wire import arrow_ipc, convert
from jjq.wire.arrow_field import RepeatedElementsSpan, Span
from jjq.wire.batches import batch_in, encoding, opened, queue_of
from jjq.wire.batches import request as parse
from jjq.wire.enums import CONTENT, FORM, STAGE
from jjq.wire.pages import Page
from jjq.wire.repeated_elements import decode_small

Verb = Callable[[bytes], Awaitable[bytes]]
Count = Callable[[int], None]


class PushPayload(NamedTuple):
    """What a request pushes; also serialized, if it came as the store would serialize it."""

    batch: pa.RecordBatch
    serialized: pa.Buffer | None


def push_value(request: pb.PushRequest, payload: PushPayload, queue: str) -> Push:
    """The push that a request holds."""
    timeout = request.timeout_seconds
    if timeout and (not math.isfinite(timeout) or not 0 <= timeout <= WAIT_SECONDS_MAX):
        raise InvalidInput(f"timeout_seconds must be between 0 and {WAIT_SECONDS_MAX:g}, not {timeout}")
    return Push(
        queue,
        payload.batch,
        producer=request.producer if request.HasField("producer") else None,
        sequence=request.sequence if request.HasField("sequence") else None,
        expected_offset=request.expected_offset if request.HasField("expected_offset") else None,
        stage=STAGE.word(request.stage),
        serialized=payload.serialized,
        timeout=timeout,
        objects=convert.attached_in(request.objects) if request.HasField("objects") else (),
    )


def simple_verb(kind: Any, verb: Callable[[Any], Awaitable[Any]], hint: Hint) -> Verb:
    """A verb whose request and reply have no elements: decode, answer, say who owns the queue, encode."""

    async def call(raw: bytes) -> bytes:
        request = parse(kind, raw)
        reply = await verb(request)
        queue = queue_of(request)
        if queue and (owner := hint(queue)):
            reply.owner = owner
        return bytes(reply.SerializeToString())

    return call


async def push(store: Store, request: pb.PushRequest, payload: PushPayload, queue: str) -> Receipt:
    """Append what a request holds; the same for Push and PushStream."""
    receipt = await store.append(push_value(request, payload, queue))
    if (usage := SPENDER.get()) is not None:
        usage.spend(receipt.count, payload.batch.nbytes)
    return receipt


async def decode_push(span: Span, scheduler: StepScheduler) -> tuple[pb.PushRequest, PushPayload]:
    """A push and its payload."""
    request, batch = open_push(span)
    return request, await payload_of(batch, scheduler)


def open_push(span: Span) -> tuple[pb.PushRequest, Span | None]:
    """A push, its payload not looked into."""
    request, batch = opened(pb.PushRequest, *span)
    if request.pushes:
        raise InvalidInput("pushes stand in a request of a PushStream, and by themselves")
    return request, batch


async def payload_of(batch: Span | None, scheduler: StepScheduler) -> PushPayload:
    """The payload of a push, which is not optional. Only a large one lets others work meanwhile."""
    if batch is None:
        raise InvalidInput("the push has no batch: send elements or arrow")
    if not isinstance(batch, RepeatedElementsSpan):
        if batch.size >= LARGE_BYTES:
            await scheduler.pace.turn()  # one in each round: it takes some milliseconds
        return PushPayload(*arrow_ipc.decode(batch))  # has no steps: a tenth quicker by itself
    small = decode_small(batch)
    if small is not None:
        return PushPayload(small, None)
    async with scheduler.holding(batch.size):
        return PushPayload(*await scheduler.run(batch_in(batch)))


async def pop(store: Store, drain: Drain, request: pb.PopRequest) -> Popped:
    """Take what a request asks for; the same for Pop and PopStream."""
    FORM.word(request.form)  # an unknown one is refused before anything moves
    position = request.position if request.HasField("position") else None

    async def take(wait: float) -> Popped:
        return await store.pop(request.subscriber, request.max or 1, wait, position=position)

    return await _patient(drain, take, request.wait_seconds)


def pop_reply(request: pb.PopRequest, popped: Popped, hint: Hint) -> pb.PopResponse:
    """What to answer, but for the batch."""
    return pb.PopResponse(position=popped.position, next=popped.next, owner=hint(queue_of(request)))


async def _patient(drain: Drain, take: Callable[[float], Awaitable[Popped]], wait: float) -> Popped:
    """Look at once; wait only if there is nothing, so that a stopping server breaks off nothing else."""
    if not math.isfinite(wait) or not 0 <= wait <= WAIT_SECONDS_MAX:
        raise InvalidInput(f"wait_seconds must be between 0 and {WAIT_SECONDS_MAX:g}, not {wait}")
    popped = await take(0.0)
    if popped.batch.num_rows or not wait or drain.stopping:
        return popped
    return await drain.wait(take(wait))


class Transports(NamedTuple):
    """Other ways to the same methods."""

    websocket_port: int = 0
    instance: str = ""


class Verbs:
    """One method of the service each; `table` maps their names to coroutines from bytes to bytes."""

    def __init__(
        self,
        store: Store,
        streams: Streams,
        drain: Drain,
        scheduler: StepScheduler,
        outgoing: Outgoing,
        hint: Hint,
        count: Callable[[str], Count],
        transports: Callable[[], Transports],
    ) -> None:
        self._transports = transports
        self._store = store
        self._relay = store.relay if isinstance(store, Clustered) else None
        self._hint = hint
        self._streams = streams
        self._drain = drain
        self._scheduler = scheduler
        self._outgoing = outgoing
        self._pushed, self._popped, self._peeked = count("Push"), count("Pop"), count("Peek")

    def table(self) -> dict[str, Verb]:
        plain: list[tuple[str, Any, Callable[[Any], Awaitable[Any]]]] = [
            ("CreateQueue", pb.CreateQueueRequest, self._create_queue),
            ("GetQueue", pb.GetQueueRequest, self._get_queue),
            ("ListQueues", pb.ListQueuesRequest, self._list_queues),
            ("AcceptLoss", pb.AcceptLossRequest, self._accept_loss),
            ("UpdateQueue", pb.UpdateQueueRequest, self._update_queue),
            ("DeleteQueue", pb.DeleteQueueRequest, self._delete_queue),
            ("UndeleteQueue", pb.UndeleteQueueRequest, self._undelete_queue),
            ("SealQueue", pb.SealQueueRequest, self._seal_queue),
            ("GetStatus", pb.GetStatusRequest, self._get_status),
            ("GetTransports", pb.GetTransportsRequest, self._get_transports),
            ("CreateSubscriber", pb.CreateSubscriberRequest, self._create_subscriber),
            ("GetSubscriber", pb.GetSubscriberRequest, self._get_subscriber),
            ("ListSubscribers", pb.ListSubscribersRequest, self._list_subscribers),
            ("DeleteSubscriber", pb.DeleteSubscriberRequest, self._delete_subscriber),
            ("Seek", pb.SeekRequest, self._seek),
            ("Sleep", pb.SleepRequest, self._sleep),
            ("Wakeup", pb.WakeupRequest, self._wakeup),
            ("Confirm", pb.ConfirmRequest, self._confirm),
            ("ListBlocks", pb.ListBlocksRequest, self._list_blocks),
        ]
        table: dict[str, Verb] = {name: simple_verb(kind, verb, self._hint) for name, kind, verb in plain}
        return table | {"Push": self._push, "Pop": self._pop, "Peek": self._peek}

    # Queues ---------------------------------------------------------------------------------------

    async def _create_queue(self, request: pb.CreateQueueRequest) -> pb.CreateQueueResponse:
        async with new_queue(self._store, request.name):
            found = await self._store.create_queue(
                request.name,
                content=CONTENT.word(request.content),
                block_bytes=request.block_bytes if request.HasField("block_bytes") else None,
                block_seconds=request.block_seconds if request.HasField("block_seconds") else None,
            )
        return pb.CreateQueueResponse(queue=convert.queue_out(found))

    async def _get_queue(self, request: pb.GetQueueRequest) -> pb.GetQueueResponse:
        by = request.WhichOneof("by")
        if by is None:
            raise InvalidInput("say which queue: give its name or one of its subscribers")
        if by == "subscriber" and "/" not in request.subscriber:
            raise InvalidInput(f"subscriber {request.subscriber!r} is not an id: write <queue>/<name>")
        if by == "name" and "/" in request.name:
            raise InvalidInput(
                f"queue name {request.name!r} has a slash: give an id of a subscriber as subscriber"
            )
        found = await self._store.get_queue(request.subscriber if by == "subscriber" else request.name)
        return pb.GetQueueResponse(queue=convert.queue_out(found))

    async def _list_queues(self, request: pb.ListQueuesRequest) -> pb.ListQueuesResponse:
        page = Page.requested("queues", request.page_size, request.page_token)
        found = await self._store.list_queues(after=page.place, limit=page.limit, ledgers=request.ledgers)
        queues, token = page.cut(found, lambda queue: queue.name)
        return pb.ListQueuesResponse(queues=[convert.queue_out(q) for q in queues], next_page_token=token)

    async def _list_blocks(self, request: pb.ListBlocksRequest) -> pb.ListBlocksResponse:
        page = Page.requested(f"blocks {request.queue}", request.page_size, request.page_token)
        found = await self._store.list_blocks(request.queue, from_offset=page.offset, limit=page.limit)
        blocks, token = page.cut(found, lambda block: block.last_offset + 1)
        return pb.ListBlocksResponse(blocks=[convert.block_out(b) for b in blocks], next_page_token=token)

    async def _accept_loss(self, request: pb.AcceptLossRequest) -> pb.AcceptLossResponse:
        wanted = request.next_offset if request.HasField("next_offset") else None
        lost = await self._store.accept_loss(request.queue, next_offset=wanted, dry_run=request.dry_run)
        return pb.AcceptLossResponse(loss=convert.loss_out(lost))

    async def _update_queue(self, request: pb.UpdateQueueRequest) -> pb.UpdateQueueResponse:
        found = await self._store.update_queue(
            request.queue,
            block_bytes=request.block_bytes if request.HasField("block_bytes") else None,
            block_seconds=request.block_seconds if request.HasField("block_seconds") else None,
        )
        return pb.UpdateQueueResponse(queue=convert.queue_out(found))

    async def _delete_queue(self, request: pb.DeleteQueueRequest) -> pb.DeleteQueueResponse:
        grace = request.grace_seconds if request.HasField("grace_seconds") else None
        done = await self._store.delete_queue(request.queue, grace_seconds=grace, dry_run=request.dry_run)
        return pb.DeleteQueueResponse(deletion=convert.deletion_out(done))

    async def _undelete_queue(self, request: pb.UndeleteQueueRequest) -> pb.UndeleteQueueResponse:
        async with new_queue(self._store, request.queue):
            found = await self._store.undelete_queue(request.queue)
        return pb.UndeleteQueueResponse(queue=convert.queue_out(found))

    async def _seal_queue(self, request: pb.SealQueueRequest) -> pb.SealQueueResponse:
        return pb.SealQueueResponse(queue=convert.queue_out(await self._store.seal(request.queue)))

    async def _get_status(self, request: pb.GetStatusRequest) -> pb.GetStatusResponse:
        return pb.GetStatusResponse(nodes=[convert.status_out(each) for each in await self._store.status()])

    async def _get_transports(self, request: pb.GetTransportsRequest) -> pb.GetTransportsResponse:
        port, instance = self._transports()
        return pb.GetTransportsResponse(websocket_port=port, instance=instance)

    # Subscribers ----------------------------------------------------------------------------------

    async def _create_subscriber(self, request: pb.CreateSubscriberRequest) -> pb.CreateSubscriberResponse:
        found = await self._store.create_subscriber(
            request.queue,
            request.name or None,
            request.start or "end",
            clamp=request.clamp,
            dry_run=request.dry_run,
        )
        return pb.CreateSubscriberResponse(subscriber=convert.subscriber_out(found))

    async def _get_subscriber(self, request: pb.GetSubscriberRequest) -> pb.GetSubscriberResponse:
        found = await self._store.get_subscriber(request.subscriber)
        return pb.GetSubscriberResponse(subscriber=convert.subscriber_out(found))

    async def _list_subscribers(self, request: pb.ListSubscribersRequest) -> pb.ListSubscribersResponse:
        page = Page.requested(f"subscribers {request.queue}", request.page_size, request.page_token)
        found = await self._store.list_subscribers(request.queue or None, after=page.place, limit=page.limit)
        some, token = page.cut(found, lambda subscriber: subscriber.id)
        subscribers = [convert.subscriber_out(s) for s in some]
        return pb.ListSubscribersResponse(subscribers=subscribers, next_page_token=token)

    async def _delete_subscriber(self, request: pb.DeleteSubscriberRequest) -> pb.DeleteSubscriberResponse:
        await self._store.delete_subscriber(request.subscriber)
        self._streams.deleted(request.subscriber)
        return pb.DeleteSubscriberResponse()

    async def _seek(self, request: pb.SeekRequest) -> pb.SeekResponse:
        async with self._streams.moving(request.subscriber, request.dry_run) as moved:
            found = await self._store.seek(
                request.subscriber, request.start, clamp=request.clamp, dry_run=request.dry_run
            )
            moved(found.offset)
        return pb.SeekResponse(subscriber=convert.subscriber_out(found))

    async def _sleep(self, request: pb.SleepRequest) -> pb.SleepResponse:
        return pb.SleepResponse(
            subscriber=convert.subscriber_out(await self._store.sleep(request.subscriber))
        )

    async def _wakeup(self, request: pb.WakeupRequest) -> pb.WakeupResponse:
        return pb.WakeupResponse(
            subscriber=convert.subscriber_out(await self._store.wakeup(request.subscriber))
        )

    async def _confirm(self, request: pb.ConfirmRequest) -> pb.ConfirmResponse:
        await self._store.confirm(request.subscriber, request.offset)
        return pb.ConfirmResponse()

    # Elements -------------------------------------------------------------------------------------

    async def _push(self, raw: bytes) -> bytes:
        request, batch = open_push(Span(raw, 0, len(raw)))

        async def append() -> Receipt:  # when the queue has moved
            payload = await payload_of(batch, self._scheduler)
            return await self._store.append(push_value(request, payload, request.queue))

        relayed = None
        if self._relay is not None and not request.timeout_seconds:  # one that waits has a time of its own
            relayed = self._relay(request.queue, request.HasField("producer"), raw, append)
        if relayed is None:
            payload = await payload_of(batch, self._scheduler)
            receipt = await push(self._store, request, payload, request.queue)
        else:
            receipt = await relayed
            if (usage := SPENDER.get()) is not None:
                usage.spend(receipt.count, len(raw))
        self._pushed(receipt.count)
        reply = pb.PushResponse(receipt=convert.receipt_out(receipt), owner=self._hint(request.queue))
        return reply.SerializeToString()

    async def _pop(self, raw: bytes) -> bytes:
        request = parse(pb.PopRequest, raw)
        self._outgoing.check_room()
        popped = await pop(self._store, self._drain, request)
        self._popped(popped.batch.num_rows)
        reply = pop_reply(request, popped, self._hint)
        return await self._scheduler.run(encoding(reply, popped.batch, FORM.word(request.form)))

    async def _peek(self, raw: bytes) -> bytes:
        request = parse(pb.PeekRequest, raw)
        self._outgoing.check_room()
        form = FORM.word(request.form)

        async def peek(wait: float) -> Popped:
            return await self._store.peek(request.subscriber, request.max or 1, wait)

        popped = await _patient(self._drain, peek, request.wait_seconds)
        self._peeked(popped.batch.num_rows)
        reply = pb.PeekResponse(
            position=popped.position, next=popped.next, owner=self._hint(queue_of(request))
        )
        return await self._scheduler.run(encoding(reply, popped.batch, form))
