"""What is uploaded, and the upload itself: begun, continued where it was cut off, finished."""

from __future__ import annotations

import asyncio
import hashlib
import io
import mimetypes
import os
import tempfile
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from coldstore.shared.attachments import ObjectRef
from coldstore.shared.backoff import Backoff
from coldstore.shared.chance import Chance
from coldstore.shared.clock import Clock
from coldstore.shared.errors import Exhausted, InvalidInput, JjqError, NotFound, Unavailable
from coldstore.shared.limits import OBJECT_BACKOFF_SECONDS, OBJECT_BACKOFF_SECONDS_MAX, OBJECT_CHUNK_BYTES
from hotstore.large.port import LargeStore


class ObjectToSend:
    """Bytes that can be read again from anywhere, their number and their digest. Made in a thread; close it."""

    def __init__(self, source: object) -> None:
        self.name = ""
        self._file, self._own = self._opened(source)
        try:
            self._base, self.size, self.sha256 = self._measured()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close what was opened here; a file of the caller stays open."""
        if self._own:
            self._file.close()

    def read_at(self, at: int) -> bytes:
        """The piece that begins at `at`."""
        self._file.seek(self._base + at)
        data: bytes = self._file.read(min(OBJECT_CHUNK_BYTES, self.size - at))
        if not data:
            raise InvalidInput(
                f"the file became shorter while it was sent: it ends at byte {at}; push it again"
            )
        return data

    def ref(self, media_type: str | None, name: str | None) -> ObjectRef:
        """What an element says of it; a media type that was not given follows from the name."""
        called = self.name if name is None else name
        guessed = mimetypes.guess_type(called)[0] or ""
        return ObjectRef(self.sha256, self.size, guessed if media_type is None else media_type, called)

    def _opened(self, source: object) -> tuple[IO[bytes], bool]:
        if isinstance(source, bytes | bytearray | memoryview):
            return io.BytesIO(source), True
        if isinstance(source, str | os.PathLike):
            path = Path(os.fspath(source))
            self.name = path.name
            try:
                return path.open("rb"), True
            except OSError as error:
                raise InvalidInput(f"cannot read {path}: {error.strerror}; correct the path") from None
        read: Any = getattr(source, "read", None)
        if read is None or isinstance(source, io.TextIOBase):
            raise InvalidInput(
                f"push_file takes a path or a file that was opened for bytes, not {type(source).__name__}"
            )
        named = getattr(source, "name", "")
        self.name = named if isinstance(named, str) else ""
        file: Any = source
        if callable(getattr(file, "seekable", None)) and file.seekable():
            return file, False
        return _spooled(read), True

    def _measured(self) -> tuple[int, int, str]:
        """From where on, how many bytes, and their digest."""
        base, digest, size = self._file.tell(), hashlib.sha256(), 0
        buffer = bytearray(OBJECT_CHUNK_BYTES)
        view = memoryview(buffer)
        into: Any = getattr(self._file, "readinto", None)
        while True:
            if into is not None:
                count = into(buffer)
                piece: Any = view[:count]
            else:
                piece = self._file.read(OBJECT_CHUNK_BYTES)
                count = len(piece)
            if not count:
                return base, size, digest.hexdigest()
            digest.update(piece)
            size += count


def _spooled(read: Any) -> IO[bytes]:
    """A stream that cannot be read again, on disk: its digest must be known before its first byte is sent."""
    spool = tempfile.TemporaryFile()  # noqa: SIM115 - closed by its user
    try:
        while data := read(OBJECT_CHUNK_BYTES):
            if not isinstance(data, bytes | bytearray | memoryview):
                raise InvalidInput(
                    f"the file gives {type(data).__name__}: open it for bytes, as in open(path, 'rb')"
                )
            spool.write(data)
        spool.seek(0)
    except BaseException:
        spool.close()
        raise
    return spool


async def send_object(
    store: LargeStore, queue: str, source: ObjectToSend, clock: Clock, chance: Chance, seconds: float
) -> None:
    """Upload, if the object is not there; returns when it is durable. Gives up after `seconds` without progress."""
    backoff = Backoff(OBJECT_BACKOFF_SECONDS, OBJECT_BACKOFF_SECONDS_MAX, chance)
    deadline = clock.monotonic() + seconds
    upload = ""
    while True:
        begun = False
        try:
            state = await store.begin_upload(queue, source.sha256, source.size, upload=upload)
            if state.done:
                return
            begun, upload, at = True, state.upload, state.received
            async with aclosing(_pieces(source, at)) as pieces:
                async for data in pieces:
                    await store.upload(upload, at, data)
                    at += len(data)
                    deadline = clock.monotonic() + seconds
                    backoff.reset()
            await store.finish_upload(upload)
            return
        except (Unavailable, Exhausted) as error:
            failure: JjqError = error
        except NotFound as error:  # the upload is not known any more; before that, the queue
            if not begun:
                raise
            failure, upload = error, ""
        pause = failure.retry_after if isinstance(failure, Exhausted) else backoff.next_pause()
        if clock.monotonic() + pause > deadline:
            raise failure
        await asyncio.sleep(pause)


async def _pieces(source: ObjectToSend, at: int) -> AsyncGenerator[bytes]:
    """What is left from `at` on; while one piece is sent, the next one is read."""
    ahead: asyncio.Task[bytes] | None = None
    try:
        while at < source.size:
            ahead = ahead or asyncio.create_task(asyncio.to_thread(source.read_at, at))
            data, ahead = await ahead, None
            at += len(data)
            if at < source.size:
                ahead = asyncio.create_task(asyncio.to_thread(source.read_at, at))
            yield data
    finally:
        if ahead is not None:  # a thread cannot be stopped, and the next attempt reads the same file
            await asyncio.wait([ahead])
            ahead.exception()
