"""Filters on offset and timestamp, turned into bounds that rule out blocks and row groups."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Self

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from coldstore.shared.batch import to_us
from coldstore.shared.limits import OFFSET_MAX
from jjq.spark.scan.partition import Times
from jjq.spark.scan.plan import OffsetSpan

_ALWAYS: Final = Times(-OFFSET_MAX, OFFSET_MAX)


@dataclass(frozen=True, slots=True)
class ScanBounds:
    """Offsets `start`..`end` (exclusive) and times, all by default."""

    start: int = 0
    end: int = OFFSET_MAX
    times: Times | None = None

    def within(self, span: OffsetSpan) -> OffsetSpan:
        """The part of `span` that these bounds leave."""
        start = max(span.start, self.start)
        return OffsetSpan(start, max(start, min(span.end, self.end)))

    def narrowed(self, filters: Iterable[Filter]) -> tuple[Self, list[Filter]]:
        """These bounds and all of `filters`; and the filters that Spark must still apply.

        A range of offsets is cut exactly, so Spark need not filter again. ScanBounds of time only rule out whole row
        groups, so Spark filters the elements of the others.
        """
        bounds, left = self, []
        for each in filters:
            found, exact = bounds._with(each)
            bounds = found
            if not exact:
                left.append(each)
        return bounds, left

    def _with(self, filter_: Filter) -> tuple[Self, bool]:
        if isinstance(filter_, IsNotNull):
            return self, filter_.attribute in {("offset",), ("timestamp",), ("value",)}  # they never are
        least, most = _hull(filter_)
        attribute = getattr(filter_, "attribute", None)
        if attribute == ("offset",) and _are(int, least, most):
            low = self.start if least is None else max(self.start, least + isinstance(filter_, GreaterThan))
            high = self.end if most is None else min(self.end, most + (not isinstance(filter_, LessThan)))
            return type(self)(low, high, self.times), not isinstance(filter_, In)
        if attribute == ("timestamp",) and _are(datetime, least, most):
            times = self.times or _ALWAYS
            since = times.since_us if least is None else max(times.since_us, _us(least))
            until = times.until_us if most is None else min(times.until_us, _us(most))
            return type(self)(self.start, self.end, Times(since, until)), False
        return self, False


def _hull(filter_: Filter) -> tuple[Any, Any]:
    """The least and the greatest value that a filter lets through, as far as it says."""
    match filter_:
        case EqualTo(value=value) if value is not None:
            return value, value
        case GreaterThan(value=value) | GreaterThanOrEqual(value=value):
            return value, None
        case LessThan(value=value) | LessThanOrEqual(value=value):
            return None, value
        case In(value=values) if values and None not in values:
            return min(values), max(values)
    return None, None


def _are(kind: type, *values: Any) -> bool:
    known = [value for value in values if value is not None]
    return bool(known) and all(isinstance(value, kind) and not isinstance(value, bool) for value in known)


def _us(time: datetime) -> int:
    return to_us(time if time.tzinfo is not None else time.replace(tzinfo=UTC))
