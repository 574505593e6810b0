"""Calls of an operator's verbs: connections of their own, and one way to call."""

from __future__ import annotations

from typing import TypeVar

from google.protobuf.message import Message

from coldstore.shared.chance import Chance, SystemChance
from coldstore.shared.clock import Clock, SystemClock
from jjq.remote.channels import Link
from jjq.remote.retry import Caller
from jjq.remote.settings import RemoteSettings
from jjq.wire.batches import parse

M = TypeVar("M", bound=Message)


class OperatorCalls:
    """What `RemoteOperator` and `RemoteKeys` have in common. `close` it."""

    def __init__(
        self,
        targets: str,
        settings: RemoteSettings,
        *,
        clock: Clock | None = None,
        chance: Chance | None = None,
    ) -> None:
        self._seconds = settings.timeout_seconds
        self._link = Link(targets, settings, clock or SystemClock())
        self._caller = Caller(self._link, chance or SystemChance())

    async def close(self) -> None:
        await self._link.close()

    async def _call(self, method: str, request: Message, reply: type[M]) -> M:
        return parse(reply, await self._caller.call(method, request.SerializeToString(), self._seconds))
