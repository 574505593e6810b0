"""What an editor overwrote: changes of this process that are missing in the file which replaced the other one.

An editor reads the file, and writes it some time later. What was appended or marked in between is not in the new
file. A process remembers its own latest changes, and makes those again that it made within `TEXT_EDIT_SECONDS` before
the file was replaced, or after that in the old file. A program that rewrites the file is quicker than that. A person is
slower, and the editor warns that the file has changed; so a difference that is older is what the person wants.

A message that was dropped so is missing until its writer looks at the file. A reader that wants to mark it meanwhile
hears that it is gone, which is also what a person may have wanted. The mark is remembered: if the message comes back
soon, it is marked and not handed out again.

Messages with the same value are interchangeable, so they are counted: nothing depends on where in the file they are.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple

from jjq.limits import TEXT_DROPPED_SECONDS, TEXT_EDIT_SECONDS, TEXT_RECENT_MAX
from jjq.textqueue.format import CONTROLS, TextStatus
from jjq.textqueue.item import TextItem

_QUEUED = CONTROLS[TextStatus.QUEUED]


class RecentChange(NamedTuple):
    """An append (without a status) or a mark of this process."""

    time_us: int
    value: str
    status: TextStatus | None
    item: TextItem  # as it was after the change; a copy, since its user goes on with the item


class Redo(NamedTuple):
    """What is to be done again in the new file, and what has come through."""

    kept: list[RecentChange]
    appends: list[bytes]  # whole items
    marks: list[tuple[TextItem, TextStatus]]  # items of the new file


class RecentChanges:
    """The latest changes of one file by this process."""

    def __init__(self) -> None:
        self._changes: deque[RecentChange] = deque(maxlen=TEXT_RECENT_MAX)

    def __len__(self) -> int:
        return len(self._changes)

    def add(self, time_us: int, item: TextItem, status: TextStatus | None) -> None:
        copy = TextItem(item.file, item.offset, item.raw, item.control, item.ended)
        self._changes.append(RecentChange(time_us, item.value, status, copy))

    def last(self) -> RecentChange | None:
        return self._changes[-1] if self._changes else None

    def replace(self, changes: list[RecentChange]) -> None:
        """Remember these instead: they are in the file that is there now."""
        self._changes = deque(changes, TEXT_RECENT_MAX)

    def since(self, replaced_us: int) -> list[RecentChange]:
        """Those that an editor which wrote the file at that time may not have seen."""
        return [c for c in self._changes if c.time_us >= replaced_us - round(TEXT_EDIT_SECONDS * 1_000_000)]


class DroppedMarks:
    """Marks of messages that were missing when they were to be marked."""

    def __init__(self) -> None:
        self._marks: deque[tuple[int, str, TextStatus]] = deque(maxlen=TEXT_RECENT_MAX)

    def __len__(self) -> int:
        return len(self._marks)

    def add(self, time_us: int, value: str, status: TextStatus) -> None:
        self._marks.append((time_us, value, status))

    def take(self, now_us: int, value: str) -> TextStatus | None:
        """The mark of a message that is there again; None if it was never missing, or long ago."""
        oldest = now_us - round(TEXT_DROPPED_SECONDS * 1_000_000)
        while self._marks and self._marks[0][0] < oldest:
            self._marks.popleft()
        for mark in self._marks:
            if mark[1] == value:
                self._marks.remove(mark)
                return mark[2]
        return None


def find_lost(changes: list[RecentChange], old: Iterable[TextItem] | None, new: Iterable[TextItem]) -> Redo:
    """Which of these changes are missing; `old` is None where the file before is gone."""
    values = {change.value for change in changes}
    now = _by_value(new, values)
    then = None if old is None else _by_value(old, values)
    appended = Counter(change.value for change in changes if change.status is None)
    marked = Counter((change.value, change.status) for change in changes if change.status is not None)
    redo = Redo([change for change in map(partial(_moved, now=now), changes) if change is not None], [], [])
    for value, most in appended.items():
        redo.appends.extend(_lost_appends(value, most, then, now, changes))
    for (value, status), most in marked.items():
        if status is not None:
            redo.marks.extend((item, status) for item in _lost_marks(value, status, most, then, now))
    return redo


def _moved(change: RecentChange, now: dict[str, list[TextItem]]) -> RecentChange | None:
    """The change where it is in the new file; None if it is missing there."""
    for item in now[change.value]:
        if change.status is None or item.status is change.status:
            return change._replace(item=item)
    return None


def _by_value(items: Iterable[TextItem], values: set[str]) -> dict[str, list[TextItem]]:
    found: dict[str, list[TextItem]] = {value: [] for value in values}
    for item in items:
        if item.status is not TextStatus.COMMENT and item.value in found:
            found[item.value].append(item)
    return found


def _lost_appends(
    value: str,
    most: int,
    then: dict[str, list[TextItem]] | None,
    now: dict[str, list[TextItem]],
    changes: list[RecentChange],
) -> Iterator[bytes]:
    if then is None:  # one that is there may be any of ours, so only what is missing altogether is certain
        if not now[value]:
            yield from (_whole(change.item) for change in changes if change == _append_of(value, changes))
        return
    missing = len(then[value]) - len(now[value])
    for item in then[value][len(then[value]) - min(max(missing, 0), most) :]:
        yield _whole(item)


def _append_of(value: str, changes: list[RecentChange]) -> RecentChange | None:
    return next((c for c in reversed(changes) if c.status is None and c.value == value), None)


def _lost_marks(
    value: str,
    status: TextStatus,
    most: int,
    then: dict[str, list[TextItem]] | None,
    now: dict[str, list[TextItem]],
) -> Iterator[TextItem]:
    queued = [item for item in now[value] if item.control == _QUEUED]
    have = sum(item.status is status for item in now[value])
    if then is None:
        missing = 1 - have
    else:
        missing = sum(item.status is status for item in then[value]) - have
    yield from queued[: min(max(missing, 0), most)]


def _whole(item: TextItem) -> bytes:
    return item.control + item.raw + b"\n"
