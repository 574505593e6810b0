"""What one method of the service has done, counted at next to no cost.

Plain numbers that only the event loop changes; they become Prometheus families when they are scraped. The
library's own counters take a lock and several calls for each step, which at six steps a call was as
much as decoding a push.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate
from typing import Final

import grpc
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

BUCKETS: Final = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
)  # fmt: skip
_BY: Final = ("method",)


class Meter:
    """The figures of one method."""

    __slots__ = (
        "_buckets", "calls", "elements", "method", "open", "received_bytes", "seconds", "sent_bytes",
    )  # fmt: skip

    def __init__(self, method: str) -> None:
        self.method = method
        self.received_bytes = 0
        self.sent_bytes = 0
        self.elements = 0
        self.open = 0  # streams
        self.seconds = 0.0
        self.calls: dict[grpc.StatusCode, int] = {}
        self._buckets = [0] * (len(BUCKETS) + 1)

    def received(self, size: int) -> None:
        self.received_bytes += size

    def sent(self, size: int) -> None:
        self.sent_bytes += size

    def moved(self, elements: int) -> None:
        """So many elements were pushed, popped or read."""
        self.elements += elements

    def took(self, seconds: float) -> None:
        self.seconds += seconds
        self._buckets[bisect_left(BUCKETS, seconds)] += 1

    def ended(self, code: grpc.StatusCode) -> None:
        self.calls[code] = self.calls.get(code, 0) + 1

    def histogram(self) -> list[tuple[str, float]]:
        return cumulative(self._buckets)


def cumulative(buckets: Iterable[int]) -> list[tuple[str, float]]:
    """How many took up to each bound, smaller ones included."""
    bounds = (*map(str, BUCKETS), "+Inf")
    return [(bound, float(total)) for bound, total in zip(bounds, accumulate(buckets), strict=True)]


def families(meters: Iterable[Meter]) -> list[Metric]:
    """The figures of all methods as Prometheus has them."""
    calls = CounterMetricFamily("jjq_calls", "Calls ended", labels=("method", "code"))
    received = CounterMetricFamily("jjq_received_bytes", "Bytes of messages received", labels=_BY)
    sent = CounterMetricFamily("jjq_sent_bytes", "Bytes of messages sent", labels=_BY)
    elements = CounterMetricFamily("jjq_elements", "Elements pushed, popped or read", labels=_BY)
    opened = GaugeMetricFamily("jjq_open_streams", "Streams open now", labels=_BY)
    seconds = HistogramMetricFamily(
        "jjq_seconds", "Time of a call, or of a push or pop on a stream", labels=_BY
    )
    for meter in meters:
        by = (meter.method,)
        for code, count in list(meter.calls.items()):
            calls.add_metric((meter.method, code.name), count)
        received.add_metric(by, meter.received_bytes)
        sent.add_metric(by, meter.sent_bytes)
        elements.add_metric(by, meter.elements)
        opened.add_metric(by, meter.open)
        seconds.add_metric(by, meter.histogram(), meter.seconds)
    return [calls, received, sent, elements, opened, seconds]
