"""Figures for Prometheus: calls, bytes and latencies of the front end, and what the store reports.

All of them belong to a registry of this server, so that several servers of one process, as in
tests, do not add up.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import platform
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Final, Protocol, runtime_checkable

from prometheus_client.core import (
    CollectorRegistry,
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from coldstore.shared.errors import InvalidInput, JjqError
from hotstore.port import Store
from hotstore.read.listing import Lag
from hotstore.read.status import installed_version
from hotstore.work.group_figures import BOUNDS, TaskTimes, WorkFigures
from jjq.addresses import split_address
from jjq.server.meter import Meter, families
from jjq.server.outgoing import Outgoing
from jjq.server.stalls import StallMeter

_SCRAPE_SECONDS: Final = 5.0
_BY: Final = ("queue", "group")
_LABELS: Final = (*map(str, BOUNDS), "+Inf")


@runtime_checkable
class Gauges(Protocol):
    """A store that has figures to show: names without prefix, units last (`journal_bytes`).

    Those that only grow end with `_total`.
    """

    def gauges(self) -> Mapping[str, float]: ...


@runtime_checkable
class Lags(Protocol):
    """A store that knows, without reading anything, how far its subscribers are behind."""

    async def lags(self) -> list[Lag]: ...


@runtime_checkable
class Works(Protocol):
    """A store that knows, without reading anything, how its worker groups are."""

    async def group_figures(self) -> list[WorkFigures]: ...


class Metrics(Collector):
    """All figures of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._meters: dict[str, Meter] = {}
        self._outgoing: Outgoing | None = None
        self._stalls: StallMeter | None = None
        self.registry.register(self)

    def meter(self, method: str) -> Meter:
        """The figures of a method, always the same object."""
        return self._meters.setdefault(method, Meter(method))

    @property
    def meters(self) -> list[Meter]:
        """Those of all methods that were ever called."""
        return list(self._meters.values())

    def collect(self) -> Iterable[Metric]:
        build = GaugeMetricFamily("jjq_build_info", "What runs here; always 1", labels=("version", "python"))
        build.add_metric((installed_version(), platform.python_version()), 1)
        yield build
        yield from families(self.meters)
        if self._stalls is not None:
            yield self._stalls.family()
        if self._outgoing is not None:
            held, most, closed = self._outgoing.bytes, self._outgoing.most, self._outgoing.closed
            yield GaugeMetricFamily("jjq_outgoing_bytes", "Memory for messages not read by clients yet", held)
            yield GaugeMetricFamily("jjq_outgoing_bytes_max", "Limit of jjq_outgoing_bytes", most)
            yield CounterMetricFamily(
                "jjq_closed_streams", "Streams closed because their client did not read", closed
            )

    def watch_stalls(self, stalls: StallMeter) -> None:
        """Show how late the event loop is too."""
        self._stalls = stalls

    def watch_outgoing(self, outgoing: Outgoing) -> None:
        """Show what is held for clients too."""
        self._outgoing = outgoing

    def watch(self, store: Store, loop: asyncio.AbstractEventLoop) -> None:
        """Show the store's own figures too."""
        self.registry.register(_StoreFigures(store, loop))


async def collect(store: Store) -> tuple[Mapping[str, float], list[Lag]]:
    """What the store reports: its gauges, and the lag of its subscribers."""
    gauges = store.gauges() if isinstance(store, Gauges) else {}
    return gauges, await store.lags() if isinstance(store, Lags) else []


async def _collect_all(store: Store) -> tuple[tuple[Mapping[str, float], list[Lag]], list[WorkFigures]]:
    groups = await store.group_figures() if isinstance(store, Works) else []
    return await collect(store), groups


class _StoreFigures(Collector):
    """Asks the store at each scrape. Scrapes come on a thread of their own, the store lives on the loop."""

    def __init__(self, store: Store, loop: asyncio.AbstractEventLoop) -> None:
        self._store = store
        self._loop = loop

    def describe(self) -> Iterable[Metric]:
        return ()  # registering must not ask the store

    def collect(self) -> Iterator[Metric]:
        asked = asyncio.run_coroutine_threadsafe(_collect_all(self._store), self._loop)
        try:
            (gauges, lags), groups = asked.result(_SCRAPE_SECONDS)
        except (JjqError, concurrent.futures.TimeoutError, concurrent.futures.CancelledError):
            asked.cancel()
            return  # the other figures are worth showing all the same
        for name, value in gauges.items():
            family = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            yield family(f"jjq_{name}", f"Store: {name.replace('_', ' ')}", value)
        elements = GaugeMetricFamily(
            "jjq_subscriber_lag_elements", "Elements not yet popped", labels=("queue", "subscriber")
        )
        seconds = GaugeMetricFamily(
            "jjq_subscriber_lag_seconds",
            "Age of the first element not yet popped; of the oldest one of its block if it is not in memory",
            labels=("queue", "subscriber"),
        )
        for lag in lags:
            elements.add_metric((lag.queue, lag.subscriber), lag.elements)
            seconds.add_metric((lag.queue, lag.subscriber), lag.seconds)
        yield from (elements, seconds, *_group_families(groups))


def _group_families(groups: Iterable[WorkFigures]) -> list[Metric]:
    """Tasks by state, transitions, ages and times of groups."""
    tasks = GaugeMetricFamily("jjq_tasks", "Tasks of a group by state", labels=(*_BY, "state"))
    transitions = CounterMetricFamily(
        "jjq_task_transitions", "What happened to tasks; put: they were pushed", labels=(*_BY, "event")
    )
    age = GaugeMetricFamily(
        "jjq_task_age_seconds",
        "How long ago the oldest ready task was pushed, and the oldest taken one was taken",
        labels=(*_BY, "state"),
    )
    waits = HistogramMetricFamily("jjq_task_wait_seconds", "From a push to the first take", labels=_BY)
    runs = HistogramMetricFamily("jjq_task_run_seconds", "From a take to its ack or nack", labels=_BY)
    for figures in groups:
        by = (figures.queue, figures.group)
        for state, count in figures.tasks.items():
            if state != "total":
                tasks.add_metric((*by, state), count)
        for event, count in figures.transitions.items():
            transitions.add_metric((*by, event), count)
        age.add_metric((*by, "ready"), figures.oldest_ready_seconds)
        age.add_metric((*by, "taken"), figures.oldest_taken_seconds)
        waits.add_metric(by, _buckets(figures.waits), figures.waits.seconds)
        runs.add_metric(by, _buckets(figures.runs), figures.runs.seconds)
    return [tasks, transitions, age, waits, runs]


def _buckets(times: TaskTimes) -> list[tuple[str, float]]:
    return [(bound, float(total)) for bound, total in zip(_LABELS, accumulate(times.counts), strict=True)]


class MetricsPage:
    """The page that Prometheus scrapes."""

    def __init__(self, metrics: Metrics, address: str) -> None:
        from prometheus_client.exposition import start_http_server

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
