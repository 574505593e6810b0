"""How much of a queue one batch of a stream takes.

    maxOffsetsPerTrigger   elements, as users of Kafka know it
    maxBytesPerTrigger     bytes in Arrow form, by the metadata of blocks; for the hot tail, by a sample

The limit that is reached first ends the batch. Without limits, or if Spark wants everything (`Trigger.Once`),
a batch takes all there is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows

from coldstore.shared.errors import InvalidInput
from jjq.spark.limits import SAMPLE_ELEMENTS
from jjq.spark.scan.plan import OffsetSpan, View

_NAMES: Final = {"elements": "maxOffsetsPerTrigger", "nbytes": "maxBytesPerTrigger"}


@dataclass(frozen=True, slots=True)
class RateLimit:
    """The most that a batch takes; None: as much as there is."""

    elements: int | None = None
    nbytes: int | None = None

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Self:
        """The limits in Spark's options."""
        given_lower = {key.lower(): str(value).strip() for key, value in given.items()}
        return cls(
            **{field: _positive(name, given_lower.get(name.lower())) for field, name in _NAMES.items()}
        )

    def as_read_limit(self) -> ReadLimit:
        """As a `ReadLimit` of Spark, which cannot express both at once."""
        if self.elements is not None:
            return ReadMaxRows(self.elements)
        return ReadAllAvailable() if self.nbytes is None else ReadMaxBytes(self.nbytes)

    def under(self, limit: ReadLimit) -> RateLimit:
        """The limit that Spark asks for, together with the other one of the options."""
        if isinstance(limit, ReadAllAvailable):
            return RateLimit()
        return RateLimit(
            limit.max_rows if isinstance(limit, ReadMaxRows) else self.elements,
            limit.max_bytes if isinstance(limit, ReadMaxBytes) else self.nbytes,
        )

    def end(self, view: View, span: OffsetSpan, wanted: pa.Schema) -> int:
        """Where a batch ends that begins at `span.start`: at `span.end`, or earlier."""
        end = span.end if self.elements is None else min(span.end, span.start + self.elements)
        return (
            end
            if self.nbytes is None
            else _after_bytes(view, OffsetSpan(span.start, end), self.nbytes, wanted)
        )


def _positive(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or not text.isascii() or len(text) > 18 or int(text) == 0:
        raise InvalidInput(f"{name} is {text[:40]!r}: use a whole number above 0")
    return int(text)


def _after_bytes(view: View, span: OffsetSpan, most: int, wanted: pa.Schema) -> int:
    """The offset by which about `most` bytes were read, and at least one element."""
    position, left = span.start, float(most)
    while position < span.end and (left > 0 or position == span.start):
        found = view.slices(OffsetSpan(position, position + 1))
        if found:
            block = found[0].block
            stop, each = min(block.next, span.end), block.raw_bytes / block.count
        else:
            stop, each = span.end, _sample_bytes(view, OffsetSpan(position, span.end), wanted)
        take = min(stop - position, max(1, int(left / each)))
        position, left = position + take, left - take * each
        if position < stop:
            break
    return position


def _sample_bytes(view: View, span: OffsetSpan, wanted: pa.Schema) -> float:
    """Bytes of an element, by the first ones of a range that a server has."""
    sample = OffsetSpan(span.start, min(span.start + SAMPLE_ELEMENTS, span.end))
    nbytes: int = sum(batch.nbytes for part in view.partitions(sample, wanted) for batch in part.batches())
    return max(1.0, nbytes / max(1, sample.end - sample.start))
