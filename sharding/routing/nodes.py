"""The nodes of the cluster, as this node sees them; and this node's own heartbeat.

A look is one listing of `cluster/nodes/`. Its etags tell which documents have changed. A few of the changed ones are
read, those read longest ago first. So watching a thousand nodes costs two requests a second, and none for a client's
request. A node is alive if its document changed within `dead_seconds` (documents/liveness.py). A node that stops in
order deletes its document, and is gone at once.

The heartbeat is a compare-and-swap. Of two processes with the same node name, the one that started last wins. The
other one finds out (`taken`) and must stop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from coldstore.layout import paths
from coldstore.objects.port import ObjectStore
from coldstore.objects.swap import Change, swap
from coldstore.shared.clock import Clock
from coldstore.shared.errors import Conflict, DataLoss, InvalidInput, JjqError, NotFound
from hotstore.runner import Runner
from sharding.documents import node_info as node
from sharding.documents.liveness import Liveness
from sharding.documents.load import Load
from sharding.documents.node_info import Node
from sharding.limits import BEAT_SECONDS, DEAD_BEATS_MIN, DEAD_SECONDS, NODE_READS_MAX

log = logging.getLogger("jjq.sharding")


@dataclass(frozen=True, slots=True)
class NodesSettings:
    """How often this node beats, and after how many seconds of silence another node counts as dead."""

    beat_seconds: float = BEAT_SECONDS
    dead_seconds: float = DEAD_SECONDS

    @classmethod
    def for_lease(cls, seconds: float) -> NodesSettings:
        """A node counts as dead after `seconds` of silence; it beats several times in that time."""
        return cls(min(BEAT_SECONDS, seconds / (DEAD_BEATS_MIN + 1)), seconds)

    def __post_init__(self) -> None:
        if not 0 < self.beat_seconds * DEAD_BEATS_MIN <= self.dead_seconds:
            raise InvalidInput(
                f"dead_seconds must be at least {DEAD_BEATS_MIN} times beat_seconds: one lost heartbeat is no death"
            )


@dataclass(slots=True)
class _Seen:
    """Another node's document, as far as known."""

    etag: str = ""  # of the version that was read
    read: float = -1.0  # when it was read
    node: Node | None = None


class Nodes:
    """The list of nodes. `start` it on the event loop that uses it."""

    def __init__(
        self,
        objects: ObjectStore,
        me: Node,
        clock: Clock,
        runner: Runner,
        load: Callable[[], Load] = lambda: Load(count=0),
        settings: NodesSettings | None = None,
    ) -> None:
        self.me = me
        self.taken = asyncio.Event()  # another process has this node's name
        self.on_look: Callable[[], None] = lambda: None  # after every look at the others
        self._objects = objects
        self._clock = clock
        self._runner = runner
        self._load = load
        self._settings = settings or NodesSettings()
        self._etag: str | None = None
        self._seen: dict[str, _Seen] = {}
        self._started = clock.monotonic()
        self._others = Liveness(clock, self._settings.dead_seconds)
        self._task: asyncio.Task[None] | None = None

    # What is known ----------------------------------------------------------------------------------

    def get(self, node_id: str) -> Node | None:
        """A node as it last described itself, alive or not; None if it never did, or has left."""
        if node_id == self.me.id:
            return self.me
        seen = self._seen.get(node_id)
        return None if seen is None else seen.node

    def is_alive(self, node_id: str) -> bool:
        """Whether a node was seen to change lately; this one is, as far as it can tell.

        Silence counts up to our last look: when we cannot look we know nothing new about anyone.
        """
        return node_id == self.me.id or self._others.is_alive(node_id)

    def all(self) -> list[Node]:
        """All nodes that are known, by id."""
        known = [seen.node for seen in self._seen.values() if seen.node is not None]
        return sorted([self.me, *known], key=lambda each: each.id)

    def alive(self) -> list[Node]:
        """The living nodes, by id."""
        return [each for each in self.all() if self.is_alive(each.id)]

    def address(self, node_id: str) -> str | None:
        found = self.get(node_id)
        return None if found is None else found.address

    # Heartbeat and looks ------------------------------------------------------------------------------

    async def start(self, *, background: bool = True) -> None:
        """Write this node's document, and see which other nodes there are."""
        await self.beat()
        await self.look()
        if background:
            self._task = asyncio.create_task(self._run(), name="jjq-nodes")

    async def close(self) -> None:
        """Leave, so that the other nodes need not wait for a silence."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        if not self.taken.is_set():
            try:
                await self._runner.run(lambda: self._objects.delete(paths.node(self.me.id)))
            except JjqError as error:
                log.warning("could not leave the cluster's list of nodes: %s", error)

    async def drain(self, draining: bool) -> Node:
        """Write at once whether this node is being emptied."""
        self.me = replace(self.me, draining=draining)
        await self.beat()
        return self.me

    async def beat(self) -> None:
        """One heartbeat."""
        uptime = self._clock.monotonic() - self._started
        self.me = replace(self.me, beat=self.me.beat + 1, load=self._load(), uptime_seconds=uptime)
        me, key = self.me, paths.node(self.me.id)
        if self._etag is None:
            self._etag = await self._runner.run(lambda: self._begin(key, me))
            return
        etag = self._etag
        try:
            self._etag = await self._runner.run(
                lambda: self._objects.put_if_match(key, node.encode(me), etag)
            )
        except Conflict:
            await self._lost(key)

    def _begin(self, key: str, me: Node) -> str:
        """The first heartbeat replaces the document of an earlier run."""
        busy = Conflict(
            f"other processes with the node name {me.id} start all the time: give each its own --node"
        )
        mine = Change(node.encode(me), me)
        return swap(self._objects, key, lambda found: mine, busy=busy, expect_none=True).etag

    async def _lost(self, key: str) -> None:
        """The document is not the one that we wrote: it was deleted, or another process has our name."""
        try:
            found = await self._runner.run(lambda: self._objects.get(key))
        except NotFound:
            self._etag = None
            return
        if node.decode(found.data, key).incarnation == self.me.incarnation:
            self._etag = found.etag
            return
        log.critical("another process runs as node %s: this one stops", self.me.id)
        self.taken.set()

    async def look(self) -> None:
        """See which nodes there are."""
        listed = await self._runner.run(lambda: list(self._objects.list(paths.NODES)))
        present = {}
        for info in listed:
            node_id = paths.node_id(info.key)
            if node_id is not None and node_id != self.me.id:
                present[node_id] = info.etag
        self._others.look(present)
        self._seen = {node_id: self._seen.get(node_id) or _Seen() for node_id in present}
        stale = [node_id for node_id, etag in present.items() if self._seen[node_id].etag != etag]
        stale.sort(key=lambda node_id: self._seen[node_id].read)
        await asyncio.gather(*(self.read(node_id) for node_id in stale[:NODE_READS_MAX]))
        self.on_look()

    async def read(self, node_id: str) -> Node | None:
        """Read a node's document now: for callers that could not reach it at its last address."""
        key = paths.node(node_id)
        try:
            found = await self._runner.run(lambda: self._objects.get(key))
            described = node.decode(found.data, key)
        except NotFound:
            self._seen.pop(node_id, None)
            self._others.forget(node_id)
            return None
        except DataLoss as error:
            log.error("%s", error)
            return None
        self._others.note(node_id, found.etag)
        self._seen[node_id] = _Seen(found.etag, self._clock.monotonic(), described)
        return described

    async def _run(self) -> None:
        while not self.taken.is_set():
            await asyncio.sleep(self._settings.beat_seconds)
            for step in (self.beat, self.look):
                try:
                    await step()
                except JjqError as error:
                    log.warning("nodes: %s", error)
