"""Port: which node owns a queue. `SoleOwner` is the default, for a server without other nodes.

The hot store asks when it opens a queue that the journal does not name, or names in doubt; never during a push. A queue
that the journal names without doubt is this node's own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class QueueState:
    """What a queue is besides its elements; it goes with the queue from node to node.

    Rows as in the journal, without numbers: subscribers are (name, start, clamp, created, previous,
    offset, asleep), producers (name, receipts).
    """

    next: int = 0  # elements before it were acknowledged
    last_us: int = 0
    subscribers: list[list[Any]] = field(default_factory=list)
    producers: list[list[Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Claim:
    """A queue is this node's, since `epoch`."""

    epoch: int
    state: QueueState = field(default_factory=QueueState)
    owned_before: bool = False  # this node had it before this run, so its journal should name it


@dataclass(frozen=True, slots=True)
class Retired:
    """A queue about to be deleted: its epoch from now on, and the name of its state if `queue.json` is to have it."""

    epoch: int
    state: str | None = None


class Owners(Protocol):
    """Knows who serves which queue."""

    async def claim(self, queue: str) -> Claim:
        """Whether to serve a queue that the journal does not name; `Fenced` if it is another node's."""
        ...

    async def confirm(self, queue: str, epoch: int) -> int:
        """The epoch of a queue that the journal names in doubt; `Fenced` if it is another node's by now."""
        ...

    def doubts(self, epoch: int) -> bool:
        """Whether a queue that the journal has with this epoch must be confirmed before it is served."""
        ...

    async def retire(self, queue: str, epoch: int, state: QueueState) -> Retired | None:
        """Before a queue of ours is deleted: keep its state for the node that claims it if it is brought back.

        None: there is no place for such things here, keep it beside the queue.
        """
        ...


class SoleOwner:
    """The only node there is: every queue is its own, and nobody needs to be asked."""

    async def claim(self, queue: str) -> Claim:
        return Claim(0, owned_before=True)

    async def confirm(self, queue: str, epoch: int) -> int:
        return epoch

    def doubts(self, epoch: int) -> bool:
        return False

    async def retire(self, queue: str, epoch: int, state: QueueState) -> Retired | None:
        return None
