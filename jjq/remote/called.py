"""Awaiting gRPC, with every way in which it can fail told by our own errors, and cancellation kept.

grpc.aio loses a cancellation that comes while a call fails: the failure is raised instead, and whoever
tries again after failures would do so for ever. The other way round, a call whose connection we closed
raises `CancelledError` in a task that nobody cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar, cast

import grpc

from coldstore.shared.errors import Unavailable
from jjq.wire.status import status_in

T = TypeVar("T")
Call = grpc.aio.UnaryStreamCall[bytes, bytes] | grpc.aio.StreamStreamCall[bytes, bytes]


async def called(work: Awaitable[T], *, writes: bool = True) -> T:
    """What a call, or a stream's next message, comes to; after an error, what `writes` may have been done."""
    before = _cancellations()
    try:
        return await work
    except grpc.aio.AioRpcError as error:
        if _cancellations() > before:
            raise asyncio.CancelledError from None
        raise status_in(error, writes=writes) from None
    except asyncio.CancelledError:
        if _cancellations() > before:
            raise
        closed = "the client was closed while it waited"
        raise Unavailable(f"{closed}; the outcome is unknown" if writes else closed) from None


async def received(call: Call, *, writes: bool = True) -> bytes | None:
    """A stream's next message, None at a good end."""
    before = _cancellations()
    raw = await called(call.read(), writes=writes)
    if isinstance(raw, bytes):
        return raw
    if _cancellations() > before:
        raise asyncio.CancelledError
    return None


def _cancellations() -> int:
    """How often the present task was asked to stop. Those it lived through, to clean up, count as well."""
    return cast("asyncio.Task[object]", asyncio.current_task()).cancelling()
