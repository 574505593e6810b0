"""What is uploaded, and the upload itself: begun, continued where it was cut off, finished."""

from __future__ import annotations

import asyncio
import hashlib
import io
import mimetypes
import os
from collections import deque
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from coldstore.shared.attachments import ObjectRef
from coldstore.shared.backoff import Backoff
from coldstore.shared.chance import Chance
from coldstore.shared.clock import Clock
from coldstore.shared.errors import Exhausted, InvalidInput, JjqError, NotFound, Unavailable
from coldstore.shared.limits import (
    OBJECT_BACKOFF_SECONDS,
    OBJECT_BACKOFF_SECONDS_MAX,
    OBJECT_CHUNK_BYTES,
    PART_BYTES,
)
from hotstore.large.port import LargeStore

_UNKNOWN: Final = "0" * 64


class ObjectToSend:
    """Bytes that can be read again from anywhere, and their number. Made in a thread; close it.

    The digest is made of what is read, each byte once. Of what is small it is known at once, of the rest when all was
    read or `measure` was called.
    """

    def __init__(self, source: object) -> None:
        self.name = ""
        self._digest = hashlib.sha256()
        self._hashed = 0
        self._file, self._own = self._opened(source)
        try:
            self._base = self._file.tell()
            self.size = self._known_size()
            if self.size <= PART_BYTES:
                self.size = -1
                self.measure()
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

    @property
    def sha256(self) -> str:
        """The digest; empty as long as it is not known."""
        return self._digest.hexdigest() if self._hashed == self.size else ""

    def read_at(self, at: int) -> bytes:
        """The piece that begins at `at`."""
        self._file.seek(self._base + at)
        data: bytes = self._file.read(min(OBJECT_CHUNK_BYTES, self.size - at))
        if not data:
            raise _shorter(at)
        new = self._hashed - at  # what comes again after a cut was hashed before
        if 0 <= new < len(data):
            self._digest.update(memoryview(data)[new:])
            self._hashed = at + len(data)
        return data

    def measure(self) -> None:
        """Hash what was not read yet; where the size is not known, up to the end, which then is."""
        self._file.seek(self._base + self._hashed)
        buffer = bytearray(OBJECT_CHUNK_BYTES)
        view = memoryview(buffer)
        into: Any = getattr(self._file, "readinto", None)
        while self._hashed != self.size:
            most = OBJECT_CHUNK_BYTES if self.size < 0 else min(OBJECT_CHUNK_BYTES, self.size - self._hashed)
            if into is not None:
                count = into(view[:most])
                piece: Any = view[:count]
            else:
                piece = self._file.read(most)
                count = len(piece)
            if not count:
                if self.size >= 0:
                    raise _shorter(self._hashed)
                self.size = self._hashed
            self._digest.update(piece)
            self._hashed += count

    def ref(self, media_type: str | None, name: str | None) -> ObjectRef:
        """What an element says of it, but for a digest that is not known yet; a media type that was not given follows
        from the name."""
        called = self.name if name is None else name
        guessed = mimetypes.guess_type(called)[0] or ""
        return ObjectRef(
            self.sha256 or _UNKNOWN, self.size, guessed if media_type is None else media_type, called
        )

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

    def _known_size(self) -> int:
        """As the file says it; -1 if it cannot."""
        try:
            return self._file.seek(0, os.SEEK_END) - self._base
        except (OSError, ValueError):
            return -1
        finally:
            self._file.seek(self._base)


def _shorter(at: int) -> InvalidInput:
    return InvalidInput(f"the file became shorter while it was sent: it ends at byte {at}; push it again")


def _spooled(read: Any) -> IO[bytes]:
    """A stream that cannot be read again, on disk: an upload that was cut off goes back to where it was."""
    import tempfile  # with shutil and all kinds of compression

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
            if state.digest_first:
                await asyncio.to_thread(source.measure)
                deadline = clock.monotonic() + seconds
                continue
            if state.done:
                return
            begun, upload, at = True, state.upload, state.received
            async with aclosing(_pieces(source, at)) as pieces:
                async for data in pieces:
                    await store.upload(upload, at, data)
                    at += len(data)
                    deadline = clock.monotonic() + seconds
                    backoff.reset()
            if not source.sha256:  # an upload that somebody else has begun
                await asyncio.to_thread(source.measure)
            await store.finish_upload(upload, source.sha256)
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
    """What is left from `at` on; while one piece is sent, the next two are read and hashed, one after the other."""

    def read() -> bytes:
        nonlocal at
        data = source.read_at(at) if at < source.size else b""
        at += len(data)
        return data

    loop, thread = asyncio.get_running_loop(), ThreadPoolExecutor(1, "jjq-read")
    ahead = deque(loop.run_in_executor(thread, read) for _ in range(2))
    try:
        while data := await ahead.popleft():
            ahead.append(loop.run_in_executor(thread, read))
            yield data
    finally:  # a thread cannot be stopped, and the next attempt reads the same file
        await asyncio.to_thread(thread.shutdown, wait=True, cancel_futures=True)
        for each in ahead:
            if each.done() and not each.cancelled():
                each.exception()
