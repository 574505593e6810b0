"""Attachments: an element may name a large object of its queue, or a reference to something elsewhere.

Both are headers, whose values are compact JSON. Only jjq sets them, when it knows that the object is there:

    jjq-object      {"sha256":"<64 hex>","size":1048577,"type":"image/png","name":"cat.png"}
    jjq-reference   {"uri":"s3://bucket/model.bin","size":7340032,"sha256":"<64 hex>"}

`type` and `name` may be missing, and of a reference also `size` and `sha256`. A name is for people: the last part of a
path, and never used as a path.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import pyarrow as pa

from coldstore import compute as pc
from coldstore.shared import limits, lists
from coldstore.shared.errors import DataLoss, InvalidInput

OBJECT: Final = "jjq-object"
REFERENCE: Final = "jjq-reference"
SCHEMES: Final = ("abfs", "abfss", "az", "file", "ftp", "gs", "hdfs", "http", "https", "s3", "s3a", "sftp")

_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_UNSHOWN: Final = re.compile(r"[\x00-\x1f\x7f]")
_HEADERS: Final = pa.map_(pa.string(), pa.field("value", pa.binary(), nullable=False))


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """A large object: what it holds, how it is to be read, and what its producer called it."""

    sha256: str
    size: int
    media_type: str = ""
    name: str = ""

    def __post_init__(self) -> None:
        _check_sha256(self.sha256)
        _check_size(self.size)
        object.__setattr__(self, "media_type", _media_type(self.media_type))
        object.__setattr__(self, "name", last_part(self.name))


@dataclass(frozen=True, slots=True)
class Reference:
    """An address of something elsewhere. jjq stores the address, and neither reads nor checks what is there."""

    uri: str
    size: int | None = None
    sha256: str = ""
    media_type: str = ""
    name: str = ""

    def __post_init__(self) -> None:
        _check_uri(self.uri)
        if self.size is not None:
            _check_size(self.size)
        if self.sha256:
            _check_sha256(self.sha256)
        object.__setattr__(self, "media_type", _media_type(self.media_type))
        object.__setattr__(self, "name", last_part(self.name))


Attachment = ObjectRef | Reference
Attached = tuple[int, Attachment]  # the element's position in its push, and what it names


class ObjectSource(Protocol):
    """Reads what an element names. A client sets it; in `jjq.aio` what these give is awaited."""

    def open(self, element: Any, /) -> Any: ...

    def read(self, element: Any, /) -> Any: ...

    def save(self, element: Any, path: Any, /) -> Any: ...


class Naming:
    """Elements and tasks: what they name beside their value, and how to get it."""

    __slots__ = ()

    def _naming(self) -> tuple[Mapping[str, bytes], ObjectSource | None]:
        raise NotImplementedError

    @property
    def object(self) -> ObjectRef | None:
        """The large object that it names: sha256, size, media_type, name."""
        return object_in(self._naming()[0])

    @property
    def reference(self) -> Reference | None:
        """What it refers to elsewhere: uri, size, sha256."""
        return reference_in(self._naming()[0])

    def open(self) -> Any:
        """A file to read its object from, at any place; in `jjq.aio` it is awaited. Without an object: its value."""
        return self._source().open(self)

    def read(self) -> Any:
        """All bytes of its object, checked; in `jjq.aio` they are awaited. Without an object: those of its value."""
        return self._source().read(self)

    def save(self, path: Any) -> Any:
        """Write its object to a file, which appears when it is whole and right; in `jjq.aio` it is awaited."""
        return self._source().save(self, path)

    def _source(self) -> ObjectSource:
        source = self._naming()[1]
        if source is None:
            raise InvalidInput(
                "this element did not come from a client, or went to another process: pop it here"
            )
        return source


def last_part(name: str) -> str:
    """A name without what leads to it: never a path, never `..`."""
    if not isinstance(name, str):
        raise InvalidInput(f"the name of an object is {name!r:.60}: give a str")
    last = _UNSHOWN.sub("", re.split(r"[/\\]", name.strip().rstrip("/\\"))[-1]).strip()
    return "" if last in {".", ".."} else last[: limits.OBJECT_NAME_CHARS_MAX]


def header_of(attachment: Attachment) -> tuple[str, bytes]:
    """The header that names it."""
    optional: dict[str, Any] = {"type": attachment.media_type, "name": attachment.name}
    if isinstance(attachment, ObjectRef):
        fields: dict[str, Any] = {"sha256": attachment.sha256, "size": attachment.size}
    else:
        fields = {"uri": attachment.uri}
        optional = {"size": attachment.size, "sha256": attachment.sha256} | optional
    fields |= {name: value for name, value in optional.items() if value not in ("", None)}
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    return (OBJECT if isinstance(attachment, ObjectRef) else REFERENCE), text.encode()


def object_in(headers: Mapping[str, bytes]) -> ObjectRef | None:
    """The large object that these headers name."""
    raw = headers.get(OBJECT)
    return None if raw is None else parse_object(raw)


def reference_in(headers: Mapping[str, bytes]) -> Reference | None:
    """What these headers refer to elsewhere."""
    raw = headers.get(REFERENCE)
    if raw is None:
        return None
    fields = _fields(REFERENCE, raw)
    try:
        return Reference(fields["uri"], fields.get("size"), fields.get("sha256", ""), *_optional(fields))
    except (InvalidInput, KeyError):
        raise _unreadable(REFERENCE, raw) from None


def parse_object(raw: bytes) -> ObjectRef:
    fields = _fields(OBJECT, raw)
    try:
        return ObjectRef(fields["sha256"], fields["size"], *_optional(fields))
    except (InvalidInput, KeyError):
        raise _unreadable(OBJECT, raw) from None


def objects_in(batch: pa.RecordBatch | pa.Table) -> list[ObjectRef]:
    """The large objects that elements of a batch name, each once."""
    column = batch.column("headers")
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    found: dict[str, ObjectRef] = {}
    for headers in chunks:
        if headers.null_count == len(headers):
            continue
        named = pc.equal(headers.keys, lists.scalar(OBJECT, pa.string()))
        for raw in headers.items.filter(named).to_pylist():  # perhaps also of rows that were sliced away
            ref = parse_object(raw)
            found[ref.sha256] = ref
    return list(found.values())


def with_attachments(
    payload: pa.RecordBatch, attached: Sequence[Attached], empty: str | None = None
) -> pa.RecordBatch:
    """A checked payload whose elements name their attachments; `empty` replaces their empty values."""
    check_attached(attached, payload.num_rows)
    rows: list[Any] = payload.column(2).to_pylist()
    for position, attachment in attached:
        rows[position] = [*(rows[position] or ()), header_of(attachment)]
    if empty is not None:
        values = payload.column(1).to_pylist()
        for position, _ in attached:
            values[position] = values[position] or empty
        payload = payload.set_column(1, payload.schema.field(1), lists.array(values, payload.column(1).type))
    return payload.set_column(2, payload.schema.field(2), lists.array(rows, _HEADERS))


def check_attached(attached: Iterable[Attached], rows: int) -> None:
    """Refuse an attachment to an element that is not there, and two attachments to one element."""
    seen: set[int] = set()
    for position, _ in attached:
        if not 0 <= position < rows or position in seen:
            raise InvalidInput(
                f"an object or reference of element {position}, of {rows}: attach one to an element of the push",
                position=position,
            )
        seen.add(position)
    if len(seen) > limits.ATTACHMENTS_MAX:
        raise InvalidInput(
            f"the push names {len(seen)} objects; at most {limits.ATTACHMENTS_MAX} go in one: split it"
        )


def _optional(fields: Mapping[str, Any]) -> tuple[str, str]:
    return fields.get("type", ""), fields.get("name", "")


def _fields(header: str, raw: bytes) -> Mapping[str, Any]:
    try:
        fields = json.loads(raw)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise _unreadable(header, raw)
    return fields


def _unreadable(header: str, raw: bytes) -> DataLoss:
    return DataLoss(f"the header {header} says {raw[:60]!r}, which is not what jjq writes: see jjq verify")


def _check_sha256(sha256: str) -> None:
    if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
        raise InvalidInput(f"{str(sha256)[:80]!r} is not a sha256: use 64 lower-case hexadecimal digits")


def _check_size(size: int) -> None:
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= limits.OFFSET_MAX:
        raise InvalidInput(f"the size of an object is {size!r:.60}: give a whole number of bytes from 0 on")


def _media_type(text: str) -> str:
    if not isinstance(text, str) or len(text) > limits.MEDIA_TYPE_CHARS_MAX or _UNSHOWN.search(text):
        raise InvalidInput(f"media type {str(text)[:60]!r} is not allowed: write one such as image/png")
    return text


def _check_uri(uri: str) -> None:
    if not isinstance(uri, str) or len(uri) > limits.URI_CHARS_MAX or _UNSHOWN.search(uri):
        raise InvalidInput(
            f"the URI {str(uri)[:60]!r} is not allowed: use up to {limits.URI_CHARS_MAX} printable characters"
        )
    try:
        parts = urlsplit(uri)
    except ValueError as error:
        raise InvalidInput(f"the URI {uri[:60]!r} cannot be read ({error}): correct it") from None
    if parts.scheme not in SCHEMES:
        raise InvalidInput(
            f"the URI {uri[:60]!r} has the scheme {parts.scheme[:20]!r}: use one of {', '.join(SCHEMES)}"
        )
    if parts.password is not None:
        raise InvalidInput("a reference must not hold a password: readers have their own credentials")
    if not (parts.netloc or (parts.scheme in {"file", "hdfs"} and parts.path)):
        raise InvalidInput(f"the URI {uri[:60]!r} names no place: write it as in https://HOST/PATH")
