"""An element as one JSON object, as `replay --json` prints it and `push --jsonl` reads it.

Bytes that are no UTF-8 are in `key_base64` and `value_base64` instead of `key` and `value`, and headers
likewise in `headers_base64`.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coldstore.shared.batch import Element


def as_json(element: Element) -> dict[str, Any]:
    """An element as JSON knows it."""
    return {
        "offset": element.offset,
        "timestamp": element.timestamp.isoformat().replace("+00:00", "Z"),
        **content_json(element.key, element.value, element.headers),
    }


def content_json(key: bytes | None, value: bytes | str, headers: Mapping[str, bytes]) -> dict[str, Any]:
    """What an element or a task says, as JSON knows it."""
    fields: dict[str, Any] = {}
    if key is not None:
        _put(fields, "key", key)
    _put(fields, "value", value)
    if headers:
        texts, others = {}, {}
        for name, header in headers.items():
            try:
                texts[name] = header.decode()
            except UnicodeDecodeError:
                others[name] = base64.b64encode(header).decode()
        fields["headers"] = texts
        if others:
            fields["headers_base64"] = others
    return fields


def _put(fields: dict[str, Any], name: str, value: bytes | str) -> None:
    if not isinstance(value, bytes):  # text, or the row of a ledger
        fields[name] = value
        return
    try:
        fields[name] = value.decode()
    except UnicodeDecodeError:
        fields[f"{name}_base64"] = base64.b64encode(value).decode()
