"""The `Ownership` of a node (ports.py): which node serves a queue. The router asks it, the operator changes it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow as pa

from coldstore.layout import paths
from coldstore.layout.paths import check_name
from coldstore.shared.errors import Conflict, Fenced, JjqError, NotFound
from coldstore.shared.single_flight import SingleFlight
from coldstore.store import ColdStore
from hotstore.engine import Engine
from hotstore.port import BlockInfo, QueueInfo
from hotstore.runner import Runner
from sharding.documents import shards, tenure
from sharding.documents.shards import Range, Shards, StoredShards, check_ranges
from sharding.documents.tenure import StoredTenure
from sharding.history import History
from sharding.limits import TAKERS
from sharding.ports import Lost, Takeover
from sharding.takeover import handover
from sharding.takeover.claims import Claims
from sharding.takeover.takeover import TakeoverWorker
from sharding.takeover.watch import TenureWatch

log = logging.getLogger("jjq.sharding")


class NodeOwnership:
    """`ports.Ownership`, by the documents on object storage and the engine of this node."""

    def __init__(
        self,
        engine: Engine,
        cold: ColdStore,
        claims: Claims,
        takeovers: TakeoverWorker,
        watch: TenureWatch,
        runner: Runner,
    ) -> None:
        self._engine = engine
        self._cold = cold
        self._claims = claims
        self._takeovers = takeovers
        self._watch = watch
        self._runner = runner
        self._history = History(cold, runner)
        self.objects = claims.objects
        self._learning: asyncio.Task[None] | None = None
        self._moves: SingleFlight[tuple[str, str], Shards] = SingleFlight(_log_move)  # by queue and target

    def start(self) -> None:
        """After a start the journal says which queues are ours. Their documents are read in the background."""
        self._learning = asyncio.create_task(self._learn(), name="jjq-learn")

    async def close(self) -> None:
        if self._learning is not None:
            self._learning.cancel()
            await asyncio.wait([self._learning])

    async def _learn(self) -> None:
        for name in list(self._engine.registry.queues):
            if name not in self._claims.known:
                try:
                    await self.shards(name)
                except JjqError as error:
                    log.warning("queue %s: %s", name, error)

    @property
    def node(self) -> str:
        return self._claims.held.node

    def owns(self, queue: str) -> bool:
        found = self._engine.registry.queues.get(queue)
        return found is not None and found.state.is_held

    def held(self) -> Mapping[str, Shards]:
        """The queues that the journal names are ours. The rest of a document is known once it was read."""
        held = self._claims.held
        return {
            queue.name: self._claims.known.get(queue.name)
            or Shards(queue.name, queue.settings.id, max(queue.epoch, 1), held.node, held.run)
            for queue in self._engine.registry.queues.values()
            if paths.ledger_parts(queue.name) is None  # a ledger goes with its queue
        }

    async def shards(self, queue: str) -> Shards | None:
        check_name(queue)
        found = await self._runner.run(lambda: shards.read(self._claims.objects, queue))
        if found is not None and self.owns(queue):
            self._claims.known[queue] = found.shards
        return None if found is None else found.shards

    async def acquire(self, queue: str) -> QueueInfo:
        return (await self._engine.registry.queue(queue)).info()

    async def expect(self, queue: str) -> None:
        if not self.owns(check_name(queue)):
            await self._engine.registry.expect(queue)

    async def hand_over(self, queue: str, to: str) -> Shards:
        check_name(to, "node")
        if to == self.node:
            await self._engine.registry.queue(queue)
            return await self._document(queue)
        # A caller may go away: the move ends all the same, and a caller that asks again joins it.
        return await self._moves.run(
            (check_name(queue), to),
            lambda: handover.hand_over(queue, to, self._claims, self._engine.departures, self._runner),
            f"jjq-move-{queue}",
        )

    async def set_ranges(self, queue: str, ranges: Sequence[Range]) -> Shards:
        wanted = check_ranges(ranges)
        objects = self._claims.objects

        def changed(now: Shards) -> Shards:
            return replace(now, ranges=tuple(each for each in wanted if each.node != now.owner))

        new = await self._runner.run(lambda: shards.change(objects, check_name(queue), changed))
        if self.owns(queue):
            self._claims.known[queue] = new
        return new

    async def _document(self, queue: str) -> Shards:
        found = await self.shards(queue)
        if found is None:
            raise NotFound(f"queue {queue} has no owner yet: push to it first, or correct the name")
        return found

    async def read_history(self, queue: str, start: int, end: int) -> AsyncGenerator[pa.RecordBatch, None]:
        async for batch in self._history.read(check_name(queue), start, end):
            yield batch

    async def list_history(self, queue: str) -> list[BlockInfo]:
        return await self._history.blocks(check_name(queue))

    # Dead nodes -------------------------------------------------------------------------------------

    async def lost_by(self, node: str) -> Sequence[Lost]:
        found = await self._runner.run(lambda: self._tenure(node))
        self._check_dead(found, node)
        if found.tenure.journal == "s3":
            return ()
        return await self._runner.run(lambda: [self._lost(each.shards) for each in self._owned_by(node)])

    async def take_over(self, node: str, *, accept_loss: bool = False) -> Takeover:
        found = await self._runner.run(lambda: self._tenure(node))
        self._check_dead(found, node)
        journal = found.tenure.journal
        if journal == "disk" and not accept_loss:
            lost = await self.lost_by(node)
            shown = ", ".join(f"{each.queue} from {each.first}" for each in lost[:5])
            raise Conflict(
                f"the journal of node {node} is on its own disk: what is not in the cold store would be lost, in "
                f"{len(lost)} queues ({shown}…); bring its disk back, or accept the loss"
            )
        if found.tenure.state == "open" and await self._runner.run(lambda: self._watch.end(found)) is None:
            raise Conflict(f"node {node} is alive after all, or another node takes over from it: look again")
        if journal == "s3":
            moved = await self._runner.run(lambda: self._takeovers.take(node))
            return Takeover(node, journal, tuple(moved), ())
        moved, lost = await self._runner.run(lambda: self._take_disk(node))
        return Takeover(node, journal, tuple(moved), tuple(lost))

    def _check_dead(self, found: StoredTenure, node: str) -> None:
        if node == self.node:
            raise Conflict(f"this is node {node}, and it is running: ask another node")
        if found.tenure.state == "open" and not self._watch.is_dead(node):
            raise Conflict(
                f"node {node} is alive, or was moments ago: wait, or stop it and wait for its lease"
            )

    # In a worker thread -----------------------------------------------------------------------------

    def _tenure(self, node: str) -> StoredTenure:
        found = tenure.read(self._claims.objects, check_name(node, "node"))
        if found is None:
            raise NotFound(f"there never was a node {node}: correct the name")
        return found

    def _owned_by(self, node: str) -> list[StoredShards]:
        """The documents of all queues of a node. Reads the documents of all queues of the store."""
        objects = self._claims.objects
        with ThreadPoolExecutor(TAKERS, "jjq-owned") as pool:
            names = [name for name in self._cold.queue_names() if paths.ledger_parts(name) is None]
            found = pool.map(lambda name: shards.read(objects, name), names)
            return [each for each in found if each is not None and each.shards.owner == node]

    def _lost(self, found: Shards) -> Lost:
        return Lost(found.name, self._cold.open_queue(found.name).next_offset)

    def _take_disk(self, node: str) -> tuple[list[str], list[Lost]]:
        moved: list[str] = []
        lost: list[Lost] = []
        held = self._claims.held
        for found in self._owned_by(node):
            lost.append(self._lost(found.shards))
            new = found.shards.moved(held.node, held.run, found.shards.state)
            try:
                shards.swap(self._claims.objects, found, new)
            except Conflict:
                raise Fenced(
                    f"queue {found.shards.name} is moving to another node now: take over again"
                ) from None
            moved.append(found.shards.name)
        return moved, lost


def _log_move(move: tuple[str, str], error: BaseException) -> None:
    log.info("queue %s was not moved to node %s: %s", *move, error)
