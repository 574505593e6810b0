"""Time, passed in: one real clock, one that tests move by hand, and one that does not follow jumps of the wall clock.

Wall time is for people: timestamps and ages. Order, fencing and leases never depend on it.
"""

from __future__ import annotations

import threading
import time
from typing import Final, Protocol

_STEP_US: Final = 5_000  # a smaller difference is the time between two looks at clocks


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

    monotonic = staticmethod(time.monotonic)  # not one call more: it is asked several times for each task

    def now_us(self) -> int:
        return time.time_ns() // 1_000

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class ManualClock:
    """A clock that moves only when a test moves it; sleeping moves it, too. Ships with the product, for tests."""

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


class SteadyClock:
    """Wall time at the start, and from then on the monotonic clock: a wall clock that is set does not change it.

    `shift_us` is what the wall clock shows more than this one, as of the last `measure`. It is not 0 after the wall
    clock was set, or the machine slept: the monotonic clock stands still then.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._base_us = clock.now_us() - round(clock.monotonic() * 1_000_000)
        self.shift_us = 0

    def now_us(self) -> int:
        return self._base_us + round(self._clock.monotonic() * 1_000_000)

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def sleep(self, seconds: float) -> None:
        self._clock.sleep(seconds)

    def measure(self) -> int:
        """Look at the wall clock, too: the shift from now on."""
        before = self.now_us()
        shift_us = self._clock.now_us() - before
        if abs(shift_us - self.shift_us) >= _STEP_US and self.now_us() - before < _STEP_US:
            self.shift_us = shift_us
        return self.shift_us

    def shift_at(self, stamp_us: int) -> int:
        """By how much `stamp_us`, the time of something that happens now, is ahead of this clock: mostly the shift.

        It is more while times have to wait for a wall clock that was set back. It is never less: a stamp that looks
        old was made just before this process, or the machine, stood still for a while.
        """
        shift_us = stamp_us - self.now_us()
        return shift_us if shift_us - self.measure() >= _STEP_US else self.shift_us
