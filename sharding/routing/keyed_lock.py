"""A lock for each key: callers of one key get their answers in the order in which they came.

Each caller goes on before the next one gets its answer. If all callers waited for one shared answer, they would wake
up some turns of the event loop later, and a caller that came in between would overtake them: the answer is known by
then.

A small file of its own, because the router (routing/router.py) and the store of a peer (jjq/remote/peer_store.py) use
it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class KeyedLock(Generic[T]):
    """One lock for each key, for as long as somebody holds it or waits for it."""

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._users: dict[str, int] = {}  # who hold a lock or wait for it

    def is_held(self, key: str) -> bool:
        """Whether somebody holds the lock of `key`: then all others must wait."""
        return key in self._locks

    async def run(self, key: str, ask: Callable[[str], Awaitable[T]]) -> T:
        """Wait for all callers that came before; then return what `ask` answers for `key`."""
        lock = self._locks.setdefault(key, asyncio.Lock())
        self._users[key] = self._users.get(key, 0) + 1
        try:
            async with lock:
                return await ask(key)
        finally:
            self._users[key] -= 1
            if not self._users[key]:
                del self._locks[key], self._users[key]
