"""A store whose replies get lost, and whose pushes are refused, as a test says."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, Literal

from coldstore.shared.errors import JjqError, Unavailable

Mode = Literal["before", "after"]
Judge = Callable[[int], tuple[Mode, JjqError] | None]


def lost(mode: Mode) -> tuple[Mode, JjqError]:
    """The request never arrived (`before`), or its reply did not (`after`)."""
    return mode, Unavailable(f"lost {mode} it was done, by order of a test")


async def until(condition: Callable[[], bool]) -> None:
    """Let the event loop go round until `condition` holds."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0)


class FaultyStore:
    """Any store, with faults by verb: a judge sees the number of the call and says what becomes of it."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.judges: dict[str, Judge] = {}
        self.calls: dict[str, int] = {}
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.under_way = 0
        self.most_under_way = 0
        self.gates: dict[str, asyncio.Event] = {}  # replies of a verb wait for its gate, if there is one

    def fail(self, verb: str, *faults: tuple[Mode, JjqError] | None) -> None:
        """Let the next calls of `verb` fail like this, one after the other; None lets one pass."""
        first = self.calls.get(verb, 0)
        self.judges[verb] = lambda number: faults[number - first] if number - first < len(faults) else None

    def __getattr__(self, verb: str) -> Any:
        found = getattr(self.inner, verb)
        if not inspect.iscoroutinefunction(found):
            return found

        async def call(*args: Any, **kwargs: Any) -> Any:
            number = self.calls[verb] = self.calls.get(verb, 0) + 1
            fault = self.judges[verb](number - 1) if verb in self.judges else None
            self.asked.append((verb, kwargs))
            self.under_way += 1
            self.most_under_way = max(self.most_under_way, self.under_way)
            try:
                if fault is not None and fault[0] == "before":
                    raise fault[1]
                result = await found(*args, **kwargs)
                if verb in self.gates:
                    await self.gates[verb].wait()
                if fault is not None:
                    raise fault[1]
                return result
            finally:
                self.under_way -= 1

        return call
