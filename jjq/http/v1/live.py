"""`GET /v1/live`: figures of this moment, once a second, for consoles and dashboards.

    text/event-stream   a sample each second, until the client goes
    application/json    one sample

    queues=a,b     the extent of these queues, too
    details=a,b    … and of these also their subscribers and worker groups

One sampler serves all listeners, and works only while there are any. It reads what the server counts anyway: nothing is
done for it where elements are pushed or popped. Rates and latencies are those of the node that answers; `nodes` has the
status of all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final, cast

import grpc
import msgspec
from msgspec import Struct

from coldstore.layout.paths import check_name
from coldstore.shared.batch import from_us
from coldstore.shared.errors import JjqError, NotFound, Unavailable
from hotstore.groups.port import WorkStore
from hotstore.port import QueueInfo
from jjq.http.backend import Backend
from jjq.http.problems import HttpRefusal
from jjq.http.replies import Reply, StreamReply, document
from jjq.http.request import JSON, Request
from jjq.http.routing import HttpRoute, Parameter
from jjq.http.v1 import documents as doc
from jjq.http.v1.replay import EVENTS
from jjq.limits import LIVE_QUEUES_MAX, LIVE_SECONDS, LIVE_STATUS_SECONDS, LIVE_SUBSCRIBERS_MAX
from jjq.server.meter import Meter

_NO_STORE: Final = (b"cache-control", b"no-store")
_AGAIN: Final = b"retry: 1000\n\n"
_ENCODER: Final = msgspec.json.Encoder()
_FINE: Final = (grpc.StatusCode.OK, grpc.StatusCode.CANCELLED)
_KINDS: Final = {
    "push": "push", "pop": "pop", "subscribe": "pop", "take": "take", "read": "read", "replay": "read",
}  # by a word in the name of a method  # fmt: skip


class LiveRates(Struct):
    """Of this node, per second; elements are counted where clients push and get them."""

    pushed: float
    popped: float
    read: float
    taken: float
    received_bytes: float
    sent_bytes: float
    calls: float
    failed: float


class LiveLatency(Struct):
    """Seconds, of the calls since the sample before; null: there were none."""

    push_p50: float | None
    push_p99: float | None
    pop_p50: float | None
    pop_p99: float | None


class SubscriberFigures(Struct):
    name: str
    offset: int
    lag: int
    lag_seconds: float
    asleep: bool


class GroupFigures(Struct):
    name: str
    paused: bool
    waiting: int
    tasks: dict[str, int]


class QueueFigures(Struct):
    """`subscribers` and `groups` only of queues that `details` names."""

    name: str
    first_offset: int
    next_offset: int
    cold_offset: int
    last_push: datetime | None = None
    subscribers: list[SubscriberFigures] | None = None
    groups: list[GroupFigures] | None = None


class LiveSample(Struct):
    """`rates` and `latency` are null in a first sample, with nothing to compare with. Missing queues are left out."""

    time: datetime
    nodes: list[doc.StatusDocument]
    rates: LiveRates | None
    latency: LiveLatency | None
    queues: list[QueueFigures]


class _Totals:
    """All that the meters of this node have counted so far."""

    def __init__(self, at: float, meters: Iterable[Meter]) -> None:
        self.at = at
        self.elements = dict.fromkeys(("push", "pop", "take", "read"), 0)
        self.histograms: dict[str, list[float]] = {}
        self.bounds: list[float] = []
        self.received = self.sent = self.calls = self.failed = 0
        for meter in meters:
            self.received += meter.received_bytes
            self.sent += meter.sent_bytes
            self.calls += sum(meter.calls.values())
            self.failed += sum(count for code, count in meter.calls.items() if code not in _FINE)
            name = meter.method.lower()
            kind = next((kind for word, kind in _KINDS.items() if word in name), None)
            if kind is None or meter.method.startswith("Peer"):
                continue  # what another node hands on was counted there
            self.elements[kind] += meter.elements
            counts = meter.histogram()
            self.bounds = [float(bound) for bound, _ in counts]
            before = self.histograms.get(kind) or [0.0] * len(counts)
            self.histograms[kind] = [sum(pair) for pair in zip(before, (n for _, n in counts), strict=True)]

    def rates_since(self, before: _Totals) -> LiveRates:
        seconds = self.at - before.at

        def each(now: float, then: float) -> float:
            return round(max(0.0, now - then) / seconds, 3)

        pushed, popped, taken, read = (
            each(self.elements[kind], before.elements[kind]) for kind in ("push", "pop", "take", "read")
        )
        return LiveRates(
            pushed, popped, read, taken,
            each(self.received, before.received), each(self.sent, before.sent),
            each(self.calls, before.calls), each(self.failed, before.failed),
        )  # fmt: skip

    def latency_since(self, before: _Totals) -> LiveLatency:
        found = [self._quantile(before, kind, share) for kind in ("push", "pop") for share in (0.5, 0.99)]
        return LiveLatency(*found)

    def _quantile(self, before: _Totals, kind: str, share: float) -> float | None:
        """Between two bounds of the histogram, as if calls were spread evenly there."""
        now = self.histograms.get(kind, [])
        then = before.histograms.get(kind) or [0.0] * len(now)
        counts = [b - a for a, b in zip(then, now, strict=True)]
        if not counts or counts[-1] <= 0:
            return None
        wanted, low, passed = share * counts[-1], 0.0, 0.0
        for bound, count in zip(self.bounds[:-1], counts, strict=False):
            if count >= wanted:
                return low + (bound - low) * (wanted - passed) / (count - passed)
            low, passed = bound, count
        return low  # longer than the last bound


class LiveFigures:
    """The sampler. See the module's docstring."""

    def __init__(self) -> None:
        self._listeners: dict[object, tuple[frozenset[str], frozenset[str]]] = {}
        self._working: asyncio.Task[None] | None = None
        self._next: asyncio.Future[LiveSample] | None = None
        self._totals: _Totals | None = None
        self._compared: tuple[LiveRates | None, LiveLatency | None] = (None, None)
        self._nodes: list[doc.StatusDocument] = []
        self._status_task: asyncio.Task[None] | None = None
        self._status_at = float("-inf")

    @contextmanager
    def listening(self, backend: Backend, queues: frozenset[str], details: frozenset[str]) -> Iterator[None]:
        """Around one listener: samples show these queues meanwhile."""
        me = object()
        self._listeners[me] = (queues, details)
        if self._working is None:
            self._working = asyncio.create_task(self._work(backend), name="jjq-live-figures")
        try:
            yield
        finally:
            del self._listeners[me]
            if not self._listeners:
                for task in (self._working, self._status_task):
                    if task is not None:
                        task.cancel()
                self._working = None

    async def sample(self) -> LiveSample:
        """The next one."""
        if self._next is None or self._next.done():
            self._next = asyncio.get_running_loop().create_future()
        return await asyncio.shield(self._next)

    async def _work(self, backend: Backend) -> None:
        """Never ends by itself: a failure is for those who wait, and the next sample may do."""
        while True:
            try:
                made: LiveSample | Exception = await self._take(backend)
            except Exception as error:  # noqa: BLE001 - the listeners that wait raise it
                made = error
            waiting = self._next
            if waiting is not None and not waiting.done():
                if isinstance(made, Exception):
                    waiting.set_exception(made)
                    waiting.exception()  # retrieved, even if the waiting caller has just gone
                else:
                    waiting.set_result(made)
            await asyncio.sleep(LIVE_SECONDS)

    async def _take(self, backend: Backend) -> LiveSample:
        every = {name for pair in self._listeners.values() for names in pair for name in names}
        detailed = {name for _, names in self._listeners.values() for name in names}
        queues = await _answers([_look(backend, name, name in detailed) for name in sorted(every)])
        await self._ask_nodes(backend)
        rates, latency = self._compare(_Totals(backend.clock.monotonic(), backend.metrics.meters))
        return LiveSample(from_us(backend.clock.now_us()), self._nodes, rates, latency, queues)

    def _compare(self, now: _Totals) -> tuple[LiveRates | None, LiveLatency | None]:
        """Compare with the totals before. A caller that comes before a sample is due gets the last one."""
        before = self._totals
        passed = float("inf") if before is None else now.at - before.at
        if before is None or passed > 10 * LIVE_SECONDS:
            self._compared = (None, None)
        elif passed >= LIVE_SECONDS / 2:
            self._compared = (now.rates_since(before), now.latency_since(before))
        else:
            return self._compared
        self._totals = now
        return self._compared

    async def _ask_nodes(self, backend: Backend) -> None:
        """The status of all nodes, now and then, without waiting for a node or a cold store that does not answer."""
        now = backend.clock.monotonic()
        if self._status_task is None and now - self._status_at >= LIVE_STATUS_SECONDS:
            self._status_at = now
            self._status_task = asyncio.create_task(self._status(backend), name="jjq-live-status")
        if self._status_task is not None and not self._nodes:
            await asyncio.wait((self._status_task,), timeout=LIVE_SECONDS)

    async def _status(self, backend: Backend) -> None:
        try:
            self._nodes = [doc.status_document(each) for each in await backend.store.status()]
        except JjqError as error:
            backend.log.debug("no status for live figures", why=error.message)
        finally:
            self._status_task = None


async def _answers(work: list[Coroutine[Any, Any, QueueFigures | None]]) -> list[QueueFigures]:
    """What is answered soon. A queue whose node does not answer is left out, and does not delay the others."""
    if not work:
        return []
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.wait(tasks, timeout=2 * LIVE_SECONDS)
    finally:
        for task in tasks:
            task.cancel()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    return [each for each in found if isinstance(each, QueueFigures)]


async def _look(backend: Backend, name: str, detailed: bool) -> QueueFigures | None:
    store = backend.store
    try:
        info: QueueInfo = await store.get_queue(name)
        found = QueueFigures(name, info.first_offset, info.next_offset, info.cold_offset)
        if info.next_offset > info.first_offset:
            for last in await store.list_blocks(name, from_offset=info.next_offset - 1, limit=1):
                found.last_push = last.max_timestamp
        if detailed:
            some = await store.list_subscribers(name, limit=LIVE_SUBSCRIBERS_MAX)
            found.subscribers = [
                SubscriberFigures(s.name, s.offset, s.lag, round(s.lag_seconds, 3), s.asleep) for s in some
            ]
            if hasattr(store, "take"):
                groups = await cast("WorkStore", store).list_groups(name, limit=LIVE_SUBSCRIBERS_MAX)
                found.groups = [GroupFigures(g.name, g.paused, g.waiting, dict(g.tasks)) for g in groups]
    except JjqError as error:
        if not isinstance(error, NotFound):
            backend.log.debug("no live figures", queue=name, why=error.message)
        return None
    return found


def _names(request: Request, parameter: str) -> frozenset[str]:
    """Queues that a parameter lists. A key that may not read one of them is refused."""
    text = request.query("queues", "details").get(parameter, "")
    names = frozenset(check_name(name) for name in text.split(",") if name)
    if len(names) > LIVE_QUEUES_MAX:
        raise HttpRefusal(400, f"{parameter} has {len(names)} names: at most {LIVE_QUEUES_MAX} go at a time")
    for name in names:
        request.require("read", name)
    return names


def live_routes() -> list[HttpRoute]:
    """The route, with a sampler of its own."""
    figures = LiveFigures()

    async def live(request: Request) -> Reply:
        form = request.accepts((JSON, EVENTS))
        queues, details = _names(request, "queues"), _names(request, "details")
        if form == EVENTS:
            parts = _events(figures, request, queues, details)
            return StreamReply(parts, EVENTS.encode(), [_NO_STORE], tells_errors=True)
        with figures.listening(request.backend, queues, details):
            sample = await _next(figures, request)
            if sample.rates is None:
                sample = await _next(figures, request)
        return document(_only(sample, queues | details), headers=[_NO_STORE])

    parameters = (
        Parameter("queues", "names, separated by commas: also show the offsets of these queues"),
        Parameter("details", "names, separated by commas: also show subscribers and groups of these queues"),
    )
    return [
        HttpRoute(
            "GET", "/v1/live", live, "live", "Figures of this moment, each second", "any", waits=True,
            streams=True, reply=LiveSample, gives=(EVENTS,), parameters=parameters,
        )
    ]  # fmt: skip


def _only(sample: LiveSample, names: frozenset[str]) -> LiveSample:
    """Without the queues of others, which this listener may not be allowed to see."""
    mine = [queue for queue in sample.queues if queue.name in names]
    return LiveSample(sample.time, sample.nodes, sample.rates, sample.latency, mine)


async def _next(figures: LiveFigures, request: Request) -> LiveSample:
    return await request.while_connected(request.backend.drain.wait(figures.sample()))


async def _events(
    figures: LiveFigures, request: Request, queues: frozenset[str], details: frozenset[str]
) -> AsyncIterator[bytes]:
    yield _AGAIN
    with figures.listening(request.backend, queues, details):
        try:
            while True:
                part = _only(await _next(figures, request), queues | details)
                yield b"event: sample\ndata: " + _ENCODER.encode(part) + b"\n\n"
        except Unavailable:
            if not request.backend.drain.stopping:
                raise
