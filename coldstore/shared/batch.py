"""The element batch: one Arrow form for elements from the wire to Parquet.

A producer supplies a *payload* (key, value, headers); the queue's writer *stamps* it with offsets
and a timestamp, and from then on it is an element batch:

    offset int64 · timestamp timestamp[us, UTC] · key binary? · value binary|utf8 · headers map<utf8, binary>?

The value of a ledger, the hidden queue of a worker group, is a struct (coldstore.layout.ledger).
The schema never changes: columns may be added, none may be altered. Nothing here loops over elements in
Python, except to find the position of a bad element after a whole batch was refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, get_args

import numpy as np
import pyarrow as pa

from coldstore import compute as pc
from coldstore.shared import limits, lists
from coldstore.shared.attachments import Naming, ObjectSource
from coldstore.shared.errors import InvalidInput
from coldstore.shared.headers import check_header_counts, header_bytes, refuse_null_headers, refuse_reserved
from coldstore.shared.json_text import check_json, shown
from coldstore.shared.lists import null_column

Content = Literal["bytes", "text", "json", "ledger"]
CONTENTS: Final = ("bytes", "text", "json")  # that a user may choose; a ledger comes with its group

HEADERS: Final = pa.map_(pa.string(), pa.field("value", pa.binary(), nullable=False))
TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
LEDGER_FIELDS: Final = (
    pa.field("task", pa.int64(), nullable=False),
    pa.field("count", pa.int32(), nullable=False),
    pa.field("event", pa.string(), nullable=False),
    pa.field("state", pa.string()),
    pa.field("attempt", pa.int32(), nullable=False),
    pa.field("worker", pa.string()),
    pa.field("session", pa.string()),
    pa.field("until", TIMESTAMP),
    pa.field("expires", TIMESTAMP),
    pa.field("priority", pa.int32()),
    pa.field("reason", pa.string()),
)
LEDGER_VALUE: Final = pa.struct(LEDGER_FIELDS)
LEDGER_ROW_BYTES: Final = 64  # about what a row needs in memory
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Element(Naming):
    """One element as a person sees it."""

    offset: int
    timestamp: datetime
    key: bytes | None
    value: bytes | str
    headers: Mapping[str, bytes] = field(default_factory=dict)
    source: ObjectSource | None = field(default=None, compare=False, repr=False)

    def _naming(self) -> tuple[Mapping[str, bytes], ObjectSource | None]:
        return self.headers, self.source


def check_content(content: str) -> Content:
    """Return `content` if a queue can have it."""
    for known in get_args(Content):
        if content == known:
            return known  # type: ignore[no-any-return]
    raise InvalidInput(f"content {content!r} is not known: use one of {', '.join(CONTENTS)}")


def check_new_content(content: str) -> None:
    """Refuse what a user may not choose: a ledger comes with its group."""
    if content not in CONTENTS:
        raise InvalidInput(f"content {content!r:.40} is not known: use one of {', '.join(CONTENTS)}")


def value_type(content: Content) -> pa.DataType:
    if content == "ledger":
        return LEDGER_VALUE
    return pa.binary() if content == "bytes" else pa.string()


def _payload_fields(content: Content) -> list[pa.Field]:
    return [
        pa.field("key", pa.binary()),
        pa.field("value", value_type(content), nullable=False),
        pa.field("headers", HEADERS),
    ]


_STAMP_FIELDS: Final = [
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("timestamp", TIMESTAMP, nullable=False),
]
_PAYLOADS: Final = {c: pa.schema(_payload_fields(c)) for c in get_args(Content)}
_ELEMENTS: Final = {c: pa.schema(_STAMP_FIELDS + _payload_fields(c)) for c in get_args(Content)}


def payload_schema(content: Content) -> pa.Schema:
    """The columns that a producer supplies."""
    return _PAYLOADS[content]


def schema(content: Content) -> pa.Schema:
    """The columns that a queue holds."""
    return _ELEMENTS[content]


def payload(
    content: Content,
    values: Sequence[bytes | str],
    keys: Sequence[bytes | None] | None = None,
    headers: Sequence[Mapping[str, bytes] | None] | None = None,
) -> pa.RecordBatch:
    """A payload from Python values; checked by `check_payload` like any other."""
    if isinstance(values, bytes | str):
        raise InvalidInput("a batch is a list of values; put a single value into a list")
    for name, column in (("keys", keys), ("headers", headers)):
        if column is not None and len(column) != len(values):
            raise InvalidInput(
                f"{len(values)} values but {len(column)} {name}: give one for each, None where absent"
            )
    count = len(values)
    columns = [
        null_column(count, pa.binary()) if keys is None else _column("key", keys, pa.binary()),
        _column("value", values, value_type(content)),
        null_column(count, HEADERS) if headers is None else _column("headers", _pairs(headers), HEADERS),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=payload_schema(content))


def _pairs(headers: Sequence[Mapping[str, bytes] | None]) -> list[list[tuple[str, bytes]] | None]:
    return [None if h is None else list(h.items()) for h in headers]


def _column(name: str, items: Sequence[Any], wanted: pa.DataType) -> pa.Array:
    try:
        return lists.array(items, wanted)
    except (pa.ArrowException, TypeError, ValueError, OverflowError, UnicodeError):
        for position, item in enumerate(items):
            try:
                lists.array([item], wanted)
            except (pa.ArrowException, TypeError, ValueError, OverflowError, UnicodeError) as error:
                raise InvalidInput(
                    f"element {position}: its {name} is {shown(item)}, which is not {wanted} ({_line(error)})",
                    position=position,
                ) from None
        raise


def check_payload(batch: pa.RecordBatch, content: Content) -> pa.RecordBatch:
    """`batch` in the exact payload schema of the queue, or `InvalidInput` naming the position at fault.

    Accepts any column order, missing key and headers, and the large, view and dictionary forms of
    the same types, as other writers of Arrow produce them.
    """
    batch = check_columns(batch, content)
    if content == "json":
        for _ in check_json(batch.column(1), at_once=True):
            pass
    return batch


def check_columns(batch: pa.RecordBatch, content: Content) -> pa.RecordBatch:
    """As `check_payload`, but whether values are JSON is left to `check_json`, which takes long."""
    if not isinstance(batch, pa.RecordBatch):
        raise InvalidInput(f"a push takes an Arrow record batch, not {type(batch).__name__}: see payload()")
    rows = batch.num_rows
    if rows == 0:
        raise InvalidInput("the batch is empty: push at least one element")
    if rows > limits.BATCH_ELEMENTS_MAX:
        raise InvalidInput(
            f"the batch has {rows} elements; at most {limits.BATCH_ELEMENTS_MAX} go in one push"
        )
    wanted = payload_schema(content)
    if not batch.schema.equals(wanted):
        batch = _conform(batch, wanted)
    values, headers = batch.column(1), batch.column(2)
    _refuse_null(values)
    no_headers = headers.null_count == rows
    if not no_headers:
        refuse_null_headers(headers)
        refuse_reserved(headers)
    # If all buffers together are small, no element can be over a limit. Only else are sizes computed.
    if not no_headers or batch.get_total_buffer_size() > limits.ELEMENT_BYTES_MAX:
        check_sizes(batch)
    return batch


def payload_bytes(batch: pa.RecordBatch) -> int:
    """Bytes of a batch as Arrow IPC: what limits and budgets count. A tenth of the cost of `nbytes`."""
    size: int = pa.ipc.get_record_batch_size(batch)
    return size


def _conform(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    unknown = sorted(set(batch.schema.names) - set(wanted.names))
    if unknown or len(set(batch.schema.names)) != len(batch.schema.names):
        raise InvalidInput(
            f"the batch has columns {', '.join(batch.schema.names)}; allowed are key, value and headers, each once "
            f"(the server assigns offset and timestamp)"
        )
    if "value" not in batch.schema.names:
        raise InvalidInput("the batch has no column value: add it, it holds the content of each element")
    columns = []
    for field_ in wanted:
        if field_.name not in batch.schema.names:
            columns.append(null_column(batch.num_rows, field_.type))
        else:
            columns.append(_cast(batch.column(field_.name), field_))
    _refuse_null(columns[wanted.names.index("value")])
    return pa.RecordBatch.from_arrays(columns, schema=wanted)


_BYTES_LIKE: Final = ("binary", "large_binary", "binary_view", "string", "large_string", "string_view")


def _cast(column: pa.Array, wanted: pa.Field) -> pa.Array:
    """Cast between forms of one type only: numbers are not silently turned into text."""
    if column.type.equals(wanted.type):
        return column
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    fits = pa.types.is_map(column.type) if pa.types.is_map(wanted.type) else str(column.type) in _BYTES_LIKE
    if not fits and not pa.types.is_null(column.type):
        raise InvalidInput(
            f"column {wanted.name} has type {column.type}: the queue needs {wanted.type}, cast it"
        )
    try:
        return column.cast(wanted.type)
    except (pa.ArrowException, UnicodeError):
        position = _first_bad_text(column)
        raise InvalidInput(
            f"element {position}: its {wanted.name} does not fit {wanted.type}, for instance it is not valid UTF-8",
            position=position,
        ) from None


def _first_bad_text(column: pa.Array) -> int:
    """By halves: one by one, a million elements took the server ten seconds."""
    first, end = 0, len(column)
    while end - first > 1:
        middle = (first + end) // 2
        try:
            column.slice(first, middle - first).cast(pa.string())
        except (pa.ArrowException, UnicodeError):
            end = middle
        else:
            first = middle
    return first


def _refuse_null(values: pa.Array) -> None:
    if values.null_count:
        position = pc.index(values.is_null(), lists.scalar(True, pa.bool_())).as_py()
        raise InvalidInput(
            f"element {position}: its value is null; an empty value is allowed, a missing one is not",
            position=position,
        )


def check_sizes(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return `batch` if no element is too large, and all of them together are not."""
    sizes = element_bytes(batch)
    largest = int(sizes.argmax())
    if sizes[largest] > limits.ELEMENT_BYTES_MAX:
        raise InvalidInput(
            f"element {largest}: it has {sizes[largest]} bytes; at most {limits.ELEMENT_BYTES_MAX} are allowed "
            f"(push_file stores a larger one as an object)",
            position=largest,
        )
    size = payload_bytes(batch)
    if size > limits.BATCH_BYTES_MAX:  # in Arrow form, so that what is admitted also fits a message
        position = max(1, int(batch.num_rows * limits.BATCH_BYTES_MAX / size))
        raise InvalidInput(
            f"the batch has {size} bytes as Arrow; at most {limits.BATCH_BYTES_MAX} go in one push: "
            f"split it, for instance before element {position}",
            position=position,
        )
    check_header_counts(batch.column("headers"))
    return batch


def element_bytes(batch: pa.RecordBatch) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Bytes of each element: key, value, and the names and values of its headers."""
    values = batch.column("value")
    if pa.types.is_struct(values.type):  # rows of a ledger are of about one size
        return np.full(batch.num_rows, LEDGER_ROW_BYTES, dtype=np.int64)
    sizes = lists.byte_lengths(values)
    key = batch.column("key")
    if key.null_count < len(key):
        sizes = sizes + lists.byte_lengths(key)
    headers = batch.column("headers")
    if headers.null_count < len(headers):
        sizes = sizes + header_bytes(headers)
    return sizes


def raw_bytes(batch: pa.RecordBatch | pa.Table) -> int:
    """Bytes of a batch in Arrow form, as block sizes and budgets count them; a slice counts only its own rows."""
    return int(batch.nbytes)


def stamp(batch: pa.RecordBatch, first: int, timestamp_us: int) -> pa.RecordBatch:
    """The element batch of a payload whose first element gets offset `first`; all get one timestamp."""
    return stamp_each(batch, first, np.full(batch.num_rows, timestamp_us, dtype=np.int64))


def stamp_each(
    batch: pa.RecordBatch, first: int, timestamps_us: np.ndarray[Any, np.dtype[np.int64]]
) -> pa.RecordBatch:
    """As `stamp`, with a timestamp for each element."""
    count = batch.num_rows
    offsets = np.arange(first, first + count, dtype=np.int64)
    kind = batch.schema.field("value").type
    content: Content = (
        "text" if pa.types.is_string(kind) else "bytes" if pa.types.is_binary(kind) else "ledger"
    )
    columns = [
        pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(offsets)]),
        pa.Array.from_buffers(TIMESTAMP, count, [None, pa.py_buffer(timestamps_us)]),
        *batch.columns,
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_ELEMENTS[content])


def elements(batch: pa.RecordBatch | pa.Table, source: ObjectSource | None = None) -> Iterator[Element]:
    """The elements of a batch, one by one, for people and for clients that want Python values."""
    names = batch.schema.names
    offsets = batch.column("offset").to_pylist()
    stamps = batch.column("timestamp")  # of one batch the same bytes are numbers, without a kernel of Arrow's
    times = (stamps.view(pa.int64()) if isinstance(stamps, pa.Array) else stamps.cast(pa.int64())).to_pylist()
    keys = batch.column("key").to_pylist() if "key" in names else [None] * len(offsets)
    values = batch.column("value").to_pylist()
    headers = batch.column("headers").to_pylist() if "headers" in names else [None] * len(offsets)
    for offset, us, key, value, pairs in zip(offsets, times, keys, values, headers, strict=True):
        yield Element(offset, from_us(us), key, value, dict(pairs) if pairs else {}, source)


def from_us(us: int) -> datetime:
    """Microseconds since 1970 as a time with zone, exactly."""
    return _EPOCH + timedelta(microseconds=us)


def to_us(time: datetime) -> int:
    """A time with zone as microseconds since 1970, exactly."""
    if time.tzinfo is None:
        raise InvalidInput(
            f"time {time.isoformat()} has no zone: write it with one, for instance {time.isoformat()}Z"
        )
    return (time - _EPOCH) // timedelta(microseconds=1)


def _line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
