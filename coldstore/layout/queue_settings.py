"""Queue settings: the document that creates a queue and says when its blocks are sealed.

queues/<name>/queue.json, put-if-absent, so that a name is taken once; changed by compare-and-swap only

{"block_bytes":67108864,       a block is sealed at this size (Arrow bytes) …
 "block_seconds":300.0,        … or at this age
 "check":"<hex>",              see sealed_json.py
 "content":"bytes",            bytes | text | json: the type of value
 "created":1767225600000000,   microseconds since 1970
 "deleted":{…},                only of a deleted queue: when, until when it is kept, how far it is gone (deletion.py)
 "format":1,
 "id":"<32 hex digits>",       stands in every file of the queue
 "importing":{…},              only while an import fills the queue: nobody else may use it (queue/bulk_import.py)
 "name":"orders",
 "replaces":"<32 hex digits>", only of a queue that took the name of a deleted one: the id of that
 "state":"00…01-<digest>.json"} only after a deletion by a node that is alone: subscribers and producers, under state/
"""

from __future__ import annotations

import math
import re
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from coldstore.layout import paths, sealed_json
from coldstore.shared import limits
from coldstore.shared.batch import Content, check_content
from coldstore.shared.errors import DataLoss, InvalidInput

FORMAT: Final = 1

_IDENTITY: Final = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Importing:
    """An import: its identity, the first offset it fills, the block before that, and whether the queue is new."""

    by: str
    first: int = 0
    previous: int | None = None
    new: bool = False


@dataclass(frozen=True, slots=True)
class Deleted:
    """Since when a queue is deleted, until when it can be brought back, and what has become of its files."""

    at_us: int
    until_us: int
    files: Literal["kept", "going", "gone"] = "kept"
    gone_us: int = 0


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """What a queue is; all but the size and age of its blocks is fixed when it is created."""

    name: str
    id: str
    content: Content = "bytes"
    block_bytes: int = limits.BLOCK_BYTES_DEFAULT
    block_seconds: float = limits.BLOCK_SECONDS_DEFAULT
    created_us: int = 0
    importing: Importing | None = None
    deleted: Deleted | None = None
    state: str | None = None
    replaces: str | None = None  # id of the deleted queue whose name this one took

    def agrees_with(self, other: QueueSettings) -> bool:
        """Whether both have the same settings; identity and time of creation do not count."""
        return self._chosen() == other._chosen()

    def _chosen(self) -> tuple[object, ...]:
        return (self.name, self.content, self.block_bytes, self.block_seconds)


def check_settings(settings: QueueSettings) -> QueueSettings:
    """Return `settings` if they are allowed, else raise `InvalidInput` that says which values are."""
    paths.check_name(settings.name)
    check_content(settings.content)
    size = settings.block_bytes
    if type(size) is not int or not limits.BLOCK_BYTES_MIN <= size <= limits.BLOCK_BYTES_MAX:
        raise InvalidInput(
            f"block_bytes is {size!r}; use a whole number from {limits.BLOCK_BYTES_MIN} to {limits.BLOCK_BYTES_MAX}"
        )
    age = settings.block_seconds
    if (
        isinstance(age, bool)
        or not isinstance(age, int | float)
        or not math.isfinite(age)
        or not limits.BLOCK_SECONDS_MIN <= age <= limits.BLOCK_SECONDS_MAX
    ):
        raise InvalidInput(
            f"block_seconds is {age!r}; use a number from {limits.BLOCK_SECONDS_MIN:g} to {limits.BLOCK_SECONDS_MAX:g}"
        )
    return settings


def encode(settings: QueueSettings) -> bytes:
    """The document of these settings, after a check."""
    check_settings(settings)
    fields: dict[str, Any] = {
        "block_bytes": settings.block_bytes,
        "block_seconds": float(settings.block_seconds),
        "content": settings.content,
        "created": settings.created_us,
        "id": settings.id,
        "name": settings.name,
    }
    if settings.importing is not None:
        fields["importing"] = asdict(settings.importing)
    if settings.deleted is not None:
        fields["deleted"] = asdict(settings.deleted)
    if settings.state is not None:
        fields["state"] = settings.state
    if settings.replaces is not None:
        fields["replaces"] = settings.replaces
    return sealed_json.seal(fields, FORMAT)


def decode(data: bytes | memoryview, key: str) -> QueueSettings:
    """The settings at `key`, or `DataLoss` naming it."""
    fields: dict[str, Any] = sealed_json.unseal(data, key, FORMAT)
    try:
        settings = QueueSettings(
            name=fields["name"],
            id=fields["id"],
            content=check_content(fields["content"]),
            block_bytes=fields["block_bytes"],
            block_seconds=fields["block_seconds"],
            created_us=fields["created"],
            importing=Importing(**fields["importing"]) if "importing" in fields else None,
            deleted=Deleted(**fields["deleted"]) if "deleted" in fields else None,
            state=fields.get("state"),
            replaces=fields.get("replaces"),
        )
        check_settings(settings)
    except (KeyError, TypeError, InvalidInput) as error:
        raise DataLoss(f"{key} does not describe a queue: {error}", key=key) from error
    if paths.queue(settings.name) != key or not _IDENTITY.fullmatch(settings.id):
        raise DataLoss(
            f"{key} describes queue {settings.name!r} with id {settings.id!r}: swapped files?", key=key
        )
    return settings
