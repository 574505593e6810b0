"""Retries of requests to an object store, with backoff, within a budget of time.

The SDK's own retries are switched off. They would hide that a reply was lost: then the store answers the
second attempt of a conditional put, whose first attempt took effect, with 412, as if another writer had won.
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
    """This attempt failed, the next one may succeed. With `doubt`, this one may have taken effect all the same."""

    def __init__(self, reason: str, *, doubt: bool) -> None:
        super().__init__(reason)
        self.doubt = doubt


class Retry:
    """Runs an operation until it succeeds, fails for good, or its time is up."""

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
