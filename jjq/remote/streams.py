"""Requests and their answers over open streams: a push as a message costs two thirds of what a call costs.

Nothing is sent twice here. What has no answer when a stream breaks is of unknown outcome, and its caller
hears that; what was not `sent` yet says so. Whether to try again is for retry.py to know.

The first request for a key is a call, the second one opens a stream, as long as there are few. A stream
that nobody needs for a while is ended. A server of an earlier release, which does not know the method, is
left alone with it from then on.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, ClassVar, Generic, TypeVar

import grpc

from coldstore.shared.bounded_dict import BoundedDict
from coldstore.shared.errors import JjqError, Unavailable
from jjq.limits import PLAIN_SECONDS
from jjq.remote.called import received
from jjq.remote.channels import Lane, Link
from jjq.remote.settle import settle
from jjq.wire.status import NoSuchMethod

Call = grpc.aio.StreamStreamCall[bytes, bytes]
Request = TypeVar("Request")
Answer = TypeVar("Answer")


class Stream(ABC, Generic[Request, Answer]):
    """One stream to one server; `ended` when nothing more may be asked by it."""

    method: ClassVar[str]

    def __init__(self, link: Link, target: str, queue: str) -> None:
        self.ended = False
        self.unknown = False  # the server does not know the method
        self._link = link
        self._target = target
        self._queue = queue
        self._unsent: deque[tuple[Request, asyncio.Future[Answer]]] = deque()
        self._sent: dict[int, asyncio.Future[Answer]] = {}  # by number, in the order of sending
        self._number = 0
        self._more = asyncio.Event()
        self._used = 0.0
        self._loop = asyncio.get_running_loop()
        self._idle = self._loop.call_later(PLAIN_SECONDS, self._look)
        self._task = asyncio.create_task(self._run(), name=f"jjq-{self.method}")

    @abstractmethod
    def _message(self) -> bytes | None:
        """The next message, made of what is `_leaving`; None if that is nothing."""

    @abstractmethod
    def _heard(self, raw: bytes) -> None:
        """Settle what a message of the server answers."""

    async def ask(self, request: Request, seconds: float) -> Answer:
        """The answer; `Unavailable` where the outcome is unknown."""
        reply: asyncio.Future[Answer] = self._loop.create_future()
        self._unsent.append((request, reply))
        self._more.set()
        self._used = self._loop.time()
        try:
            async with asyncio.timeout(seconds):
                return await reply
        except TimeoutError:
            if any(reply is waiting for _, waiting in self._unsent):  # it never will be: see `_leaving`
                raise Unavailable(f"could not be sent within {seconds:g} s", sent=False) from None
            raise Unavailable(f"no answer within {seconds:g} s; the outcome is unknown") from None

    def end(self) -> None:
        """Take no more; what was asked is still answered."""
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
            for reply in self._sent.values():
                settle(reply, error.copy())
            for _, reply in self._unsent:
                settle(reply, Unavailable(error.message, sent=False))

    async def _answers(self, lane: Lane) -> None:
        call: Call = lane.both_streams(self.method)()
        sender = asyncio.create_task(self._send(call), name=f"jjq-{self.method}-sender")
        try:
            while (raw := await received(call)) is not None:
                self._heard(raw)
        finally:
            sender.cancel()
            call.cancel()

    async def _send(self, call: Call) -> None:
        # A broken stream is the reader's to tell about. Cancelling a write would cancel the stream.
        with suppress(grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.InvalidStateError):
            while (message := self._message()) is not None or not self.ended:
                if message is None:
                    self._more.clear()
                    await self._more.wait()
                else:
                    await call.write(message)
            await call.done_writing()

    def _leaving(self) -> Iterator[tuple[int, Request]]:
        """What is to be sent, with its numbers; what its caller no longer waits for is left out."""
        while self._unsent:
            request, reply = self._unsent.popleft()
            if not reply.done():
                self._number += 1
                self._sent[self._number] = reply
                yield self._number, request

    def _settled(self, number: int, answer: Answer | JjqError) -> None:
        settle(self._sent.pop(number), answer)


S = TypeVar("S", bound=Stream[Any, Any])


class Streams(Generic[S]):
    """The streams of one client, by server and queue; those used last are last."""

    def __init__(self, link: Link, make: Callable[[Link, str, str], S], most: int) -> None:
        self._link = link
        self._make = make
        self._streams: BoundedDict[tuple[str, str], S | None] = BoundedDict(most, evicted=_end)

    def of(self, lane: Lane, queue: str = "") -> S | None:
        """The stream for a request; None: make a call."""
        key = (lane.target, queue)
        known = key in self._streams
        stream = self._streams.get(key)
        if stream is not None and stream.unknown:
            return None
        if known and (stream is None or stream.ended):
            stream = self._make(self._link, lane.target, queue)
        self._streams[key] = stream
        return stream

    async def close(self) -> None:
        streams = self._streams.clear()
        await asyncio.gather(*(stream.close() for stream in streams if stream is not None))


def _end(stream: Stream[Any, Any] | None) -> None:
    if stream is not None:
        stream.end()
