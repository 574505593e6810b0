"""Objects in an S3 bucket, on AWS or any store that speaks S3.

Every put has an identity of its own in the object's metadata, the same for all its attempts. If a reply is
lost, or the store says that a condition does not hold, the object is looked at: our own identity means
success. So a put takes effect once, and never loses against itself.

Two limits are S3's own and remain. An etag is a digest of the content, so a compare-and-swap cannot tell a
version from a later one with the same bytes; callers put an epoch or an identity into theirs. And an
unconditional `put` whose reply was lost is sent again, even if another writer has overwritten the object
meanwhile.

Nothing here trusts the store's conditional writes: `selftest` proves them at start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from coldstore.layout.paths import check_key, check_prefix
from coldstore.objects.listing import FolderEntry, in_order, is_key, start_of, walk
from coldstore.objects.port import Body, Object, ObjectInfo, check_range, whole
from coldstore.objects.retry import Retry, Transient
from coldstore.objects.s3_requests import Bucket, Condition, connect
from coldstore.objects.settings import S3Settings
from coldstore.shared import limits
from coldstore.shared.chance import Chance, SystemChance
from coldstore.shared.clock import Clock, SystemClock
from coldstore.shared.errors import Conflict, InvalidInput, JjqError, NotFound, Unavailable

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

__all__ = ["S3Objects", "S3Settings"]


class S3Objects:
    """An ObjectStore in a bucket, under a prefix."""

    names_at_end: Final = False  # of an object in parts: S3 wants the key before the first one

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        settings: S3Settings | None = None,
        *,
        clock: Clock | None = None,
        chance: Chance | None = None,
        client: S3Client | None = None,
        page_keys: int = 1_000,
    ) -> None:
        settings = settings or S3Settings()
        self._prefix = check_prefix(prefix if not prefix or prefix.endswith("/") else f"{prefix}/")
        clock = clock or SystemClock()
        self._bucket = Bucket(bucket, self._prefix, client or connect(settings), clock)
        self._chance = chance or SystemChance()
        self._retry = Retry(clock, self._chance, settings.retry_seconds)
        self._page_keys = page_keys

    def __repr__(self) -> str:
        return self._bucket.url

    def get(self, key: str, start: int = 0, end: int | None = None) -> Object:
        self._check(key)
        check_range(start, end)
        return self._retry.run(f"read {key}", lambda: self._bucket.get(key, start, end))

    def put(self, key: str, data: Body) -> str:
        return self._put(key, data, Condition("always"))

    def put_if_absent(self, key: str, data: Body) -> str:
        return self._put(key, data, Condition("absent"))

    def put_if_match(self, key: str, data: Body, etag: str) -> str:
        return self._put(key, data, Condition("match", etag))

    def list(self, prefix: str, after: str = "") -> Iterator[ObjectInfo]:
        check_prefix(prefix)
        return walk(self._read_folder, prefix, after)

    def head(self, key: str) -> ObjectInfo:
        self._check(key)
        return self._retry.run(f"look at {key}", lambda: self._bucket.head(key).info)

    def delete(self, key: str) -> None:
        self._check(key)
        with suppress(NotFound):
            self._retry.run(f"delete {key}", lambda: self._bucket.delete(key))

    # As `PartStore` ---------------------------------------------------------------------------------

    def begin_parts(self, key: str) -> str:
        self._check(key)
        return self._retry.run(f"write {key}", lambda: self._bucket.begin_parts(key))

    def put_part(self, key: str, upload: str, number: int, data: bytes) -> str:
        return self._retry.run(f"write {key}", lambda: self._bucket.put_part(key, upload, number + 1, data))

    def complete_parts(self, key: str, upload: str, tags: Sequence[str]) -> None:
        doubt = False

        def attempt() -> None:
            nonlocal doubt
            try:
                self._bucket.complete_parts(key, upload, tags)
            except Transient as failed:
                doubt = doubt or failed.doubt
                raise
            except NotFound:
                if not doubt:
                    raise
                self._bucket.head(key)  # an earlier attempt has completed it, if it is there

        self._retry.run(f"write {key}", attempt)

    def abort_parts(self, key: str, upload: str) -> None:
        with suppress(NotFound):
            self._retry.run(f"give up {key}", lambda: self._bucket.abort_parts(key, upload))

    def open_uploads(self, key: str) -> Sequence[str]:
        self._check(key)
        return self._retry.run(f"look for parts of {key}", lambda: self._bucket.open_uploads(key))

    def close(self) -> None:
        """Close the connections; the store is of no use afterwards."""
        self._bucket.close()

    def _check(self, key: str) -> None:
        if len(self._prefix) + len(check_key(key)) > limits.KEY_CHARS_MAX:
            raise InvalidInput(
                f"object key {key[:80]!r}… is too long: S3 allows {limits.KEY_CHARS_MAX}, root included"
            )

    def _put(self, key: str, data: Body, condition: Condition) -> str:
        self._check(key)
        body = whole(data)  # the SDK takes no memoryview
        put_id = self._chance.token()
        doubt = False  # whether an attempt may have taken effect although no reply came

        def attempt() -> str:
            nonlocal doubt
            if doubt and (etag := self._find_own(key, put_id, condition, doubt)) is not None:
                return etag
            try:
                return self._bucket.put(key, body, put_id, condition)
            except Transient as failed:
                doubt = doubt or failed.doubt
                raise
            except (Conflict, NotFound) as refused:
                # The refusal proves nothing: a proxy may have sent our request twice.
                if (etag := self._find_own(key, put_id, condition, doubt)) is not None:
                    return etag
                if doubt:
                    raise Transient("the object changes while it is written", doubt=True) from refused
                raise _conflict(key, condition) from refused

        try:
            return self._retry.run(f"write {key}", attempt)
        except (Conflict, Unavailable):
            raise
        except JjqError as error:
            if doubt:  # every other kind promises that nothing was written
                raise Unavailable(f"{error.message}; an earlier attempt may have been written") from error
            raise

    def _find_own(self, key: str, put_id: str, condition: Condition, doubt: bool) -> str | None:
        """The etag if the object is the one that we put; None if ours has had no effect so far.

        Raises `Conflict` where it can have none any more, `Unavailable` where it may have had it and
        was overwritten since.
        """
        found = None
        with suppress(NotFound):
            found = self._bucket.head(key)
        if found is not None and found.put_id == put_id:
            return found.info.etag
        if condition.when == "absent" and found is not None:
            raise _conflict(key, condition)
        if condition.when == "match" and (found is None or found.info.etag != condition.etag):
            if doubt:
                raise Unavailable(f"cannot tell whether {key} was written: it changed since; read it again")
            raise _conflict(key, condition)
        return None

    def _read_folder(self, folder: str, stem: str, after: str) -> Iterator[FolderEntry]:
        return in_order(self._pages(folder, stem, after))

    def _pages(self, folder: str, stem: str, after: str) -> Iterator[Iterable[FolderEntry]]:
        """The entries of one folder, as the store pages and orders them."""
        prefix, start, skip = folder + stem, start_of(folder, after), len(folder)
        start = start if start > prefix else ""
        token = None
        while True:
            page = self._retry.run(
                f"list {prefix}", lambda: self._bucket.page(prefix, start, token, self._page_keys)
            )
            objects = [FolderEntry(info.key[skip:], info) for info in page.objects]
            folders = [FolderEntry(name[skip:], None) for name in page.folders]
            yield [entry for entry in objects + folders if is_key(entry.name.removesuffix("/"))]
            if (token := page.token) is None:
                return


def _conflict(key: str, condition: Condition) -> Conflict:
    if condition.when == "absent":
        return Conflict(f"object {key} exists already")
    return Conflict(f"object {key} is not the version {condition.etag} any more")
