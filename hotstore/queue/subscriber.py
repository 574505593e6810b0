"""A subscriber: a named position in one queue, and the readers that wait at it."""

from __future__ import annotations

from typing import Any

from hotstore.port import Resolved, SubscriberInfo
from hotstore.queue.queue import HotQueue


class Subscriber:
    """Where one subscriber is. Only the event loop touches it."""

    __slots__ = (
        "asleep", "clamp", "created_us", "deleted", "durable", "moves", "name", "noted", "number",
        "offset", "previous", "queue", "start", "stored", "used",
    )  # fmt: skip

    def __init__(
        self, number: int, name: str, queue: HotQueue, start: str, clamp: bool, created_us: int
    ) -> None:
        self.number = number
        self.name = name
        self.queue = queue
        self.start = start
        self.clamp = clamp
        self.created_us = created_us
        self.offset = 0
        self.previous = 0
        self.durable = (0, 0)  # (previous, offset) as the journal has them
        self.noted = (0, 0)  # the same, in the last record formed for the journal
        self.stored = False  # whether the journal knows of it
        self.asleep = False
        self.deleted = False
        self.used = 0.0  # monotonic time of the last request
        self.moves = 0  # counts seeks, so that a reader that waited knows that it was moved

    @property
    def id(self) -> str:
        return f"{self.queue.name}/{self.name}"

    def place(self, previous: int, offset: int) -> None:
        """Set the position as recovered or as resolved."""
        self.previous, self.offset = previous, offset
        self.durable = self.noted = (previous, offset)

    def row(self) -> list[Any]:
        """All that a restart must know, as a row of a SUBSCRIBERS record."""
        return [
            self.number, self.queue.number, self.name, self.start, self.clamp, self.created_us,
            *self.noted, self.asleep,
        ]  # fmt: skip

    def info(self, resolved: Resolved | None = None, lag_seconds: float = 0.0) -> SubscriberInfo:
        """For others, who must not see a position that a crash would take back."""
        previous, offset = self.durable
        return SubscriberInfo(
            id=self.id,
            name=self.name,
            queue=self.queue.name,
            offset=offset,
            previous=previous,
            block=self.queue.block_of(offset),
            start=self.start,
            created_us=self.created_us,
            asleep=self.asleep,
            lag=self.queue.next - offset,
            resolved=resolved,
            lag_seconds=lag_seconds,
        )
