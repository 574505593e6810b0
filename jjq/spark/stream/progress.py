"""How far a stream has come: what Spark writes to its checkpoint and hands back after a restart.

    {"offset": 1500000,            the next element to be read
     "queue": "<32 hex digits>",   the queue's id, so that a checkpoint is never taken to another queue
     "start": "ago:7d"}            only in the very first one: the starting point that led there

    {"offset": …, "queue": …,
     "final": 1400000, "bytes": 8388608, "elements": 250000}    how the batch that ends here was cut

The first one differs from all others even if nothing is there to be read yet. So Spark records a batch at
once, and with it where the stream began: `end` means the end at that instant also after a restart.

How a batch is cut into partitions is recorded, since blocks are sealed and merged meanwhile: a batch that is
run again has the same elements in the same partitions (layout.py), and a sink that knows its partitions again
(pushes.py) adds nothing twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from coldstore.shared.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Cut:
    """Final blocks up to offset `final` are cut by stored bytes, what comes after them by count."""

    final: int
    bytes: int
    elements: int


@dataclass(frozen=True, slots=True)
class Progress:
    """A place in a queue, between two batches of a stream."""

    offset: int
    queue: str
    start: str | None = None
    cut: Cut | None = None

    def document(self) -> dict[str, Any]:
        """What goes to the checkpoint."""
        found: dict[str, Any] = {"offset": self.offset, "queue": self.queue}
        if self.start is not None:
            found["start"] = self.start
        return found | (asdict(self.cut) if self.cut is not None else {})

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """The progress that a checkpoint holds."""
        offset, queue, start = (document.get(name) for name in ("offset", "queue", "start"))
        if type(offset) is not int or not isinstance(queue, str) or not isinstance(start, str | None):
            raise InvalidInput(
                "the checkpoint is not that of a jjq stream: use the right one, or begin with a new folder"
            )
        numbers = [document.get(name) for name in ("final", "bytes", "elements")]
        cut = Cut(*numbers) if all(type(number) is int for number in numbers) else None  # type: ignore[arg-type]
        return cls(offset, queue, start, cut)
