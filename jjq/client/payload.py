"""What a caller pushes, as a payload: a list of values, Arrow columns, or a whole batch or table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from coldstore.shared import lists
from coldstore.shared.batch import Content, payload
from coldstore.shared.errors import InvalidInput
from coldstore.shared.push import Push
from coldstore.shared.results import Stage
from jjq.arguments import stage as check_stage
from jjq.arguments import text, waiting_time, whole

Keys = Iterable[bytes | str | None]
Headers = Iterable[Mapping[str, bytes | str] | None]


def to_payload(values: Any, keys: Keys | None = None, headers: Headers | None = None) -> pa.RecordBatch:
    """The payload of a push. Whether it fits the queue is checked where the queue is."""
    if isinstance(values, pa.RecordBatch | pa.Table):
        if keys is not None or headers is not None:
            raise InvalidInput("a batch has its keys and headers as columns: leave out keys= and headers=")
        return _one_batch(values)
    if isinstance(values, pa.Array | pa.ChunkedArray):
        columns = [values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values]
        if keys is None and headers is None:
            return pa.RecordBatch.from_arrays(columns, names=["value"])
        values = columns[0].to_pylist()
    values = _listed(values)
    # The first value decides on the form that needs no cast in the queue; either form fits all queues.
    content: Content = "text" if values and isinstance(values[0], str) else "bytes"
    try:
        return payload(
            content,
            values,
            None if keys is None else _labels("keys", keys),
            None if headers is None else _headers(headers),
        )
    except InvalidInput as error:
        advice = "" if error.position is None else advice_for(values[error.position])
        raise InvalidInput(f"{error.message}{advice}", position=error.position) from None


def advice_for(value: object) -> str:
    """What to do with a value that is no bytes and no text, if that is plain."""
    return ": push json.dumps(value)" if isinstance(value, Mapping | list | tuple | int | float) else ""


def _one_batch(values: pa.RecordBatch | pa.Table) -> pa.RecordBatch:
    if isinstance(values, pa.RecordBatch):
        return values
    batches = values.combine_chunks().to_batches()
    if len(batches) > 1:
        raise InvalidInput(
            f"a table of {values.nbytes} bytes does not fit into one push: push its batches one by one"
        )
    return batches[0] if batches else lists.no_rows(values.schema)


def _listed(items: Any) -> Sequence[Any]:
    if isinstance(items, bytes | bytearray | memoryview | str):
        raise InvalidInput("a batch is a list of values; put a single value into a list")
    if isinstance(items, Mapping):
        raise InvalidInput("a batch is a list of values, not a dict: push [json.dumps(value)]")
    if isinstance(items, list | tuple):
        return items
    try:
        return list(items)
    except TypeError:
        raise InvalidInput(
            f"push a list of bytes or str, or an Arrow batch or table, not {type(items).__name__}"
        ) from None


def _labels(name: str, items: Any) -> Sequence[Any]:
    """Keys or headers: one for each value."""
    if isinstance(items, Mapping):
        raise InvalidInput(f"{name} is a list with one entry for each value, not a dict: put it into a list")
    if not isinstance(items, Iterable) or isinstance(items, bytes | bytearray | memoryview | str):
        raise InvalidInput(
            f"{name} are {repr(items)[:60]}: give one entry for each value, and put a single value into a list"
        )
    return items if isinstance(items, list | tuple) else list(items)


def _headers(items: Any) -> Sequence[Any]:
    headers = _labels("headers", items)
    for position, each in enumerate(headers):
        if each is not None and not isinstance(each, Mapping):
            raise InvalidInput(
                f"element {position}: its headers are a {type(each).__name__}: give a dict of names to values",
                position=position,
            )
    return headers


def make_push(
    queue: str,
    payload: pa.RecordBatch,
    producer: str | None,
    sequence: int | None,
    expected_offset: int | None,
    stage: Stage,
    timeout: float = 0.0,
) -> Push:
    """A push of what a caller gave, once it is found to be of the right kind."""
    return Push(
        text("queue", queue),
        payload,
        producer=None if producer is None else text("producer", producer),
        sequence=None if sequence is None else whole("sequence", sequence),
        expected_offset=None if expected_offset is None else whole("expected_offset", expected_offset),
        stage=check_stage(stage),
        timeout=waiting_time("timeout", timeout),
    )
