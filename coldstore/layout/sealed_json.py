"""Sealed documents: small JSON objects with a checksum, in which no bit can change unnoticed.

    {"check":"<sha256 of the canonical rest>","format":1, …the fields…}

Canonical means: keys sorted, no spaces, UTF-8, exactly one way to write every value. A reader parses a
document, seals its fields again and compares bytes. So a flipped bit is found even where JSON has several
spellings: in white space, escapes or the order of keys. `format` is the version of the fields. A reader
refuses a version newer than it knows and changes nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import orjson

from coldstore.shared import limits
from coldstore.shared.errors import DataLoss, InvalidInput, check

_CHECK: Final = "check"
_FORMAT: Final = "format"


def seal(fields: Mapping[str, Any], format: int) -> bytes:
    """The bytes of a document with these fields."""
    check(_CHECK not in fields and _FORMAT not in fields, "a document's own fields are reserved")
    return _seal_fields({**fields, _FORMAT: format})


def _seal_fields(rest: Mapping[str, Any]) -> bytes:
    digest = hashlib.sha256(_canonical(rest)).hexdigest()
    return _canonical({**rest, _CHECK: digest})


def _canonical(fields: Mapping[str, Any]) -> bytes:
    return orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)


def unseal(data: bytes | memoryview, key: str, newest: int, block: int | None = None) -> dict[str, Any]:
    """The fields of a document, or `DataLoss` naming its key; `newest` is the format we know."""
    fields = _parse(data) if len(data) <= limits.METADATA_BYTES_MAX else None
    if fields is None:
        raise DataLoss(
            f"{key} is damaged: its {len(data)} bytes do not match their own checksum; restore it from a copy",
            key=key,
            block=block,
        )
    format = fields.pop(_FORMAT, None)
    if not isinstance(format, int) or format > newest:
        raise InvalidInput(
            f"{key} has format {format}, newer than {newest}, the newest known here: upgrade jjq"
        )
    return fields


def _parse(data: bytes | memoryview) -> dict[str, Any] | None:
    try:
        fields = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(fields, dict):
        return None
    fields.pop(_CHECK, None)
    try:
        return fields if _seal_fields(fields) == bytes(data) else None
    except orjson.JSONEncodeError:
        return None
