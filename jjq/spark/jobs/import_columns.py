"""Read the source of an import with Spark, and turn its columns into those of elements.

Sources are Parquet, JSON lines, and CSV with a header. `Shape` says which column becomes which:

    order0, order1 …   the columns that the elements are ordered by, unchanged
    timestamp          microseconds since 1970
    key, value         bytes, or text
    headers            map<string, binary>; only if there is such a column, since Spark takes five times as long to
                       hand rows with a map to Python, even if all of them are null
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from coldstore.shared.batch import Content
from coldstore.shared.errors import InvalidInput

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Format = Literal["parquet", "jsonl", "csv"]
TimeUnit = Literal["s", "ms", "us"]

TIMES: Final = (
    "times are timestamps, dates, text such as 2026-11-01T00:00:00Z, 2026-11-01 00:00:00+00 or 2026-11-01 (UTC "
    "without a zone), or numbers since 1970 with a time unit (s, ms or us)"
)
UNIT_US: Final[dict[str, int]] = {"s": 1_000_000, "ms": 1_000, "us": 1}
_WHOLE: Final = frozenset({"tinyint", "smallint", "int", "bigint"})
# Spark reads +00:00 as a zone, and not +00 or +0000, as PostgreSQL and others write it.
_SHORT_ZONE: Final = r"(:\d\d(?:\.\d+)?)\s*([+-]\d\d):?(\d\d)?$"


def read(
    spark: SparkSession, sources: Sequence[str], format: Format, text: Collection[str] = ()
) -> DataFrame:
    """The rows of all sources. In CSV, columns named in `text` are text; the types of others are inferred."""
    from pyspark.errors import PySparkException

    if not sources:
        raise InvalidInput("give the files or folders to import from")
    reader = spark.read.option("mode", "FAILFAST")
    try:
        if format == "parquet":
            return reader.parquet(*sources)
        if format == "jsonl":
            return reader.json(list(sources))
        reader = reader.option("header", True)
        inferred = reader.option("inferSchema", True).csv(list(sources)).schema
        # A value "007" is not the number 7, and its column might hold nothing else.
        fields = [
            f"`{each.name}` {'string' if each.name in text else each.dataType.simpleString()}"
            for each in inferred
        ]
        return reader.option("inferSchema", False).schema(", ".join(fields)).csv(list(sources))
    except PySparkException as error:
        line = str(error).splitlines()[0]
        raise InvalidInput(f"Spark cannot read the source: {line[:300]}") from None


HEADERS: Final = "headers"
WHOLE_ROW: Final = "*"
ROW_BYTES: Final = 24  # of an element besides its payload, in Arrow form


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The names of the columns. `value` may be `*` in a json queue: the whole row, as an object."""

    order: tuple[str, ...]
    value: str = "value"
    time: str | None = None  # none: all elements get the time of the import
    key: str | None = None
    headers: str | None = None
    time_unit: TimeUnit | None = None  # of times that are numbers

    def frame(self, source: DataFrame, content: Content, now_us: int) -> DataFrame:
        """The columns above, or `InvalidInput` that names the one at fault."""
        from pyspark.sql import functions as f

        if not self.order:
            raise InvalidInput("say by which column the elements are ordered, for instance order='time'")
        _check_names(source, self.named)
        columns = [_orderable(source, name).alias(f"order{at}") for at, name in enumerate(self.order)]
        columns.append(
            (f.lit(now_us).cast("long") if self.time is None else self.microseconds(source)).alias(
                "timestamp"
            )
        )
        columns.append(_text(source, self.key, "key").cast("binary").alias("key"))
        columns.append(self._value(source, content).alias("value"))
        if self.headers is not None:
            columns.append(_headers(source, self.headers).alias(HEADERS))
        return source.select(*columns)

    @property
    def order_columns(self) -> list[str]:
        return [f"order{at}" for at in range(len(self.order))]

    @property
    def named(self) -> list[str]:
        """The columns that the source must have."""
        others = (self.time, self.key, self.headers, None if self.value == WHOLE_ROW else self.value)
        return [*self.order, *(name for name in others if name is not None)]

    def microseconds(self, source: DataFrame) -> Column:
        """Times as numbers; what is no time becomes null, which is refused later."""
        from pyspark.sql import functions as f

        name = self.time or ""
        kind, column = _type(source, name), f.col(_quoted(name))
        unit = None if self.time_unit is None else f.lit(UNIT_US[self.time_unit])
        if unit is not None and kind == "string":
            kind, column = "decimal", column.try_cast("decimal(30,6)")
        if unit is not None and kind in _WHOLE:
            return f.try_multiply(column.cast("long"), unit)
        if unit is not None and kind.startswith(("decimal", "float", "double")):
            return f.try_multiply(column.try_cast("decimal(30,6)"), unit.cast("decimal(7,0)")).try_cast(
                "long"
            )
        if kind == "string":
            full = f.regexp_replace(f.trim(column), _SHORT_ZONE, "$1$2:$3")
            full = f.regexp_replace(full, r"(?<=[+-]\d\d:)$", "00")
            return f.unix_micros(full.try_cast("timestamp"))
        if kind not in {"timestamp", "date"}:
            raise InvalidInput(f"column {name} is {kind}; {TIMES}")
        return f.unix_micros(column.cast("timestamp"))

    def bad_time(self, source: DataFrame) -> str:
        """One of the times that are none, for an error; empty if all of them are null."""
        from pyspark.sql import functions as f

        column = f.col(_quoted(self.time or ""))
        found = source.where(self.microseconds(source).isNull() & column.isNotNull()).select(
            column.cast("string")
        )
        row = found.first()
        return "" if row is None else str(row[0])[:60]

    def _value(self, source: DataFrame, content: Content) -> Column:
        from pyspark.sql import functions as f

        whole = self.value == WHOLE_ROW
        kind = "" if whole else _type(source, self.value)
        if whole or kind.startswith("struct"):
            if content != "json":
                raise InvalidInput(
                    f"only a json queue can hold whole rows: use content='json', not {content}"
                )
            return f.to_json(f.struct(*map(_quoted, source.columns)) if whole else f.col(_quoted(self.value)))
        column = _text(source, self.value, "value")
        if content == "bytes":
            return column.cast("binary")
        if kind == "binary":
            raise InvalidInput(
                f"column {self.value} holds bytes; a {content} queue needs text: decode it, or use content='bytes'"
            )
        return column


def _check_names(source: DataFrame, named: list[str]) -> None:
    missing = [name for name in named if name not in source.columns]
    if missing:
        raise InvalidInput(f"there is no column {missing[0]}: the source has {', '.join(source.columns)}")


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _type(source: DataFrame, name: str) -> str:
    return str(source.schema[name].dataType.simpleString())


def _orderable(source: DataFrame, name: str) -> Column:
    from pyspark.sql import functions as f

    kind = _type(source, name)
    if kind.startswith(("map", "array", "struct", "variant")):
        raise InvalidInput(f"column {name} is {kind}, by which nothing can be ordered: choose another")
    return f.col(_quoted(name))


def _text(source: DataFrame, name: str | None, role: str) -> Column:
    from pyspark.sql import functions as f

    if name is None:
        return f.lit(None).cast("binary")
    kind = _type(source, name)
    if kind not in {"string", "binary"} and not kind.startswith(("varchar", "char")):
        raise InvalidInput(f"column {name} is {kind}; a {role} is text or bytes: cast it first")
    return f.col(_quoted(name))


def _headers(source: DataFrame, name: str) -> Column:
    from pyspark.sql import functions as f

    wanted = "map<string,binary>"
    kind = _type(source, name)
    if kind not in {wanted, "map<string,string>"}:
        raise InvalidInput(f"column {name} is {kind}; headers are {wanted}, or a map of texts")
    return f.col(_quoted(name)).cast(wanted)


class Counted(NamedTuple):
    """Rows, and their bytes as blocks count them."""

    rows: int
    size: int


def row_bytes(shaped: DataFrame) -> Column:
    """The bytes of a shaped row: its key and value, the names and values of its headers, and what a row costs."""
    from pyspark.sql import functions as f

    def octets(name: str) -> Column:
        return f.coalesce(f.octet_length(name), f.lit(0))

    def pairs(total: Column, pair: Column) -> Column:
        return total + f.octet_length(pair["key"]) + f.coalesce(f.octet_length(pair["value"]), f.lit(0))

    size = octets("value") + octets("key") + f.lit(ROW_BYTES)
    if HEADERS not in shaped.columns:
        return size
    return size + f.coalesce(f.aggregate(f.map_entries(HEADERS), f.lit(0), pairs), f.lit(0))


def check_rows(shaped: DataFrame, shape: Shape, source: DataFrame) -> Counted:
    """How many rows there are, and their bytes; `InvalidInput` if a column has nulls that must not."""
    from pyspark.sql import functions as f

    def nulls(name: str) -> Any:
        return f.count_if(f.col(name).isNull())

    columns = [*shape.order_columns, "timestamp", "value"]
    found = shaped.agg(
        f.count("*").alias("n"), f.sum(row_bytes(shaped)).alias("size"), *(nulls(c).alias(c) for c in columns)
    ).first()
    if found is None or not found["n"]:
        raise InvalidInput("there is nothing to import: the source has no rows")
    refuse_nulls(shape, {name: found[name] for name in columns}, lambda: shape.bad_time(source))
    return Counted(int(found["n"]), int(found["size"] or 0))


def refuse_nulls(shape: Shape, nulls: Mapping[str, int], bad_time: Callable[[], str]) -> None:
    """`InvalidInput` if a column of shaped rows has nulls that must not; `bad_time` finds one of the times."""
    for at, name in enumerate(shape.order):
        if nulls[f"order{at}"]:
            raise InvalidInput(f"column {name} is null in {nulls[f'order{at}']} rows: they have no place")
    if nulls["value"]:
        raise InvalidInput(f"column {shape.value} is null in {nulls['value']} rows: an element has a value")
    if nulls["timestamp"]:
        sample = bad_time()
        shown = f", for instance {sample!r}: {TIMES}" if sample else ""
        raise InvalidInput(f"column {shape.time} is null, or no time, in {nulls['timestamp']} rows{shown}")
