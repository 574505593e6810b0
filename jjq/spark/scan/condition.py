"""What a filter that was given to `jjq.spark.read` says about offsets and times, so that blocks are left out.

Spark itself is asked: it resolves the condition against the queue's columns and simplifies it, so that text is
a time in the session's zone and `date(timestamp) = …` is a range. Of the result this reads the comparisons that
must all hold, of offset or timestamp with a constant. What it does not understand bounds nothing. Spark applies the
whole condition to what is read in any case: a bound that is missing costs time, never elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from coldstore.block.read import COLUMNS
from coldstore.shared.batch import Content, from_us
from jjq.spark.scan.bounds import ScanBounds
from jjq.spark.schema import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

# Names of Catalyst's comparisons: as they are, and with the constant on the left.
_COMPARISONS: Final[dict[str, tuple[type[Any], type[Any]]]] = {
    "EqualTo": (EqualTo, EqualTo),
    "GreaterThan": (GreaterThan, LessThan),
    "GreaterThanOrEqual": (GreaterThanOrEqual, LessThanOrEqual),
    "LessThan": (LessThan, GreaterThan),
    "LessThanOrEqual": (LessThanOrEqual, GreaterThanOrEqual),
}
_TYPES: Final = {"offset": "long", "timestamp": "timestamp"}
# Functions that mean another time whenever the frame is used, though each query sees a constant.
_MOVING: Final = ("current_", "now(", "localtimestamp")


class Judged(NamedTuple):
    """Where elements that meet a condition may be, and the columns by which it is judged."""

    bounds: ScanBounds
    columns: tuple[str, ...]


EVERYTHING: Final = Judged(ScanBounds(), ())


def judge(spark: SparkSession, where: str | Column, content: Content) -> Judged:
    """What `where` says about a queue of such content; no bounds where Spark cannot be asked."""
    # A session of Spark Connect has no JVM here. The JVM's errors have no types; a condition that is wrong is
    # met again where the frame is made, and there the error is Spark's own.
    with suppress(Exception):
        return _judged(spark, where, content)
    return Judged(ScanBounds(), COLUMNS)


def _judged(spark: SparkSession, where: str | Column, content: Content) -> Judged:
    nothing = spark.createDataFrame(spark.sparkContext.emptyRDD(), spark_schema(content))
    execution: Any = nothing.where(where)._jdf.queryExecution()
    condition = execution.analyzed().condition()
    columns = tuple(found.name() for found in _each(condition.references().toSeq()))
    simple = execution.optimizedPlan()
    if simple.nodeName() != "Filter" or any(name in condition.toString() for name in _MOVING):
        return Judged(ScanBounds(), columns)
    return Judged(ScanBounds().narrowed(_filters(simple.condition()))[0], columns)


def _filters(expression: Any) -> Iterator[Filter]:
    """The comparisons that every element of the result meets, in the form that a source gets."""
    kind = _kind(expression)
    if kind == "And":
        yield from _filters(expression.left())
        yield from _filters(expression.right())
    elif kind in _COMPARISONS:
        straight, swapped = _COMPARISONS[kind]
        for filter_, column, constant in (
            (straight, expression.left(), expression.right()),
            (swapped, expression.right(), expression.left()),
        ):
            name = _column(column)
            if name is not None and _kind(constant) == "Literal" and constant.value() is not None:
                yield filter_((name,), _value(name, constant.value()))
    elif kind == "In" and (name := _column(expression.value())) is not None:
        constants = list(_each(expression.list()))
        if all(_kind(each) == "Literal" and each.value() is not None for each in constants):
            yield In((name,), tuple(_value(name, each.value()) for each in constants))
    elif kind == "InSet" and (name := _column(expression.child())) is not None:
        values = list(_each(expression.hset()))
        if None not in values:
            yield In((name,), tuple(_value(name, value) for value in values))


def _kind(expression: Any) -> str:
    return str(expression.getClass().getSimpleName())


def _column(expression: Any) -> str | None:
    """`offset` or `timestamp`, if that is what the expression is; what it is compared with has its type then."""
    if _kind(expression) != "AttributeReference":
        return None
    name = str(expression.name())
    return name if _TYPES.get(name) == expression.dataType().typeName() else None


def _value(name: str, internal: int) -> Any:
    """Spark's own form of a constant, as its filters have it: times are microseconds inside."""
    return from_us(internal) if name == "timestamp" else internal


def _each(collection: Any) -> Iterator[Any]:
    """The items of a collection of Scala's."""
    found = collection.iterator()
    while found.hasNext():
        yield found.next()
