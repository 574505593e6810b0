"""Subscribe: elements as they come, under credit, confirmed by the client as it handles them.

Two coroutines: the call itself reads the client's messages, the pump reads the queue and writes. A
third one exists only while a confirmation is on its way to the journal; confirmations that arrive
meanwhile become one. The stream reads ahead of the subscriber, whose position only confirmations
move, so whatever breaks, the next stream begins at the last confirmed offset.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from typing import Any

import pyarrow as pa

from coldstore.shared.errors import InvalidInput, Unavailable, check
from coldstore.shared.limits import OFFSET_MAX
from coldstore.shared.results import queue_part
from hotstore.port import Store
from jjq.server.cluster_port import Hint
from jjq.server.handlers import Call
from jjq.server.loop_steps import StepScheduler
from jjq.server.open_streams import Streams
from jjq.server.shutdown import Drain, Interrupt, Interrupted
from jjq.v1 import jjq_pb2 as pb
from jjq.wire.batches import encoding, pieces
from jjq.wire.batches import request as parse
from jjq.wire.enums import FORM


async def subscribe(
    store: Store, streams: Streams, drain: Drain, scheduler: StepScheduler, hint: Hint, call: Call
) -> None:
    """Serve one Subscribe call."""
    raw = await drain.wait(call.read())
    if raw is None:
        raise InvalidInput("the stream was closed before it began: send start first")
    request = parse(pb.SubscribeRequest, raw)
    if request.WhichOneof("request") != "start":
        raise InvalidInput("the first message of a stream must be start")
    await SubscribeStream(store, streams, drain, scheduler, hint, call, request.start).run()


class SubscribeStream:
    """One open stream; see the module's docstring."""

    def __init__(
        self,
        store: Store,
        streams: Streams,
        drain: Drain,
        scheduler: StepScheduler,
        hint: Hint,
        call: Call,
        start: pb.SubscribeStart,
    ) -> None:
        if start.batch_elements < 0:
            raise InvalidInput(f"batch_elements must not be negative, as {start.batch_elements} is")
        self.confirmed = 0
        self.generation = 0
        self.moving = asyncio.Lock()
        self._store = store
        self._streams = streams
        self._drain = drain
        self._scheduler = scheduler
        self._hint = hint
        self._call = call
        self._subscriber = start.subscriber
        self._queue = queue_part(start.subscriber)
        self._form = FORM.word(start.form)
        self._credit = Credit(start.credit.elements, start.credit.bytes)
        self._most = start.batch_elements
        self._resume = start.resume if start.HasField("resume") else None
        self._writing = asyncio.Lock()
        self._position = 0
        self._wanted = -1  # confirmed by the client, not yet in the journal
        self._committing: asyncio.Task[None] | None = None
        self._ended = False
        self._error: BaseException | None = None
        self._client: Interrupt[Any] = Interrupt()  # breaks off waiting for the client
        self._source: Interrupt[Any] = Interrupt()  # breaks off waiting for elements or credit

    # Called by the registry ---------------------------------------------------------------------

    def moved(self, offset: int) -> None:
        self.generation += 1
        self.confirmed = self._position = offset
        self._wanted = -1
        self._source.fire()

    def end(self, error: BaseException | None) -> None:
        self._ended = True
        self._error = self._error or error
        self._client.fire()
        self._source.fire()

    # The call -----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serve until the client closes its side, or something ends the stream."""
        self._streams.enter(self._subscriber, self)
        pump: asyncio.Task[None] | None = None
        try:
            queue = await self._begin()
            pump = asyncio.create_task(self._pump(queue), name="jjq-pump")
            pump.add_done_callback(self._pumped)
            await self._listen()
        finally:
            self._streams.leave(self._subscriber, self)
            self.end(None)
            # Both end by themselves: a write must not be cancelled half-way, a commit is worth finishing.
            await _wait_for_end(pump)
            await _wait_for_end(self._committing)
        if self._error is not None:
            raise self._error

    async def _begin(self) -> str:
        """Find the position, or the one that a broken stream had come to, and the queue."""
        async with self.moving:
            found = await self._store.get_subscriber(self._subscriber)
            self.confirmed = self._position = found.offset
            old, end = self._resume, found.offset + found.lag
            if old is not None and old.confirmed <= found.offset <= old.confirm <= old.next <= end:
                if found.offset < old.confirm:
                    await self._store.confirm(self._subscriber, old.confirm)
                self.confirmed, self._position = old.confirm, old.next
        await self._tell()
        return found.queue

    def _pumped(self, pump: asyncio.Task[None]) -> None:
        self.end(None if pump.cancelled() else pump.exception())

    async def _listen(self) -> None:
        while True:
            try:
                raw = await self._drain.wait(self._call.read(), self._client)
            except Interrupted:
                return
            if raw is None:
                return
            request = parse(pb.SubscribeRequest, raw)
            match request.WhichOneof("request"):
                case "credit":
                    self._credit.add(request.credit.elements, request.credit.bytes)
                case "confirm":
                    self._confirm(request.confirm)
                case _:
                    raise InvalidInput("after start a stream takes credit and confirm only")

    # Confirmations ------------------------------------------------------------------------------

    def _confirm(self, request: pb.Confirmation) -> None:
        if request.generation != self.generation:
            return  # of elements before a seek: taking it would undo the seek
        if not 0 <= request.offset <= self._position:
            raise InvalidInput(f"cannot confirm up to {request.offset}: {self._position} comes next")
        self._wanted = max(self._wanted, request.offset)
        if self._committing is None or self._committing.done():
            self._committing = asyncio.create_task(self._commit(), name="jjq-confirm")

    async def _commit(self) -> None:
        try:
            while self._wanted > self.confirmed:
                async with self.moving:
                    wanted = self._wanted
                    if wanted <= self.confirmed:
                        return  # moved meanwhile
                    await self._store.confirm(self._subscriber, wanted)
                    self.confirmed = wanted
                await self._tell()
        except Exception as error:  # noqa: BLE001 - the call raises it
            self.end(error)

    # The pump -----------------------------------------------------------------------------------

    async def _pump(self, queue: str) -> None:
        sent_generation = self.generation
        while not self._ended:
            self._source.reset()
            if self.generation != sent_generation:
                sent_generation = self.generation
                await self._tell()
            with suppress(Interrupted):
                await self._follow(queue)

    async def _follow(self, queue: str) -> None:
        """Send from the present position on; `Interrupted` at the first wait after a move or the end."""
        generation = self.generation
        source: Any = self._store.read(queue, f"offset:{self._position}", follow=True)
        async with aclosing(source):
            while True:
                await self._source.wait(self._credit.wait())
                try:
                    batch = await self._source.wait(anext(source))
                except StopAsyncIteration:
                    raise Unavailable(f"the queue {queue} is no longer read: connect again") from None
                for piece in pieces(batch, self._call.outgoing.room):
                    await self._hand_out(piece, generation)

    async def _hand_out(self, piece: pa.RecordBatch, generation: int) -> None:
        """Send as credit allows."""
        while piece.num_rows:
            await self._source.wait(self._credit.wait())
            part, nbytes = self._credit.cut(piece, self._most)
            piece = piece.slice(part.num_rows)
            await self._deliver(part, nbytes, generation)

    async def _deliver(self, part: pa.RecordBatch, nbytes: int, generation: int) -> None:
        first = part.column("offset")[0].as_py()
        await self._scheduler.pace.turn()
        async with self._writing:
            if self.generation != generation:
                self._credit.add(part.num_rows, nbytes)  # not sent: moved while another write was under way
                return
            check(first == self._position, f"gap in a stream: {first} after {self._position}")
            self._position += part.num_rows
            head = pb.SubscribeResponse(
                position=first,
                next=self._position,
                generation=generation,
                confirmed=self.confirmed,
                bytes=nbytes,
                owner=self._hint(self._queue),
            )
            await self._call.write(await self._scheduler.run(encoding(head, part, self._form)))
        self._call.meter.moved(part.num_rows)

    async def _tell(self) -> None:
        """News without elements; its fields are those of the instant at which it is written."""
        async with self._writing:
            news = pb.SubscribeResponse(
                position=self._position,
                next=self._position,
                generation=self.generation,
                confirmed=self.confirmed,
                owner=self._hint(self._queue),
            )
            await self._call.write(news.SerializeToString())


async def _wait_for_end(task: asyncio.Task[None] | None) -> None:
    """Wait for a task to end; take it down if the waiter is."""
    if task is None:
        return
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        task.cancel()
        raise


class Credit:
    """Flow control: What may still be sent; a budget that the client left out is not kept."""

    def __init__(self, elements: int, nbytes: int) -> None:
        _refuse_negative(elements, nbytes)
        if not elements and not nbytes:
            raise InvalidInput("start without credit: allow a number of elements, of bytes, or of both")
        self._elements = elements or None
        self._bytes = nbytes or None
        self._more = asyncio.Event()

    def add(self, elements: int, nbytes: int) -> None:
        _refuse_negative(elements, nbytes)
        if self._elements is not None:
            self._elements = min(self._elements + elements, OFFSET_MAX)
        if self._bytes is not None:
            self._bytes = min(self._bytes + nbytes, OFFSET_MAX)
        self._more.set()

    @property
    def left(self) -> bool:
        return (self._elements is None or self._elements > 0) and (self._bytes is None or self._bytes > 0)

    async def wait(self) -> None:
        while not self.left:
            self._more.clear()
            await self._more.wait()

    def cut(self, batch: pa.RecordBatch, most: int) -> tuple[pa.RecordBatch, int]:
        """As much of `batch` as may be sent now, at least one element, and the bytes that it counts for."""
        if most:
            batch = batch.slice(0, most)
        if self._elements is not None:
            batch = batch.slice(0, self._elements)
            self._elements -= batch.num_rows
        nbytes = 0
        if self._bytes is not None:
            while (nbytes := batch.nbytes) > self._bytes and batch.num_rows > 1:
                fits = int(batch.num_rows * self._bytes / nbytes)
                batch = batch.slice(0, max(1, min(fits, batch.num_rows - 1)))
            self._bytes -= nbytes
        return batch, nbytes


def _refuse_negative(elements: int, nbytes: int) -> None:
    if elements < 0 or nbytes < 0:
        raise InvalidInput(f"credit must not be negative, as {min(elements, nbytes)} is")
