"""Filters become bounds: exact for offsets, a hull for times, and what is not understood stays Spark's."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from coldstore.shared.batch import to_us
from jjq.spark.scan.bounds import ScanBounds
from jjq.spark.scan.partition import Times
from jjq.spark.scan.plan import OffsetSpan

OFFSET, TIME = ("offset",), ("timestamp",)
NOON, ONE = datetime(2026, 1, 31, 12, tzinfo=UTC), datetime(2026, 1, 31, 13, tzinfo=UTC)


def narrowed(*filters: Any) -> tuple[ScanBounds, list[Any]]:
    return ScanBounds().narrowed(list(filters))


@pytest.mark.parametrize(
    ("filters", "left"),
    [
        ([GreaterThan(OFFSET, 10)], OffsetSpan(11, 100)),
        ([GreaterThanOrEqual(OFFSET, 10)], OffsetSpan(10, 100)),
        ([LessThan(OFFSET, 10)], OffsetSpan(0, 10)),
        ([LessThanOrEqual(OFFSET, 10)], OffsetSpan(0, 11)),
        ([EqualTo(OFFSET, 10)], OffsetSpan(10, 11)),
        ([GreaterThan(OFFSET, 10), LessThan(OFFSET, 20), LessThan(OFFSET, 30)], OffsetSpan(11, 20)),
        ([GreaterThan(OFFSET, 200)], OffsetSpan(201, 201)),
        ([LessThan(OFFSET, -5)], OffsetSpan(0, 0)),
        ([IsNotNull(OFFSET)], OffsetSpan(0, 100)),
    ],
)
def test_offsets_are_cut_exactly_and_spark_need_not_look_again(filters: list[Any], left: OffsetSpan) -> None:
    bounds, others = narrowed(*filters)
    assert bounds.within(OffsetSpan(0, 100)) == left
    assert others == []


def test_a_list_of_offsets_is_a_hull_and_stays_for_spark() -> None:
    several = In(OFFSET, (30, 10, 20))
    bounds, others = narrowed(several)
    assert bounds.within(OffsetSpan(0, 100)) == OffsetSpan(10, 31)
    assert others == [several]


def test_times_leave_out_blocks_and_stay_for_spark() -> None:
    filters = [GreaterThanOrEqual(TIME, NOON), LessThan(TIME, ONE), IsNotNull(TIME)]
    bounds, others = narrowed(*filters)
    assert bounds.times == Times(to_us(NOON), to_us(ONE))
    assert others == filters[:2]
    assert bounds.times.touch(to_us(NOON), to_us(NOON))
    assert not bounds.times.touch(0, to_us(NOON) - 1)
    assert not bounds.times.touch(to_us(ONE) + 1, to_us(ONE) + 2)


@pytest.mark.parametrize(
    "filter_",
    [
        Not(EqualTo(OFFSET, 10)),
        EqualTo(("value",), b"x"),
        IsNull(OFFSET),
        IsNotNull(("key",)),
        EqualTo(OFFSET, None),
        GreaterThan(OFFSET, 1.5),
        In(OFFSET, (1, None)),
        In(OFFSET, ()),
    ],
)
def test_what_is_not_understood_changes_nothing(filter_: Any) -> None:
    assert narrowed(filter_) == (ScanBounds(), [filter_])
