"""An element as one JSON object, as `replay --json` prints it and `push --jsonl` reads it.

Bytes that are no UTF-8 are in `key_base64` and `value_base64` instead of `key` and `value`, and headers
likewise in `headers_base64`.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coldstore.shared.batch import Element


def as_json(element: Element) -> dict[str, Any]:
    """An element as JSON knows it."""
    fields: dict[str, Any] = {
        "offset": element.offset,
        "timestamp": element.timestamp.isoformat().replace("+00:00", "Z"),
    }
    if element.key is not None:
        _put(fields, "key", element.key)
    _put(fields, "value", element.value)
    if element.headers:
        texts, others = {}, {}
        for name, value in element.headers.items():
            try:
                texts[name] = value.decode()
            except UnicodeDecodeError:
                others[name] = base64.b64encode(value).decode()
        fields["headers"] = texts
        if others:
            fields["headers_base64"] = others
    return fields


def _put(fields: dict[str, Any], name: str, value: bytes | str) -> None:
    if isinstance(value, str):
        fields[name] = value
        return
    try:
        fields[name] = value.decode()
    except UnicodeDecodeError:
        fields[f"{name}_base64"] = base64.b64encode(value).decode()
