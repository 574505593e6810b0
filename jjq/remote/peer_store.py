"""`PeerStore`: the store of another node. Pushes go over the peer connection, all else over gRPC.

Without a peer connection, pushes go over gRPC, too. Pushes with an identity must not overtake each other when
they change from one way to the other. From gRPC to the peer connection they wait until the stream has answered
all pushes before them. The other way they need not wait: what a broken peer connection had not answered has
failed.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

from coldstore.shared.chance import Chance
from coldstore.shared.clock import Clock
from coldstore.shared.errors import Unavailable
from coldstore.shared.push import Push
from coldstore.shared.results import Receipt
from jjq.remote.groups.group_store import RemoteWorkStore
from jjq.remote.peer_connection import PeerAddress, PeerConnector, Settle
from jjq.remote.settings import RemoteSettings
from jjq.remote.store import encode_push
from sharding.routing.keyed_lock import KeyedLock


class PeerStore(RemoteWorkStore):
    """See the module's docstring. `where` gives the address of the peer connection."""

    def __init__(
        self,
        address: str,
        where: Callable[[], PeerAddress | None],
        settings: RemoteSettings,
        clock: Clock,
        chance: Chance,
    ) -> None:
        super().__init__(address, settings, clock=clock, chance=chance)
        tls: Callable[[], ssl.SSLContext] | None = None if settings.tls is None else settings.tls.context
        self._wire = PeerConnector(where, tls, settings.timeout_seconds, clock, settings.key)
        self._queue_locks: KeyedLock[None] = KeyedLock()

    async def close(self) -> None:
        await self._wire.close()
        await super().close()

    async def append(self, push: Push) -> Receipt:
        queue, wire = push.queue, self._wire.at_hand()
        if push.producer is not None and (
            self._queue_locks.is_held(queue) or (wire is not None and self.under_way(queue))
        ):
            await self._change_over(queue)
            wire = self._wire.at_hand()
        if wire is None:
            return await super().append(push)
        return await wire.push(encode_push(push))

    def relay(self, queue: str, ordered: bool, message: bytes, settle: Settle) -> bool:
        """Pass on a push as it came, and have `settle` called with what comes of it; False: `push` it."""
        wire = self._wire.at_hand()
        if wire is None or (ordered and (self._queue_locks.is_held(queue) or self.under_way(queue))):
            return False
        wire.send(message, settle)
        return True

    async def _change_over(self, queue: str) -> None:
        seconds = self._settings.timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                await self._queue_locks.run(queue, self.answered)
        except TimeoutError:
            raise Unavailable(f"pushes before this one have no answer within {seconds:g} s") from None
