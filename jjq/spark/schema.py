"""The schema of elements as Spark types."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from coldstore.block.read import COLUMNS
from coldstore.shared.batch import LEDGER_FIELDS, TIMESTAMP, Content, value_type
from coldstore.shared.errors import InvalidInput

_PLAIN: Final[dict[pa.DataType, DataType]] = {
    pa.int64(): LongType(),
    pa.int32(): IntegerType(),
    pa.string(): StringType(),
    TIMESTAMP: TimestampType(),
}
_LEDGER: Final = StructType([StructField(f.name, _PLAIN[f.type], True) for f in LEDGER_FIELDS])

_LEDGER_ARROW: Final = pa.struct([field.with_nullable(True) for field in LEDGER_FIELDS])


def _types(content: Content) -> dict[str, DataType]:
    return {
        "offset": LongType(),
        "timestamp": TimestampType(),
        "key": BinaryType(),
        "value": _LEDGER if content == "ledger" else BinaryType() if content == "bytes" else StringType(),
        "headers": MapType(StringType(), BinaryType()),
    }


def spark_schema(content: Content, columns: tuple[str, ...] = COLUMNS) -> StructType:
    """The schema that Spark itself finds in the Parquet files of such a queue."""
    types = _types(content)
    return StructType([StructField(name, types[name], True) for name in columns])


def arrow_schema(wanted: StructType, content: Content) -> pa.Schema:
    """The Arrow form of a schema that the user may have given: a choice of columns, each of its own type."""
    types = _types(content)
    for field in wanted:
        if field.name not in types:
            raise InvalidInput(f"column {field.name!r} is not known: choose from {', '.join(COLUMNS)}")
        if field.dataType.typeName() != types[field.name].typeName():
            raise InvalidInput(
                f"column {field.name} is {types[field.name].simpleString()}, not "
                f"{field.dataType.simpleString()}: read it as it is and cast the column"
            )
    return pa.schema([pa.field(f.name, _arrow_type(f, content), f.nullable) for f in wanted])


def _arrow_type(field: StructField, content: Content) -> pa.DataType:
    if isinstance(field.dataType, MapType):
        value = pa.field("value", pa.binary(), field.dataType.valueContainsNull)
        return pa.map_(pa.string(), value)
    value = _LEDGER_ARROW if content == "ledger" else value_type(content)
    plain = {"offset": pa.int64(), "timestamp": TIMESTAMP, "key": pa.binary(), "value": value}
    return plain[field.name]
