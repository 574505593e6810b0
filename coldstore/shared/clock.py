"""Time, passed in: one real clock and one that tests move by hand.

Wall time is for people: timestamps and ages. Order, fencing and leases never depend on it.
"""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Port: time."""

    def now_us(self) -> int:
        """Wall time in microseconds since 1970, UTC. May go back; callers clamp."""
        ...

    def monotonic(self) -> float:
        """Seconds that only grow, from an arbitrary start."""
        ...

    def sleep(self, seconds: float) -> None:
        """Block this thread; only backoff in worker threads may use it."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_us(self) -> int:
        return time.time_ns() // 1_000

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class ManualClock:
    """A clock that moves only when told to; sleeping moves it. Ships with the product, for tests."""

    def __init__(self, now_us: int = 1_767_225_600_000_000) -> None:
        self._now_us = now_us
        self._monotonic = 0.0
        self._lock = threading.Lock()

    def now_us(self) -> int:
        return self._now_us

    def monotonic(self) -> float:
        return self._monotonic

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Let both clocks run on by `seconds`."""
        with self._lock:
            self._now_us += round(seconds * 1_000_000)
            self._monotonic += seconds

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or back without time passing, as an operator or NTP does."""
        with self._lock:
            self._now_us += round(seconds * 1_000_000)
