"""What all workers have: a pen, a connection, a queue, chance; and how an answer becomes a line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from coldstore.shared.chance import Chance
from jjq.v1 import jjq_pb2 as pb
from tests.faults.clients.doors import CallFailed, Door, GrpcDoor, SocketDoor
from tests.faults.clients.http_door import HttpDoor
from tests.faults.history import Operation, Recorder, Type, settled
from tests.faults.values import WORKER, make_value, read_value

CALL_SECONDS = 3.0
PAUSE_SECONDS = 0.05
STEP_SECONDS = 0.005  # between two pushes: faults need time to happen, not a machine that is worn out
AWAY_SECONDS = 0.2  # between two questions to a server that is not there
AWAY_MOST = 3
SIZES = (20, 60, 200, 1_000, 6_000)
KEYS = 4  # of elements that have one
KEYED = "keyed"  # the queue of those
_DOORS: dict[str, Callable[[str], Door]] = {"http": HttpDoor, "socket": SocketDoor}


@dataclass
class Worker:
    """One logical client. Subclasses have `run`, which goes on until `stop` is set."""

    number: int
    queue: str
    address: str
    pen: Recorder
    chance: Chance
    stop: asyncio.Event
    door: str = "grpc"  # or another one of _DOORS, for single calls; connect: that of `priority`
    http: str = ""  # the addresses for those, in the same order

    def __post_init__(self) -> None:
        self._made = 0
        self._grpc = [GrpcDoor(address) for address in self.address.split(",")]
        self._doors: Sequence[Door] = self._grpc
        if self.door in _DOORS:
            self._doors = [_DOORS[self.door](address) for address in self.http.split(",")]
        self._at = self.number % len(self._grpc)
        self._away = 0  # how often in a row the server did not answer

    @property
    def stub(self) -> Any:
        """The server that is asked at present, over gRPC, for streams."""
        return self._grpc[self._at].stub

    @property
    def fate(self) -> dict[str, bool]:
        """For the line that ends an operation of unknown outcome: the next one may overtake it.

        It may go to another server; and but for gRPC it goes over a new connection, which a server that has stood
        still may read before it does what came over the old one.
        """
        return {"late": True} if len(self._grpc) > 1 or self.door in _DOORS else {}

    def failed(self, *, away: bool) -> None:
        """Go on at the next server if this one is not there."""
        self._away = self._away + 1 if away else 0
        if self._away >= AWAY_MOST:
            self._at, self._away = (self._at + 1) % len(self._grpc), 0

    async def ask(self, method: str, request: Any, seconds: float = CALL_SECONDS) -> Any:
        """One attempt at the server that is asked at present."""
        try:
            return await self._doors[self._at].ask(method, request, seconds)
        except CallFailed as error:
            self.failed(away=error.away)
            raise

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
        made = [pb.Element(value=make_value(n, SIZES[self.dice(len(SIZES))])) for n in numbers]
        if self.queue == KEYED:
            for number, element in zip(numbers, made, strict=True):
                element.key = key_of(number)
        return pb.Elements(elements=made)

    async def pause(self, seconds: float = PAUSE_SECONDS) -> None:
        await asyncio.sleep(seconds)

    async def run(self) -> None:
        """Ask until `stop` is set."""
        while not self.stop.is_set():
            await self.once()

    async def once(self) -> None:
        """One step."""
        raise NotImplementedError

    async def call(self, op: Operation, method: str, request: Any, seconds: float = CALL_SECONDS) -> Any:
        """The reply to one attempt; None if there is none, and then the operation has been ended."""
        try:
            return await self.ask(method, request, seconds)
        except CallFailed as error:
            op.end(error.type, error.code, why=error.why, **self.fate)
            await self.pause(AWAY_SECONDS if error.away else PAUSE_SECONDS)
            return None

    async def repeat(self, op: Operation, method: str, request: Any, tries: int) -> Any:
        """The reply to one of so many attempts, which a refusal ends; None if there is none, as of `call`."""
        attempts: list[Type] = []
        code = ""
        while len(attempts) < tries:
            try:
                return await self.ask(method, request)
            except CallFailed as error:
                attempts.append(error.type)
                code = error.code
                if error.type == "fail" and not error.away:
                    break
                await self.pause(AWAY_SECONDS)
        op.end(settled(attempts), code, **self.fate)
        await self.pause()
        return None


def key_of(number: int) -> bytes:
    """The key of a value of the queue with keys."""
    return b"k%d" % (number % KEYS)


def seen(elements: Sequence[Any], position: int) -> dict[str, Any]:
    """The elements of an answer as a line has them."""
    found: dict[str, Any] = {"values": [read_value(e.value) for e in elements]}
    offsets = [e.offset for e in elements]
    if offsets != list(range(position, position + len(offsets))):
        found["offsets"] = offsets
    return found
