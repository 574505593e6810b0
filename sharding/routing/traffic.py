"""What a node serves, by queue: elements a second, smoothed over a minute or so."""

from __future__ import annotations

from typing import Final

from coldstore.shared.clock import Clock

_SMOOTHING_SECONDS: Final = 60.0
_STEP_SECONDS: Final = 1.0
_NOTHING: Final = 0.01  # elements a second below which a queue counts as silent


class Traffic:
    """Counts cheaply; works out rates when asked, every few seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts: dict[str, int] = {}
        self._rates: dict[str, float] = {}
        self._since = clock.monotonic()

    def count(self, queue: str, elements: int) -> None:
        self._counts[queue] = self._counts.get(queue, 0) + elements

    def rates(self) -> dict[str, float]:
        """Elements a second of every queue that is not silent."""
        now = self._clock.monotonic()
        seconds = now - self._since
        if seconds < _STEP_SECONDS:
            return self._rates
        counts, self._counts, self._since = self._counts, {}, now
        share = min(1.0, seconds / _SMOOTHING_SECONDS)
        rates = {
            queue: (1 - share) * self._rates.get(queue, 0.0) + share * counts.get(queue, 0) / seconds
            for queue in self._rates.keys() | counts.keys()
        }
        self._rates = {queue: rate for queue, rate in rates.items() if rate >= _NOTHING}
        return self._rates
