"""Cutting proxies, all in one thread: between clients and nodes, and from each node to each other one."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AsyncExitStack

from tests.jjq.cutproxy import CutProxy, proxied

READY_SECONDS = 120.0  # a busy machine may pause a process for a minute


class Link:
    """One way, through a proxy for each place that it leads to; `addresses` are where it begins."""

    def __init__(self, proxies: list[CutProxy], loop: asyncio.AbstractEventLoop) -> None:
        self._proxies = proxies
        self._loop = loop
        self.addresses = [proxy.address for proxy in proxies]

    @property
    def address(self) -> str:
        """The first of them."""
        return self.addresses[0]

    def set(self, **fields: object) -> None:
        """Change fields of the proxies; `cut` cuts every connection."""
        self._loop.call_soon_threadsafe(self._set, fields)

    def _set(self, fields: dict[str, object]) -> None:
        cut = fields.pop("cut", False)
        for proxy in self._proxies:
            if cut:
                proxy.cut()
            for name, value in fields.items():
                setattr(proxy, name, value)

    def heal(self) -> None:
        """Swallowed bytes make a connection worthless: cut it."""
        self.set(
            swallow=False, swallow_requests=False, refuse=False, cut_after=None, cut_again=0, cut=True
        )  # fmt: skip


class Links:
    """The thread, and the proxies in it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._proxies = AsyncExitStack()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def add(self, *targets: str) -> Link:
        return Link([self._proxy(target) for target in targets], self._loop)

    def _proxy(self, target: str) -> CutProxy:
        adding = self._proxies.enter_async_context(proxied(target))
        return asyncio.run_coroutine_threadsafe(adding, self._loop).result(READY_SECONDS)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._proxies.aclose(), self._loop).result(READY_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
