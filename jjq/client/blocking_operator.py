"""The verbs of an operator for ordinary programs: `RemoteOperator`, called on the event loop in the background."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

from coldstore.shared.errors import JjqError
from jjq.client.loop_thread import Portal, portal
from jjq.limits import MOVES_MAX
from jjq.remote.operate.keys import RemoteKeys
from jjq.remote.operate.operator import RemoteOperator
from jjq.remote.settings import ClientTls, RemoteSettings
from jjq.wire.services import KEYS, OPERATOR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jjq.access.quotas import Quota
    from jjq.remote.operate.keys import CreatedKey, KeyInfo
    from sharding.ports import Move, NodeState, Plan, Shard, Takeover


class BlockingOperator:
    """Each verb is the asynchronous one, run by the portal."""

    def __init__(self, inner: RemoteOperator, runs_on: Portal) -> None:
        self._inner = inner
        self._portal = runs_on

    def nodes(self) -> list[NodeState]:
        return self._portal.run(self._inner.nodes())

    def drain(self, node: str, *, undo: bool = False) -> NodeState:
        return self._portal.run(self._inner.drain(node, undo=undo))

    def take_over(self, node: str, *, accept_loss: bool = False, dry_run: bool = False) -> Takeover:
        return self._portal.run(self._inner.take_over(node, accept_loss=accept_loss, dry_run=dry_run))

    def shards(self, queue: str = "", node: str = "") -> dict[str, list[Shard]]:
        return self._portal.run(self._inner.shards(queue, node))

    def plan(self, leaving: str = "") -> Plan:
        return self._portal.run(self._inner.plan(leaving))

    def move(self, queue: str, to: str, first: int | None = None) -> Shard:
        return self._portal.run(self._inner.move(queue, to, first))

    def carry_out(self, moves: Sequence[Move], done: Callable[[Move, JjqError | None], None]) -> None:
        """Some at a time; `done` is called for each, with the error if it failed."""

        async def all_of_them() -> None:
            gate = asyncio.Semaphore(MOVES_MAX)

            async def one(move: Move) -> None:
                first = None if move.shard.next is None else move.shard.first
                async with gate:
                    try:
                        await self._inner.move(move.shard.queue, move.to, first)
                    except JjqError as error:
                        done(move, error)
                    else:
                        done(move, None)

            await asyncio.gather(*(one(move) for move in moves))

        self._portal.run(all_of_them())

    def split(self, queue: str, parts: int = 0, *, dry_run: bool = False) -> list[Shard]:
        return self._portal.run(self._inner.split(queue, parts, dry_run=dry_run))


class BlockingKeys:
    """The keys of the servers: each verb is the asynchronous one, run by the portal."""

    def __init__(self, inner: RemoteKeys, runs_on: Portal) -> None:
        self._inner = inner
        self._portal = runs_on

    def create(self, name: str, scopes: Sequence[str], quota: Quota) -> CreatedKey:
        return self._portal.run(self._inner.create(name, scopes, quota))

    def list(self) -> list[KeyInfo]:
        return self._portal.run(self._inner.list())

    def revoke(self, number: str) -> None:
        self._portal.run(self._inner.revoke(number))


@contextmanager
def keys(
    servers: str, *, timeout: float, tls: ClientTls | None = None, key: str | None = None
) -> Iterator[BlockingKeys]:
    """The keys of any of the servers: they share them."""
    runs_on = portal()
    settings = RemoteSettings(timeout, tls, direct=False, service=KEYS, key=key)

    async def make() -> RemoteKeys:
        return RemoteKeys(servers, settings)

    inner = runs_on.run(make())
    try:
        yield BlockingKeys(inner, runs_on)
    finally:
        runs_on.run(inner.close())


@contextmanager
def operator(
    servers: str, *, timeout: float, tls: ClientTls | None = None, key: str | None = None
) -> Iterator[BlockingOperator]:
    """An operator at any of the servers."""
    runs_on = portal()
    settings = RemoteSettings(timeout, tls, direct=False, service=OPERATOR, key=key)

    async def make() -> RemoteOperator:
        return RemoteOperator(servers, settings)

    inner = runs_on.run(make())
    try:
        yield BlockingOperator(inner, runs_on)
    finally:
        runs_on.run(inner.close())
