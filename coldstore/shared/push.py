"""`Push`: one push and all its arguments, as one value that the layers pass on.

A push goes from the client to the server, perhaps over a router to another node, and into a hot store.
Each of them takes the same value, so an argument is named here and nowhere else.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import pyarrow as pa

from coldstore.shared.attachments import Attached
from coldstore.shared.results import Receipt, Stage


class Push(NamedTuple):
    """A batch for one queue. It cannot be changed; `_replace` makes another one.

    A tuple and not a dataclass: a frozen dataclass takes three times as long to make.
    """

    queue: str
    payload: pa.RecordBatch
    producer: str | None = None  # with `sequence`: the same push again is written once
    sequence: int | None = None
    expected_offset: int | None = None  # the push is written only if the queue goes on there
    stage: Stage = "synced"
    serialized: pa.Buffer | None = None  # the payload as one Arrow message, from a caller that has it
    timeout: float = 0.0  # seconds to wait for room, where a group of the queue is at its capacity
    objects: tuple[Attached, ...] = ()  # large objects and references that its elements name

    @property
    def plain(self) -> bool:
        """Whether the push is neither part of a sequence nor bound to an offset: pushing twice writes twice."""
        return self.producer is None and self.sequence is None and self.expected_offset is None


class PushTarget(Protocol):
    """A store that takes pushes: it has to define `append`, and gets `push` from here."""

    async def append(self, push: Push) -> Receipt:
        """Append a batch, all of it or nothing; returns when the push's `stage` is reached."""
        ...

    async def push(
        self,
        queue: str,
        payload: pa.RecordBatch,
        *,
        producer: str | None = None,
        sequence: int | None = None,
        expected_offset: int | None = None,
        stage: Stage = "synced",
        serialized: pa.Buffer | None = None,
        timeout: float = 0.0,  # noqa: ASYNC109 - a part of the push, which the store of its queue waits for
        objects: tuple[Attached, ...] = (),
    ) -> Receipt:
        """The same as `append`, for a caller that has the arguments and not the value."""
        return await self.append(
            Push(queue, payload, producer, sequence, expected_offset, stage, serialized, timeout, objects)
        )
