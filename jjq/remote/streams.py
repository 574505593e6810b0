"""Plain pushes and pops over open streams: a push as a message costs two thirds of what a call costs.

Nothing is sent twice here (`FailPolicy` of multiplexer.py). What has no answer when a stream breaks is of
unknown outcome, and its caller hears that; what was not sent yet says so. retry.py decides whether to try
again.

The first request for a key is a call, the second one opens a stream, as long as there are few. A stream
that nobody needs for a while is ended. A server of an earlier release does not know the method: from then
on it gets calls.

Plain pushes  Answers come in the order of the pushes, so each queue has a stream of its own: a queue that
              has to wait keeps nobody else waiting.
Pops          One stream for all subscribers of a server, as answers come in any order. Only pops that do not
              wait for elements use it: a call that waits can be cancelled, and then the server knows that
              nobody wants its elements any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from coldstore.shared.bounded_dict import BoundedDict
from coldstore.shared.errors import JjqError, Unavailable
from coldstore.shared.results import Receipt
from jjq.limits import LAGGING_MAX, PLAIN_SECONDS, PLAIN_STREAMS_MAX, POP_TARGETS_MAX
from jjq.remote.channels import Lane, Link
from jjq.remote.multiplexer import Codec, FailPolicy, Multiplexer, PopCodec, PushCodec, StreamRequest
from jjq.v1 import jjq_pb2 as pb
from jjq.wire.results import Reply
from jjq.wire.status import NoSuchMethod

Body = TypeVar("Body")
Answer = TypeVar("Answer")


class RequestStream(Generic[Body, Answer]):
    """One stream to one server; `ended` when it takes no more requests."""

    def __init__(
        self, link: Link, target: str, queue: str, codec: Codec[Body, Answer], *, lasting: bool = False
    ) -> None:
        """A `lasting` stream is not ended when it is not used."""
        self.ended = False
        self.unknown = False  # the server does not know the method
        self._link = link
        self._target = target
        self._queue = queue
        self._policy: FailPolicy[StreamRequest[Body, Answer]] = FailPolicy()
        self._requests = Multiplexer(codec, self._policy)
        self._used = 0.0
        self._loop = asyncio.get_running_loop()
        self._lasting = lasting
        self._idle = self._loop.call_later(PLAIN_SECONDS, self._look)
        self._task = asyncio.create_task(self._run(), name=f"jjq-{codec.method}")

    async def ask(self, body: Body, seconds: float) -> Answer:
        """The answer; `Unavailable` where the outcome is unknown."""
        request: StreamRequest[Body, Answer] = StreamRequest(body)
        self._requests.add(request)
        self._used = self._loop.time()
        try:
            async with asyncio.timeout(seconds):
                return await request.reply
        except TimeoutError:
            if request in self._requests.unsent:  # it never will be: nobody waits for it any more
                raise Unavailable(f"could not be sent within {seconds:g} s", sent=False) from None
            raise Unavailable(f"no answer within {seconds:g} s; the outcome is unknown") from None

    def end(self) -> None:
        """Take no more; what was asked is still answered."""
        self.ended = True
        self._idle.cancel()
        self._policy.end()
        self._requests.wake()

    async def over(self) -> None:
        """Return when the stream has ended, whichever side ended it."""
        await asyncio.wait([self._task])

    async def close(self) -> None:
        self.end()
        self._task.cancel()
        await asyncio.wait([self._task])

    def _look(self) -> None:
        """End the stream if it was not used recently."""
        due = self._used + PLAIN_SECONDS
        if self._lasting or not self._requests.idle or due > self._loop.time():
            self._idle = self._loop.call_at(max(due, self._loop.time() + PLAIN_SECONDS / 2), self._look)
        else:
            self.end()

    async def _run(self) -> None:
        error: JjqError = Unavailable("the server ended the stream; the outcome is unknown")
        try:
            with self._link.stream(self._queue, self._target) as lane:
                try:
                    await self._requests.run(lane)
                except Unavailable:
                    if not self._requests.idle:
                        self._link.failed(lane)
                    raise
        except NoSuchMethod as failed:
            self.unknown = True
            error = Unavailable(failed.message, sent=False)
        except JjqError as failed:
            error = failed
        except asyncio.CancelledError:
            error = Unavailable("the client was closed before an answer came; the outcome is unknown")
            raise
        except Exception as failed:  # noqa: BLE001 - callers must not wait for ever
            error = Unavailable(f"the stream failed ({failed!r}); the outcome is unknown")
        finally:
            self.end()
            self._requests.abandon(error)


class StreamPool(Generic[Body, Answer]):
    """The streams of one client, by server and queue; those used last are last."""

    def __init__(self, link: Link, codec: Callable[[str], Codec[Body, Answer]], most: int) -> None:
        """`codec` makes one for a queue; at most `most` streams are open."""
        self._link = link
        self._codec = codec
        self._streams: BoundedDict[tuple[str, str], RequestStream[Body, Answer] | None] = BoundedDict(
            most, evicted=_end
        )

    def find(self, lane: Lane, queue: str = "") -> RequestStream[Body, Answer] | None:
        """The stream for a request; None: make a call."""
        key = (lane.target, queue)
        known = key in self._streams
        stream = self._streams.get(key)
        if stream is not None and stream.unknown:
            return None
        if known and (stream is None or stream.ended):
            stream = RequestStream(self._link, lane.target, queue, self._codec(queue))
        self._streams[key] = stream
        return stream

    async def close(self) -> None:
        streams = self._streams.clear()
        await asyncio.gather(*(stream.close() for stream in streams if stream is not None))


def _end(stream: RequestStream[Any, Any] | None) -> None:
    if stream is not None:
        stream.end()


def push_streams(link: Link) -> StreamPool[bytes, Receipt]:
    """For plain pushes: a stream for each queue."""
    return StreamPool(link, lambda queue: PushCodec(link, queue), PLAIN_STREAMS_MAX)


def pop_streams(link: Link) -> StreamPool[pb.PopRequest, Reply]:
    """For pops that do not wait: a stream for each server."""
    return StreamPool(link, lambda _: PopCodec(), POP_TARGETS_MAX)


class LaggingSubscribers:
    """Subscribers whose last pop got all that it asked for, so there is probably more; the latest ones."""

    def __init__(self) -> None:
        self._known: BoundedDict[str, bool] = BoundedDict(LAGGING_MAX)

    def __contains__(self, subscriber: str) -> bool:
        return subscriber in self._known

    def note(self, subscriber: str, full: bool) -> None:
        """A pop got as much as it asked for, or not."""
        if full:
            self._known[subscriber] = True
        else:
            self._known.pop(subscriber)
