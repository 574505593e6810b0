"""Reading a stream's next message, with every way in which it can fail told by our own errors."""

from __future__ import annotations

import asyncio

import grpc

from coldstore.errors import Unavailable
from jjq.wire.status import status_in

Call = grpc.aio.UnaryStreamCall[bytes, bytes] | grpc.aio.StreamStreamCall[bytes, bytes]


async def received(call: Call) -> bytes | None:
    """The next message, None at a good end."""
    try:
        raw = await call.read()
    except grpc.aio.AioRpcError as error:
        raise status_in(error) from None
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and not task.cancelling():  # the connection was closed under the stream
            raise Unavailable("the client was closed") from None
        raise
    return raw if isinstance(raw, bytes) else None
