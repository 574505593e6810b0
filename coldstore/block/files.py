"""The files of one queue, read and written one by one, with every check that a single file allows.

A file that is missing, damaged, cut short or swapped with another gives `DataLoss` that names block and key.
Nothing here deletes or overwrites.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, Protocol

import pyarrow as pa

from coldstore.block.fetch import Fetched, fetch
from coldstore.block.read import BlockFile
from coldstore.layout import metadata, paths
from coldstore.layout.metadata import BlockMetadata
from coldstore.layout.paths import Kind
from coldstore.layout.queue_settings import QueueSettings
from coldstore.objects.port import ObjectInfo, ObjectStore
from coldstore.shared import limits
from coldstore.shared.errors import DataLoss, NotFound

_FETCHERS: Final = 16  # small objects wait for the network, not for a processor


class DataCache(Protocol):
    """Port: local copies of data files. `objects/cache.py` implements it for S3."""

    def get(self, key: str, sha256: str, size: int) -> Any:
        """The file's bytes, checked against `sha256`; `NotFound` or `DataLoss` like the store behind it."""
        ...


class BlockFiles:
    """The files of one queue. Safe to use from many threads."""

    def __init__(self, objects: ObjectStore, settings: QueueSettings, cache: DataCache | None = None) -> None:
        self.objects = objects
        self.settings = settings
        self._cache = cache
        self._folder = paths.queue_folder(settings.name)

    def without_cache(self) -> BlockFiles:
        """The same files, read from the store itself: for verify and sweep, which must not trust a copy."""
        return BlockFiles(self.objects, self.settings)

    @property
    def name(self) -> str:
        return self.settings.name

    def key(self, path: str) -> str:
        """The key of a file named relative to the queue's folder, as metadata does."""
        return self._folder + path

    def find(self, first: int, kind: Kind) -> BlockMetadata | None:
        """The metadata of a block if it was committed."""
        key = paths.meta(self.name, first, kind)
        try:
            return metadata.decode(self.objects.get(key).data, key, self.settings.id)
        except NotFound:
            return None

    def committed(self, block: BlockMetadata) -> BlockMetadata:
        """The metadata of a block as it was committed, with the fields that a list of blocks does not keep."""
        found = self.find(block.first, block.kind)
        if found is None or found.sha256 != block.sha256:
            key = paths.meta(self.name, block.first, block.kind)
            what = "missing" if found is None else "not the one that was committed"
            raise DataLoss(f"{key} is {what}; restore it from a copy", key=key, block=block.first)
        return found

    def info(self, block: BlockMetadata) -> ObjectInfo | None:
        """The object that holds a block's metadata: its `modified_us` is when the block was committed."""
        try:
            return self.objects.head(paths.meta(self.name, block.first, block.kind))
        except NotFound:
            return None

    def find_all(self, keys: Iterable[paths.MetaKey]) -> list[BlockMetadata | None]:
        """Like `find` for many blocks at once."""
        return list(self._find_in_parallel(list(keys)))

    def _find_in_parallel(self, keys: Sequence[paths.MetaKey]) -> Iterator[BlockMetadata | None]:
        if len(keys) < 2:
            yield from (self.find(*key) for key in keys)
            return
        with ThreadPoolExecutor(min(_FETCHERS, len(keys)), "jjq-metadata") as pool:
            yield from pool.map(lambda key: self.find(*key), keys)

    def commit(self, block: BlockMetadata) -> None:
        """Put the metadata if absent: from here on the block exists. `Conflict` if one is there."""
        self.objects.put_if_absent(paths.meta(self.name, block.first, block.kind), metadata.encode(block))

    def data(self, block: BlockMetadata) -> pa.Buffer:
        """The block's data file, after its size and sha256 were checked."""
        try:
            return self._checked(block, block.path)
        except DataLoss:
            copy = self._copy(block)
            if copy is None:
                raise
            return self._checked(block, copy)

    def _copy(self, block: BlockMetadata) -> str | None:
        """Path of the copy that a replaced file has until it is in its place (commit.py)."""
        if block.kind == "young":
            return None
        with suppress(DataLoss):  # the caller reports the damage of the data itself
            return self.committed(block).copy
        return None

    def _checked(self, block: BlockMetadata, path: str) -> pa.Buffer:
        key = self.key(path)
        try:
            if self._cache is not None:
                return pa.py_buffer(self._cache.get(key, block.sha256, block.stored_bytes))
            fetched = fetch(self.objects, key, block.stored_bytes)
        except NotFound:
            raise _lost(block, key, "missing") from None
        except DataLoss:  # raised by a cache, which does not know about blocks
            raise _lost(block, key, "damaged: its sha256 is not the one that was committed") from None
        check_digest(fetched, block, key)
        return fetched.data

    def open(self, block: BlockMetadata, data: Any) -> BlockFile:
        """The block's data file, whose digest was checked, opened but not decoded."""
        key = self.key(block.path)
        file = BlockFile(data, key, block.first)
        names = (file.provenance.get("jjq.queue"), file.provenance.get("jjq.first"))
        ends = block.file_first + file.count
        if names != (block.queue, str(block.file_first)) or ends != block.next:
            raise DataLoss(f"{key} does not hold block {block.id}", key=key, block=block.first)
        if file.unpacked_bytes() * block.count > unpacked_bytes_max(block.raw_bytes) * file.count:
            raise DataLoss(
                f"{key} would unpack to {file.unpacked_bytes()} bytes, but block {block.id} has {block.raw_bytes}",
                key=key,
                block=block.first,
            )
        return file

    def read(
        self,
        block: BlockMetadata,
        start: int | None = None,
        end: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """Elements of a block with offsets `start`..`end` (exclusive; the whole block by default)."""
        low = block.first if start is None else max(start, block.first)
        high = block.next if end is None else end
        origin = block.file_first
        return self.open(block, self.data(block)).read(low - origin, high - origin, columns)


def unpacked_bytes_max(raw_bytes: int) -> int:
    """The most that a data file with `raw_bytes` of elements can unpack to. A file that claims more is damaged."""
    return 2 * raw_bytes + 1 * limits.MIB


def check_digest(fetched: Fetched, block: BlockMetadata, key: str) -> None:
    """Compare size and sha256 of a data file with what was committed, before anything parses it."""
    if len(fetched.data) < block.stored_bytes:
        raise _lost(block, key, f"damaged: it has {len(fetched.data)} bytes instead of {block.stored_bytes}")
    if len(fetched.data) > block.stored_bytes:
        raise _lost(block, key, f"damaged: it has more than its {block.stored_bytes} bytes")
    if fetched.sha256 != block.sha256:
        raise _lost(block, key, "damaged: its sha256 is not the one that was committed")


def _lost(block: BlockMetadata, key: str, what: str) -> DataLoss:
    message = f"{key}, the data of block {block.id}, is {what}; restore it from a copy"
    return DataLoss(message, key=key, block=block.first)
