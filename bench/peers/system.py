"""What a system must offer to be measured, and what its usual Python client must."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import ClassVar, Literal

from bench.peers.server import Server, rss

Start = Literal["beginning", "end"]
LIST = 1_000  # elements that one call with a list carries


class NotOffered(Exception):
    """The system or its client has no means for this work. The message goes into the report."""


class Client(ABC):
    """A system's usual Python client. What it pushes is acknowledged when the call returns."""

    @abstractmethod
    async def create(self, queue: str) -> None:
        """Make a queue: a stream, topic or tube."""

    @abstractmethod
    async def push(self, queue: str, value: bytes) -> None:
        """One element; many calls may be under way."""

    async def push_list(self, queue: str, values: list[bytes]) -> None:
        """Many elements in one call, or as near to that as the client comes."""
        raise NotOffered("the client takes one element in a call")

    async def push_each(self, queue: str, values: Iterable[bytes]) -> None:
        """Elements one by one, which the client gathers into batches by itself."""
        raise NotOffered("the client does not batch by itself")

    async def fill(self, queue: str, values: Iterable[bytes]) -> None:
        """As quickly as the client can; durable at the end."""
        for chunk in chunks(values):
            await self.push_list(queue, chunk)

    @abstractmethod
    async def read(self, queue: str, start: Start) -> AsyncGenerator[Sequence[bytes]]:
        """Values for one subscriber, for ever. Its place is fixed when the call returns."""

    def replay_arrow(self, queue: str) -> AsyncIterator[int]:
        """The whole queue as Arrow record batches; gives the rows of each."""
        raise NotOffered("no Arrow")

    @abstractmethod
    async def close(self) -> None:
        """End it."""


class System(ABC):
    """One system, with its data in one directory, on ports of its own."""

    name: ClassVar[str]
    title: ClassVar[str]
    durability: ClassVar[str]
    client: ClassVar[str]
    weaker: ClassVar[bool] = False  # acknowledges before the disk has it
    many_subscribers: ClassVar[bool] = True  # each gets every element, and history stays
    fills_relaxed: ClassVar[bool] = False  # history is written without fsync, or it would take hours

    native_name: ClassVar[str] = ""  # its own load generator
    no_native: ClassVar[str] = "it has no generator of its own"

    def __init__(self, root: Path) -> None:
        self.root = root
        self.server: Server | None = None

    @classmethod
    @abstractmethod
    def missing(cls) -> str:
        """Why it cannot run here, and what to do about it; nothing if it can."""

    @classmethod
    def prepare(cls) -> None:
        """Get what has to be got once, before anything is measured."""
        return

    @abstractmethod
    async def start(self, relaxed: bool = False) -> None:
        """Start it on its directory, and wait until it takes connections."""

    async def stop(self) -> None:
        if self.server is not None:
            await asyncio.to_thread(self.server.stop)
            self.server = None

    @abstractmethod
    async def connect(self) -> Client:
        """A new client."""

    def not_yet(self) -> tuple[type[Exception], ...]:
        """Errors by which a system that just started says that it needs a little longer."""
        return ()

    def pid(self) -> int | None:
        """The process that writes; None if it is not running."""
        return self.server.pid if self.server else None

    def memory(self) -> int:
        """Resident bytes of the system's processes."""
        pid = self.pid()
        return rss(pid) if pid else 0

    async def native(self, size: int, seconds: float) -> float:
        """Elements a second that the system's own load generator reaches."""
        raise NotOffered(self.no_native)


def chunks(values: Iterable[bytes], size: int = LIST) -> Iterator[list[bytes]]:
    source = iter(values)
    while chunk := list(islice(source, size)):
        yield chunk


class Inbox:
    """Makes an iterator of what a client hands to a callback."""

    def __init__(self) -> None:
        self._values: list[bytes] = []
        self._came = asyncio.Event()

    def add(self, value: bytes) -> None:
        self._values.append(value)
        self._came.set()

    async def batches(self, close: Callable[[], Awaitable[None]]) -> AsyncGenerator[Sequence[bytes]]:
        try:
            while True:
                await self._came.wait()
                self._came.clear()
                values, self._values = self._values, []
                yield values
        finally:
            await close()
