"""Trying again, in one place: exponential backoff with jitter, within a budget of time.

The SDK's own retries are switched off. They would hide that a reply was lost, and then a conditional
put that did take effect is answered with 412 as if somebody else had won.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from coldstore.shared import limits
from coldstore.shared.backoff import Backoff
from coldstore.shared.chance import Chance
from coldstore.shared.clock import Clock
from coldstore.shared.errors import Unavailable

T = TypeVar("T")


class Transient(Exception):
    """This attempt failed, another may not. With `doubt` it may have taken effect all the same."""

    def __init__(self, reason: str, *, doubt: bool) -> None:
        super().__init__(reason)
        self.doubt = doubt


class Retry:
    """How often and how long one operation is tried."""

    def __init__(self, clock: Clock, chance: Chance, seconds: float = limits.OBJECT_RETRY_SECONDS) -> None:
        self._clock = clock
        self._chance = chance
        self._seconds = seconds

    def run(self, doing: str, attempt: Callable[[], T]) -> T:
        """The result of the first attempt that is not `Transient`; no new one starts beyond the budget."""
        deadline = self._clock.monotonic() + self._seconds
        backoff = Backoff(limits.OBJECT_BACKOFF_SECONDS, limits.OBJECT_BACKOFF_SECONDS_MAX, self._chance)
        while True:
            try:
                return attempt()
            except Transient as failed:
                pause = backoff.next_pause()
                if self._clock.monotonic() + pause > deadline:
                    message = (
                        f"cannot {doing}: {failed}, for {self._seconds:g} s; retry when the store is back"
                    )
                    raise Unavailable(message) from failed
            self._clock.sleep(pause)
