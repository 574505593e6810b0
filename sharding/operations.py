"""The words of operating a cluster, and the verbs: `Operator`, `OperatorHere` and the client have them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from sharding.documents.load import Load
from sharding.documents.node_info import Node
from sharding.ports import Takeover


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node, and whether it gives signs of life."""

    node: Node
    alive: bool


@dataclass(frozen=True, slots=True)
class Shard:
    """A block range of a queue, or its tail (`next` is None), served by one node."""

    queue: str
    first: int
    next: int | None
    node: str
    epoch: int
    load: Load


@dataclass(frozen=True, slots=True)
class Move:
    """A shard, and where it shall be."""

    shard: Shard
    to: str


@dataclass(frozen=True, slots=True)
class Share:
    """A node's part of all load, in percent."""

    node: str
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Plan:
    """Moves, the heaviest first, and what they lead to."""

    moves: tuple[Move, ...]
    shares: tuple[Share, ...]


class Operations(Protocol):
    """The verbs of jjq.v1.Operator."""

    async def nodes(self) -> list[NodeState]: ...

    async def drain(self, node: str, *, undo: bool = False) -> NodeState: ...

    async def take_over(self, node: str, *, accept_loss: bool = False, dry_run: bool = False) -> Takeover: ...

    async def shards(
        self, queue: str = "", node: str = "", *, after: str = "", limit: int | None = None
    ) -> dict[str, list[Shard]]:
        """By queue: all, or the first `limit` queues after `after`. With `node`, queues may have no shards."""
        ...

    async def plan(self, leaving: str = "") -> Plan: ...

    async def move(self, queue: str, to: str, first: int | None = None) -> Shard:
        """Let `to` serve the tail, or the range that begins at `first`."""
        ...

    async def prepare(self, queue: str) -> None:
        """The queue is about to be moved here: look at it, so that the move is quicker. Changes nothing."""
        ...

    async def split(self, queue: str, parts: int = 0, *, dry_run: bool = False) -> list[Shard]: ...
