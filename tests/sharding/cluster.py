"""Several routers in one process over one fake world: what moves is who may touch it, as with object storage."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from coldstore.objects.memory import MemoryObjects
from coldstore.shared.batch import payload
from coldstore.shared.clock import ManualClock
from coldstore.shared.errors import Fenced, JjqError, NotFound, OutOfRange, Unavailable
from hotstore.port import BlockInfo, Push, QueueInfo, Receipt
from hotstore.runner import InlineRunner
from sharding.documents.load import Load
from sharding.documents.node_info import Node
from sharding.documents.shards import Range, Shards, check_ranges
from sharding.ports import Lost, Takeover
from sharding.routing.nodes import Nodes
from sharding.routing.router import Router
from sharding.routing.traffic import Traffic
from tests.jjq.fakestore import FakeStore


class World:
    """What all nodes share: elements, and who owns what."""

    def __init__(self) -> None:
        self.store = FakeStore()
        self.clock = ManualClock()
        self.objects = MemoryObjects(self.clock)
        self.shards: dict[str, Shards] = {}
        self.nodes: dict[str, FakeNode] = {}
        self.expected: list[tuple[str, str]] = []  # node and queue, as they were told

    async def add(self, name: str, load: Load | None = None) -> FakeNode:
        node = self.nodes[name] = FakeNode(self, name, load or Load(count=0))
        await node.registry.beat()
        for each in self.nodes.values():
            await each.registry.look()
        return node

    def own(self, queue: str, owner: str) -> None:
        self.shards[queue] = Shards(queue, "0" * 32, 1, owner, 1)

    def move(self, queue: str, owner: str) -> None:
        self.shards[queue] = replace(self.shards[queue].moved(owner, 1, None), version=9)

    def split(self, queue: str, *ranges: tuple[int, int, str]) -> None:
        self.shards[queue] = replace(self.shards[queue], ranges=check_ranges([Range(*r) for r in ranges]))

    def connect(self, address: str) -> Peer:
        return Peer(self, address)


class Peer:
    """Another node's `here`, over a wire that can be cut; counts the calls."""

    def __init__(self, world: World, address: str) -> None:
        self._world = world
        self._name = address.partition(":")[0]

    def relay(
        self, queue: str, ordered: bool, message: bytes, settle: Callable[[Receipt | JjqError], None]
    ) -> bool:
        node = self._world.nodes[self._name]
        if node.relayed is not None:
            node.relayed.append((message, settle))
        return node.relayed is not None

    def __getattr__(self, verb: str) -> Any:
        node = self._world.nodes[self._name]
        if node.cut:
            raise Unavailable(f"{self._name} cannot be reached")
        node.asked.append(verb)
        return getattr(node.router.local_only, verb)

    async def close(self) -> None:
        return None


class Local:
    """A node's own store: refuses what the shards document gives to others, and claims what is nobody's."""

    def __init__(self, world: World, name: str) -> None:
        self.adopts: set[str] = set()  # nodes whose queues may be taken
        self._world = world
        self._name = name

    def _check(self, queue: str, claim: bool = True) -> None:
        shards = self._world.shards.get(queue)
        if shards is not None and shards.owner in self.adopts:
            self._world.move(queue, self._name)
            return
        if shards is None and claim and queue in self._world.store.queues:
            self._world.own(queue, self._name)
        elif shards is not None and shards.owner != self._name:
            raise Fenced(f"{queue} belongs to {shards.owner}", owner=shards.owner)

    async def create_queue(self, name: str, **settings: Any) -> QueueInfo:
        self._check(name, claim=False)
        made = await self._world.store.create_queue(name, **settings)
        self._check(name)
        return made

    async def list_queues(
        self, *, after: str = "", limit: int | None = None, ledgers: bool = False
    ) -> list[QueueInfo]:
        mine = [
            q for q in await self._world.store.list_queues(after=after, ledgers=ledgers) if self._owns(q.name)
        ]
        return mine[:limit]

    async def list_subscribers(
        self, queue: str | None = None, *, after: str = "", limit: int | None = None
    ) -> list[Any]:
        if queue is not None:
            self._check(queue)
        found = await self._world.store.list_subscribers(queue, after=after)
        return [each for each in found if self._owns(each.queue)][:limit]

    def _owns(self, queue: str) -> bool:
        shards = self._world.shards.get(queue)
        return shards is not None and shards.owner == self._name

    async def read(
        self, queue: str, start: str = "beginning", end: str | None = None, *, follow: bool = False
    ) -> AsyncIterator[pa.RecordBatch]:
        self._check(queue)
        async for batch in self._world.store.read(queue, start, end, follow=follow):
            yield batch.slice(0, 2)
            if batch.num_rows > 2:
                self._check(queue)
                yield batch.slice(2)
            self._check(queue)

    async def append(self, push: Push) -> Receipt:
        self._check(push.queue)
        return await self._world.store.append(push)

    def __getattr__(self, verb: str) -> Any:
        async def call(name: str, *given: Any, **named: Any) -> Any:
            self._check(name.partition("/")[0])
            return await getattr(self._world.store, verb)(name, *given, **named)

        return call


class FakeOwnership:
    """`sharding.ports.Ownership` over the world; counts the reads of shards documents."""

    def __init__(self, world: World, name: str) -> None:
        self.node = name
        self.reads = 0
        self.histories: list[tuple[int, int]] = []
        self._world = world

    def owns(self, queue: str) -> bool:
        shards = self._world.shards.get(queue)
        return shards is not None and shards.owner == self.node

    def held(self) -> dict[str, Shards]:
        return {name: shards for name, shards in self._world.shards.items() if shards.owner == self.node}

    async def shards(self, queue: str) -> Shards | None:
        self.reads += 1
        return self._world.shards.get(queue)

    async def acquire(self, queue: str) -> QueueInfo:
        return await self._world.nodes[self.node].router.local_only.get_queue(queue)

    async def expect(self, queue: str) -> None:
        self._world.expected.append((self.node, queue))

    async def hand_over(self, queue: str, to: str) -> Shards:
        shards = self._world.shards.get(queue)
        if shards is None or shards.owner not in {self.node, to}:
            raise Fenced(f"{queue} is not ours", owner=None if shards is None else shards.owner)
        if to not in self._world.nodes:
            raise NotFound(f"no node {to}")
        if shards.owner != to:
            self._world.move(queue, to)
        return self._world.shards[queue]

    async def lost_by(self, node: str) -> Sequence[Lost]:
        return [Lost(queue, 0) for queue, shards in self._world.shards.items() if shards.owner == node]

    async def take_over(self, node: str, *, accept_loss: bool = False) -> Takeover:
        lost = await self.lost_by(node)
        for each in lost:
            self._world.move(each.queue, self.node)
        return Takeover(node, "disk", tuple(each.queue for each in lost), tuple(lost))

    async def set_ranges(self, queue: str, ranges: Sequence[Range]) -> Shards:
        self._world.split(queue, *ranges)
        return self._world.shards[queue]

    async def read_history(self, queue: str, start: int, end: int) -> AsyncIterator[pa.RecordBatch]:
        if end > self._world.store.queues[queue].next_offset:
            raise OutOfRange("beyond", first=0, next=0)
        self.histories.append((start, end))
        async for batch in self._world.store.read(queue, f"offset:{start}", f"offset:{end}"):
            yield batch

    async def list_history(self, queue: str) -> list[BlockInfo]:
        return await self._world.store.list_blocks(queue)


class FakeNode:
    """One node: its router over all these."""

    def __init__(self, world: World, name: str, load: Load) -> None:
        self.name = name
        self.cut = False
        self.relayed: list[tuple[bytes, Callable[[Receipt | JjqError], None]]] | None = (
            None  # if it takes any
        )
        self.asked: list[str] = []
        self.ownership = FakeOwnership(world, name)
        described = Node(name, f"{name}:1", f"run of {name}")
        self.registry = Nodes(world.objects, described, world.clock, InlineRunner(), lambda: load)
        self.traffic = Traffic(world.clock)
        self.local: Any = Local(world, name)
        self.router = Router(
            self.local, self.ownership, self.registry, world.connect, world.clock, self.traffic
        )


def elements(*values: bytes) -> pa.RecordBatch:
    return payload("bytes", list(values))
