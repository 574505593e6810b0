"""Read, resumed after a broken connection: the reader does not notice, and gets every element once.

When a server says that another node serves what follows, the read goes on there, once that node is reached.
The elements come in either case.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pyarrow as pa

from coldstore.shared.chance import Chance
from coldstore.shared.errors import Exhausted, JjqError, Unavailable, check
from jjq.limits import REDIRECTS_MAX
from jjq.remote.channels import Lane, Link, read_message
from jjq.remote.retry import LinkBackoff
from jjq.v1 import jjq_pb2 as pb
from jjq.wire.batches import decode


class RemoteReplay:
    """One read of a range; what it has received makes the next request, if one is needed."""

    def __init__(self, link: Link, chance: Chance, request: pb.ReadRequest, seconds: float) -> None:
        self._link = link
        self._request = request
        self._seconds = seconds
        self._backoff = LinkBackoff(link, chance)
        self._deadline = link.clock.monotonic() + seconds  # of making any progress
        self._next: int | None = None
        self._owner = ""  # who serves what follows
        self._target: str | None = None  # where we went because of that
        self._hops = 0  # since elements came last

    async def batches(self) -> AsyncIterator[pa.RecordBatch]:
        while True:
            await self._link.meet()
            with self._link.stream(self._request.queue, self._target) as lane:
                call = lane.server_stream("Read")(self._request.SerializeToString())
                try:
                    while (raw := await self._received(call)) is not None:
                        batch = self._take(raw)
                        if batch is not None and batch.num_rows:
                            yield batch
                            # The user's time is no failure.
                            self._deadline = self._link.clock.monotonic() + self._seconds
                        if self._is_elsewhere(lane):
                            break
                    else:
                        return
                    self._target, self._owner, self._hops = self._owner, "", self._hops + 1
                    continue
                except (Unavailable, Exhausted) as error:
                    failure: JjqError = error
                finally:
                    call.cancel()
                await self._pause(lane, failure)

    def _is_elsewhere(self, lane: Lane) -> bool:
        """Whether to go on at another server; nodes that contradict each other are not followed for long."""
        known = self._owner not in {"", lane.target} and self._hops < REDIRECTS_MAX
        return known and self._link.reach(self._owner)

    async def _received(self, call) -> bytes | None:  # type: ignore[no-untyped-def]
        if self._request.follow:
            return await read_message(call, writes=False)
        try:
            async with asyncio.timeout(self._seconds):
                return await read_message(call, writes=False)
        except TimeoutError:
            raise Unavailable(f"no elements came within {self._seconds:g} s") from None

    def _take(self, raw: bytes) -> pa.RecordBatch | None:
        message, batch = decode(pb.ReadResponse, raw)
        self._owner = message.owner or self._owner
        if message.HasField("start_offset"):
            check(self._next in (None, message.start_offset), "the server resumed elsewhere")
            self._next = message.start_offset
            if message.HasField("end_offset"):
                self._request.end = f"offset:{message.end_offset}"
        if batch is not None:
            self._hops = 0
            check(batch.num_rows == message.next - (self._next or 0), f"gap in a read at {self._next}")
            self._next = message.next
        self._request.start = f"offset:{self._next or 0}"
        self._deadline = self._link.clock.monotonic() + self._seconds
        self._backoff.reset()
        return batch

    async def _pause(self, lane: Lane, error: JjqError) -> None:
        self._link.failed(lane)
        self._target, self._owner = None, ""
        now = self._link.clock.monotonic()
        final = self._backoff.verdict(error, silent=now >= self._deadline)
        pause = self._backoff.pause(error)
        if self._link.closed or not self._link.patient or now + pause > self._deadline:
            raise final
        await asyncio.sleep(pause)
