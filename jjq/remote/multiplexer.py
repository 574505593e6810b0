"""Numbered requests on one stream of gRPC: many are under way, and each gets its own answer.

    add → unsent ─ codec.encode → the stream → codec.decode ─ policy.answered
                      └ sent, by number ┘
    the stream ends: what has no answer goes to policy.unanswered

The `Multiplexer` writes and reads. A `Codec` makes messages of requests, and finds the answers in the
server's messages. A `Policy` says what becomes of a request: when it may be sent, what its answer means,
and what to do without one. `FailPolicy` sends nothing twice: what has no answer fails, and its caller
hears whether it was sent. ordered_pushes.py has the other policy, which sends again.

One multiplexer is one stream, from its opening to its end. A policy outlives it if it sends again.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, ClassVar, Generic, TypeVar

import grpc

from coldstore.shared.deadline import settle
from coldstore.shared.errors import JjqError, Unavailable
from coldstore.shared.results import Receipt
from jjq.limits import STREAM_MESSAGE_BYTES, STREAM_MESSAGE_PUSHES
from jjq.remote.channels import Lane, Link, read_message
from jjq.v1 import jjq_pb2 as pb
from jjq.wire.batches import parse
from jjq.wire.convert import receipt_in
from jjq.wire.pushes import join_pushes
from jjq.wire.results import Reply, results
from jjq.wire.status import error_in

Call = grpc.aio.StreamStreamCall[bytes, bytes]
Body = TypeVar("Body")
Answer = TypeVar("Answer")


class StreamRequest(Generic[Body, Answer]):
    """One request, and the future of its answer."""

    __slots__ = ("body", "reply")

    def __init__(self, body: Body) -> None:
        self.body = body
        self.reply: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()


R = TypeVar("R", bound=StreamRequest[Any, Any])


class Codec(ABC, Generic[Body, Answer]):
    """Requests as messages, and messages as answers."""

    method: ClassVar[str]  # of the service

    def size(self, body: Body) -> int:
        """What a request adds to the bytes of a message."""
        return 0

    def fits(self, count: int, size: int) -> bool:
        """Whether so many requests, more than one, may travel in one message of `size` bytes."""
        return True

    @abstractmethod
    def encode(self, requests: list[tuple[int, Body]]) -> bytes:
        """One message of these requests, each with its number; there is at least one."""

    @abstractmethod
    def decode(self, raw: bytes) -> Iterable[tuple[int | None, Answer | JjqError]]:
        """The answers in a message, each with its number; None: the oldest request without an answer."""


class PushCodec(Codec[bytes, Receipt]):
    """Pushes to one queue. Answers come in the order of the pushes, without numbers."""

    method = "PushStream"

    def __init__(self, link: Link, queue: str) -> None:
        self._link = link
        self._queue = queue
        self._several = False  # the server has said that it takes several pushes in one message

    def size(self, body: bytes) -> int:
        return len(body)

    def fits(self, count: int, size: int) -> bool:
        return self._several and size <= STREAM_MESSAGE_BYTES and count <= STREAM_MESSAGE_PUSHES

    def encode(self, requests: list[tuple[int, bytes]]) -> bytes:
        return join_pushes([raw for _, raw in requests])

    def decode(self, raw: bytes) -> Iterator[tuple[None, Receipt | JjqError]]:
        response = parse(pb.PushStreamResponse, raw)
        self._link.learn(self._queue, response.owner)
        self._several = response.several
        for result in response.results:
            done = result.WhichOneof("result") == "receipt"
            yield None, receipt_in(result.receipt) if done else error_in(result.error)


class PopCodec(Codec[pb.PopRequest, Reply]):
    """Pops at one server. Answers come in any order; all pops that wait travel in one message."""

    method = "PopStream"

    def encode(self, requests: list[tuple[int, pb.PopRequest]]) -> bytes:
        pops = [pb.NumberedPop(id=number, pop=pop) for number, pop in requests]
        return pb.PopStreamRequest(pops=pops).SerializeToString()

    def decode(self, raw: bytes) -> Iterable[tuple[int, Reply | JjqError]]:
        return results(raw)


class Policy(ABC, Generic[R]):
    """What becomes of the requests."""

    @abstractmethod
    def ends(self, waiting: bool) -> bool:
        """Whether to send no more; the stream ends when all answers have come. `waiting`: requests are unsent."""

    @abstractmethod
    def may_send(self, request: R) -> bool:
        """Called right before a request is sent; False drops it."""

    @abstractmethod
    def answered(self, request: R, answer: object) -> None:
        """The server answered: with a result, or with an error."""

    @abstractmethod
    def unanswered(self, sent: list[R], unsent: list[R], error: JjqError) -> None:
        """The stream is over, because of `error`, and these have no answer."""

    def message_read(self) -> None:
        """All answers of one message were given to `answered`."""


class FailPolicy(Policy[R]):
    """Nothing is sent twice. What has no answer fails, and says whether it was sent."""

    def __init__(self) -> None:
        self._ending = False

    def end(self) -> None:
        """End the stream when all requests were sent."""
        self._ending = True

    def ends(self, waiting: bool) -> bool:
        return self._ending and not waiting

    def may_send(self, request: R) -> bool:
        return not request.reply.done()  # its caller still waits

    def answered(self, request: R, answer: object) -> None:
        settle(request.reply, answer)

    def unanswered(self, sent: list[R], unsent: list[R], error: JjqError) -> None:
        for request in sent:
            settle(request.reply, error.copy())
        for request in unsent:
            settle(request.reply, Unavailable(error.message, sent=False))


class Multiplexer(Generic[R]):
    """The requests on one stream; see the module's docstring."""

    def __init__(
        self, codec: Codec[Any, Any], policy: Policy[R], requests: Iterable[R] = (), most: int | None = None
    ) -> None:
        """`requests` are sent first; at most `most` are sent and not answered at a time."""
        self.unsent: deque[R] = deque(requests)
        self.sent: dict[int, R] = {}  # by number, in the order of sending
        self._codec = codec
        self._policy = policy
        self._most = most
        self._number = 0
        self._more = asyncio.Event()

    @property
    def idle(self) -> bool:
        """Whether no request waits for anything."""
        return not self.sent and not self.unsent

    def add(self, request: R) -> None:
        """Send a request, as soon as the stream takes it."""
        self.unsent.append(request)
        self._more.set()

    def wake(self) -> None:
        """Look again whether to send, or to end."""
        self._more.set()

    async def run(self, lane: Lane) -> None:
        """Open the stream, and answer until it ends; raises why, unless the end was a good one."""
        call: Call = lane.both_streams(self._codec.method)()
        sender = asyncio.create_task(self._send(call), name=f"jjq-{self._codec.method}-sender")
        try:
            while (raw := await read_message(call)) is not None:
                for number, answer in self._codec.decode(raw):
                    at = next(iter(self.sent), 0) if number is None else number
                    if at not in self.sent:
                        raise Unavailable(
                            "the server answered a request that it was not sent; the outcome is unknown"
                        )
                    self._policy.answered(self.sent.pop(at), answer)
                self._policy.message_read()
                self._more.set()  # the sender may go on, or has to stop
        finally:
            sender.cancel()
            call.cancel()

    def abandon(self, error: JjqError) -> None:
        """The stream is over, because of `error`: the policy decides about what has no answer."""
        sent, unsent = list(self.sent.values()), list(self.unsent)
        self.sent.clear()
        self.unsent.clear()
        self._policy.unanswered(sent, unsent, error)

    async def _send(self, call: Call) -> None:
        # If the stream breaks, `run` says why. Cancelling a write would cancel the stream.
        with suppress(grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.InvalidStateError):
            while not self._policy.ends(bool(self.unsent)):
                requests = self._take()
                if requests:
                    await call.write(self._codec.encode(requests))
                elif not self._policy.ends(bool(self.unsent)):  # requests may have been dropped
                    self._more.clear()
                    await self._more.wait()
            await call.done_writing()

    def _take(self) -> list[tuple[int, Any]]:
        """What goes into the next message."""
        taken: list[tuple[int, Any]] = []
        size = 0
        while self.unsent and (self._most is None or len(self.sent) < self._most):
            request = self.unsent[0]
            more = self._codec.size(request.body)
            if taken and not self._codec.fits(len(taken) + 1, size + more):
                break
            self.unsent.popleft()
            if self._policy.may_send(request):
                size += more
                self._number += 1
                self.sent[self._number] = request
                taken.append((self._number, request.body))
        return taken
