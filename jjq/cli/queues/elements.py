"""Printing elements: columns on a terminal, bare values in a pipe, or one JSON object a line.

The JSON form (jjq/client/element_json.py) is what `jjq push --jsonl` reads.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import orjson

from coldstore.shared.errors import InvalidInput
from jjq.cli.output import bytes_text, time_text, write
from jjq.client.element_json import as_json

if TYPE_CHECKING:
    import pyarrow as pa

    from coldstore.shared.batch import Element

_NAMING = ("jjq-object", "jjq-reference")

Form = Literal["columns", "values", "json"]


def choose_form(json: bool, values: bool) -> Form:
    """The form that the options ask for, or the one that fits the place it goes to."""
    if json and values:
        raise InvalidInput("give --json or --values, not both")
    if json:
        return "json"
    return "values" if values or not sys.stdout.isatty() else "columns"


def print_elements(batch: pa.RecordBatch, form: Form) -> None:
    """Print a batch and flush, so that a reader sees it at once."""
    from coldstore.shared.batch import elements

    if form == "values":
        lines = [_bytes(value) for value in batch.column("value").to_pylist()]
    elif form == "json":
        lines = [orjson.dumps(as_json(element), option=orjson.OPT_UTC_Z) for element in elements(batch)]
    else:
        lines = [_columns(element).encode("utf-8", "replace") for element in elements(batch)]
    write(b"".join(line + b"\n" for line in lines))


def _columns(element: Element) -> str:
    key = "" if element.key is None else f"  {_text(element.key)}"
    shown = ((name, value) for name, value in element.headers.items() if name not in _NAMING)
    headers = "".join(f"  {name}={_text(value)}" for name, value in shown)
    value = named_text(element) or _text(element.value)
    return f"{element.offset:>10}  {time_text(element.timestamp)}{key}{headers}  {value}"


def named_text(element: Element) -> str:
    """The object or the reference of an element, in a few words; empty if it has none."""
    ref, reference = element.object, element.reference
    if ref is not None:
        words = [ref.name, ref.media_type, bytes_text(ref.size), f"sha256:{ref.sha256[:12]}"]
        return f"[object {' '.join(_text(word) for word in words if word)}]"
    if reference is not None:
        size = "" if reference.size is None else f" {bytes_text(reference.size)}"
        return f"[reference {_text(reference.uri)}{size}]"
    return ""


def _bytes(value: bytes | str | dict[str, Any]) -> bytes:
    """A value as bytes; the row of a ledger as JSON."""
    if isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else orjson.dumps(value, option=orjson.OPT_UTC_Z)


def _text(value: bytes | str | dict[str, Any]) -> str:
    value = _bytes(value) if isinstance(value, dict) else value
    text = value if isinstance(value, str) else value.decode("utf-8", "backslashreplace")
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def from_json(
    line: bytes, number: int
) -> tuple[bytes | str, bytes | str | None, dict[str, bytes | str] | None]:
    """Value, key and headers of an element written as by `as_json`; offset and timestamp are left out."""
    try:
        fields = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise InvalidInput(f"line {number} is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise InvalidInput(f'line {number} is no JSON object: write {{"value": …, "key": …, "headers": …}}')
    value, key = _take(fields, "value", number), _take(fields, "key", number)
    if value is None:
        raise InvalidInput(f"line {number} has neither value nor value_base64")
    headers: dict[str, bytes | str] = dict(_mapping(fields, "headers", number))
    for name, text in _mapping(fields, "headers_base64", number).items():
        headers[name] = _decoded(text, number)
    return value, key, headers or None


def _take(fields: Mapping[str, Any], name: str, number: int) -> bytes | str | None:
    if f"{name}_base64" in fields:
        return _decoded(fields[f"{name}_base64"], number)
    value = fields.get(name)
    if value is None or isinstance(value, str):
        return value
    return orjson.dumps(value)  # for queues of JSON: an object may be written as it is


def _mapping(fields: Mapping[str, Any], name: str, number: int) -> dict[str, str]:
    found = fields.get(name) or {}
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise InvalidInput(f"line {number}: {name} must be an object of texts")
    return found


def _decoded(text: Any, number: int) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (ValueError, TypeError):
        raise InvalidInput(f"line {number} has a field that is not base64") from None
