"""Large objects of a server: an upload is one stream, a download goes on where it was after a broken connection.

An upload that is broken off raises `Unavailable`. Whoever sends (jjq/client/large/sending.py) begins again with its
name: it goes on where it was if the same server still knows it, else at 0.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager

import grpc

from coldstore.shared.chance import Chance
from coldstore.shared.deadline import within
from coldstore.shared.errors import Exhausted, JjqError, NotFound, Unavailable
from coldstore.shared.limits import PART_BYTES, PARTS_MAX
from coldstore.shared.results import UploadState
from jjq.limits import OBJECT_FINISH_SECONDS, OBJECT_SECONDS
from jjq.remote.channels import Call, Lane, Link, read_message
from jjq.remote.retry import LinkBackoff
from jjq.remote.settings import RemoteSettings
from jjq.v1 import jjq_pb2 as pb
from jjq.wire.batches import parse
from jjq.wire.request import make_message


class OpenUpload:
    """The stream of an upload, and the connection that it is on."""

    def __init__(self, call: Call, lane: Lane, held: AbstractContextManager[Lane]) -> None:
        self.call = call
        self.lane = lane
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

    def close(self) -> None:
        self.call.cancel()
        self._held.__exit__(None, None, None)


class RemoteLarge:
    """The verbs of `LargeStore`, answered by a server; the store gives them what they need."""

    _link: Link
    _chance: Chance
    _settings: RemoteSettings
    _uploads: dict[str, OpenUpload]

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
        except BaseException as error:
            one.close()
            if isinstance(error, Unavailable):
                self._link.failed(lane)
            raise
        if reply.done:
            one.close()
        else:
            self._uploads[reply.upload] = one
        return UploadState(reply.upload, reply.received, reply.done)

    async def upload(self, upload: str, at: int, data: bytes) -> None:
        await self._sending(upload, OBJECT_SECONDS, chunk={"at": at, "data": data})

    async def finish_upload(self, upload: str) -> None:
        one = await self._sending(upload, OBJECT_SECONDS, finish={})
        try:
            late = f"the object was not durable within {OBJECT_FINISH_SECONDS:g} s"
            async with within(OBJECT_FINISH_SECONDS, late):
                await one.receive()
        finally:
            self._end(upload)

    async def _sending(self, upload: str, seconds: float, **step: object) -> OpenUpload:
        one = self._uploads.get(upload)
        if one is None:
            raise NotFound(f"no upload {upload[:60]!r} is under way: begin it again")
        try:
            await one.send(seconds, **step)
        except BaseException:
            self._end(upload)
            raise
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
        while True:
            await self._link.meet()
            with self._link.stream(queue) as lane:
                call = lane.server_stream("DownloadObject")(request.SerializeToString())
                try:
                    while (raw := await self._piece(call)) is not None:
                        data = parse(pb.DownloadObjectResponse, raw).data
                        yield data
                        request.start += len(data)
                        deadline = clock.monotonic() + self._settings.timeout_seconds
                        backoff.reset()
                    return
                except (Unavailable, Exhausted) as error:
                    failure: JjqError = error
                finally:
                    call.cancel()
            self._link.failed(lane)
            pause = backoff.pause(failure)
            if self._link.closed or not self._link.patient or clock.monotonic() + pause > deadline:
                raise failure
            await asyncio.sleep(pause)

    async def _piece(self, call: grpc.aio.UnaryStreamCall[bytes, bytes]) -> bytes | None:
        async with within(OBJECT_SECONDS, f"no bytes came for {OBJECT_SECONDS:g} s"):
            return await read_message(call, writes=False)
