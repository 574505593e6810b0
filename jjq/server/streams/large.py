"""UploadObject and DownloadObject: large objects, a piece at a time."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any, cast

from coldstore.shared.errors import InvalidInput
from coldstore.shared.limits import OBJECT_CHUNK_BYTES
from coldstore.shared.results import UploadState
from hotstore.large.port import LargeStore, large_of
from hotstore.port import Store
from jjq.access.quotas import SPENDER
from jjq.limits import UPLOAD_MESSAGE_BYTES_MAX
from jjq.server.handlers import Call
from jjq.server.shutdown import Drain
from jjq.v1 import jjq_pb2 as pb
from jjq.wire.batches import request as parse


async def upload_object(store: Store, drain: Drain, call: Call) -> None:
    """Begin, then take pieces until the client says that these were all. A stopping server breaks off: the client goes
    on elsewhere, or here when the server is back."""
    large = large_of(store)
    state: UploadState | None = None
    while (raw := await drain.wait(call.read())) is not None:
        request = parse(pb.UploadObjectRequest, raw, UPLOAD_MESSAGE_BYTES_MAX)
        step = request.WhichOneof("step")
        if step == "begin":
            if state is not None:
                raise InvalidInput("an upload was begun on this stream already: open another stream")
            begin = request.begin
            state = await large.begin_upload(begin.queue, begin.sha256, begin.size, upload=begin.upload)
            await call.write(_state_message(state))
            if state.done or state.digest_first:
                return
        elif state is None:
            raise InvalidInput("the first request of an upload is begin: say what is uploaded")
        elif step == "chunk":
            await large.upload(state.upload, request.chunk.at, request.chunk.data)
            if (usage := SPENDER.get()) is not None:
                usage.spend(0, len(request.chunk.data))
        elif step == "finish":
            await _finish(large, state.upload, request.finish.sha256, drain)
            call.meter.moved(1)
            await call.write(_state_message(UploadState(state.upload, done=True)))
            return
        else:
            raise InvalidInput("the request is empty: send begin, a chunk or finish")


async def _finish(large: LargeStore, upload: str, sha256: str, drain: Drain) -> None:
    """Finish even if the client has gone: it will ask whether the object is there."""
    work = asyncio.ensure_future(large.finish_upload(upload, sha256))
    drain.keep(work)
    await asyncio.shield(work)


def _state_message(state: UploadState) -> bytes:
    message = pb.UploadObjectResponse(
        upload=state.upload, received=state.received, done=state.done, digest_first=state.digest_first
    )
    return message.SerializeToString()


async def download_object(store: Store, call: Call) -> None:
    """Send a range of an object."""
    request = parse(pb.DownloadObjectRequest, call.first)
    end = request.end if request.HasField("end") else None
    pieces = large_of(store).read_object(request.queue, request.sha256, request.size, request.start, end)
    async with aclosing(cast("Any", pieces)) as found:
        async for part in found:
            for at in range(0, len(part), OBJECT_CHUNK_BYTES):
                data = part[at : at + OBJECT_CHUNK_BYTES]
                await call.write(pb.DownloadObjectResponse(data=data).SerializeToString())
    call.meter.moved(1)
