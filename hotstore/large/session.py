"""One upload under way: pieces are gathered to parts, and a few parts at a time are hashed and stored in threads.

Parts are hashed in their order and stored in any. While one is stored the next one is hashed, and the one after that
is received. The session lives in this process: what it knows cannot be found again by anybody else, as a digest of half
of the bytes cannot be stored.
"""

from __future__ import annotations

import asyncio
from typing import Final, cast

from coldstore.large.notes import UploadNotes
from coldstore.large.upload import LargeUpload
from coldstore.shared.errors import Conflict, InvalidInput, Unavailable
from coldstore.shared.limits import PART_BYTES
from hotstore.runner import Runner

_PARTS_UNDER_WAY: Final = 3


class UploadSession:
    """Bytes in, parts out. `sha256` is empty if it is told in the end; `used` is when somebody last cared."""

    def __init__(
        self, queue: str, sha256: str, size: int, from_offset: int, upload: LargeUpload, runner: Runner
    ) -> None:
        self.queue = queue
        self.sha256 = sha256
        self.size = size
        self._from_offset = from_offset
        self.received = 0
        self.turn = 0  # who began it last may go on with it
        self.used = 0.0
        self._upload = upload
        self._runner = runner
        self._part: bytearray | None = None  # is being filled
        self._filled = 0
        self._spare: list[bytearray] = []  # parts that were stored: new ones would lie scattered in memory
        self._parts = 0
        self._under_way: set[asyncio.Task[None]] = set()
        self._hashing = asyncio.Lock()  # fair: parts are hashed in the order in which they came
        self._failed: BaseException | None = None

    async def begin(self) -> None:
        await self._runner.run(self._upload.begin)

    async def add(self, at: int, data: bytes) -> None:
        """Take bytes; returns when there is room for more."""
        self._check()
        if at != self.received:
            raise Conflict(
                f"the upload goes on at byte {self.received}, not {at}: begin it again by its name"
            )
        if at + len(data) > self.size:
            raise InvalidInput(f"more than the {self.size} bytes come that were announced: correct the size")
        self.received += len(data)
        self._gather(data)
        while len(self._under_way) >= _PARTS_UNDER_WAY:
            await asyncio.wait(self._under_way, return_when=asyncio.FIRST_COMPLETED)
        self._check()

    async def finish(self, sha256: str, notes: UploadNotes) -> None:
        """Make the object visible when all is stored; `sha256` may be empty if it is known from the beginning."""
        told = sha256 or self.sha256
        if not told or (self.sha256 and told != self.sha256):
            raise InvalidInput(
                f"the upload began with the sha256 {self.sha256!r} and ends with {sha256!r:.80}: say which it is"
            )
        if self.received != self.size:
            raise Conflict(f"{self.received} of {self.size} bytes came: send the rest, then finish")
        while self._under_way:
            await asyncio.wait(self._under_way)
        self._check()
        await self._runner.run(lambda: self._complete(told, notes))

    def _complete(self, sha256: str, notes: UploadNotes) -> None:
        self._upload.check(sha256)
        if not self.sha256 and notes.begin(sha256, self.size, self._from_offset):
            self._upload.abort()  # another one with the same bytes was faster
        else:
            self._upload.complete()

    async def abort(self) -> None:
        """Give it up; what is under way is waited for, so that nothing comes after the end."""
        self._failed = self._failed or Unavailable("the upload was given up: begin again", sent=False)
        while self._under_way:
            await asyncio.wait(self._under_way)
        await self._runner.run(self._upload.abort)

    def _check(self) -> None:
        if self._failed is not None:
            raise self._failed.with_traceback(None)

    def _gather(self, data: bytes) -> None:
        """Send full parts on their way: a piece that is one goes as it is, others are copied into one."""
        rest = memoryview(data)
        while rest:
            size = min(PART_BYTES, self.size - self._parts * PART_BYTES)
            if self._part is None and len(rest) == len(data) == size:
                self._send(data)
                return
            if self._part is None:
                self._part = self._spare.pop() if self._spare and size == PART_BYTES else bytearray(size)
            count = min(len(rest), size - self._filled)
            self._part[self._filled : self._filled + count] = rest[:count]
            self._filled += count
            rest = rest[count:]
            if self._filled == size:
                part, self._part, self._filled = self._part, None, 0
                self._send(cast("bytes", part), part)  # nobody changes it until it is stored

    def _send(self, part: bytes, ours: bytearray | None = None) -> None:
        task = asyncio.create_task(self._store(self._parts, part, ours), name="jjq-part")
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        self._parts += 1

    async def _store(self, number: int, part: bytes, ours: bytearray | None) -> None:
        try:
            async with self._hashing:
                await self._runner.run(lambda: self._upload.add(part))
            await self._runner.run(lambda: self._upload.put(number, part))
            if ours is not None:
                self._spare.append(ours)
        except Exception as error:  # noqa: BLE001 - raised by the next piece, or by the finish
            self._failed = self._failed or error
