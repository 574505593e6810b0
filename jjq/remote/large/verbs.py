"""Large objects of a server: an upload is one stream, a download goes on where it was after a broken connection.

The bytes go beside, over HTTP (direct.py), where that can be had and they are many.

An upload that is broken off raises `Unavailable`. The sender (jjq/client/large/sending.py) begins again with its name:
it goes on where it was if the same server still knows it, else at 0.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractContextManager, aclosing
from http import HTTPStatus

import grpc

from coldstore.large.download import steps
from coldstore.shared.chance import Chance
from coldstore.shared.deadline import within
from coldstore.shared.errors import Conflict, Exhausted, JjqError, NotFound, Unavailable
from coldstore.shared.limits import PART_BYTES, PARTS_MAX
from coldstore.shared.results import UploadState
from jjq.limits import MEET_SECONDS, OBJECT_DIRECT_BYTES, OBJECT_FINISH_SECONDS, OBJECT_SECONDS
from jjq.remote.channels import Call, Lane, Link, read_message
from jjq.remote.large.direct import DirectCall, NotDirectly, call_to_download, call_to_upload
from jjq.remote.retry import LinkBackoff
from jjq.remote.settings import RemoteSettings, SocketPlace
from jjq.v1 import jjq_pb2 as pb
from jjq.wire.batches import parse
from jjq.wire.request import make_message


class OpenUpload:
    """The stream of an upload, and the connection that it is on."""

    def __init__(self, call: Call, lane: Lane, held: AbstractContextManager[Lane]) -> None:
        self.call = call
        self.lane = lane
        self.direct: DirectCall | None = None  # for the bytes; None: they go over the stream
        self.at = self.size = 0  # … how many were sent, and how many there are
        self._held = held

    async def send(self, seconds: float, **step: object) -> None:
        """One request; an error of the server is raised as such."""
        message = make_message(pb.UploadObjectRequest, **step).SerializeToString()
        async with within(seconds, f"the server took no bytes for {seconds:g} s"):
            try:
                await self.call.write(message)
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                await self.receive()  # which says why
                raise Unavailable("the server has ended the upload: begin it again") from None

    async def receive(self) -> pb.UploadObjectResponse:
        raw = await read_message(self.call)
        if raw is None:
            raise Unavailable("the server has ended the upload: begin it again")
        return parse(pb.UploadObjectResponse, raw)

    async def send_bytes(self, at: int, data: bytes) -> None:
        """Bytes of the object, the one way or the other."""
        if self.direct is None:
            await self.send(OBJECT_SECONDS, chunk={"at": at, "data": data})
            return
        if at != self.at or at + len(data) > self.size:
            raise Conflict(f"the upload goes on at byte {self.at} of {self.size}: begin it again by its name")
        await self.direct.send(data)
        self.at += len(data)

    async def finish(self, sha256: str) -> None:
        """All were sent: return when the server says that the object is durable."""
        if self.direct is not None:
            if self.at != self.size:
                raise Conflict(f"{self.at} of {self.size} bytes were sent: send the rest, then finish")
            await self.direct.answered(HTTPStatus.OK)
        await self.send(OBJECT_SECONDS, finish={"sha256": sha256})
        late = f"the object was not durable within {OBJECT_FINISH_SECONDS:g} s"
        async with within(OBJECT_FINISH_SECONDS, late):
            await self.receive()

    def close(self) -> None:
        if self.direct is not None:
            self.direct.close()
        self.call.cancel()
        self._held.__exit__(None, None, None)


class RemoteLarge:
    """The verbs of `LargeStore`, answered by a server; the store gives them what they need."""

    _link: Link
    _chance: Chance
    _settings: RemoteSettings
    _uploads: dict[str, OpenUpload]
    _refused: set[str]  # uploads whose bytes a server would not take over HTTP

    @property
    def object_bytes_max(self) -> int:
        """What any server could take; the one that is asked says what it takes."""
        return PART_BYTES * PARTS_MAX

    async def begin_upload(self, queue: str, sha256: str, size: int, *, upload: str = "") -> UploadState:
        self._end(upload)
        await self._link.meet()
        held = self._link.stream(queue)
        lane = held.__enter__()
        one = OpenUpload(lane.both_streams("UploadObject")(), lane, held)
        seconds = self._settings.timeout_seconds
        try:
            begin = {"queue": queue, "sha256": sha256, "size": size, "upload": upload}
            await one.send(seconds, begin=begin)
            async with within(seconds, f"no answer within {seconds:g} s"):
                reply = await one.receive()
            begun = not (reply.done or reply.digest_first)
            if begun and upload not in self._refused:
                one.at, one.size = reply.received, size
                one.direct = await self._direct(
                    lane, size - one.at, lambda to: call_to_upload(to, queue, reply.upload, one.at, size)
                )
        except BaseException as error:
            one.close()
            if isinstance(error, Unavailable):
                self._link.failed(lane)
            raise
        self._refused.discard(upload)
        if begun:
            self._uploads[reply.upload] = one
        else:
            one.close()
        return UploadState(reply.upload, reply.received, reply.done, reply.digest_first)

    async def upload(self, upload: str, at: int, data: bytes) -> None:
        one = self._open(upload)
        try:
            await one.send_bytes(at, data)
        except NotDirectly:
            self._end(upload)
            raise self._not_directly(upload) from None
        except BaseException:
            self._end(upload)
            raise

    async def finish_upload(self, upload: str, sha256: str = "") -> None:
        one = self._open(upload)
        try:
            await one.finish(sha256)
        except NotDirectly:
            raise self._not_directly(upload) from None
        finally:
            self._end(upload)

    def _not_directly(self, upload: str) -> Unavailable:
        """The server refuses the bytes. When the upload is begun again they go over gRPC, which tells why."""
        self._refused.add(upload)
        return Unavailable("the server takes no bytes over HTTP: begin the upload again by its name")

    def _open(self, upload: str) -> OpenUpload:
        one = self._uploads.get(upload)
        if one is None:
            raise NotFound(f"no upload {upload[:60]!r} is under way: begin it again")
        return one

    def _end(self, upload: str) -> None:
        one = self._uploads.pop(upload, None)
        if one is not None:
            one.close()

    async def read_object(
        self, queue: str, sha256: str, size: int, start: int = 0, end: int | None = None
    ) -> AsyncIterator[bytes]:
        request = make_message(
            pb.DownloadObjectRequest, queue=queue, sha256=sha256, size=size, start=start, end=end
        )
        backoff, clock = LinkBackoff(self._link, self._chance), self._link.clock
        deadline = clock.monotonic() + self._settings.timeout_seconds  # of making any progress
        directly = True
        while True:
            await self._link.meet()
            with self._link.stream(queue) as lane:
                pieces = self._pieces(lane, request, directly=directly)
                directly = False  # until some bytes come
                try:
                    async with aclosing(pieces):
                        async for data in pieces:
                            yield data
                            request.start += len(data)
                            deadline = clock.monotonic() + self._settings.timeout_seconds
                            directly = True
                            backoff.reset()
                    return
                except (Unavailable, Exhausted) as error:
                    failure: JjqError = error
                except NotDirectly:
                    continue
            self._link.failed(lane)
            pause = backoff.pause(failure)
            if self._link.closed or not self._link.patient or clock.monotonic() + pause > deadline:
                raise failure
            await asyncio.sleep(pause)

    async def _pieces(
        self, lane: Lane, request: pb.DownloadObjectRequest, *, directly: bool
    ) -> AsyncGenerator[bytes]:
        """What is left of a download, the one way or the other."""
        at, stop = request.start, request.end if request.HasField("end") else request.size
        queue, sha256, size = request.queue, request.sha256, request.size
        direct = None
        if directly:
            direct = await self._direct(
                lane, stop - at, lambda to: call_to_download(to, queue, sha256, size, at, stop)
            )
        if direct is not None:
            try:
                await direct.answered(HTTPStatus.PARTIAL_CONTENT)
                for low, high in steps(at, stop, OBJECT_DIRECT_BYTES):
                    yield await direct.receive(high - low)
            finally:
                direct.close()
            return
        call = lane.server_stream("DownloadObject")(request.SerializeToString())
        try:
            while (raw := await self._piece(call)) is not None:
                yield parse(pb.DownloadObjectResponse, raw).data
        finally:
            call.cancel()

    async def _piece(self, call: grpc.aio.UnaryStreamCall[bytes, bytes]) -> bytes | None:
        async with within(OBJECT_SECONDS, f"no bytes came for {OBJECT_SECONDS:g} s"):
            return await read_message(call, writes=False)

    async def _direct(
        self, lane: Lane, size: int, make: Callable[[SocketPlace], DirectCall]
    ) -> DirectCall | None:
        """A request over HTTP that was begun; None: so few bytes are not worth it, or there is no plain HTTP."""
        place = None if size < OBJECT_DIRECT_BYTES else await lane.http_place(MEET_SECONDS)
        if place is None or place.tls is not None:
            return None
        call = make(place)
        try:
            await call.begin()
        except BaseException as error:
            call.close()
            if isinstance(error, Unavailable):
                return None
            raise
        return call
