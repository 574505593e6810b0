"""What all workers have: a pen, a connection, a queue, chance; and how an answer becomes a line."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import grpc

from coldstore.shared.chance import Chance
from jjq.v1 import jjq_pb2 as pb
from jjq.v1 import jjq_pb2_grpc
from tests.faults.history import Operation, Recorder, Type, settled, type_of_call
from tests.faults.values import WORKER, make_value, read_value

CALL_SECONDS = 3.0
PAUSE_SECONDS = 0.05
STEP_SECONDS = 0.005  # between two pushes: faults need time to happen, not a machine that is worn out
AWAY_MOST = 3
SIZES = (20, 60, 200, 1_000, 6_000)
OPTIONS = [("grpc.initial_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 200),
           ("grpc.min_reconnect_backoff_ms", 1_000), ("grpc.use_local_subchannel_pool", 1)]  # fmt: skip


@dataclass
class Worker:
    """One logical client. Subclasses have `run`, which goes on until `stop` is set."""

    number: int
    queue: str
    address: str
    pen: Recorder
    chance: Chance
    stop: asyncio.Event

    def __post_init__(self) -> None:
        self._made = 0
        addresses = self.address.split(",")
        channels = [grpc.aio.insecure_channel(address, OPTIONS) for address in addresses]
        self._stubs: list[Any] = [jjq_pb2_grpc.JjqStub(channel) for channel in channels]
        self._at = self.number % len(addresses)
        self._away = 0  # how often in a row the server did not answer

    @property
    def stub(self) -> Any:
        """The server that is asked at present."""
        return self._stubs[self._at]

    @property
    def fate(self) -> dict[str, bool]:
        """For the line that ends an operation of unknown outcome: the next one may go to another server."""
        return {"late": True} if len(self._stubs) > 1 else {}

    def failed(self, error: grpc.aio.AioRpcError) -> None:
        """Go on at the next server if this one is not there."""
        self._away = self._away + 1 if error.code() is grpc.StatusCode.UNAVAILABLE else 0
        if self._away >= AWAY_MOST:
            self._at, self._away = (self._at + 1) % len(self._stubs), 0

    @property
    def sub(self) -> str:
        """The subscriber of this worker: nobody else uses it."""
        return f"{self.queue}/w{self.number}"

    def dice(self, below: int) -> int:
        return int(self.chance.jitter() * below)

    def numbers(self, count: int) -> list[int]:
        """New values: `count` numbers that nobody else has."""
        first = self.number * WORKER + self._made
        self._made += count
        return list(range(first, first + count))

    def elements(self, numbers: Sequence[int]) -> pb.Elements:
        return pb.Elements(
            elements=[pb.Element(value=make_value(n, SIZES[self.dice(len(SIZES))])) for n in numbers]
        )

    async def pause(self, seconds: float = PAUSE_SECONDS) -> None:
        await asyncio.sleep(seconds)

    async def run(self) -> None:
        """Ask until `stop` is set."""
        while not self.stop.is_set():
            await self.once()

    async def once(self) -> None:
        """One step."""
        raise NotImplementedError

    async def call(self, op: Operation, method: Any, request: Any, seconds: float = CALL_SECONDS) -> Any:
        """The reply to one attempt; None if there is none, and then the operation has been ended."""
        try:
            return await method(request, timeout=seconds)
        except grpc.aio.AioRpcError as error:
            self.failed(error)
            op.end(type_of_call(error), error.code().name, why=(error.details() or "")[:200], **self.fate)
            await self.pause()
            return None

    async def repeat(self, op: Operation, method: Any, request: Any, tries: int) -> Any:
        """The reply to one of so many attempts, which a refusal ends; None if there is none, as of `call`."""
        attempts: list[Type] = []
        code = ""
        while len(attempts) < tries:
            try:
                return await method(request, timeout=CALL_SECONDS)
            except grpc.aio.AioRpcError as error:
                attempts.append(type_of_call(error))
                code = error.code().name
                self.failed(error)
                if attempts[-1] == "fail":
                    break
                await self.pause(0.2)
        op.end(settled(attempts), code, **self.fate)
        await self.pause()
        return None


def seen(elements: Sequence[Any], position: int) -> dict[str, Any]:
    """The elements of an answer as a line has them."""
    found: dict[str, Any] = {"values": [read_value(e.value) for e in elements]}
    offsets = [e.offset for e in elements]
    if offsets != list(range(position, position + len(offsets))):
        found["offsets"] = offsets
    return found
