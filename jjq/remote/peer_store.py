"""`PeerStore`: the store of another node. Single calls go over a WebSocket where one can be had, all else over gRPC.

Pushes with an identity must not overtake each other when they change from one way to the other. From gRPC to the
WebSocket they wait until the stream has answered all pushes before them. The other way they need not wait: what a
broken connection had not answered has failed. While a node that stops still answers what it has, they fail as well,
and their clients push them again, in order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from coldstore.shared.chance import Chance
from coldstore.shared.clock import Clock
from coldstore.shared.deadline import settle
from coldstore.shared.errors import JjqError, Unavailable
from coldstore.shared.push import Push
from coldstore.shared.results import Receipt
from jjq.limits import PEER_PUSH_BYTES_MAX
from jjq.remote.groups.group_store import RemoteWorkStore
from jjq.remote.settings import RemoteSettings
from jjq.remote.store import encode_push
from jjq.v1 import jjq_pb2 as pb
from jjq.wire.batches import parse
from jjq.wire.convert import receipt_in
from sharding.routing.keyed_lock import KeyedLock

if TYPE_CHECKING:
    from jjq.remote.call_socket import ClientSocket

Settle = Callable[[Receipt | JjqError], None]


class PeerStore(RemoteWorkStore):
    """See the module's docstring."""

    def __init__(self, address: str, settings: RemoteSettings, clock: Clock, chance: Chance) -> None:
        super().__init__(address, settings, clock=clock, chance=chance)
        self._queue_locks: KeyedLock[None] = KeyedLock()
        self._last: ClientSocket | None = None  # that pushes with an identity went by

    async def append(self, push: Push) -> Receipt:
        queue, ordered, socket = push.queue, push.producer is not None, self._socket()
        if ordered and (self._queue_locks.is_held(queue) or (socket is not None and self.under_way(queue))):
            await self._change_over(queue)
            socket = self._socket()
        if socket is None and ordered and self._last is not None and self._last.under_way:
            raise Unavailable("the node that has the queue stops; push the same sequence again", sent=False)
        raw = b"" if socket is None else encode_push(push)
        if socket is None or len(raw) > PEER_PUSH_BYTES_MAX:
            return await super().append(push)
        receipt: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        self._push(socket, raw, partial(settle, receipt), push.timeout)
        return await receipt

    def relay(self, queue: str, ordered: bool, message: bytes, settle: Settle) -> bool:
        """Pass on a push as it came, and have `settle` called with what comes of it; False: `push` it."""
        socket = self._socket()
        if socket is None or len(message) > PEER_PUSH_BYTES_MAX:
            return False
        if ordered and (self._queue_locks.is_held(queue) or self.under_way(queue)):
            return False
        self._push(socket, message, settle)
        return True

    def _socket(self) -> ClientSocket | None:
        """The connection, if it stands; if not, one is begun, unless that failed just now."""
        return None if self._link.closed else self._link.lane().socket()

    def _push(self, socket: ClientSocket, message: bytes, tell: Settle, wait: float = 0.0) -> None:
        """At once, so that none overtakes another."""
        self._last = socket
        seconds = self._settings.timeout_seconds + wait
        socket.ask("Push", message, seconds, lambda reply: tell(_outcome(reply)))

    async def _change_over(self, queue: str) -> None:
        seconds = self._settings.timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                await self._queue_locks.run(queue, self.answered)
        except TimeoutError:
            raise Unavailable(f"pushes before this one have no answer within {seconds:g} s") from None


def _outcome(reply: bytes | JjqError) -> Receipt | JjqError:
    if isinstance(reply, JjqError):
        return reply
    try:
        return receipt_in(parse(pb.PushResponse, reply).receipt)
    except JjqError as error:
        return Unavailable(f"{error}; the outcome is unknown")
