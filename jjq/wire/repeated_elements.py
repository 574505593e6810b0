"""The friendly form: repeated Element to a payload, and an element batch to repeated Element.

    Elements = ( 0a · length · Element )*

Protobuf takes a hundred bytes and a microsecond for an element that may be two bytes on the wire, so 9 MB of them would
take half a GB and hold up everybody for five seconds. Elements are therefore counted on the raw bytes before any of
them is parsed, and then parsed a few at a time, as are those that are sent. Both are generators that stop after each
step of about a millisecond: a server lets others work in between (jjq/server/loop_steps.py), a client does not
(`finish`).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, NamedTuple, TypeVar

import orjson
import pyarrow as pa
from google.protobuf.message import DecodeError

from coldstore.shared.batch import HEADERS, payload_schema
from coldstore.shared.errors import InvalidInput
from coldstore.shared.limits import BATCH_ELEMENTS_MAX, HEADERS_MAX, KIB
from coldstore.shared.lists import null_column
from jjq.v1 import jjq_pb2 as pb
from jjq.wire.arrow_field import RepeatedElementsSpan, fields, read_varint

T = TypeVar("T")
Steps = Generator[None, None, T]

_SCHEMA: Final = payload_schema("bytes")
_BYTES: Final = pa.binary()
_ELEMENT_TAG: Final = 1 << 3 | 2
_KEY_TAG: Final = 3 << 3 | 2  # of an element
_HEADERS_TAG: Final = 5 << 3 | 2
_STEP_ELEMENTS: Final = 500  # take a millisecond, here or there
_STEP_BYTES: Final = 32 * KIB  # as many bytes of headers take three
_WHOLE_ELEMENTS: Final = 2_000  # so many are not worth a count and turns, …
_WHOLE_BYTES: Final = 256 * KIB  # … if they have no more bytes
_WALK_STEPS: Final = 16  # counting is so much quicker than parsing
_OTHER_FIELDS: Final = 64  # of an element, beside its headers
_HEADER_BYTES: Final = 2  # at least


class ElementColumns(NamedTuple):
    """The columns of a few elements; None: no element has any."""

    rows: int
    keys: pa.Array | None
    values: pa.Array
    headers: pa.Array | None


def finish(steps: Steps[T]) -> T:
    """All steps at once, for those who hold up nobody but themselves."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result


def decode(span: RepeatedElementsSpan) -> Steps[pa.RecordBatch]:
    """The payload that is pushed. Values are bytes here; the queue checks what they must be."""
    whole = decode_small(span)
    if whole is not None:
        return whole
    ends = yield from _count(span)
    parts: list[ElementColumns] = []
    at = span.begin
    for end in ends:
        if parts:
            yield
        parts.append(_part(span.raw[at:end]))
        at = end
    return _concat_parts(parts)


def decode_small(span: RepeatedElementsSpan) -> pa.RecordBatch | None:
    """The payload at once if that is one step only, as it nearly always is; else None.

    Each element begins with the same byte, so there are no more elements than such bytes, wherever else these are.
    """
    begin, end = span.begin, span.end
    if end - begin > _WHOLE_BYTES or span.raw.count(_ELEMENT_TAG, begin, end) > _WHOLE_ELEMENTS:
        return None
    rows, keys, values, headers = _part(span.raw[begin:end])
    columns = [
        null_column(rows, _BYTES) if keys is None else keys,
        values,
        null_column(rows, HEADERS) if headers is None else headers,
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def _count(span: RepeatedElementsSpan) -> Steps[list[int]]:
    """Where each step of elements ends, or what is wrong with them, without parsing one."""
    ends: list[int] = []
    count, at = 0, span.begin
    try:
        while at < span.end:
            if len(ends) % _WALK_STEPS == _WALK_STEPS - 1:
                yield
            at, found = _walk(span.raw, at, span.end, count)
            ends.append(at)
            count += found
            if count > BATCH_ELEMENTS_MAX:
                raise InvalidInput(
                    f"the batch has more than {BATCH_ELEMENTS_MAX} elements: split it, no more go in one"
                )
    except IndexError:
        at = span.end + 1
    if at != span.end:
        raise _malformed()
    return ends


def _walk(raw: bytes, at: int, end: int, position: int) -> tuple[int, int]:
    """Pass over the elements of one step: where they end, and how many they are."""
    stop = min(end, at + _STEP_BYTES)
    count = 0
    while at < stop and count < _STEP_ELEMENTS:
        if raw[at] == _ELEMENT_TAG:
            size = raw[at + 1]
            if size < 0x80:  # nearly always where they are many
                at += 2 + size
            else:
                size, begin = read_varint(raw, at + 1)
                at = begin + size
                if size > _HEADER_BYTES * HEADERS_MAX and at <= end:
                    _check_fields(raw, begin, at, position + count)
        else:  # unknown to us: protobuf passes over it, but it must not be one of a swarm
            _, _, _, at = next(fields(raw, at, end, most=end))
        count += 1
    return at, count


def _check_fields(raw: bytes, begin: int, end: int, position: int) -> None:
    """Refuse an element with too many fields: nearly all that it can have many of are headers."""
    for count, _ in enumerate(fields(raw, begin, end, most=end)):
        if count >= HEADERS_MAX + _OTHER_FIELDS:
            raise InvalidInput(
                f"element {position}: it has more than {HEADERS_MAX} headers; no more are allowed",
                position=position,
            )


def _part(raw: bytes) -> ElementColumns:
    try:
        elements = pb.Elements.FromString(raw).elements
    except DecodeError:
        raise _malformed() from None
    # Asking an element for its headers takes as long as all the rest. Without the byte of their tag there are none.
    values = [e.value for e in elements]
    keys = [e.key if e.HasField("key") else None for e in elements] if _may_have(raw, _KEY_TAG) else []
    headers = [list(e.headers.items()) or None for e in elements] if _may_have(raw, _HEADERS_TAG) else []
    try:
        return ElementColumns(
            len(values),
            pa.array(keys, _BYTES) if any(k is not None for k in keys) else None,
            pa.array(values, _BYTES),
            pa.array(headers, HEADERS) if any(headers) else None,
        )
    except pa.ArrowException as error:
        raise InvalidInput(f"the elements do not fit into one batch ({error}): split it") from None


def _may_have(raw: bytes, tag: int) -> bool:
    """Whether a field with this tag may be in there. A tag may be written longer than needed: then it begins so."""
    return tag in raw or tag | 0x80 in raw


def _concat_parts(parts: list[ElementColumns]) -> pa.RecordBatch:
    values = [part.values for part in parts]
    columns = [
        _column([(part.rows, part.keys) for part in parts], _BYTES),
        values[0] if len(values) == 1 else pa.concat_arrays(values) if values else pa.array([], _BYTES),
        _column([(part.rows, part.headers) for part in parts], HEADERS),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def _column(parts: list[tuple[int, pa.Array | None]], kind: pa.DataType) -> pa.Array:
    if all(column is None for _, column in parts):
        return null_column(sum(count for count, _ in parts), kind)
    found = [null_column(count, kind) if column is None else column for count, column in parts]
    return found[0] if len(found) == 1 else pa.concat_arrays(found)


def encode(batch: pa.RecordBatch) -> Steps[bytes]:
    """The elements of a batch as the content of an Elements message."""
    done: list[bytes] = []
    at = 0
    while at < batch.num_rows:
        if done:
            yield
        few = batch.slice(at, _STEP_ELEMENTS)
        done.append(_elements(few).SerializeToString())
        at += few.num_rows
    return done[0] if len(done) == 1 else b"".join(done)


def _elements(batch: pa.RecordBatch) -> pb.Elements:
    into = pb.Elements()
    add = into.elements.add
    offsets = batch.column("offset").to_pylist()
    times = batch.column("timestamp").cast(pa.int64()).to_pylist()
    values = _bytes_of(batch.column("value"))
    keys, headers = batch.column("key"), batch.column("headers")
    if keys.null_count == len(keys) and headers.null_count == len(headers):
        for offset, time, value in zip(offsets, times, values, strict=True):
            add(offset=offset, timestamp_us=time, value=value)
        return into
    columns = zip(offsets, times, values, keys.to_pylist(), headers.to_pylist(), strict=True)
    for offset, time, value, key, pairs in columns:
        add(offset=offset, timestamp_us=time, value=value, key=key, headers=dict(pairs or ()))
    return into


def _bytes_of(values: pa.Array) -> list[bytes]:
    """Values as bytes; rows of a ledger as JSON."""
    if pa.types.is_struct(values.type):
        return [orjson.dumps(row, option=orjson.OPT_UTC_Z) for row in values.to_pylist()]
    found: list[bytes] = values.cast(pa.binary()).to_pylist()
    return found


def _malformed() -> InvalidInput:
    return InvalidInput("the field elements is not a protobuf encoding of Elements")
