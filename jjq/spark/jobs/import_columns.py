"""Read the source of an import with Spark, and turn its columns into those of elements.

Sources are Parquet, JSON lines, and CSV with a header. `Shape` says which column becomes which:

    order0, order1 …   the columns that the elements are ordered by, unchanged
    timestamp          microseconds since 1970
    key, value         bytes, or text
    headers            map<string, binary>
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from coldstore.shared.batch import Content
from coldstore.shared.errors import InvalidInput

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Format = Literal["parquet", "jsonl", "csv"]


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

    def frame(self, source: DataFrame, content: Content, now_us: int) -> DataFrame:
        """The columns above, or `InvalidInput` that names the one at fault."""
        from pyspark.sql import functions as f

        if not self.order:
            raise InvalidInput("say by which column the elements are ordered, for instance order='time'")
        _check_names(source, self._named())
        columns = [_orderable(source, name).alias(f"order{at}") for at, name in enumerate(self.order)]
        columns.append(
            (f.lit(now_us).cast("long") if self.time is None else _microseconds(source, self.time)).alias(
                "timestamp"
            )
        )
        columns.append(_text(source, self.key, "key").cast("binary").alias("key"))
        columns.append(self._value(source, content).alias("value"))
        columns.append(_headers(source, self.headers).alias("headers"))
        return source.select(*columns)

    @property
    def order_columns(self) -> list[str]:
        return [f"order{at}" for at in range(len(self.order))]

    def _named(self) -> list[str]:
        others = (self.time, self.key, self.headers, None if self.value == WHOLE_ROW else self.value)
        return [*self.order, *(name for name in others if name is not None)]

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


def _microseconds(source: DataFrame, name: str) -> Column:
    """Times as numbers; text that is no time becomes null, which is refused later."""
    from pyspark.sql import functions as f

    kind = _type(source, name)
    column = f.col(_quoted(name))
    if kind == "string":
        column = column.try_cast("timestamp")
    elif kind not in {"timestamp", "date"}:
        raise InvalidInput(
            f"column {name} is {kind}; times are timestamps with zone, dates, or ISO 8601 text"
        )
    return f.unix_micros(column.cast("timestamp"))


def _headers(source: DataFrame, name: str | None) -> Column:
    from pyspark.sql import functions as f

    wanted = "map<string,binary>"
    if name is None:
        return f.lit(None).cast(wanted)
    kind = _type(source, name)
    if kind not in {wanted, "map<string,string>"}:
        raise InvalidInput(f"column {name} is {kind}; headers are {wanted}, or a map of texts")
    return f.col(_quoted(name)).cast(wanted)


def check_rows(shaped: DataFrame, shape: Shape) -> tuple[int, int]:
    """How many rows there are, and their bytes, about; `InvalidInput` if a column has nulls that must not."""
    from pyspark.sql import functions as f

    def nulls(name: str) -> Any:
        return f.count_if(f.col(name).isNull())

    size = f.sum(f.octet_length("value") + f.coalesce(f.octet_length("key"), f.lit(0)) + ROW_BYTES)
    columns = [*shape.order_columns, "timestamp", "value"]
    found = shaped.agg(
        f.count("*").alias("n"), size.alias("size"), *(nulls(c).alias(c) for c in columns)
    ).first()
    if found is None or not found["n"]:
        raise InvalidInput("there is nothing to import: the source has no rows")
    for at, name in enumerate(shape.order):
        if found[f"order{at}"]:
            raise InvalidInput(f"column {name} is null in {found[f'order{at}']} rows: they have no place")
    if found["value"]:
        raise InvalidInput(f"column {shape.value} is null in {found['value']} rows: an element has a value")
    if found["timestamp"]:
        raise InvalidInput(f"column {shape.time} is null, or no time, in {found['timestamp']} rows")
    return int(found["n"]), int(found["size"] or 0)
