"""`POST /v1/queues/{queue}/verify`: read all of a queue's history, and prove that it is whole and unaltered.

    application/json    the report, when it is there
    text/event-stream   `progress` events meanwhile, then one `report`

The same as `jjq verify`, on a thread of the server. One runs at a time; it ends when its client goes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final, Literal

import msgspec
from msgspec import Struct

from coldstore.queue.verify import Report
from coldstore.shared.errors import Exhausted, NotFound
from coldstore.store import ColdStore
from jjq.http.replies import Reply, StreamReply, document
from jjq.http.request import JSON, Request
from jjq.http.routing import HttpRoute
from jjq.http.v1.queues import queue_of
from jjq.http.v1.replay import EVENTS

_TELL_SECONDS: Final = 0.25
_ENCODER: Final = msgspec.json.Encoder()


class DefectDocument(Struct):
    kind: str
    key: str
    text: str
    block: int | None


class VerifyReport(Struct):
    """`chain` stands for all final blocks: the same digest means the same history."""

    queue: str
    verdict: Literal["ok", "cut off", "damaged"]
    cut_off_at: int | None
    blocks: int
    elements: int
    stored_bytes: int
    chain: str
    defects: list[DefectDocument]
    notes: list[str]


class VerifyProgress(Struct):
    blocks: int
    blocks_total: int
    read_bytes: int


class _Abandoned(Exception):
    """Nobody waits for the report any more."""


class _Run:
    """One verification: its thread reports progress, and stops when asked to."""

    def __init__(self) -> None:
        self.progress = VerifyProgress(0, 0, 0)
        self.abandoned = False

    def work(self, cold: ColdStore, queue: str) -> Report:
        return cold.verify(queue, self._tell)

    def _tell(self, done: int, total: int, read: int) -> None:
        if self.abandoned:
            raise _Abandoned
        self.progress = VerifyProgress(done, total, read)


async def _steps(request: Request, queue: str) -> AsyncGenerator[VerifyProgress | VerifyReport, None]:
    """How far it is, now and then; the report at the end."""
    backend = request.backend
    cold = backend.cold
    if cold is None:
        raise NotFound("this server has no cold store of its own: run jjq verify where the history is")
    run = _Run()
    task = asyncio.create_task(asyncio.to_thread(run.work, cold, queue), name="jjq-verify")
    try:
        while True:
            waiting = asyncio.wait((task,), timeout=_TELL_SECONDS)
            done, _ = await request.while_connected(backend.drain.wait(waiting))
            if done:
                yield _report(task.result())
                return
            yield run.progress
    finally:
        run.abandoned = True
        await asyncio.gather(task, return_exceptions=True)  # at most until the next block is read


def _report(found: Report) -> VerifyReport:
    defects = [DefectDocument(each.kind, each.key, each.text, each.block) for each in found.defects]
    return VerifyReport(
        found.queue, found.verdict, found.cut, found.blocks, found.elements, found.stored_bytes, found.chain, defects,
        list(found.notes),
    )  # fmt: skip


def verify_routes() -> list[HttpRoute]:
    """The route, which lets one verification run at a time."""
    running = asyncio.Lock()

    async def steps(request: Request, queue: str) -> AsyncGenerator[VerifyProgress | VerifyReport, None]:
        if running.locked():
            raise Exhausted("another verification is running on this server: try again when it has ended")
        async with running, aclosing(_steps(request, queue)) as found:
            async for step in found:
                yield step

    async def events(request: Request, queue: str) -> AsyncGenerator[bytes, None]:
        async with aclosing(steps(request, queue)) as found:
            async for step in found:
                name = b"report" if isinstance(step, VerifyReport) else b"progress"
                yield b"event: " + name + b"\ndata: " + _ENCODER.encode(step) + b"\n\n"

    async def verify(request: Request) -> Reply:
        request.query()
        form, queue = request.accepts((JSON, EVENTS)), queue_of(request)
        if form == EVENTS:
            kept = [(b"cache-control", b"no-store")]
            return StreamReply(events(request, queue), EVENTS.encode(), kept, tells_errors=True)
        async with aclosing(steps(request, queue)) as found:
            last = [step async for step in found][-1]
        return document(last)

    return [
        HttpRoute(
            "POST", "/v1/queues/{queue}/verify", verify, "verify_queue", "Prove that all of its history is sound",
            queue="queue", waits=True, streams=True, reply=VerifyReport, gives=(EVENTS,),
        )
    ]  # fmt: skip
