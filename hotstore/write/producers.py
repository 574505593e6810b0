"""Idempotent producers: (producer, sequence) gives the same receipt on every retry.

A producer numbers its pushes to a queue one after the other. The queue remembers the receipts of
the last `PRODUCER_RECEIPTS_MAX` pushes of each producer, so that as many may be in flight. What is
older is forgotten, and a retry of it is refused rather than written twice. A producer idle for
longer than the settings' `producer_seconds`, or the one idle for longest where a queue has more
than `PRODUCERS_MAX`, is forgotten whole. A producer that the queue does not know may begin anywhere.

A retry has the elements of the first push. If it does not, it is a mistake: two programs with one name, or a
count that began again. It is compared with the elements themselves, which are there; so nothing beside the receipt
has to be written for every push, and receipts of earlier releases are as good. Retries are rare, comparing is cheap.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from coldstore.shared.bounded_dict import BoundedDict
from coldstore.shared.errors import Conflict, DataLoss, InvalidInput, Unavailable
from coldstore.shared.limits import NAME_CHARS_MAX, OFFSET_MAX, PRODUCER_RECEIPTS_MAX
from coldstore.shared.results import Receipt
from hotstore.limits import PRODUCERS_MAX, RETRY_CHECK_SECONDS


@dataclass(frozen=True, slots=True)
class KnownPush:
    """A push of a producer that the queue knows: its receipt."""

    sequence: int
    first: int
    count: int
    timestamp_us: int


class Producers:
    """The producers of one queue."""

    def __init__(self) -> None:
        self._known: BoundedDict[str, deque[KnownPush]] = BoundedDict(PRODUCERS_MAX)
        self._changed: set[str] = set()  # since the last checkpoint
        self._dropped: set[str] = set()

    def __len__(self) -> int:
        return len(self._known)

    def find(self, producer: str, sequence: int) -> KnownPush | None:
        """The receipt of this push if it was made before, None if it is the next one."""
        known = self._known.get(producer)
        if not known:
            return None
        last = known[-1].sequence
        if sequence == last + 1:
            return None
        if sequence > last:
            raise Conflict(
                f"producer {producer!r} skipped from sequence {last} to {sequence}: push {last + 1} first, in order"
            )
        index = sequence - known[0].sequence
        if index < 0:
            raise Conflict(
                f"producer {producer!r} pushed sequence {sequence} long ago (the last is {last}); its receipt is "
                f"forgotten, so whether this is a retry cannot be told: read the queue to find out"
            )
        return known[index]

    def last(self, producer: str) -> int | None:
        known = self._known.get(producer)
        return known[-1].sequence if known else None

    def remember(self, producer: str, pushed: KnownPush) -> None:
        known = self._known.use(producer)  # the order is that of the last push
        if known is None:
            self._make_room()
            known = self._known[producer] = deque(maxlen=PRODUCER_RECEIPTS_MAX)
        elif pushed.first <= known[-1].first:
            return  # a checkpoint had it already, and the journal is replayed: offsets only grow
        elif pushed.sequence != known[-1].sequence + 1:
            known.clear()  # the producer was forgotten and began again
        known.append(pushed)
        self._changed.add(producer)

    def _make_room(self) -> None:
        if len(self._known) >= PRODUCERS_MAX:
            self._drop(next(iter(self._known)))

    def _drop(self, producer: str) -> None:
        self._known.pop(producer)
        self._changed.discard(producer)
        self._dropped.add(producer)

    def forget_before(self, timestamp_us: int) -> list[str]:
        """Drop producers whose last push is older; returns their names."""
        old = [name for name, known in self._known.items() if known[-1].timestamp_us < timestamp_us]
        for name in old:
            self._drop(name)
        return old

    def names(self) -> list[str]:
        return list(self._known)

    def row(self, producer: str) -> list[Any] | None:
        """All that is known of a producer, for a checkpoint: its name, then four numbers for each receipt."""
        known = self._known.get(producer)
        return [producer, [[p.sequence, p.first, p.count, p.timestamp_us] for p in known]] if known else None

    def restore(self, producer: str, receipts: list[list[int]]) -> None:
        """Take a row of a checkpoint; what was pushed in the very group that wrote it is newer, and stays."""
        row = [KnownPush(*receipt) for receipt in receipts]
        newer = [pushed for pushed in self._known.pop(producer) or () if pushed.first > row[-1].first]
        self._make_room()
        self._known[producer] = deque(row, maxlen=PRODUCER_RECEIPTS_MAX)
        self._changed.add(producer)
        for pushed in newer:
            self.remember(producer, pushed)

    def take_changes(self, *, whole: bool) -> tuple[list[list[Any]], list[str]]:
        """Rows of the producers that pushed since this was last asked (`whole`: of all), and who is forgotten since."""
        names = self.names() if whole else [*self._changed]
        dropped = [name for name in self._dropped if name not in self._known]
        self.forget_changes()
        return [row for name in names if (row := self.row(name))], dropped

    def forget_changes(self) -> None:
        """What there is now is in a checkpoint."""
        self._changed.clear()
        self._dropped.clear()


async def check_retry(
    stored: AsyncGenerator[pa.RecordBatch, None],
    payload: pa.RecordBatch,
    identity: tuple[str, int],
    receipt: Receipt,
) -> None:
    """Refuse a retry that has other elements than the first push. If the stored elements cannot be read now, believe
    it."""
    with suppress(TimeoutError, Unavailable, DataLoss):
        async with asyncio.timeout(RETRY_CHECK_SECONDS), aclosing(stored) as elements:
            await _compare(elements, payload, identity, receipt)


async def _compare(
    elements: AsyncIterator[pa.RecordBatch],
    payload: pa.RecordBatch,
    identity: tuple[str, int],
    receipt: Receipt,
) -> None:
    """Refuse a push under an identity by which others, those of `receipt`, were pushed before."""
    same, at = receipt.count == payload.num_rows, 0
    if same:
        async for batch in elements:
            same = same_elements(batch, payload.slice(at, batch.num_rows))
            at += batch.num_rows
            if not same:
                break
    if not same:
        producer, sequence = identity
        last = receipt.first_offset + receipt.count - 1
        raise Conflict(
            f"producer {producer!r} pushed other elements as sequence {sequence} before, at offsets "
            f"{receipt.first_offset}..{last}: is its name used twice? Give each producer one of its own"
        )


def same_elements(stored: pa.RecordBatch, payload: pa.RecordBatch) -> bool:
    """Whether elements of a queue are those of a payload. Arrow has several forms of the same values."""
    pairs = [(stored.column(name), payload.column(name)) for name in payload.schema.names]
    return all(one.equals(other) or one.to_pylist() == other.to_pylist() for one, other in pairs)


def check_identity(producer: str | None, sequence: int | None) -> None:
    """Refuse half an identity, or one that the journal could not hold."""
    if (producer is None) != (sequence is None):
        raise InvalidInput("an idempotent push needs both producer and sequence; give both or neither")
    if producer is None:
        return
    try:
        size = len(producer.encode())
    except (AttributeError, UnicodeEncodeError):  # no text, or none that can be written
        size = 0
    if not 1 <= size <= NAME_CHARS_MAX:
        raise InvalidInput(
            f"producer must be text of 1 to {NAME_CHARS_MAX} bytes in UTF-8, not {producer!a:.60}"
        )
    if not isinstance(sequence, int) or isinstance(sequence, bool) or not 0 <= sequence <= OFFSET_MAX:
        raise InvalidInput(f"sequence must be a whole number between 0 and 2^63 - 1, not {sequence!r:.60}")
