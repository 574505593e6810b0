"""Plain pushes over open streams: a message on a stream costs two thirds of what a call costs.

A plain push must not be sent twice. So unlike a pipeline (pipeline.py) nothing is sent again here: what has
no answer when a stream breaks is of unknown outcome, and its caller hears that.

A queue gets a stream when it is pushed to a second time, as long as there are few such queues; all else are
calls. Answers come in the order of the pushes, so each queue has a stream of its own: a queue that has to
wait keeps nobody else waiting. A stream that nobody needs for a while is ended.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from contextlib import suppress

import grpc

from coldstore.answers import Receipt
from coldstore.errors import JjqError, Unavailable
from jjq.limits import PLAIN_SECONDS, PLAIN_STREAMS_MAX
from jjq.remote.link import Lane, Link
from jjq.remote.received import received
from jjq.remote.retry import NotSent
from jjq.v1 import jjq_pb2 as pb
from jjq.wire.info import receipt_in
from jjq.wire.message import parse
from jjq.wire.status import error_in

Call = grpc.aio.StreamStreamCall[bytes, bytes]
Reply = asyncio.Future[Receipt]


class PlainStreams:
    """The streams of one client, by server and queue; those used last are last."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._streams: OrderedDict[tuple[str, str], PlainStream | None] = OrderedDict()

    def of(self, lane: Lane, queue: str) -> PlainStream | None:
        """The stream for a push to this queue; None: make a call."""
        key = (lane.target, queue)
        known = key in self._streams
        stream = self._streams.get(key)
        if known and (stream is None or stream.ended):
            stream = PlainStream(self._link, lane.target, queue)
        self._streams[key] = stream
        self._streams.move_to_end(key)
        if len(self._streams) > PLAIN_STREAMS_MAX:
            _, unused = self._streams.popitem(last=False)
            if unused is not None:
                unused.end()
        return stream

    async def close(self) -> None:
        streams, self._streams = self._streams, OrderedDict()
        await asyncio.gather(*(stream.close() for stream in streams.values() if stream is not None))


class PlainStream:
    """One stream to one server; `ended` when nothing more may be pushed by it."""

    def __init__(self, link: Link, target: str, queue: str) -> None:
        self.ended = False
        self._link = link
        self._target = target
        self._queue = queue
        self._unsent: deque[tuple[bytes, Reply]] = deque()
        self._sent: deque[Reply] = deque()
        self._more = asyncio.Event()
        self._used = 0.0
        self._loop = asyncio.get_running_loop()
        self._idle = self._loop.call_later(PLAIN_SECONDS, self._look)
        self._task = asyncio.create_task(self._run(), name="jjq-plain")

    async def push(self, raw: bytes, seconds: float) -> Receipt:
        """The receipt; `Unavailable` where the outcome is unknown."""
        reply: Reply = self._loop.create_future()
        self._unsent.append((raw, reply))
        self._more.set()
        self._used = self._loop.time()
        try:
            async with asyncio.timeout(seconds):
                return await reply
        except TimeoutError:
            raise Unavailable(f"no receipt within {seconds:g} s; the outcome is unknown") from None

    def end(self) -> None:
        """Take no more; what was pushed is still answered."""
        self.ended = True
        self._idle.cancel()
        self._more.set()

    async def close(self) -> None:
        self.end()
        self._task.cancel()
        await asyncio.wait([self._task])

    def _look(self) -> None:
        """Whether the stream was used of late."""
        due = self._used + PLAIN_SECONDS
        if self._sent or self._unsent or due > self._loop.time():
            self._idle = self._loop.call_at(max(due, self._loop.time() + PLAIN_SECONDS / 2), self._look)
        else:
            self.end()

    async def _run(self) -> None:
        error: JjqError = Unavailable("the server ended the stream; the outcome is unknown")
        try:
            with self._link.stream(self._queue, self._target) as lane:
                try:
                    await self._answers(lane)
                except Unavailable:
                    if self._sent or self._unsent:
                        self._link.failed(lane)
                    raise
        except JjqError as failed:
            error = failed
        except asyncio.CancelledError:
            error = Unavailable("the client was closed before an answer came; the outcome is unknown")
            raise
        except Exception as failed:  # noqa: BLE001 - callers must not wait for ever
            error = Unavailable(f"the push stream failed ({failed!r}); the outcome is unknown")
        finally:
            self.end()
            for reply in self._sent:
                _fail(reply, error.copy())
            for _, reply in self._unsent:
                _fail(reply, NotSent(error.message))

    async def _answers(self, lane: Lane) -> None:
        call: Call = lane.both_streams("PushStream")()
        sender = asyncio.create_task(self._send(call), name="jjq-plain-sender")
        try:
            while (raw := await received(call)) is not None:
                response = parse(pb.PushStreamResponse, raw)
                self._link.learn(self._queue, response.owner)
                for result in response.results:
                    _settle(self._sent.popleft(), result)
        finally:
            sender.cancel()
            call.cancel()

    async def _send(self, call: Call) -> None:
        # A broken stream is the reader's to tell about. Cancelling a write would cancel the stream.
        with suppress(grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.InvalidStateError):
            while self._unsent or not self.ended:
                if not self._unsent:
                    self._more.clear()
                    await self._more.wait()
                    continue
                raw, reply = self._unsent.popleft()
                if reply.done():
                    continue  # its caller has gone before it was sent
                self._sent.append(reply)
                await call.write(raw)
            await call.done_writing()


def _fail(reply: Reply, error: JjqError) -> None:
    if not reply.done():
        reply.set_exception(error)


def _settle(reply: Reply, result: pb.PushResult) -> None:
    if reply.done():
        return
    if result.WhichOneof("result") == "receipt":
        reply.set_result(receipt_in(result.receipt))
    else:
        reply.set_exception(error_in(result.error))
