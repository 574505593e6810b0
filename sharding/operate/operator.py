"""What an operator can ask of a cluster: which nodes there are, who serves what, what to move, and to move it.

`NodeOperator` answers other nodes, for this node alone, and never forwards. `ClusterOperator` answers for the cluster:
it asks all nodes.

No state of an operation is kept anywhere. Every step is one compare-and-swap of a shards document that has happened or
has not. So whatever breaks at whatever step (operator, source or target), ask for a plan again and carry it out: the
steps that were done are not in the new plan.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from coldstore.layout.paths import check_name
from coldstore.shared.backoff import Backoff
from coldstore.shared.errors import Fenced, InvalidInput, JjqError, NotFound, Unavailable
from sharding.documents.load import Load
from sharding.documents.shards import Range, Shards
from sharding.operate.plan import cut_history, plan_moves
from sharding.ports import NodeState, Operations, Ownership, Plan, Shard, Takeover
from sharding.routing.nodes import Nodes
from sharding.routing.router import Router
from sharding.routing.traffic import Loads

Connect = Callable[[str], Operations]  # from an address

_PAUSE_SECONDS: Final = 0.05
_TRIES: Final = 8


class NodeOperator:
    """For this node: what it owns, and what only the owner of a queue can do."""

    def __init__(self, ownership: Ownership, nodes: Nodes, loads: Loads) -> None:
        self._ownership = ownership
        self._nodes = nodes
        self._loads = loads

    async def nodes(self) -> list[NodeState]:
        return [NodeState(each, self._nodes.is_alive(each.id)) for each in self._nodes.all()]

    async def drain(self, node: str, *, undo: bool = False) -> NodeState:
        if node != self._ownership.node:
            raise Fenced(f"this is not node {node}", owner=node)
        return NodeState(await self._nodes.drain(not undo), alive=True)

    async def take_over(self, node: str, *, accept_loss: bool = False, dry_run: bool = False) -> Takeover:
        known = self._nodes.get(node)
        if dry_run:
            journal = "disk" if known is None else known.journal
            return Takeover(node, journal, (), tuple(await self._ownership.lost_by(node)))
        return await self._ownership.take_over(node, accept_loss=accept_loss)

    async def shards(
        self, queue: str = "", node: str = "", *, after: str = "", limit: int | None = None
    ) -> dict[str, list[Shard]]:
        held = self._ownership.held()
        names = sorted(name for name in held if name > after and queue in {"", name})[:limit]
        return {
            name: [each for each in self._shards_of(held[name]) if node in {"", each.node}] for name in names
        }

    def _shards_of(self, shards: Shards) -> list[Shard]:
        whole = self._loads.of(shards.name)
        ranges = [
            Shard(
                shards.name,
                each.first,
                each.next,
                each.node,
                shards.epoch,
                Load(self._loads.history_bytes(shards.name, each.first, each.next)),
            )
            for each in shards.ranges
        ]
        elsewhere = sum(each.load.bytes for each in ranges)
        rest = Load(max(0, whole.bytes - elsewhere), whole.traffic, whole.memory)
        first = max((each.next for each in shards.ranges), default=0)
        return [*ranges, Shard(shards.name, first, None, shards.owner, shards.epoch, rest)]

    async def plan(self, leaving: str = "") -> Plan:
        raise InvalidInput("a plan is made for a cluster, not for one node: ask jjq.v1.Operator")

    async def move(self, queue: str, to: str, first: int | None = None) -> Shard:
        if first is None:
            return self._tail(await self._ownership.hand_over(queue, to))
        shards = await self._mine(queue)
        if first not in {each.first for each in shards.ranges}:
            raise NotFound(f"queue {queue} has no range that begins at {first}: list its shards")
        kept = [each if each.first != first else Range(each.first, each.next, to) for each in shards.ranges]
        ranges = [each for each in kept if each.node != shards.owner]
        shards = await self._ownership.set_ranges(queue, ranges)
        return next((each for each in self._shards_of(shards) if each.first == first), self._tail(shards))

    async def prepare(self, queue: str) -> None:
        await self._ownership.expect(queue)

    def _tail(self, shards: Shards) -> Shard:
        return self._shards_of(shards)[-1]

    async def _mine(self, queue: str) -> Shards:
        """The document of a queue of ours as it is now. If it is not ours, `Fenced` names the owner."""
        shards = await self._ownership.shards(check_name(queue))
        if shards is None:
            raise NotFound(f"queue {queue} has no owner yet: push to it first, or correct the name")
        if shards.owner != self._ownership.node:
            raise Fenced(f"queue {queue} is served by node {shards.owner}", owner=shards.owner)
        return shards

    async def split(self, queue: str, parts: int = 0, *, dry_run: bool = False) -> list[Shard]:
        shards = await self._mine(queue)
        if parts < -1:
            raise InvalidInput(
                f"a queue cannot be cut into {parts} parts: give a number from 1 on, or -1 to undo"
            )
        others = [node for node in self._nodes.alive() if not node.draining and node.id != shards.owner]
        if parts >= 0 and not others:
            raise InvalidInput("there is no other node to serve a part of the queue: start one")
        others.sort(key=lambda node: (node.load.bytes, node.load.memory, node.id))
        blocks = await self._ownership.list_history(queue) if parts >= 0 else []
        ranges = cut_history(blocks, parts or len(others), [node.id for node in others])
        if not dry_run:
            shards = await self._ownership.set_ranges(queue, ranges)
        return self._shards_of(
            shards
            if not dry_run
            else Shards(
                queue, shards.queue, shards.epoch, shards.owner, shards.run, shards.state, tuple(ranges)
            )
        )


class ClusterOperator:
    """For the whole cluster."""

    def __init__(
        self, local: NodeOperator, ownership: Ownership, nodes: Nodes, router: Router, connect: Connect
    ) -> None:
        self._local = local
        self._ownership = ownership
        self._nodes = nodes
        self._router = router
        self._connect = connect

    async def nodes(self) -> list[NodeState]:
        return await self._local.nodes()

    async def drain(self, node: str, *, undo: bool = False) -> NodeState:
        return await (await self._at(node)).drain(node, undo=undo)

    async def take_over(self, node: str, *, accept_loss: bool = False, dry_run: bool = False) -> Takeover:
        return await self._local.take_over(node, accept_loss=accept_loss, dry_run=dry_run)

    async def shards(
        self, queue: str = "", node: str = "", *, after: str = "", limit: int | None = None
    ) -> dict[str, list[Shard]]:
        answers = await asyncio.gather(
            *[
                (await self._at(each.id)).shards(queue, node, after=after, limit=limit)
                for each in self._nodes.alive()
            ]
        )
        found: dict[str, list[Shard]] = {}
        for answer in answers:
            for name, shards in answer.items():
                found[name] = _newer(found.get(name), shards)
        return dict(sorted(found.items())[:limit])

    async def plan(self, leaving: str = "") -> Plan:
        alive = self._nodes.alive()
        if leaving and leaving not in {node.id for node in alive}:
            raise NotFound(f"there is no live node {leaving}: see `jjq node list`")
        goes = frozenset({node.id for node in alive if node.draining} | ({leaving} - {""}))
        if len(goes) == len(alive):
            raise InvalidInput("no node would be left: start another one first")
        shards = [each for some in (await self.shards()).values() for each in some]
        return plan_moves(shards, [node.id for node in alive], goes)

    async def move(self, queue: str, to: str, first: int | None = None) -> Shard:
        target = self._nodes.get(to) or await self._nodes.read(check_name(to, "node"))
        if target is None:
            raise NotFound(f"there is no node {to}: see `jjq node list`")
        if not self._nodes.is_alive(to):
            raise Unavailable(f"node {to} gives no signs of life: start it, or choose another one")
        if first is not None:
            return await (await self._at((await self._owned(queue)).owner)).move(queue, to, first)
        await self._hand_over(queue, to)
        await self._router.get_queue(queue)  # so that the new owner serves before a client has to wait for it
        found = (await (await self._at(to)).shards(queue)).get(queue)
        if not found:
            raise Fenced(f"queue {queue} was moved on meanwhile: list its shards", owner=None)
        return found[-1]

    async def prepare(self, queue: str) -> None:
        await self._local.prepare(queue)

    async def _hand_over(self, queue: str, to: str) -> None:
        """Ask for the move until `to` owns the queue. If a move is under way already, wait for it."""
        with suppress(JjqError):  # if it fails, the move takes a little longer
            await (await self._at(to)).prepare(queue)
        backoff = Backoff(_PAUSE_SECONDS, _PAUSE_SECONDS * 2**_TRIES)
        while (owner := (await self._owned(queue)).owner) != to:
            try:
                await (await self._at(owner)).move(queue, to)
            except Fenced:
                if backoff.attempts > _TRIES:
                    raise
                await asyncio.sleep(backoff.next_pause())

    async def split(self, queue: str, parts: int = 0, *, dry_run: bool = False) -> list[Shard]:
        return await (await self._at((await self._owned(queue)).owner)).split(queue, parts, dry_run=dry_run)

    async def _owned(self, queue: str) -> Shards:
        """The queue's document. If nobody owns the queue, a request for it finds its first owner."""
        shards = await self._ownership.shards(check_name(queue))
        if shards is None:
            await self._router.get_queue(queue)
            shards = await self._ownership.shards(queue)
        if shards is None:
            raise NotFound(f"queue {queue} has no owner: push to it first, or correct the name")
        return shards

    async def _at(self, node: str) -> Operations:
        if node == self._ownership.node:
            return self._local
        known = self._nodes.get(node) or await self._nodes.read(check_name(node, "node"))
        if known is None:
            raise NotFound(f"there is no node {node}: see `jjq node list`")
        return self._connect(known.address)


def _newer(one: Iterable[Shard] | None, other: list[Shard]) -> list[Shard]:
    """If two nodes claim a queue, trust the higher epoch."""
    known = list(one or ())
    if not known or (other and other[-1].epoch > known[-1].epoch):
        return other
    return known
