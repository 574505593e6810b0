"""What changed on this node since the last checkpoint, and the numbers that the journal has given out.

Code that changes something a checkpoint would hold notes it here, in the same step of the event loop
(checkpoint/part.py says why). Noting costs a push or pop one look-up in a set.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Generic, Protocol, TypeVar

_SKIPPED: Final = 1 << 32


class Numbered(Protocol):
    """A queue or a subscriber."""

    number: int
    stored: bool


Q = TypeVar("Q", bound=Numbered)
S = TypeVar("S", bound=Numbered)


class StateChanges(Generic[Q, S]):
    """Queues and subscribers that changed; of those that are gone, the numbers."""

    __slots__ = ("blocks", "gone_queues", "gone_subscribers", "new_subscribers", "queues", "subscribers")

    def __init__(self) -> None:
        self.queues: set[Q] = set()
        self.subscribers: set[S] = set()  # that moved, woke up or fell asleep
        self.new_subscribers: set[S] = set()
        self.blocks: set[Q] = set()  # queues whose subscribers may be in other blocks now
        self.gone_queues: set[int] = set()
        self.gone_subscribers: set[int] = set()

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__slots__)

    def stored(self, *queues: Q, subscribers: Iterable[S] = ()) -> None:
        """The journal has rows of these."""
        for queue in queues:
            queue.stored = True
            self.queues.add(queue)
        for subscriber in subscribers:
            if not subscriber.stored:
                subscriber.stored = True
                self.new_subscribers.add(subscriber)
            self.subscribers.add(subscriber)

    def lose_queue(self, queue: Q) -> None:
        self.queues.discard(queue)
        self.blocks.discard(queue)
        self.gone_queues.add(queue.number)

    def lose_subscriber(self, subscriber: S) -> None:
        self.subscribers.discard(subscriber)
        self.new_subscribers.discard(subscriber)
        self.gone_subscribers.add(subscriber.number)


class JournalNumbers:
    """The next number of a queue and of a subscriber: none is ever given out twice."""

    def __init__(self) -> None:
        self.queue = 1
        self.subscriber = 1

    def reserve(self, queue: int, subscriber: int = 0) -> None:
        """The journal has records of a queue, or a subscriber, with this number, so no other one may get it."""
        self.queue = max(self.queue, queue + 1)
        self.subscriber = max(self.subscriber, subscriber + 1)

    def skip(self) -> None:
        """A checkpoint that is lost may know queues and subscribers with the next numbers, and may be put back."""
        self.reserve(self.queue + _SKIPPED, self.subscriber + _SKIPPED)
