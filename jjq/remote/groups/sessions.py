"""The Work streams by which a session is attached to servers, opened again when they break.

A session is attached where its takes go: in a cluster that may be several servers, each with a stream of its own. An
open stream is what keeps a session alive. While one is broken, the server waits for the session's ttr, and this file
opens it again, with pauses that grow. A server that cannot be reached for longer than the ttr has given the tasks to
others; then the stream is left alone until somebody takes there again.

Takes that do not wait, and changes, go over the same stream. What has no answer when it breaks is of unknown
outcome (`FailPolicy` of multiplexer.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from coldstore.shared.backoff import Backoff
from coldstore.shared.chance import Chance
from coldstore.shared.errors import Exhausted, JjqError, Unavailable
from hotstore.groups.values import SessionInfo
from jjq.limits import (
    BACKOFF_SECONDS,
    BACKOFF_SECONDS_MAX,
    CALL_SECONDS,
    CONNECT_SECONDS,
    STREAM_MESSAGE_BYTES,
    STREAM_MESSAGE_PUSHES,
)
from jjq.remote.channels import Link
from jjq.remote.multiplexer import Codec
from jjq.remote.streams import RequestStream
from jjq.v1 import jjq_pb2 as pb
from jjq.wire.groups.task_messages import WorkAnswer, work_results
from jjq.wire.request import make_message

WorkBody = pb.AttachSession | pb.TakeRequest | pb.ChangeTasksRequest
Answered = tuple[WorkAnswer, str]  # and who owns the queue

_FIELDS: dict[type[Any], str] = {
    pb.AttachSession: "attach",
    pb.TakeRequest: "take",
    pb.ChangeTasksRequest: "change",
}


class WorkCodec(Codec[WorkBody, Answered]):
    """Requests of one session at one server. Answers come in any order."""

    method = "Work"

    def size(self, body: WorkBody) -> int:
        return body.ByteSize()

    def fits(self, count: int, size: int) -> bool:
        return size <= STREAM_MESSAGE_BYTES and count <= STREAM_MESSAGE_PUSHES

    def encode(self, requests: list[tuple[int, WorkBody]]) -> bytes:
        work = [
            pb.NumberedWork(id=number, **{_FIELDS[type(body)]: body})  # type: ignore[arg-type]
            for number, body in requests
        ]
        return pb.WorkRequest(requests=work).SerializeToString()

    def decode(self, raw: bytes) -> Iterable[tuple[int, Answered | JjqError]]:
        for number, answer, owner in work_results(raw):
            yield number, answer if isinstance(answer, JjqError) else (answer, owner)


class SessionStream:
    """One session at one server."""

    def __init__(self, link: Link, chance: Chance, target: str, attach: pb.AttachSession) -> None:
        self.ended = False
        self._link = link
        self._target = target
        self._attach = attach
        self._backoff = Backoff(BACKOFF_SECONDS, BACKOFF_SECONDS_MAX, chance)
        self._stream: RequestStream[WorkBody, Answered] | None = None  # attached
        self._failure: JjqError | None = None  # of the last attempt to attach
        self._changed = asyncio.Condition()
        self._failures = 0
        self._task = asyncio.create_task(self._run(), name="jjq-session")

    async def attached(self, seconds: float) -> SessionInfo:
        """Return when the session is attached; raise why it is not."""
        before = self._failures
        try:
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait_for(
                    lambda: self._stream is not None or self.ended or self._failures > before
                )
        except TimeoutError:
            raise Unavailable(f"no server attached the session within {seconds:g} s", sent=False) from None
        if self._stream is None:
            failure = self._failure or Unavailable("the session is closed")
            if isinstance(failure, Unavailable):  # attaching takes nothing: it may be tried again
                raise Unavailable(failure.message, sent=False)
            raise failure.copy()
        return SessionInfo(self._attach.session, self._attach.ttr)

    @property
    def usable(self) -> bool:
        """Whether requests can go over the stream now."""
        return self._stream is not None and not self._stream.ended

    async def ask(self, body: WorkBody, seconds: float) -> Answered:
        """The answer; `Unavailable` that was not sent if there is no stream."""
        if self._stream is None:
            raise Unavailable("the session is not attached", sent=False)
        return await self._stream.ask(body, seconds)

    async def change_ttr(self, ttr: float, seconds: float) -> None:
        """From now on the session lives so long without a connection."""
        self._attach = pb.AttachSession(session=self._attach.session, ttr=ttr)
        if self.usable:
            await self.ask(self._attach, seconds)

    async def close(self) -> None:
        """End the stream in order, so that the server knows when we return."""
        self.ended = True
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.end()
            if not self._link.closed:
                with suppress(TimeoutError):  # then the server finds out by itself
                    await asyncio.wait_for(stream.over(), CONNECT_SECONDS)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        clock = self._link.clock
        seen = clock.monotonic()
        while not self.ended:
            stream = RequestStream(self._link, self._target, "", WorkCodec(), lasting=True)
            try:
                await stream.ask(self._attach, CALL_SECONDS)
                await self._note(stream, None)
                await stream.over()
                seen = clock.monotonic()
                self._backoff.reset()
                failure: JjqError = Unavailable("the connection of the session broke")
            except JjqError as error:
                failure = error
            finally:
                self._stream = None
                await stream.close()
            certain = not isinstance(failure, Unavailable | Exhausted)
            late = clock.monotonic() - seen > max(self._attach.ttr, CONNECT_SECONDS)
            self.ended = self.ended or certain or late or self._link.closed
            await self._note(None, failure)
            if not self.ended:
                await asyncio.sleep(self._backoff.next_pause())

    async def _note(self, stream: RequestStream[WorkBody, Answered] | None, failure: JjqError | None) -> None:
        async with self._changed:
            self._stream, self._failure = stream, failure
            self._failures += stream is None
            self._changed.notify_all()


class RemoteSession:
    """One session of this client, and its streams by server."""

    def __init__(self, link: Link, chance: Chance, session: str, ttr: float) -> None:
        self.count = 0  # how often it was attached
        self._link = link
        self._chance = chance
        self._attach = make_message(pb.AttachSession, session=session, ttr=ttr)
        self._streams: dict[str, SessionStream] = {}

    def at(self, target: str) -> SessionStream:
        """The stream to this server; begun if there is none."""
        stream = self._streams.get(target)
        if stream is None or stream.ended:
            stream = SessionStream(self._link, self._chance, target, self._attach)
            self._streams[target] = stream
        return stream

    async def change_ttr(self, ttr: float, seconds: float) -> None:
        self._attach = make_message(pb.AttachSession, session=self._attach.session, ttr=ttr)
        await asyncio.gather(*(stream.change_ttr(ttr, seconds) for stream in self._streams.values()))

    async def close(self) -> None:
        streams, self._streams = list(self._streams.values()), {}
        await asyncio.gather(*(stream.close() for stream in streams))
