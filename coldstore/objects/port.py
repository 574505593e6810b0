"""The port `ObjectStore`: what the cold store asks of object storage, verb by verb.

It is synchronous on purpose: boto3, files and Parquet are synchronous, and so are Spark executors. The hot
store runs whole cold operations in worker threads, away from its event loop. An implementation is safe to use
from many threads, and its conditional puts hold between processes.

Errors: `NotFound` (no such object), `Conflict` (a condition did not hold: nothing was written),
`Denied` (credentials), `Unavailable` (outcome unknown, after all retries), `Exhausted` (no space
left), `InvalidInput` (a key outside the allowed form, a bucket that does not exist).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, cast

from coldstore.shared.errors import InvalidInput

# The bytes of a put: anything with a buffer, Arrow's too, or an iterable of such pieces. Iterating may
# wait for a piece that is still being encoded. Iterating again must give the same pieces: an attempt may be repeated.
Body = bytes | memoryview | Iterable[memoryview]


def pieces(body: Body) -> Iterable[memoryview]:
    """`body` in pieces; one, if it is whole."""
    try:
        return [memoryview(cast("bytes", body))]
    except TypeError:  # it has no buffer
        return cast("Iterable[memoryview]", body)


def whole(body: Body) -> bytes:
    """The bytes of what is to be put; waits for all of its pieces."""
    return body if isinstance(body, bytes) else b"".join(pieces(body))


def check_range(start: int, end: int | None) -> None:
    """Refuse a range that no object could have."""
    if start < 0 or (end is not None and end < start):
        raise InvalidInput(f"byte range {start}..{end} is not allowed: use 0 <= start <= end")


def cut_range(start: int, end: int | None, size: int) -> tuple[int, int]:
    """The range within an object of `size` bytes; beyond its end nothing is left of it."""
    check_range(start, end)
    stop = size if end is None else min(end, size)
    return min(start, stop), stop


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object, described without its bytes."""

    key: str
    size: int
    etag: str  # names this version of the object; opaque, good for put_if_match
    modified_us: int  # wall time of the last write, microseconds since 1970


@dataclass(frozen=True, slots=True)
class Object:
    """An object's bytes, with the etag of the very version they were read from."""

    data: bytes
    etag: str


class ObjectStore(Protocol):
    """Seven verbs. Keys are relative to the store's root and match `paths.check_key`.

    No key may lead through another (`a/b` beside `a`): files cannot, and SeaweedFS may lose one of them.
    """

    def get(self, key: str, start: int = 0, end: int | None = None) -> Object:
        """Bytes `start`..`end` (exclusive; all by default, cut at the object's end)."""
        ...

    def put(self, key: str, data: Body) -> str:
        """Write or overwrite; returns the new etag. Durable when it returns, as all puts are."""
        ...

    def put_if_absent(self, key: str, data: Body) -> str:
        """Write only if the key does not exist, else `Conflict`. Of many writers exactly one wins."""
        ...

    def put_if_match(self, key: str, data: Body, etag: str) -> str:
        """Overwrite only the version named by `etag`, else `Conflict`; a missing object is one too."""
        ...

    def list(self, prefix: str, after: str = "") -> Iterator[ObjectInfo]:
        """Objects whose key starts with `prefix` and is greater than `after`, in order of keys (by bytes)."""
        ...

    def head(self, key: str) -> ObjectInfo:
        """Size, etag and age without the bytes."""
        ...

    def delete(self, key: str) -> None:
        """Remove; a missing object is no error."""
        ...
