"""Taking turns: who asks first gets the answer first, and goes on before the next one does.

Answers that are shared by all who wait would wake them some turns of the event loop later, and whoever
came in between, when the answer was known already, would overtake them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class KeyedLock(Generic[T]):
    """One line for each key."""

    def __init__(self) -> None:
        self._lines: dict[str, asyncio.Lock] = {}
        self._lengths: dict[str, int] = {}

    def waiting(self, key: str) -> bool:
        """Whether somebody stands in line: then everybody has to."""
        return key in self._lines

    async def take(self, key: str, ask: Callable[[str], Awaitable[T]]) -> T:
        """The answer for `key`, after all who came before have theirs."""
        line = self._lines.setdefault(key, asyncio.Lock())
        self._lengths[key] = self._lengths.get(key, 0) + 1
        try:
            async with line:
                return await ask(key)
        finally:
            self._lengths[key] -= 1
            if not self._lengths[key]:
                del self._lines[key], self._lengths[key]
