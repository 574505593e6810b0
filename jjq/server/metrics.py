"""Figures for Prometheus: calls, bytes and latencies of the front end, and what the store reports.

All of them belong to a registry of this server, so that several servers of one process, as in
tests, do not add up.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Protocol, runtime_checkable

import grpc
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import start_http_server
from prometheus_client.registry import Collector

from coldstore.errors import InvalidInput, JjqError
from hotstore.port import Store, SubscriberInfo
from jjq.server.settings import split_address

_BUCKETS: Final = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
)  # fmt: skip
_SCRAPE_SECONDS: Final = 5.0


@runtime_checkable
class Gauges(Protocol):
    """A store that has figures to show: names without prefix, units last (`journal_bytes`).

    Those that only grow end with `_total`.
    """

    def gauges(self) -> Mapping[str, float]: ...


class Meter:
    """The figures of one method, looked up once."""

    def __init__(self, metrics: Metrics, method: str) -> None:
        self._calls = metrics.calls
        self._method = method
        self._ok = metrics.calls.labels(method, grpc.StatusCode.OK.name)
        self._received = metrics.received.labels(method)
        self._sent = metrics.sent.labels(method)
        self._seconds = metrics.seconds.labels(method)
        self.open = metrics.open.labels(method)
        self.elements = metrics.elements.labels(method)

    def received(self, size: int) -> None:
        self._received.inc(size)

    def sent(self, size: int) -> None:
        self._sent.inc(size)

    def took(self, seconds: float) -> None:
        self._seconds.observe(seconds)

    def ended(self, code: grpc.StatusCode) -> None:
        if code is grpc.StatusCode.OK:
            self._ok.inc()
        else:
            self._calls.labels(self._method, code.name).inc()


class Metrics:
    """All figures of one server."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        by = ("method",)
        self.calls = Counter("jjq_calls", "Calls ended", ("method", "code"), registry=registry)
        self.received = Counter("jjq_received_bytes", "Bytes of messages received", by, registry=registry)
        self.sent = Counter("jjq_sent_bytes", "Bytes of messages sent", by, registry=registry)
        self.elements = Counter("jjq_elements", "Elements pushed, popped or read", by, registry=registry)
        self.open = Gauge("jjq_open_streams", "Streams open now", by, registry=registry)
        self.seconds = Histogram(
            "jjq_seconds", "Time of a call, or of a push on a stream", by, buckets=_BUCKETS, registry=registry
        )

    def meter(self, method: str) -> Meter:
        return Meter(self, method)

    def watch(self, store: Store, loop: asyncio.AbstractEventLoop) -> None:
        """Show the store's own figures too."""
        self.registry.register(_StoreFigures(store, loop))


async def collect(store: Store) -> tuple[Mapping[str, float], list[SubscriberInfo]]:
    """What the store reports: its gauges, and its subscribers for their lag."""
    gauges = store.gauges() if isinstance(store, Gauges) else {}
    return gauges, await store.list_subscribers()


class _StoreFigures(Collector):
    """Asks the store at each scrape. Scrapes come on a thread of their own, the store lives on the loop."""

    def __init__(self, store: Store, loop: asyncio.AbstractEventLoop) -> None:
        self._store = store
        self._loop = loop

    def describe(self) -> Iterable[Metric]:
        return ()  # registering must not ask the store

    def collect(self) -> Iterator[Metric]:
        asked = asyncio.run_coroutine_threadsafe(collect(self._store), self._loop)
        try:
            gauges, subscribers = asked.result(_SCRAPE_SECONDS)
        except (JjqError, concurrent.futures.TimeoutError, concurrent.futures.CancelledError):
            asked.cancel()
            return  # the other figures are worth showing all the same
        for name, value in gauges.items():
            family = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            yield family(f"jjq_{name}", f"Store: {name.replace('_', ' ')}", value)
        lag = GaugeMetricFamily(
            "jjq_subscriber_lag_elements", "Elements not yet popped", labels=("queue", "subscriber")
        )
        for subscriber in subscribers:
            lag.add_metric((subscriber.queue, subscriber.name), subscriber.lag)
        yield lag


class MetricsPage:
    """The page that Prometheus scrapes."""

    def __init__(self, metrics: Metrics, address: str) -> None:
        host, port = split_address(address, "metrics")
        try:
            self._server, self._thread = start_http_server(port, host, metrics.registry)
        except OSError as error:
            raise InvalidInput(
                f"cannot show metrics on {address}: {error.strerror}; choose another"
            ) from None
        self.port: int = self._server.server_port

    async def close(self) -> None:
        # A scrape under way asks the loop, so the loop must not wait for it here.
        await asyncio.to_thread(self._server.shutdown)
        self._server.server_close()
        self._thread.join()
