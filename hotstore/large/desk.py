"""The desk for large objects of this node: begins and resumes uploads, reads objects, and checks what pushes name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import islice

from coldstore.large.download import check_part, read_part, steps
from coldstore.large.notes import UploadNotes
from coldstore.large.upload import LargeUpload
from coldstore.layout import paths
from coldstore.objects.parts import parts_of
from coldstore.objects.port import ObjectStore
from coldstore.shared import failpoint
from coldstore.shared.attachments import ObjectRef, check_attached
from coldstore.shared.chance import Chance
from coldstore.shared.clock import Clock
from coldstore.shared.errors import Exhausted, InvalidInput, JjqError, NotFound
from coldstore.shared.limits import PART_BYTES
from coldstore.shared.push import Push
from coldstore.shared.results import UploadState
from hotstore.large.session import UploadSession
from hotstore.limits import OBJECT_USE_SECONDS, OBJECTS_LOOKED_AT, UPLOAD_IDLE_SECONDS, UPLOADS_MAX
from hotstore.queue.registry import Registry
from hotstore.runner import Runner
from hotstore.settings import HotSettings


class ObjectDesk:
    """One for each node. All of it runs on the event loop; threads do what blocks."""

    def __init__(
        self, objects: ObjectStore, settings: HotSettings, runner: Runner, clock: Clock, chance: Chance
    ) -> None:
        self._objects = objects
        self._settings = settings
        self._runner = runner
        self._clock = clock
        self._chance = chance
        self._sessions: dict[str, UploadSession] = {}
        self._used: dict[
            str, tuple[float, int]
        ] = {}  # bytes of a queue's objects, and when they were counted
        self._forgetting: set[asyncio.Task[None]] = set()

    @property
    def object_bytes_max(self) -> int:
        return self._settings.object_bytes_max

    # Uploads --------------------------------------------------------------------------------------

    async def begin(self, queue: str, sha256: str, size: int, upload: str, from_offset: int) -> UploadState:
        """Begin an upload, or go on with one; see `LargeStore`."""
        paths.check_new_queue(queue)
        if sha256:
            paths.check_sha256(sha256)
        self._check_size(size)
        known = self._resumed(upload, queue, sha256, size)
        if known is not None:
            return known
        await self._drop_idle()
        if not sha256:
            if not await self._runner.run(lambda: self._may_be_named_last(queue, size)):
                return UploadState("", digest_first=True)
        elif await self._runner.run(lambda: self._notes(queue).begin(sha256, size, from_offset)):
            return UploadState("", size, done=True)
        await self._check_quota(queue, size)
        if len(self._sessions) >= UPLOADS_MAX:
            raise Exhausted(f"{UPLOADS_MAX} uploads are under way at this node: retry later", retry_after=2.0)
        large = LargeUpload(self._objects, queue, sha256, size)
        session = UploadSession(queue, sha256, size, from_offset, large, self._runner)
        session.used = self._clock.monotonic()
        name = self._chance.token()
        self._sessions[name] = session
        try:
            await session.begin()
        except BaseException:
            del self._sessions[name]
            raise
        return UploadState(f"{name}-0")

    async def add(self, upload: str, at: int, data: bytes) -> None:
        session = self._session(upload)
        try:
            await session.add(at, data)
        except JjqError:
            if session.received == at:  # refused for what it says, not for where it is: it cannot go on
                await self._drop(upload)
            raise

    async def finish(self, upload: str, sha256: str) -> None:
        session = self._session(upload)
        try:
            await session.finish(sha256, self._notes(session.queue))
        except JjqError:
            await self._drop(upload)
            raise
        self._sessions.pop(_name(upload), None)
        self._used.pop(session.queue, None)

    async def close(self) -> None:
        """Give up all uploads, and finish what is left to be noted."""
        for name in list(self._sessions):
            await self._drop(name)
        if self._forgetting:
            await asyncio.wait(self._forgetting)

    def _resumed(self, upload: str, queue: str, sha256: str, size: int) -> UploadState | None:
        """The upload of this name, if it is still known. A client that had it before cannot go on with it."""
        session = self._sessions.get(_name(upload))
        if session is None or (session.queue, session.size) != (queue, size):
            return None
        if session.sha256 not in ("", sha256):
            return None
        session.turn += 1
        session.used = self._clock.monotonic()
        return UploadState(f"{_name(upload)}-{session.turn}", session.received)

    def _session(self, upload: str) -> UploadSession:
        session = self._sessions.get(_name(upload))
        if session is None or upload != f"{_name(upload)}-{session.turn}":
            raise NotFound(f"no upload {upload[:60]!r} is under way here: begin it again")
        session.used = self._clock.monotonic()
        return session

    async def _drop(self, upload: str) -> None:
        session = self._sessions.pop(_name(upload), None)
        if session is not None:
            await session.abort()

    async def _drop_idle(self) -> None:
        before = self._clock.monotonic() - UPLOAD_IDLE_SECONDS
        for name in [name for name, session in self._sessions.items() if session.used < before]:
            await self._drop(name)

    def _may_be_named_last(self, queue: str, size: int) -> bool:
        """Whether the bytes may come before their digest: not if the object could be there already, as its size is."""
        if size <= PART_BYTES or not parts_of(self._objects).names_at_end:
            return False
        there = list(islice(self._objects.list(paths.large_folder(queue)), OBJECTS_LOOKED_AT + 1))
        return len(there) <= OBJECTS_LOOKED_AT and all(info.size != size for info in there)

    def _check_size(self, size: int) -> None:
        most = self._settings.object_bytes_max
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise InvalidInput(f"the size of an object is {size!r:.60}: give a whole number of bytes")
        if size > most:
            raise InvalidInput(
                f"the object has {size} bytes, this server takes {most}: raise object_bytes_max, or push a reference"
            )

    async def _check_quota(self, queue: str, size: int) -> None:
        most = self._settings.queue_objects_bytes_max
        if not most:
            return
        now = self._clock.monotonic()
        counted, used = self._used.get(queue, (-OBJECT_USE_SECONDS, 0))
        if now - counted >= OBJECT_USE_SECONDS:
            used = await self._runner.run(
                lambda: sum(info.size for info in self._objects.list(paths.large_folder(queue)))
            )
            self._used[queue] = (now, used)
        used += sum(session.size for session in self._sessions.values() if session.queue == queue)
        if used + size > most:
            raise Exhausted(
                f"queue {queue} has {used} bytes of objects, with this one more than its quota of {most}: "
                f"raise queue_objects_bytes_max, or push a reference",
                retry_after=60.0,
            )

    # Downloads --------------------------------------------------------------------------------------

    async def read(
        self, queue: str, sha256: str, size: int, start: int, end: int | None
    ) -> AsyncIterator[bytes]:
        """The parts of a range; the next one is read while one is handed out."""
        paths.large(queue, sha256)
        first, stop = check_part(start, end, size)
        ahead: asyncio.Future[bytes] | None = None
        try:
            for low, high in [*steps(first, stop), (stop, stop)]:
                done, ahead = ahead, None
                part = b"" if done is None else await done
                if low < high or not size:
                    ahead = asyncio.ensure_future(self._read(queue, sha256, low, high))
                if part:
                    yield part
            if ahead is not None:  # of an empty object: only whether it is there
                await ahead
        finally:
            if ahead is not None and not ahead.done():
                ahead.cancel()

    async def _read(self, queue: str, sha256: str, start: int, end: int) -> bytes:
        return await self._runner.run(lambda: read_part(self._objects, queue, sha256, start, end))

    # Pushes -----------------------------------------------------------------------------------------

    async def check(self, push: Push) -> None:
        """Return if the objects that a push names are durable, and stay until its elements are."""
        check_attached(push.objects, push.payload.num_rows)
        notes = self._notes(push.queue)
        for ref in _objects(push):
            await self._runner.run(lambda ref=ref: notes.check_named(ref.sha256, ref.size))  # type: ignore[misc]
        failpoint.reach("object.checked")

    def named(self, push: Push) -> None:
        """The push was acknowledged: if it is durable, its objects stay for good, which is noted in the background."""
        failpoint.reach("object.pushed")
        if push.stage not in ("synced", "cold"):
            return  # a sweep will find out
        notes = self._notes(push.queue)
        for ref in _objects(push):
            task = asyncio.create_task(self._forget(notes, ref), name="jjq-named")
            self._forgetting.add(task)
            task.add_done_callback(self._forgetting.discard)

    async def _forget(self, notes: UploadNotes, ref: ObjectRef) -> None:
        in_parts = ref.size > PART_BYTES
        try:
            await self._runner.run(lambda: notes.forget(ref.sha256, in_parts=in_parts))
        except JjqError:
            return  # a sweep will find out

    def _notes(self, queue: str) -> UploadNotes:
        return UploadNotes(self._objects, queue, self._clock)


class LargeVerbs:
    """The verbs of `LargeStore`; the hot store gives them what they need."""

    _large: ObjectDesk
    _registry: Registry

    @property
    def object_bytes_max(self) -> int:
        return self._large.object_bytes_max

    async def begin_upload(
        self, queue: str, sha256: str, size: int, *, upload: str = "", from_offset: int | None = None
    ) -> UploadState:
        """`from_offset` is where the queue goes on, from a caller that has asked its owner."""
        if from_offset is None:
            from_offset = (await self._registry.queue(queue)).next
        return await self._large.begin(queue, sha256, size, upload, from_offset)

    async def upload(self, upload: str, at: int, data: bytes) -> None:
        await self._large.add(upload, at, data)

    async def finish_upload(self, upload: str, sha256: str = "") -> None:
        await self._large.finish(upload, sha256)

    def read_object(
        self, queue: str, sha256: str, size: int, start: int = 0, end: int | None = None
    ) -> AsyncIterator[bytes]:
        return self._large.read(queue, sha256, size, start, end)


def _objects(push: Push) -> list[ObjectRef]:
    """The large objects that a push names, each once."""
    found = {each.sha256: each for _, each in push.objects if isinstance(each, ObjectRef)}
    return list(found.values())


def _name(upload: str) -> str:
    return upload.partition("-")[0]
