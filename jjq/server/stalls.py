"""How late the event loop is, and what keeps it from being late.

A callback is due every `STALL_LOOK_SECONDS`; how late it runs is what a request waits that comes at that moment: a long
step of somebody else, a sync of the disk on the loop, another thread that holds the interpreter's lock, a collection of
garbage, or a machine that is busy with something else. The histogram `jjq_loop_stall_seconds` has all of them.

In a process that is a server and nothing else, and has started, collections of garbage look at what was made since, and
not at some hundred thousand objects of modules and of what was loaded; and there are fewer of them (`frozen`).
"""

from __future__ import annotations

import asyncio
import gc
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client.core import HistogramMetricFamily, Metric

from coldstore.shared.clock import Clock
from jjq.limits import COLLECT_AFTER, STALL_LOOK_SECONDS
from jjq.server.meter import BUCKETS, cumulative


@contextmanager
def frozen() -> Iterator[None]:
    """While the server serves. Not to the end of the interpreter: DuckDB calls what is frozen then leaked.

    Nothing is collected before: a start leaves some 3,000 objects of garbage, and a search for them would hold up the
    first calls for 50 ms or more.
    """
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
    gc.enable()
    try:
        yield
    finally:
        gc.unfreeze()


class StallMeter:
    """Looks at the loop that it was started on."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._seconds = 0.0
        self._buckets = [0] * (len(BUCKETS) + 1)

    def start(self) -> None:
        self._due = self._clock.monotonic() + STALL_LOOK_SECONDS
        self._timer = asyncio.get_running_loop().call_later(STALL_LOOK_SECONDS, self._look)

    def _look(self) -> None:
        late = max(0.0, self._clock.monotonic() - self._due)
        self._seconds += late
        self._buckets[bisect_left(BUCKETS, late)] += 1
        self.start()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def family(self) -> Metric:
        found = HistogramMetricFamily(
            "jjq_loop_stall_seconds", "How late the event loop runs what is due, sampled regularly"
        )
        found.add_metric((), cumulative(self._buckets), self._seconds)
        return found
