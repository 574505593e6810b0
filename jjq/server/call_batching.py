"""Calls that come together go on together.

A small push costs the processor three times as much by itself as in a row with others: in a row Arrow's
code and ours are in the caches, and one sync of the journal serves all. So where several calls are open,
those whose request is here wait for as many others as came together of late, `_LINGER_SECONDS` at most.
Now and then they wait so long in any case, to learn how many come. A call that is alone does not wait.

How many are open is known from the server, which tells of each call when it begins, before its request has
come. A call may end without ever having asked (its client has gone), so the count can be too high. Who
waited in vain says so, and it is counted anew.
"""

from __future__ import annotations

import asyncio
from typing import Final

_LINGER_SECONDS: Final = 0.003
_ENOUGH: Final = 32  # more gain little by waiting for each other
_LOOK: Final = 16  # one gathering in so many waits to the end, to see how many come


class Crowd:
    """The open calls of one method."""

    def __init__(self) -> None:
        self._open = 0
        self._expected = 1
        self._gatherings = 0
        self._waiting: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None

    def came(self) -> None:
        """A call began; its request is on its way."""
        self._open += 1

    def went(self) -> None:
        """A call ended, whether it had its turn or not."""
        self._open = max(0, self._open - 1)

    async def turn(self) -> None:
        """Wait for the others, if there are any."""
        if self._open <= 1 and not self._waiting:
            return
        loop = asyncio.get_running_loop()
        mine = loop.create_future()
        self._waiting.append(mine)
        if self._timer is None:
            self._timer = loop.call_later(_LINGER_SECONDS, self._late)
        if len(self._waiting) >= (_ENOUGH if self._looks else self._expected):
            self._go()
        await mine

    @property
    def _looks(self) -> bool:
        return self._gatherings % _LOOK == 0

    def _late(self) -> None:
        """As many came as will come."""
        if len(self._waiting) == 1:
            self._open = 1
        self._expected = len(self._waiting)
        self._go()

    def _go(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, []
        if self._looks:
            self._expected = len(waiting)
        self._gatherings += 1
        for each in waiting:
            if not each.done():
                each.set_result(None)
