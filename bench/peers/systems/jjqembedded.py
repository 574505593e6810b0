"""jjq in the process of the application, without a server."""

from __future__ import annotations

import os

import jjq
from bench.peers.server import rss
from bench.peers.system import Client, System
from bench.peers.systems.jjqclient import JjqClient


class JjqEmbedded(System):
    name = "embedded"
    title = "jjq (embedded)"
    client = "jjq.aio.open"
    durability = "stage synced, the default: fdatasync before each receipt"

    @classmethod
    def missing(cls) -> str:
        return ""

    async def start(self, relaxed: bool = False) -> None:
        self._before = rss(os.getpid())
        self._opened = await jjq.aio.open(self.root / "data")

    async def stop(self) -> None:
        await self._opened.close()

    async def connect(self) -> Client:
        return _Shared(self._opened)

    def pid(self) -> int | None:
        return os.getpid()

    def memory(self) -> int:
        """What opening it, and all since then, added to this process."""
        return rss(os.getpid()) - self._before


class _Shared(JjqClient):
    """Closing it leaves the store open: that is the system, which `stop` closes."""

    async def close(self) -> None:
        return
