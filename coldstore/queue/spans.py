"""Port of traces: makes a span around each step. By default it makes none.

The stores name steps and queues, and know nothing of OpenTelemetry; jjq/traces has the other side. A file of its own:
several layers use it, and each of them is above this one.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Final, Protocol


class Spans(Protocol):
    """Makes spans. They are nested by context: a span inside another one is its child."""

    def span(self, step: str, queue: str, **facts: int) -> AbstractContextManager[object]:
        """Around one step of work on a queue."""
        ...


class NoSpans:
    """Makes nothing."""

    def span(self, step: str, queue: str, **facts: int) -> AbstractContextManager[object]:
        return nullcontext()


NO_SPANS: Final = NoSpans()
