"""Cancellation is never lost, though grpc.aio loses it where a call fails at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest

from coldstore.shared.errors import Unavailable
from jjq.remote.channels import Lane, await_call, read_message
from jjq.remote.settings import RemoteSettings
from jjq.remote.store import RemoteStore
from tests.jjq.serving import numbers, until


class Deaf:
    """A call that behaves as one of grpc.aio that is being begun: cancelled, it goes on to its end."""

    def __init__(self, end: Exception | None) -> None:
        self._end = end
        self.waiting = asyncio.Event()

    async def _prepare(self) -> None:
        try:
            self.waiting.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass  # as grpc.aio does

    async def read(self) -> Any:
        await asyncio.create_task(self._prepare())
        if self._end is not None:
            raise self._end
        return grpc.aio.EOF

    async def write(self, _message: bytes) -> None:
        await asyncio.Event().wait()

    def cancel(self) -> bool:
        return False  # it has ended already


def broken() -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata(), "gone")


Reading = Callable[[Any], Awaitable[object]]


async def _call(call: Deaf) -> object:
    return await await_call(call.read())


@pytest.mark.parametrize(
    ("reading", "end"),
    [(_call, broken()), (read_message, broken()), (read_message, None)],
    ids=["call", "read", "end"],
)
async def test_who_is_cancelled_while_a_call_fails_is_cancelled(
    reading: Reading, end: Exception | None
) -> None:
    call = Deaf(end)
    task = asyncio.ensure_future(reading(call))
    await call.waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("cancellations", [0, 1])
async def test_a_failure_is_told_to_who_is_not_cancelled_or_cleans_up_after_it(cancellations: int) -> None:
    async def failing() -> None:
        if cancellations:
            with pytest.raises(asyncio.CancelledError):
                await asyncio.Event().wait()
        await await_call(_fail())

    async def _fail() -> None:
        raise broken()

    task = asyncio.ensure_future(failing())
    await asyncio.sleep(0)
    for _ in range(cancellations):
        task.cancel()
    with pytest.raises(Unavailable, match="gone"):
        await task


async def test_a_call_that_we_closed_under_a_task_does_not_look_like_its_cancellation() -> None:
    async def closed() -> None:
        raise asyncio.CancelledError

    with pytest.raises(Unavailable, match="the client was closed"):
        await await_call(closed())


async def test_a_client_closes_though_its_stream_fails_at_that_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A push stream tries again after every failure, so it would have done so for ever."""
    calls: list[Deaf] = []

    def begin() -> Deaf:
        assert not calls, "it tries again"
        calls.append(Deaf(broken()))
        return calls[-1]

    async def ready(_lane: Lane, _seconds: float) -> None:
        return

    monkeypatch.setattr(Lane, "both_streams", lambda _lane, _method: begin)
    monkeypatch.setattr(Lane, "ready", ready)
    remote = RemoteStore("127.0.0.1:1", RemoteSettings(timeout_seconds=20.0))
    push = asyncio.ensure_future(remote.push("orders", numbers(0, 1), producer="p", sequence=0))
    await until(lambda: bool(calls) and calls[0].waiting.is_set())
    async with asyncio.timeout(10):
        await remote.close()
    with pytest.raises(Unavailable, match="outcome is unknown"):
        await push
