"""Import a text queue into a queue of a server, and export a queue into a text queue.

An import goes on where the last one of the same source ended, so it may be repeated: after a crash, or because the file
has grown. Every push has an identity (producer and sequence), so of two imports at the same time one writes.

With a worker group, the marks of the file and the states of its tasks go along (group_states.py). While messages are
pushed that are done in the file, the group is paused, so that no worker takes them.

An export may be repeated, too: what is in the file must be the beginning of what would be written, but for marks and
variables, and only the rest is appended.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from coldstore.shared.clock import Clock, SystemClock
from coldstore.shared.errors import Conflict, NotFound
from coldstore.shared.limits import MIB, OFFSET_MAX
from jjq.limits import TEXT_BLOCK_BYTES, TEXT_QUIET_SECONDS
from jjq.textqueue.elements import (
    ElementPrinter,
    FileWalk,
    ImportedPrefix,
    PrintedElement,
    TextElement,
    imported_by,
    masked,
)
from jjq.textqueue.file import TextFile
from jjq.textqueue.format import TextStatus
from jjq.textqueue.group_states import GroupStates
from jjq.textqueue.item import TextItem

if TYPE_CHECKING:
    from coldstore.shared.batch import Element
    from jjq.blocking import Client

_MESSAGES = frozenset({TextStatus.QUEUED, TextStatus.DONE, TextStatus.CRITICAL})
_BATCH_ELEMENTS = 1_000
_BATCH_BYTES = 1 * MIB
_ATTEMPTS = 5  # imports of one source at the same time are a mistake, but a harmless one

Progress = Callable[[int, int], None]  # bytes that are done, and all of them


class ImportReport(NamedTuple):
    """What an import did."""

    pushed: int  # messages that were pushed now
    before: int  # bytes of the file that were imported earlier
    end: int  # bytes of the file that are imported now
    states: int = 0  # tasks of the group that became done or buried


def import_text(
    client: Client,
    path: str | os.PathLike[str],
    queue: str,
    *,
    source: str,
    group: str | None = None,
    clock: Clock | None = None,
    progress: Progress = lambda done, total: None,
) -> ImportReport:
    """Push the messages of a file that were not pushed yet, in order; creates a queue of text if there is none.

    With a group, messages that are done in the file are done there, and critical ones are buried.
    """
    clock = clock or SystemClock()
    states = None if group is None else GroupStates(client, queue, group, clock)
    file = TextFile(path, clock)
    try:
        size = _whole_size(file)
        try:
            client.get_queue(queue)
        except NotFound:
            client.create_queue(queue, content="text")
        if states is not None:
            states.create()
        for attempt in range(_ATTEMPTS):
            start = find_imported(client, queue, source)
            try:
                pushed = _push_all(client, file, queue, source, start, size, states, progress)
            except Conflict:
                if attempt + 1 == _ATTEMPTS or find_imported(client, queue, source) == start:
                    raise
            else:
                changed = (
                    0 if states is None else states.write(_wanted_states(client, file, queue, source, size))
                )
                return ImportReport(pushed, start.end, max(start.end, size), changed)
    finally:
        if states is not None:
            states.resume()
        file.close()
    raise Conflict(f"others import {source!r} into {queue} at the same time: wait until they are done")


def _whole_size(file: TextFile) -> int:
    """How long the file is, once its last item is whole."""
    file.refresh()
    while True:
        size = file.stat().st_size
        if file.is_whole(size, TEXT_QUIET_SECONDS) or file.wait_quiet(size, TEXT_QUIET_SECONDS):
            return size


def find_imported(client: Client, queue: str, source: str) -> ImportedPrefix:
    """How far a source was imported: what its last element says."""
    from coldstore.shared.batch import elements

    for start in ("last:1", "last:1000", "beginning"):
        found = None
        for batch in client.replay(queue, start):
            for element in elements(batch):
                found = imported_by(element.headers, source) or found
        if found is not None:
            return found
    return ImportedPrefix()


def _push_all(
    client: Client,
    file: TextFile,
    queue: str,
    source: str,
    start: ImportedPrefix,
    size: int,
    states: GroupStates | None,
    progress: Progress,
) -> int:
    walk = _walk_to(file, source, start)
    producer = "tq-" + hashlib.sha256(source.encode()).hexdigest()[:32]
    number, pushed = start.batch, 0
    for batch in _batches(elements_of(file, walk, size)):
        number += 1
        if states is not None and any(element.status is not TextStatus.QUEUED for element in batch):
            states.pause()
        client.push(
            queue,
            [element.value for element in batch],
            headers=[{**element.headers, "tq.batch": str(number)} for element in batch],
            producer=producer,
            sequence=number,
        )
        pushed += sum(element.status is not None for element in batch)
        progress(batch[-1].end, size)
    return pushed


def _wanted_states(
    client: Client, file: TextFile, queue: str, source: str, size: int
) -> dict[int, TextStatus]:
    """What the file says of its elements: those that are done, or critical. Elements without a message are done."""
    from coldstore.shared.batch import elements

    messages = (item.status for item in file.scan(file, _MESSAGES, until=size))
    wanted: dict[int, TextStatus] = {}
    for batch in client.replay(queue):
        for element in elements(batch):
            if imported_by(element.headers, source) is None:
                continue
            status = TextStatus.DONE if "tq.layout" in element.headers else next(messages, TextStatus.QUEUED)
            if status is not TextStatus.QUEUED:
                wanted[element.offset] = status
    return wanted


def _walk_to(file: TextFile, source: str, start: ImportedPrefix) -> FileWalk:
    """Pass by what was imported before; an error if it is not the same any more."""
    walk = FileWalk(source)
    while walk.end < start.end:
        data = os.pread(file.descriptor, min(TEXT_BLOCK_BYTES, start.end - walk.end), walk.end)
        cut = data.rfind(b"\n") + 1 or len(data) if walk.end + len(data) < start.end else len(data)
        if not data:
            break
        walk.pass_by(data[:cut])
    if walk.end != start.end or walk.checksum != start.checksum:
        raise Conflict(
            f"{file.path} was edited before byte {start.end} since it was imported as {source!r}: import it into "
            "another queue, or with another --source"
        )
    return walk


def elements_of(file: TextFile, walk: FileWalk, size: int) -> Iterator[TextElement]:
    """The elements of a file from where `walk` is up to `size`."""

    def between(start: int, end: int) -> bytes:
        return os.pread(file.descriptor, end - start, start) if end > start else b""

    last: TextItem | None = None
    began = walk.end
    for item in file.scan(file, _MESSAGES, until=size):
        if item.offset < began or item.end > size:
            continue
        if last is not None:
            yield from walk.message(between(walk.end, last.offset), last)
        last = item
    if last is None:
        yield from walk.layouts(between(began, size))
    else:
        yield from walk.message(between(walk.end, last.offset), last, between(last.end, size))


def _batches(elements: Iterable[TextElement]) -> Iterator[list[TextElement]]:
    batch: list[TextElement] = []
    for element in elements:
        if batch and (len(batch) == _BATCH_ELEMENTS or element.end - batch[0].end > _BATCH_BYTES):
            yield batch
            batch = []
        batch.append(element)
    if batch:
        yield batch


class ExportReport(NamedTuple):
    """What an export did."""

    written: int  # bytes that were appended now
    left_out: int  # elements whose keys or other headers have no place in a text queue
    marked: int  # messages that were marked in the file because their tasks are done or buried


class TextExport:
    """Writes the elements of a queue to a file, as they come. With a group, messages have the states of its tasks."""

    def __init__(
        self,
        client: Client,
        queue: str,
        path: str | os.PathLike[str],
        *,
        group: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        clock = clock or SystemClock()
        self._client = client
        self._queue = queue
        self._states = None if group is None else GroupStates(client, queue, group, clock)
        self._first_task = OFFSET_MAX
        self._known: dict[int, TextStatus] = {}  # tasks that are done or buried
        self._open: dict[int, TextItem] = {}  # messages of other tasks, by the offset of the element
        self.file = TextFile(path, clock)
        self._printer = ElementPrinter()
        self._next = 0  # offset of the next element
        self._position = 0  # where it goes in the file
        self._written = 0
        self._left_out = 0
        self._marked = 0

    def run(self) -> ExportReport:
        """Write what the queue has now and the file has not."""
        from coldstore.shared.batch import elements

        if self._states is not None:
            self._first_task, self._known = self._states.first(), self._states.read()
        start = f"offset:{self._next}" if self._next else "beginning"
        for batch in self._client.replay(self._queue, start):
            self._write(elements(batch))
        if not self._position:
            self.file.append_printed(b"")  # an empty queue is an empty file
        self._mark()
        return ExportReport(self._written, self._left_out, self._marked)

    def _write(self, elements: Iterable[Element]) -> None:
        """One write for all of them."""
        printed, position = [], self._position
        for element in elements:
            task = element.offset >= self._first_task
            status = self._known.get(element.offset, TextStatus.QUEUED) if task else None
            one = self._printer.print(element.offset, element.value, element.headers, status)
            if task and one.mark >= 0:
                self._open[element.offset] = self._item(position, one)
            position += len(one.data)
            printed.append(one.data)
            self._next = element.offset + 1
            other = any(not name.startswith("tq.") for name in element.headers)
            self._left_out += element.key is not None or other
        self._put(b"".join(printed))

    def _put(self, data: bytes) -> None:
        """Append what is not there yet; an error if something else is."""
        there = self.file.read_at(self._position, len(data))
        if masked(there) != masked(data[: len(there)]):
            raise Conflict(
                f"{self.file.path} has other content than {self._queue} from byte {self._position} on: "
                "export to another file"
            )
        missing = data[len(there) :]
        if missing:
            self.file.append_printed(missing)
        self._written += len(missing)
        self._position += len(data)

    def _item(self, position: int, printed: PrintedElement) -> TextItem:
        """The message of an element, where it is going to be."""
        raw = printed.data[printed.mark + 1 : printed.end]
        control = printed.data[printed.mark : printed.mark + 1]
        return TextItem(
            self.file, position + printed.mark, raw.removesuffix(b"\n"), control, raw.endswith(b"\n")
        )

    def _mark(self) -> None:
        """Mark messages whose tasks are done or buried by now. What a person has marked otherwise stays."""
        for offset in [offset for offset in self._open if offset in self._known]:
            item = self._open.pop(offset)
            try:
                before = self.file.at_place(item)
                item.file.mark(item, self._known[offset])
                self._marked += before is None or before.control != item.control
            except (Conflict, NotFound):
                continue

    def close(self) -> None:
        self.file.close()
