"""The router: any node answers any request. It serves the request itself, or asks the owner of the queue.

    a queue of ours         → the local store                       costs one look-up more
    a queue of another node → that node, once; it does not forward  costs one hop more; the client gets a hint
    a queue of nobody       → the node that placement names, which claims it

A node that is asked for a queue of another node refuses with `Fenced` before it writes anything. So the router may try
again elsewhere, whatever the verb. If a node cannot be reached, the outcome is unknown: only verbs that may happen
twice are tried again, and only if the queue has a new owner.

A read follows the ranges of the queue, each served by its node. When the queue moves, the read goes on at the same
offset: the reader does not notice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from heapq import merge
from typing import Any, Protocol, TypeVar, cast

import pyarrow as pa

from coldstore.layout.paths import check_name
from coldstore.shared.clock import Clock
from coldstore.shared.errors import Fenced, InvalidInput, JjqError, Unavailable, check
from coldstore.shared.push import Push
from coldstore.start_points import named_offset
from hotstore.groups.port import WorkStore
from hotstore.groups.values import GroupInfo, SessionInfo
from hotstore.port import NodeStatus, QueueInfo, Receipt, Store, SubscriberInfo
from sharding.documents.load import first_home, weights
from sharding.limits import AGAIN_SECONDS, HOPS_MAX, ROUTE_SECONDS
from sharding.ports import Ownership
from sharding.routing.keyed_lock import KeyedLock
from sharding.routing.local_only import LocalOnlyStore, refused, statuses
from sharding.routing.nodes import Nodes
from sharding.routing.routes import Routes
from sharding.routing.traffic import Traffic
from sharding.routing.work_routing import work_of

T = TypeVar("T")


class RelayingStore(Store, Protocol):
    """Port: the store of another node."""

    def relay(
        self, queue: str, ordered: bool, message: bytes, settle: Callable[[Receipt | JjqError], None]
    ) -> bool:
        """Pass on a push as it came, and call `settle` with its outcome. False: not possible now, `push` it instead."""
        ...

    async def close(self) -> None: ...


Connect = Callable[[str], RelayingStore]  # from an address


class Router(LocalOnlyStore):
    """The store that clients see. `local_only` is the store that other nodes see."""

    def __init__(
        self,
        local: Store,
        ownership: Ownership,
        nodes: Nodes,
        connect: Connect,
        clock: Clock,
        traffic: Traffic,
    ) -> None:
        super().__init__(local, ownership, traffic)
        self.local_only = LocalOnlyStore(local, ownership, traffic)
        self._owns = ownership.owns
        self._nodes = nodes
        self._routes = Routes(ownership.shards, clock)
        self._connect = connect
        self._queue_locks: KeyedLock[tuple[str, Store]] = KeyedLock()
        self._peers: dict[str, RelayingStore] = {}

    @property
    def node(self) -> str:
        """The name of this node."""
        return self._ownership.node

    async def close(self) -> None:
        """Close the connections to other nodes. The caller that opened the local store closes that."""
        peers, self._peers = self._peers, {}
        await asyncio.gather(*(peer.close() for peer in peers.values()))

    # Who serves -----------------------------------------------------------------------------------

    def hint(self, queue: str, offset: int | None = None) -> str:
        """The address of the node that serves this queue, or its element at `offset`. Empty: here, or not known."""
        route = self._routes.known(queue)
        if offset is not None and route is not None and route.ranges:
            return self._address_of(route.server_of(offset)[0])
        if self._owns(queue) or route is None:
            return ""
        return self._address_of(route.owner)

    def _address_of(self, node: str) -> str:
        return "" if node == self._ownership.node else self._nodes.address(node) or ""

    async def _owner(self, queue: str) -> str:
        """The node that owns the queue. If nobody does, or the owner is dead: the node that is to own it."""
        route = await self._routes.find(check_name(queue))
        if route is not None and not await self._is_there(route.owner):
            route = await self._routes.find(queue, AGAIN_SECONDS)  # perhaps another node took over by now
        if route is not None and await self._is_there(route.owner):
            return route.owner
        return self._home(queue)

    async def _is_there(self, node: str) -> bool:
        if self._nodes.get(node) is None:
            await self._nodes.read(node)  # it may have joined just now
        return self._nodes.is_alive(node)

    def _home(self, queue: str) -> str:
        nodes = [node for node in self._nodes.alive() if not node.draining] or [self._nodes.me]
        shares = weights([node.load for node in nodes])
        return first_home(queue, {node.id: float(w) for node, w in zip(nodes, shares, strict=True)})

    async def _store_at(self, node: str, queue: str) -> Store:
        if node == self._ownership.node:
            return self.local
        known = self._nodes.get(node)
        if known is None:
            raise Unavailable(_away(node, queue))
        peer = self._peers.get(known.address)
        if peer is None:
            peer = self._peers[known.address] = self._connect(known.address)
        return peer

    async def _ask(self, queue: str, call: Callable[[Store], Awaitable[T]], *, safe: bool = True) -> T:
        if self._owns(queue):
            try:
                return await call(self.local)
            except Fenced as moved:
                self._routes.moved(queue, moved.owner)
        named: str | None = None
        for _ in range(HOPS_MAX):
            node = await self._owner(queue)
            try:
                return await call(await self._store_at(node, queue))
            except Fenced as moved:
                named = moved.owner
                self._routes.moved(queue, named)
                if named is not None and not await self._is_there(named):
                    raise Unavailable(_away(named, queue)) from None
            except Unavailable:
                self._routes.forget(queue)
                if not safe or await self._owner(queue) == node:
                    await self._nodes_again(node)
                    raise
        raise refused(queue, None if named is None else self._nodes.address(named))

    async def _nodes_again(self, node: str) -> None:
        """The node did not answer at its address: perhaps it was started again at another one."""
        if node not in {"", self._ownership.node}:
            await self._nodes.read(node)

    # Lists over all nodes ---------------------------------------------------------------------------

    async def list_queues(
        self, *, after: str = "", limit: int | None = None, ledgers: bool = False
    ) -> list[QueueInfo]:
        async def some(store: Store) -> list[QueueInfo]:
            return await store.list_queues(after=after, limit=limit, ledgers=ledgers)

        return await self._all(some, lambda queue: queue.name, limit)

    async def list_subscribers(
        self, queue: str | None = None, *, after: str = "", limit: int | None = None
    ) -> list[SubscriberInfo]:
        if queue is not None:
            return await super().list_subscribers(queue, after=after, limit=limit)

        async def some(store: Store) -> list[SubscriberInfo]:
            return await store.list_subscribers(after=after, limit=limit)

        return await self._all(some, lambda found: (found.queue, found.name), limit)

    async def list_groups(
        self, queue: str | None = None, *, after: str = "", limit: int | None = None
    ) -> list[GroupInfo]:
        if queue is not None:
            return await super().list_groups(queue, after=after, limit=limit)

        async def some(store: Store) -> list[GroupInfo]:
            return await work_of(store).list_groups(after=after, limit=limit)

        return await self._all(some, lambda found: found.id, limit)

    async def attach_session(self, session: str, ttr: float) -> SessionInfo:
        """At this node, and at the others: the session may take from their queues. One that is away learns of it by
        the next attach."""
        info = await super().attach_session(session, ttr)
        await self._others(lambda work: work.attach_session(session, ttr))
        return info

    async def detach_session(self, session: str) -> None:
        await super().detach_session(session)
        await self._others(lambda work: work.detach_session(session))

    async def _others(self, call: Callable[[WorkStore], Awaitable[Any]]) -> None:
        others = [node.id for node in self._nodes.alive() if node.id != self._ownership.node]
        stores = [await self._store_at(node, "") for node in others]
        for outcome in await asyncio.gather(
            *(call(work_of(each)) for each in stores), return_exceptions=True
        ):
            if isinstance(outcome, BaseException) and not isinstance(outcome, JjqError):
                raise outcome

    async def _all(
        self, ask: Callable[[Store], Awaitable[list[T]]], place: Callable[[T], Any], limit: int | None
    ) -> list[T]:
        """The lists of all living nodes, merged. A queue that moves meanwhile is listed once."""
        stores = [await self._store_at(node.id, "") for node in self._nodes.alive()]
        lists = await asyncio.gather(*(ask(store) for store in stores))
        found: list[T] = []
        for entry in merge(*lists, key=place):
            if not found or place(found[-1]) != place(entry):
                found.append(entry)
        return found[:limit]

    async def status(self) -> list[NodeStatus]:
        return await statuses(self._nodes, self._store_at)

    # Elements -------------------------------------------------------------------------------------

    async def append(self, push: Push) -> Receipt:
        if push.producer is None:
            receipt = await self._ask(push.queue, lambda store: store.append(push), safe=False)
        else:
            receipt = await self._push_in_order(push)
        self._traffic.count(push.queue, receipt.count)
        return receipt

    def relay(
        self, queue: str, ordered: bool, message: bytes, push: Callable[[], Awaitable[Receipt]]
    ) -> asyncio.Future[Receipt] | None:
        """Pass on a push as it came, unread, if that can be done at once; None: it must be pushed.

        `push` is called if the queue turns out to be at another node, and the push has no place in an order.
        """
        node, peer = self._peer_at_hand(queue)
        if peer is None:
            return None
        outcome: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()

        def settle(what: Receipt | JjqError) -> None:
            if isinstance(what, Receipt):
                self._traffic.count(queue, what.count)
                if not outcome.done():
                    outcome.set_result(what)
            else:
                task = asyncio.create_task(self._relay_failed(queue, node, ordered, what, push))
                task.add_done_callback(partial(_pass_on, outcome))

        return outcome if peer.relay(queue, ordered, message, settle) else None

    async def _relay_failed(
        self, queue: str, node: str, ordered: bool, error: JjqError, push: Callable[[], Awaitable[Receipt]]
    ) -> Receipt:
        """React as `push` does."""
        if isinstance(error, Fenced):
            self._routes.moved(queue, error.owner)
            if not ordered:
                return await push()
            raise _moved(queue)
        if isinstance(error, Unavailable):
            self._routes.forget(queue)
            await self._nodes_again(node)
        raise error

    async def _push_in_order(self, push: Push) -> Receipt:
        # Pushes with an identity come in order, many at a time. If each found its own way after a move,
        # one could overtake another and be refused for good; so all are sent back to be pushed again,
        # in order, as after a broken connection.
        queue, node = push.queue, ""
        try:
            node, store = self._at_hand(queue) or await self._queue_locks.run(queue, self._find)
            return await store.append(push)
        except Fenced as moved:
            self._routes.moved(queue, moved.owner)
            raise _moved(queue) from None
        except Unavailable:
            self._routes.forget(queue)
            await self._nodes_again(node)
            raise

    def _at_hand(self, queue: str) -> tuple[str, Store] | None:
        """The store that has `queue`, if it is known now and no earlier push waits for the answer."""
        if self._owns(queue) and not self._queue_locks.is_held(queue):
            return self._ownership.node, self.local
        node, peer = self._peer_at_hand(queue)
        return None if peer is None else (node, peer)

    def _peer_at_hand(self, queue: str) -> tuple[str, RelayingStore | None]:
        """The same, if another node has the queue."""
        if self._queue_locks.is_held(queue) or self._owns(queue):
            return "", None
        route = self._routes.known(queue)
        known = None if route is None else self._nodes.get(route.owner)
        if known is None or not self._nodes.is_alive(known.id):
            return "", None
        return known.id, self._peers.get(known.address)

    async def _find(self, queue: str) -> tuple[str, Store]:
        node = self._ownership.node if self._owns(queue) else await self._owner(queue)
        return node, await self._store_at(node, queue)

    async def read(
        self, queue: str, start: str = "beginning", end: str | None = None, *, follow: bool = False
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        if follow and end is not None:
            raise InvalidInput("a read that follows has no end: leave out end, or follow")
        position, last = await self._extent(queue, start, end, follow)
        down: set[str] = set()  # nodes that did not answer: the owner serves their ranges
        failures = 0
        while last is None or position < last:
            node, until = await self._server(queue, position, down)
            stop = last if until is None or (last is not None and last < until) else until
            try:
                async with aclosing(await self._pieces(node, queue, position, stop)) as batches:
                    async for batch in batches:
                        at = batch.column("offset")[0].as_py()
                        check(at == position, f"gap in a read of {queue}: {at} after {position}")
                        yield batch
                        position += batch.num_rows
                        failures = 0
                if stop is None:
                    raise Fenced("the queue is not served there any more")
            except Fenced as moved:
                failures += 1
                if failures > HOPS_MAX:
                    raise refused(queue, None) from None
                self._routes.moved(queue, moved.owner)
            except Unavailable:
                if node in down or node == await self._owner(queue):
                    self._routes.forget(queue)
                    raise
                down.add(node)

    async def _extent(self, queue: str, start: str, end: str | None, follow: bool) -> tuple[int, int | None]:
        """Both ends of a read as offsets. If they are given in another way, the owner is asked."""
        first, last = named_offset(start), named_offset(end)
        if first is None or (end is None and not follow):
            begin = await self.create_subscriber(queue, start=start, dry_run=True)
            first = begin.offset
            if begin.resolved is not None and end is None and not follow:
                last = begin.resolved.next_offset
        if end is not None and last is None:
            last = (await self.create_subscriber(queue, start=end, dry_run=True)).offset
        if last is not None and first > last:
            raise InvalidInput(
                f"the read starts at {first}, after its end {last}: swap or correct start and end"
            )
        return first, last

    async def _server(self, queue: str, position: int, down: set[str]) -> tuple[str, int | None]:
        """The node that serves an offset, and the offset at which it stops serving."""
        route = await self._routes.find(check_name(queue), ROUTE_SECONDS)
        node, until = ("", None) if route is None else route.server_of(position)
        if route is None or node in {route.owner, *down} or not await self._is_there(node):
            node = await self._owner(queue)
        return node, until

    async def _pieces(
        self, node: str, queue: str, start: int, end: int | None
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        last = None if end is None else f"offset:{end}"
        store = self.local_only if node == self._ownership.node else await self._store_at(node, queue)
        return cast(
            "AsyncGenerator[pa.RecordBatch, None]",
            store.read(queue, f"offset:{start}", last, follow=end is None),
        )


def _pass_on(outcome: asyncio.Future[Receipt], task: asyncio.Task[Receipt]) -> None:
    error = None if task.cancelled() else task.exception()  # asked for in any case: else asyncio logs it
    if outcome.done():
        return
    if task.cancelled():
        outcome.cancel()
    elif error is not None:
        outcome.set_exception(error)
    else:
        outcome.set_result(task.result())


def _moved(queue: str) -> Unavailable:
    return Unavailable(f"queue {queue} has moved to another node: push the same sequence again")


def _away(node: str, queue: str) -> str:
    return f"node {node}, which serves queue {queue}, is not there: start it, or try again"
