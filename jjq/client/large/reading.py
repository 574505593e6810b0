"""The object of an element: all of it, as a file on disk, or as a file that is read piece by piece.

The two faces have the same names: what blocks in `jjq` is awaited in `jjq.aio`. An element without an object is read
like one, so that a consumer need not care how large its values are: its bytes are those of its value.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
from collections.abc import AsyncGenerator, AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, Self

from coldstore.large.download import damaged
from coldstore.layout import paths
from coldstore.objects.local_files import write_at
from coldstore.shared.attachments import ObjectRef
from coldstore.shared.errors import DataLoss, InvalidInput, NotFound
from hotstore.large.port import LargeStore
from jjq.client.loop_thread import Portal

_WORTH_A_THREAD: Final = 64 * 1024


class NamesObject(Protocol):
    """An element or a task."""

    @property
    def value(self) -> bytes | str: ...

    @property
    def object(self) -> ObjectRef | None: ...

    @property
    def reference(self) -> Any: ...


class AsyncObjects:
    """Reads the objects of one queue."""

    def __init__(self, store: LargeStore, queue: str) -> None:
        self._store = store
        self._queue = queue

    async def open(self, element: NamesObject) -> AsyncObjectFile:
        """A file to read from, at any place of it."""
        ref = element.object
        if ref is None:
            return AsyncObjectFile(None, "", _no_object(element))
        return AsyncObjectFile(self._store, self._queue, ref)

    async def read(self, element: NamesObject) -> bytes:
        """All of it in memory."""
        async with await self.open(element) as file:
            return await file.read()

    async def save(self, element: NamesObject, path: str | os.PathLike[str]) -> None:
        """Write it to a file, which appears under its name when it is whole and right."""
        wanted, part = _place(path)
        try:
            with open(part, "wb") as file:  # noqa: ASYNC230, PTH123 - opening is quick
                async with await self.open(element) as source:
                    await _write_all(source, file.fileno())
                await asyncio.to_thread(os.fsync, file.fileno())
            os.replace(part, wanted)  # noqa: PTH105 - quick
        except OSError as error:
            raise InvalidInput(f"cannot write {wanted}: {error.strerror}; choose another place") from None
        finally:
            _remove(part)

    def __reduce__(self) -> tuple[Any, ...]:
        return _nothing, ()  # an element that goes to another process leaves its connection behind


class BlockingObjects:
    """The same, from any thread."""

    def __init__(self, inner: AsyncObjects, runs_on: Portal) -> None:
        self._inner = inner
        self._portal = runs_on

    def open(self, element: NamesObject) -> io.BufferedReader:
        file = self._portal.run(self._inner.open(element))
        return io.BufferedReader(ObjectFile(file, self._portal), 1 << 20)

    def read(self, element: NamesObject) -> bytes:
        return self._portal.run(self._inner.read(element))

    def save(self, element: NamesObject, path: str | os.PathLike[str]) -> None:
        self._portal.run(self._inner.save(element, path))

    def __reduce__(self) -> tuple[Any, ...]:
        return _nothing, ()


class AsyncObjectFile:
    """An object that is read piece by piece; seeking costs nothing until the next read."""

    def __init__(self, store: LargeStore | None, queue: str, content: ObjectRef | bytes) -> None:
        self.size = content.size if isinstance(content, ObjectRef) else len(content)
        self._ref = content if isinstance(content, ObjectRef) else None
        self._store = store
        self._queue = queue
        self._at = 0
        self._rest = b"" if isinstance(content, ObjectRef) else content  # what came and was not given out
        self._value = self._rest
        self._pieces: AsyncGenerator[bytes] | None = None
        self._check: _RunningCheck | None = _RunningCheck()  # of all from the beginning on; None after a seek

    async def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes, all that is left without it; nothing at the end."""
        found: list[bytes] = []
        left = self.size - self._at if size < 0 else min(size, self.size - self._at)
        while left:
            piece = self._cut(left) if self._rest else await self.piece(left)
            found.append(piece)
            left -= len(piece)
        if self.size == 0:
            await self._end()
        return b"".join(found)

    async def piece(self, most: int | None = None) -> bytes:
        """Some bytes, as they come; nothing at the end."""
        if self._at >= self.size:
            await self._end()
            return b""
        if not self._rest:
            self._rest = await self._next()
        return self._cut(self.size if most is None else most)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go on elsewhere; the new position."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.size}[whence]
        place = base + offset
        if place < 0:
            raise InvalidInput(f"position {place} is before the beginning")
        if place != self._at:
            self._at, self._pieces = place, None
            self._rest = self._value[place:]
            self._end_check()
        return place

    def tell(self) -> int:
        return self._at

    async def close(self) -> None:
        pieces, self._pieces = self._pieces, None
        if pieces is not None:
            await pieces.aclose()
        self._end_check()

    def _end_check(self) -> None:
        check, self._check = self._check, None
        if check is not None:
            check.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _cut(self, most: int) -> bytes:
        piece, self._rest = (
            (self._rest, b"") if len(self._rest) <= most else (self._rest[:most], self._rest[most:])
        )
        self._at += len(piece)
        return piece

    async def _next(self) -> bytes:
        if self._store is None or self._ref is None:
            return b""
        if self._pieces is None:
            pieces = self._store.read_object(self._queue, self._ref.sha256, self.size, self._at)
            self._pieces = _one_ahead(pieces)
        try:
            data = await anext(self._pieces, b"")
        except BaseException:
            self._pieces = None  # who reads on begins where it was
            raise
        if not data:
            raise self._loss()
        if self._check is not None:
            await self._check.add(data)
            if self._check.size == self.size and await self._check.sha256() != self._ref.sha256:
                raise damaged(paths.large(self._queue, self._ref.sha256))
        return data

    async def _end(self) -> None:
        """Of an empty object only whether it is there can be seen."""
        if self.size == 0 and self._store is not None and self._ref is not None:
            async for _ in self._store.read_object(self._queue, self._ref.sha256, 0):
                raise self._loss()

    def _loss(self) -> DataLoss:
        return damaged(paths.large(self._queue, "" if self._ref is None else self._ref.sha256))


class _RunningCheck:
    """The digest of pieces, made in a thread that does not wait for the event loop between two of them."""

    def __init__(self) -> None:
        self.size = 0
        self._digest = hashlib.sha256()
        self._thread: ThreadPoolExecutor | None = None
        self._last: asyncio.Future[None] | None = None

    async def add(self, data: bytes) -> None:
        """Hash it next; returns when nothing before it is left to be hashed."""
        self.size += len(data)
        if self._thread is None and len(data) < _WORTH_A_THREAD:
            self._digest.update(data)
            return
        self._thread = self._thread or ThreadPoolExecutor(1, "jjq-hash")
        before, loop = self._last, asyncio.get_running_loop()
        self._last = loop.run_in_executor(self._thread, self._digest.update, data)
        if before is not None:
            await before

    async def sha256(self) -> str:
        if self._last is not None:
            await self._last
        return self._digest.hexdigest()

    def close(self) -> None:
        if self._thread is not None:
            self._thread.shutdown(wait=False)


class ObjectFile(io.RawIOBase):
    """The same as a file of Python's: seekable, for libraries that want one."""

    def __init__(self, inner: AsyncObjectFile, runs_on: Portal) -> None:
        self._inner = inner
        self._portal = runs_on

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._portal.run(self._inner.read(len(buffer)))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._inner.seek(offset, whence)

    def tell(self) -> int:
        return self._inner.tell()

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._portal.submit(self._inner.close())


async def _write_all(source: AsyncObjectFile, fd: int) -> None:
    """All pieces to a file; while one is written and hashed, the next one comes."""
    writing: asyncio.Future[None] | None = None
    at = 0
    try:
        while data := await source.piece():
            if writing is not None:
                await writing
            writing = asyncio.ensure_future(asyncio.to_thread(write_at, fd, memoryview(data), at))
            at += len(data)
        if writing is not None:
            await writing
    finally:
        if (
            writing is not None and not writing.done()
        ):  # a thread cannot be stopped, and the file is closed next
            await asyncio.wait([writing])


async def _one_ahead(pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    """The same pieces; while one is hashed and used, the next one comes."""
    coming = asyncio.ensure_future(anext(pieces, b""))
    try:
        while data := await coming:
            coming = asyncio.ensure_future(anext(pieces, b""))
            yield data
    finally:
        coming.cancel()
        await asyncio.wait([coming])
        if not coming.cancelled():
            coming.exception()
        close: Any = getattr(pieces, "aclose", None)
        if close is not None:
            await close()


def _no_object(element: NamesObject) -> bytes:
    if element.reference is not None:
        raise NotFound(
            "the element refers to something elsewhere: read element.reference.uri with the client of that place"
        )
    value = element.value
    return value.encode() if isinstance(value, str) else bytes(value)


def _place(path: str | os.PathLike[str]) -> tuple[Path, Path]:
    """The file to be written, and the name that it has while it is."""
    wanted = Path(path)
    if wanted.is_dir() or not wanted.name:
        raise InvalidInput(f"{wanted} is a folder: give the name of a file in it")
    return wanted, wanted.with_name(f".{wanted.name}.part")


def _remove(part: Path) -> None:
    part.unlink(missing_ok=True)


def _nothing() -> None:
    return None
