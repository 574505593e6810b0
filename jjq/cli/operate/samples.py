"""What a server does at the moment, from two looks at it: so many elements were added and popped in between."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from coldstore.shared.clock import Clock
from jjq.cli.output import bytes_text

if TYPE_CHECKING:
    from coldstore.shared.results import NodeStatus, QueueInfo
    from jjq.blocking import Client


@dataclass(frozen=True)
class QueueSample:
    """One queue, and how quick it is; `lag` is that of its slowest subscriber."""

    name: str
    elements: int
    not_cold: int
    subscribers: int
    lag: int
    pushed_per_second: float
    popped_per_second: float


@dataclass(frozen=True)
class Sample:
    """All of it at one moment."""

    nodes: list[NodeStatus]
    queues: list[QueueSample]


@dataclass
class Sampler:
    """Looks at a server again and again; the first look knows no rates."""

    client: Client
    clock: Clock
    _at: float | None = None
    _next: dict[str, int] = field(default_factory=dict)  # by queue
    _offset: dict[str, int] = field(default_factory=dict)  # by subscriber

    def take(self) -> Sample:
        queues, subscribers = self.client.list_queues(), self.client.list_subscribers()
        now = self.clock.monotonic()
        seconds = 0.0 if self._at is None else now - self._at
        lags: dict[str, int] = {}
        popped: dict[str, int] = {}
        for each in subscribers:
            lags[each.queue] = max(lags.get(each.queue, 0), each.lag)
            moved = each.offset - self._offset.get(each.id, each.offset)
            popped[each.queue] = popped.get(each.queue, 0) + max(
                0, moved
            )  # one that was moved back popped nothing

        def sample(queue: QueueInfo) -> QueueSample:
            pushed = queue.next_offset - self._next.get(queue.name, queue.next_offset)
            return QueueSample(
                queue.name,
                queue.next_offset - queue.first_offset,
                queue.next_offset - queue.cold_offset,
                queue.subscribers,
                lags.get(queue.name, 0),
                pushed / seconds if seconds else 0.0,
                popped.get(queue.name, 0) / seconds if seconds else 0.0,
            )

        found = Sample(self.client.status(), [sample(queue) for queue in queues])
        self._at = now
        self._next = {queue.name: queue.next_offset for queue in queues}
        self._offset = {each.id: each.offset for each in subscribers}
        return found


NODE_COLUMNS = (
    "NODE", "VERSION", "UP", "QUEUES", "SUBSCRIBERS", "JOURNAL", "EXPOSED", "FOR", "MOST LAG", "COLD STORE",
)  # fmt: skip
QUEUE_COLUMNS = ("QUEUE", "ELEMENTS", "PUSHED/S", "POPPED/S", "NOT YET COLD", "SUBSCRIBERS", "MOST LAG")


def node_row(node: NodeStatus) -> tuple[object, ...]:
    """A node as a row of `NODE_COLUMNS`."""
    name, up = node.node or "alone", duration_text(node.uptime_seconds)
    if node.error:
        return (name, node.version, up, *[""] * (len(NODE_COLUMNS) - 4), f"unknown: {node.error}")
    figures = node.figures
    return (
        name, node.version, up, round(figures.get("queues", 0)), round(figures.get("subscribers", 0)),
        bytes_text(round(figures.get("journal_bytes", 0))), bytes_text(round(figures.get("exposed_bytes", 0))),
        duration_text(figures.get("exposed_seconds", 0.0)),
        f"{node.lag_elements:,} elements, {duration_text(node.lag_seconds)}",
        f"away: {node.cold_error}" if node.cold_error else f"answers in {node.cold_seconds * 1000:.0f} ms",
    )  # fmt: skip


def queue_row(queue: QueueSample) -> tuple[object, ...]:
    """A queue as a row of `QUEUE_COLUMNS`."""
    return (
        queue.name, f"{queue.elements:,}", f"{queue.pushed_per_second:,.0f}", f"{queue.popped_per_second:,.0f}",
        f"{queue.not_cold:,}", queue.subscribers, f"{queue.lag:,}",
    )  # fmt: skip


def busiest(queues: list[QueueSample], most: int) -> list[QueueSample]:
    """Those with most to do first."""
    order = sorted(queues, key=lambda q: (-q.pushed_per_second - q.popped_per_second, -q.lag, q.name))
    return order[:most]


def node_json(node: NodeStatus) -> dict[str, Any]:
    return {
        "node": node.node or None,
        "version": node.version,
        "uptime_seconds": node.uptime_seconds,
        "figures": dict(node.figures),
        "lag_elements": node.lag_elements,
        "lag_seconds": node.lag_seconds,
        "cold_seconds": node.cold_seconds,
        "cold_error": node.cold_error or None,
        "error": node.error or None,
    }


def duration_text(seconds: float) -> str:
    """A time span in its two largest units."""
    whole = round(seconds)
    for unit, size, smaller, part in (("d", 86_400, "h", 3_600), ("h", 3_600, "m", 60), ("m", 60, "s", 1)):
        if whole >= size:
            return f"{whole // size}{unit} {whole % size // part}{smaller}"
    return f"{seconds:.1f}s" if whole < 10 else f"{whole}s"
