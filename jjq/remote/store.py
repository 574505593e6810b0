"""`RemoteStore`: the verbs of `Store`, answered by a server.

Elements travel as Arrow. A verb that may happen twice is tried again, on other servers if several are given.
Pushes with a producer and sequence go over one ordered stream per queue (ordered_pushes.py). Other pushes, and
pops, go over streams or as calls (streams.py). A plain push, or a pop that does not name its position, is sent
once. If its answer is lost it raises `Unavailable`, and the caller decides what to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Any, Self, TypeVar, cast

import pyarrow as pa
from google.protobuf.message import Message

from coldstore.shared.batch import check_payload
from coldstore.shared.chance import Chance, SystemChance
from coldstore.shared.clock import Clock, SystemClock
from coldstore.shared.deadline import within
from coldstore.shared.errors import InvalidInput, NotFound, Unavailable
from coldstore.shared.limits import MESSAGE_BYTES_MAX
from coldstore.shared.push import Push, PushTarget
from coldstore.shared.results import BlockInfo, Loss, Popped, QueueInfo, Receipt, SubscriberInfo, queue_part
from jjq.limits import CREDIT_BYTES, CREDIT_ELEMENTS, PAGE_ENTRIES, WAIT_SECONDS_MAX
from jjq.remote.channels import Lane, Link
from jjq.remote.coalesce import PushCoalescer
from jjq.remote.large.verbs import OpenUpload, RemoteLarge
from jjq.remote.operate.administration import RemoteAdministration
from jjq.remote.ordered_pushes import OrderedPushes
from jjq.remote.replay import RemoteReplay
from jjq.remote.retry import Caller
from jjq.remote.settings import RemoteSettings
from jjq.remote.streams import LaggingSubscribers, pop_streams, push_streams
from jjq.remote.subscription import RemoteSubscription
from jjq.v1 import jjq_pb2 as pb
from jjq.wire import convert
from jjq.wire.batches import decode, encode, parse, queue_of
from jjq.wire.enums import CONTENT
from jjq.wire.pages import token
from jjq.wire.request import at_least_one, make_message, push_request, refuse_empty

M = TypeVar("M", bound=Message)
T = TypeVar("T")


class RemoteStore(RemoteAdministration, RemoteLarge, PushTarget):
    """A `Store` behind one or several servers. Make it on the event loop that uses it; `close` it."""

    def __init__(
        self,
        targets: str,
        settings: RemoteSettings | None = None,
        *,
        clock: Clock | None = None,
        chance: Chance | None = None,
    ) -> None:
        self._settings = settings or RemoteSettings()
        self._chance = chance or SystemChance()
        self._link = Link(targets, self._settings, clock or SystemClock())
        self._caller = Caller(self._link, self._chance)
        self._pipelines: dict[str, OrderedPushes] = {}
        self._push_streams = push_streams(self._link)
        self._pop_streams = pop_streams(self._link)
        self._lagging = LaggingSubscribers()
        self._coalescer = PushCoalescer(self._push_at_once)
        self._uploads: dict[str, OpenUpload] = {}
        self._refused: set[str] = set()

    @property
    def link(self) -> Link:
        """The connections, for those who ask the same servers for something else."""
        return self._link

    @property
    def settings(self) -> RemoteSettings:
        return self._settings

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Break off all requests and close the connections."""
        self._link.closed = True
        for upload in list(self._uploads):
            self._end(upload)
        pipelines, self._pipelines = self._pipelines, {}
        await asyncio.gather(
            self._push_streams.close(),
            self._pop_streams.close(),
            *(pipeline.close() for pipeline in pipelines.values()),
        )
        await self._link.close()

    async def _call(self, method: str, request: Message, reply: type[M]) -> M:
        queue, seconds = queue_of(request), self._settings.timeout_seconds
        raw = await self._caller.call(method, request.SerializeToString(), seconds, queue=queue)
        message = parse(reply, raw)
        self._link.learn(queue, getattr(message, "owner", ""))
        return message

    # Queues ---------------------------------------------------------------------------------------

    async def create_queue(
        self,
        name: str,
        *,
        content: str = "bytes",
        block_bytes: int | None = None,
        block_seconds: float | None = None,
    ) -> QueueInfo:
        request = make_message(
            pb.CreateQueueRequest,
            name=name,
            content=cast("Any", CONTENT.number(cast("Any", content))),
            block_bytes=block_bytes,
            block_seconds=block_seconds,
        )
        return convert.queue_in((await self._call("CreateQueue", request, pb.CreateQueueResponse)).queue)

    async def get_queue(self, name: str) -> QueueInfo:
        request = make_message(pb.GetQueueRequest, **{"subscriber" if "/" in name else "name": name})
        return convert.queue_in((await self._call("GetQueue", request, pb.GetQueueResponse)).queue)

    async def list_queues(
        self, *, after: str = "", limit: int | None = None, ledgers: bool = False
    ) -> list[QueueInfo]:
        request = make_message(pb.ListQueuesRequest, page_token=token("queues", after), ledgers=ledgers)

        async def page() -> tuple[list[QueueInfo], str]:
            reply = await self._call("ListQueues", request, pb.ListQueuesResponse)
            return [convert.queue_in(queue) for queue in reply.queues], reply.next_page_token

        return await all_pages(request, page, lambda queue: queue.name, limit)

    async def list_blocks(
        self, queue: str, *, from_offset: int = 0, limit: int | None = None
    ) -> list[BlockInfo]:
        request = make_message(
            pb.ListBlocksRequest, queue=queue, page_token=token(f"blocks {queue}", from_offset)
        )

        async def page() -> tuple[list[BlockInfo], str]:
            reply = await self._call("ListBlocks", request, pb.ListBlocksResponse)
            return [convert.block_in(block) for block in reply.blocks], reply.next_page_token

        return await all_pages(request, page, lambda block: block.first_offset, limit)

    async def accept_loss(self, queue: str, *, next_offset: int | None = None, dry_run: bool = False) -> Loss:
        request = make_message(pb.AcceptLossRequest, queue=queue, next_offset=next_offset, dry_run=dry_run)
        return convert.loss_in((await self._call("AcceptLoss", request, pb.AcceptLossResponse)).loss)

    # Subscribers ----------------------------------------------------------------------------------

    async def create_subscriber(
        self,
        queue: str,
        name: str | None = None,
        start: str = "end",
        *,
        clamp: bool = False,
        dry_run: bool = False,
    ) -> SubscriberInfo:
        # Named here, so that a retry does not create a second one.
        name = f"sub-{self._chance.token()[:12]}" if name is None else name
        refuse_empty(name=name, start=start)
        request = make_message(
            pb.CreateSubscriberRequest, queue=queue, name=name, start=start, clamp=clamp, dry_run=dry_run
        )
        reply = await self._call("CreateSubscriber", request, pb.CreateSubscriberResponse)
        return convert.subscriber_in(reply.subscriber)

    async def get_subscriber(self, subscriber: str) -> SubscriberInfo:
        request = make_message(pb.GetSubscriberRequest, subscriber=subscriber)
        reply = await self._call("GetSubscriber", request, pb.GetSubscriberResponse)
        return convert.subscriber_in(reply.subscriber)

    async def list_subscribers(
        self, queue: str | None = None, *, after: str = "", limit: int | None = None
    ) -> list[SubscriberInfo]:
        if queue is not None:
            refuse_empty(queue=queue)
        scope = f"subscribers {queue or ''}"
        request = make_message(pb.ListSubscribersRequest, queue=queue or "", page_token=token(scope, after))

        async def page() -> tuple[list[SubscriberInfo], str]:
            reply = await self._call("ListSubscribers", request, pb.ListSubscribersResponse)
            found = [convert.subscriber_in(subscriber) for subscriber in reply.subscribers]
            return found, reply.next_page_token

        return await all_pages(request, page, lambda found: (found.queue, found.name), limit)

    async def delete_subscriber(self, subscriber: str) -> None:
        request = make_message(pb.DeleteSubscriberRequest, subscriber=subscriber).SerializeToString()
        seconds = self._settings.timeout_seconds
        queue = queue_part(subscriber)
        await self._caller.call("DeleteSubscriber", request, seconds, done=NotFound, queue=queue)

    async def seek(
        self, subscriber: str, start: str, *, clamp: bool = False, dry_run: bool = False
    ) -> SubscriberInfo:
        request = make_message(
            pb.SeekRequest, subscriber=subscriber, start=start, clamp=clamp, dry_run=dry_run
        )
        return convert.subscriber_in((await self._call("Seek", request, pb.SeekResponse)).subscriber)

    async def sleep(self, subscriber: str) -> SubscriberInfo:
        reply = await self._call(
            "Sleep", make_message(pb.SleepRequest, subscriber=subscriber), pb.SleepResponse
        )
        return convert.subscriber_in(reply.subscriber)

    async def wakeup(self, subscriber: str) -> SubscriberInfo:
        reply = await self._call(
            "Wakeup", make_message(pb.WakeupRequest, subscriber=subscriber), pb.WakeupResponse
        )
        return convert.subscriber_in(reply.subscriber)

    # Elements -------------------------------------------------------------------------------------

    async def append(self, push: Push) -> Receipt:
        if push.plain and not push.timeout and not push.objects:
            return await self._coalescer.append(push)
        if push.producer is not None and push.sequence is not None:
            return await self._push_in_order(push, push.producer, push.sequence)
        return await self._push_once(push)

    async def _push_at_once(self, push: Push) -> Receipt:
        if push.stage == "cold":  # it may take long: no stream for that
            return await self._push_once(push)
        queue, raw = push.queue, encode_push(push)

        async def attempt(lane: Lane, limit: float) -> Receipt:
            stream = None if lane.socket() is not None else self._push_streams.find(lane, queue)
            if stream is not None:
                return await stream.ask(raw, limit)
            return self._received(queue, await self._caller.attempt(lane, "Push", raw, limit))

        return await self._caller.insist(attempt, self._settings.timeout_seconds, again=False, queue=queue)

    async def _push_once(self, push: Push) -> Receipt:
        queue, raw, seconds = push.queue, encode_push(push), self._settings.timeout_seconds
        reply = await self._caller.call("Push", raw, seconds, wait=push.timeout, again=False, queue=queue)
        return self._received(queue, reply)

    def _received(self, queue: str, raw: bytes) -> Receipt:
        reply = parse(pb.PushResponse, raw)
        self._link.learn(queue, reply.owner)
        return convert.receipt_in(reply.receipt)

    async def _push_in_order(self, push: Push, producer: str, sequence: int) -> Receipt:
        queue, raw = push.queue, encode_push(push)
        if self._link.closed:
            raise Unavailable("the client is closed", sent=False)
        pipeline = self._pipelines.get(queue)
        if pipeline is None:
            pipeline = OrderedPushes(self._link, self._chance, queue, self._settings.in_flight_bytes_max)
            self._pipelines[queue] = pipeline
        seconds = self._settings.timeout_seconds + push.timeout
        silence = f"no receipt within {seconds:g} s; the outcome is unknown, push the same sequence again"
        async with within(seconds, silence):
            return await pipeline.push(raw, producer, sequence)

    def under_way(self, queue: str) -> bool:
        """Whether pushes with an identity wait for their outcome."""
        return queue in self._pipelines and self._pipelines[queue].busy

    async def answered(self, queue: str) -> None:
        """Return when none do."""
        if queue in self._pipelines:
            await self._pipelines[queue].all_answered()

    async def pop(
        self, subscriber: str, max: int = 1, wait: float = 0.0, *, position: int | None = None
    ) -> Popped:
        request = make_message(
            pb.PopRequest,
            subscriber=subscriber,
            max=at_least_one(max),
            wait_seconds=wait,
            position=position,
            form=pb.FORM_ARROW,
        )
        again = position is not None
        popped = None
        if wait == 0 or (0 < wait <= WAIT_SECONDS_MAX and subscriber in self._lagging):
            request.wait_seconds = 0.0
            popped = await self._pop_at_once(request, again)
        if popped is None or (wait and not popped.batch.num_rows):
            request.wait_seconds = wait
            popped = await self._take("Pop", request, pb.PopResponse, wait, again=again)
        self._lagging.note(subscriber, popped.batch.num_rows >= max)
        return popped

    async def _pop_at_once(self, request: pb.PopRequest, again: bool) -> Popped:
        queue = queue_of(request)

        async def attempt(lane: Lane, limit: float) -> Popped:
            stream = None if lane.socket() is not None else self._pop_streams.find(lane)
            if stream is not None:
                try:
                    return self._taken(queue, *await stream.ask(request, limit))
                except Unavailable as error:
                    if error.sent or not stream.unknown:
                        raise
            raw = await self._caller.attempt(lane, "Pop", request.SerializeToString(), limit)
            return self._taken(queue, *decode(pb.PopResponse, raw))

        return await self._caller.insist(attempt, self._settings.timeout_seconds, again=again, queue=queue)

    async def peek(self, subscriber: str, max: int = 1, wait: float = 0.0) -> Popped:
        request = make_message(
            pb.PeekRequest,
            subscriber=subscriber,
            max=at_least_one(max),
            wait_seconds=wait,
            form=pb.FORM_ARROW,
        )
        return await self._take("Peek", request, pb.PeekResponse, wait, again=True)

    async def _take(self, method: str, request: Any, reply: Any, wait: float, *, again: bool) -> Popped:
        seconds, patience = self._settings.timeout_seconds, wait if 0 < wait <= WAIT_SECONDS_MAX else 0.0
        queue = queue_of(request)
        raw = await self._caller.call(
            method, request.SerializeToString(), seconds, wait=patience, again=again, queue=queue
        )
        return self._taken(queue, *decode(reply, raw))

    def _taken(self, queue: str, message: Any, batch: pa.RecordBatch | None) -> Popped:
        self._link.learn(queue, message.owner)
        return Popped(batch, message.position, message.next)

    async def confirm(self, subscriber: str, offset: int) -> None:
        request = make_message(pb.ConfirmRequest, subscriber=subscriber, offset=offset)
        await self._call("Confirm", request, pb.ConfirmResponse)

    def read(
        self, queue: str, start: str = "beginning", end: str | None = None, *, follow: bool = False
    ) -> AsyncIterator[pa.RecordBatch]:
        refuse_empty(start=start, end="end" if end is None else end)
        request = make_message(
            pb.ReadRequest, queue=queue, start=start, end=end or "", follow=follow, form=pb.FORM_ARROW
        )
        return RemoteReplay(self._link, self._chance, request, self._settings.timeout_seconds).batches()

    def subscribe(
        self,
        subscriber: str,
        *,
        elements: int = CREDIT_ELEMENTS,
        nbytes: int = CREDIT_BYTES,
        batch_elements: int = 0,
    ) -> RemoteSubscription:
        """Deliveries as they come, at most `elements` and `nbytes` of them ahead of the reader."""
        return RemoteSubscription(
            self._link,
            self._chance,
            subscriber,
            self._settings.timeout_seconds,
            elements=elements,
            nbytes=nbytes,
            batch_elements=batch_elements,
        )


def encode_push(push: Push) -> bytes:
    """A push as a message."""
    raw = encode(push_request(push), push.payload, "arrow", push.serialized)
    if len(raw) > MESSAGE_BYTES_MAX:
        check_payload(push.payload, "bytes")  # names the element that is too large, or where to split
        raise InvalidInput(
            f"the batch makes a message of {len(raw)} bytes; at most {MESSAGE_BYTES_MAX} fit: push fewer elements"
        )
    return raw


async def all_pages(
    request: Any,
    page: Callable[[], Awaitable[tuple[list[T], str]]],
    place: Callable[[T], Any],
    limit: int | None,
) -> list[T]:
    """A list, page after page, up to `limit` entries. A server that knows no pages sends all in the first."""
    found: list[T] = []
    while limit is None or len(found) < limit:
        request.page_size = PAGE_ENTRIES if limit is None else min(PAGE_ENTRIES, limit - len(found))
        entries, request.page_token = await page()
        while entries and found and place(found[-1]) >= place(entries[0]):
            found.pop()  # blocks that were merged meanwhile: the one that holds them all has come
        found += entries
        if not request.page_token:
            break
    return found[:limit]
