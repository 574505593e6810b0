"""One file of a text queue, guarded: nobody else changes it meanwhile, it is the file at the path, and it is whole.

Before a change the file is looked at. If an editor replaced or rewrote it, changes of this process that are missing are
made again. If a process was killed in the middle of a change, the change is finished or taken back.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress

from coldstore.shared.clock import Clock
from coldstore.shared.errors import Denied, Exhausted, JjqError
from coldstore.shared.failpoint import reach
from jjq.limits import TEXT_ANCHOR_BYTES, TEXT_INTENT_BYTES, TEXT_TICK_SECONDS
from jjq.textqueue.edits import DroppedMarks, RecentChanges, find_lost
from jjq.textqueue.format import BYTE_ORDER_MARK, CONTROLS, STATUSES, MalformedText, TextStatus
from jjq.textqueue.item import TextItem
from jjq.textqueue.reading import OpenedText
from jjq.textqueue.sidecar import Intent, Sidecar


class GuardedText(OpenedText):
    """A file that is only changed under a lock. For any number of threads and, with `locking`, processes."""

    def __init__(
        self, path: str | os.PathLike[str], clock: Clock, *, locking: bool = True, sync: bool = False
    ) -> None:
        super().__init__(path, clock)
        self.sidecar = Sidecar(self.real_path)
        self._locking = locking
        self._sync = sync
        self._recent = RecentChanges()
        self._dropped = DroppedMarks()
        self._appending: int | None = None
        self._seen = (0, 0)  # size and time of modification after our last change
        self._threads = threading.RLock()

    # Before a change --------------------------------------------------------------------------------

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Around a change: nobody else makes one, the file is the one at the path, and it is whole."""
        with self._alone():
            self.refresh()
            if self._locking:
                self.repair()
            yield

    def refresh(self) -> None:
        """See whether the file was replaced or rewritten; if so, make changes again that are missing in it."""
        with self._threads:
            self._refresh()

    def _refresh(self) -> None:
        replaced = self.look_again()
        if not replaced:
            if not self._rewritten_in_place():
                return
            self.rewritten()
        elif self._appending is not None:
            os.close(self._appending)
            self._appending = None
        self._redo(self.before(self.generation - 1) if replaced else None)

    def _rewritten_in_place(self) -> bool:
        """Whether our last change is gone from where it was. Only looked at if someone else wrote since."""
        last = self._recent.last()
        found = self.stat()
        if last is None or (
            self._seen == (found.st_size, found.st_mtime_ns) and self.is_quiet(TEXT_TICK_SECONDS)
        ):
            return False
        return found.st_size < self._seen[0] or self.at_place(last.item) is None

    def _redo(self, before: int | None) -> None:
        found = self.stat()
        self._seen = (found.st_size, found.st_mtime_ns)
        changes = self._recent.since(self._replaced_us(found, before))
        self._recent.replace([])
        if not changes:
            return
        with self._alone():
            try:
                maker = changes[0].item.file
                old = None if before is None else list(self.scan(maker, descriptor=before))
                redo = find_lost(changes, old, self.scan(maker))
            except MalformedText:
                return  # the next reader reports it; nothing can be learned from such a file
            self._recent.replace(redo.kept)
            for item, status in redo.marks:
                self._put(item, status)
                item.control = CONTROLS[status]
                self._recent.add(self._clock.now_us(), item, status)
            for data in redo.appends:
                item = TextItem(maker, self._append(data), data[1:-1], data[:1])
                self._recent.add(self._clock.now_us(), item, None)

    def _replaced_us(self, found: os.stat_result, before: int | None) -> int:
        """When an editor wrote the file: then the file before lost its name, and nobody has changed it since.

        The file itself may have been changed since, and been replaced more than once.
        """
        times = [found.st_ctime_ns] if before is None else [found.st_ctime_ns, os.fstat(before).st_ctime_ns]
        return min(times) // 1_000

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with self._threads, self.sidecar.hold() if self._locking else nullcontext():
            yield

    def repair(self) -> None:
        """Finish or undo what a process was doing when it was killed. Hold the lock."""
        intent = self.sidecar.read()
        if intent is None or intent.kind == "end":
            return
        found, end = self.stat(), 0
        if intent.of(found):
            if intent.kind == "append":
                end = self._undo_append(intent, found.st_size)
            elif intent.kind == "variable":
                self._finish_variable(intent)
        self._settle(end)

    def _undo_append(self, intent: Intent, size: int) -> int:
        """The item of a killed writer is half there: take it back. Its append was never acknowledged."""
        written = size - intent.offset
        if written >= intent.length:
            return intent.offset + intent.length
        if written > 0:
            there = os.pread(self.descriptor, min(written, len(intent.data)), intent.offset)
            if intent.data.startswith(there):  # else it is somebody else's text
                os.ftruncate(self.writable(), intent.offset)
        return 0

    def _finish_variable(self, intent: Intent) -> None:
        line = os.pread(self.descriptor, len(intent.data) + 1, intent.offset - 1)
        if line[:1] == b"\\" and b"\n" not in line and len(line) == len(intent.data) + 1:
            os.pwrite(self.writable(), intent.data, intent.offset)

    def _settle(self, end: int) -> None:
        """A change is complete; `end` is where the last append ended, so that its item is known to be whole."""
        found = self.stat()
        self._seen = (found.st_size, found.st_mtime_ns)
        if self._locking:
            self.sidecar.write(Intent("end", found.st_dev, found.st_ino, end))

    def _known_end(self) -> int:
        """Where the last append ended; 0 where that is not known. Hold the lock."""
        intent = self.sidecar.read() if self._locking else None
        return intent.offset if intent is not None and intent.kind == "end" and intent.of(self.stat()) else 0

    @contextmanager
    def steady(self) -> Iterator[None]:
        """Around a look: nobody changes the file under the lock meanwhile. A file without a sidecar has no lock."""
        with ExitStack() as stack:
            if self._locking and os.path.exists(self.sidecar.path):  # noqa: PTH110 - quicker than a Path
                with suppress(Denied):  # a reader without rights on the sidecar does without
                    stack.enter_context(self._alone())
            yield

    def is_whole(self, size: int, quiet_seconds: float) -> bool:
        """Whether the last item is known to be whole in a file of this size."""
        return self._was_appended(size) or (self.is_quiet(quiet_seconds) and self.stat().st_size == size)

    def wait_quiet(self, size: int, quiet_seconds: float) -> bool:
        """Wait until nobody has written for so long; whether the file is still of this size then."""
        if self.stat().st_size == size and not self.is_quiet(quiet_seconds):
            idle = self._idle_seconds()
            self._clock.sleep(quiet_seconds - idle if 0 < idle < quiet_seconds else quiet_seconds)
        return self.stat().st_size == size

    def is_quiet(self, quiet_seconds: float) -> bool:
        """Whether nobody has written to the file for so long."""
        return not quiet_seconds or self._idle_seconds() >= quiet_seconds

    def _idle_seconds(self) -> float:
        return self._clock.now_us() / 1e6 - self.stat().st_mtime_ns / 1e9

    def _was_appended(self, size: int) -> bool:
        """Whether the end of the file was written under the lock, and whole."""
        if not self._locking or not os.path.exists(self.sidecar.path):  # noqa: PTH110 - quicker than a Path
            return False
        try:
            with self._alone():
                self.repair()
                return self.stat().st_size == size == self._known_end()
        except Denied:
            return False  # a reader without rights on the sidecar waits, as beside writers that have none

    # Bytes ------------------------------------------------------------------------------------------

    def _make_sure_it_exists(self) -> None:
        if self.is_open:
            try:
                self.look_at_path()
            except FileNotFoundError:
                self.close()
            else:
                return
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
        try:
            os.close(os.open(self.real_path, flags, 0o666))
        except OSError as error:
            raise self.failure("opened for writing", error) from None

    def _line_ends(self) -> tuple[bool, bool]:
        """Whether the file ends with a line end, and whether its last line end has a carriage return."""
        size = self.stat().st_size
        tail = os.pread(self.descriptor, TEXT_ANCHOR_BYTES, max(0, size - TEXT_ANCHOR_BYTES))
        last = tail.rfind(b"\n")
        return not tail or last == len(tail) - 1, last > 0 and tail[last - 1 : last] == b"\r"

    def _append(self, data: bytes, *, joined: bool = False) -> int:
        """One write of a whole item, on a line of its own unless it is `joined`. Where it begins. Hold the lock."""
        descriptor = self._appendable()
        ended, crlf = self._line_ends()
        lead = b"" if ended or joined else b"\r\n" if crlf else b"\n"
        found, whole = self.stat(), lead + data
        if self._locking:
            identity = (found.st_dev, found.st_ino, found.st_size, len(whole))
            self.sidecar.write(Intent("append", *identity, whole[:TEXT_INTENT_BYTES]))
        reach("text.intended")
        self._write(descriptor, whole, found.st_size)
        reach("text.written")
        self._sync_if_asked()
        end = os.lseek(descriptor, 0, os.SEEK_CUR)  # others may have written behind it
        self._settle(end)
        return end - len(data)

    def _appendable(self) -> int:
        """The open file, for appends. If an editor has replaced it since we looked, look again.

        An append to another file than the open one would not be missed if an editor dropped it.
        """
        while self._appending is None:
            try:
                descriptor = os.open(self.real_path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            except OSError as error:
                raise self.failure("written", error) from None
            if os.path.samestat(os.fstat(descriptor), self.stat()):
                self._appending = descriptor
            else:
                os.close(descriptor)
                self._refresh()
        return self._appending

    def _write(self, descriptor: int, data: bytes, size: int) -> None:
        try:
            written = os.write(descriptor, data)
        except OSError as error:
            raise self.failure("written", error) from None
        if written < len(data):
            if self.stat().st_size == size + written:
                os.ftruncate(descriptor, size)
            raise Exhausted(f"{self.path} has no room for {len(data)} bytes: make room, then append again")

    def _sync_if_asked(self) -> None:
        if self._sync:
            os.fdatasync(self.descriptor)

    def _put(self, place: TextItem, status: TextStatus) -> None:
        os.pwrite(self.writable(), CONTROLS[status], place.offset)
        self._sync_if_asked()
        found = self.stat()
        self._seen = (found.st_size, found.st_mtime_ns)

    def at_place(self, item: TextItem) -> TextItem | None:
        """The item as it is now at its offset; None where something else is there."""
        before = 1 if item.offset else 0
        data = os.pread(self.descriptor, before + len(item.raw) + 3, item.offset - before)
        control, raw = data[before : before + 1], data[before + 1 : before + 1 + len(item.raw)]
        rest = data[before + 1 + len(item.raw) :]
        begins = not before or data[:1] == b"\n" or item.offset == len(BYTE_ORDER_MARK)
        ends = rest[:1] in (b"", b"\n") and rest[1:2] not in (b" ", b"\\")
        if begins and ends and control in STATUSES and _same(item.raw, raw):
            return TextItem(item.file, item.offset, raw, control, bool(rest))
        return None

    def close(self) -> None:
        """Close what is open. The next use opens it again."""
        try:
            if len(self._recent) and self.is_open:
                self.refresh()
        except JjqError:
            self._recent.replace([])  # the file is gone, and with it what could be missing in it
        if self._appending is not None:
            os.close(self._appending)
            self._appending = None
        self.sidecar.close()
        super().close()


def _same(raw: bytes, other: bytes) -> bool:
    """Whether two items say the same, whatever is in their variables."""
    return raw == other or (
        len(raw) == len(other) and b"\n\\" in raw and _without_variables(raw) == _without_variables(other)
    )


def _without_variables(raw: bytes) -> list[bytes | int]:
    return [
        len(line) if line[:1] == b"\\" and number else line for number, line in enumerate(raw.split(b"\n"))
    ]
