"""One file of a text queue, and the changes that may be made to it. None of them moves a byte.

    append         one `write` of a whole item at the end
    mark           one byte: `-` becomes `=` or `!`
    set a variable the bytes of the variable, padded with spaces

Each is made under the sidecar's lock, after a look whether the file was replaced or a killed process left something
unfinished. An item is found again by its offset if it is still there, else by its content.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

from coldstore.shared.errors import Conflict, InvalidInput, NotFound
from coldstore.shared.failpoint import reach
from jjq.textqueue import mutex
from jjq.textqueue.format import (
    CONTROLS,
    MalformedText,
    TextStatus,
    encode_variable,
    find_variable,
    print_item,
)
from jjq.textqueue.guard import GuardedText
from jjq.textqueue.item import TextItem
from jjq.textqueue.sidecar import Intent


class TextFile(GuardedText):
    """A file of a text queue. For any number of threads and, with `locking`, processes."""

    def append(self, value: str | bytes, variables: Sequence[str | bytes] = ()) -> TextItem:
        """Write a queued message at the end, in one write; creates the file if there is none."""
        print_item(TextStatus.QUEUED, value, variables)  # refuse what is wrong before anything is touched
        self._make_sure_it_exists()
        with self.changing():
            crlf = self._line_ends()[1]
            data = print_item(TextStatus.QUEUED, value, variables, crlf=crlf)
            item = TextItem(self, self._append(data), data[1:-1])
            self._recent.add(self._clock.now_us(), item, None)
            return item

    def append_printed(self, data: bytes) -> None:
        """Write bytes at the end that are items already; creates the file if there is none."""
        self._make_sure_it_exists()
        with self.changing():
            if data:
                self._append(data, joined=True)

    def read_at(self, position: int, length: int) -> bytes:
        """Bytes of the file, as many as there are; none where there is no file."""
        try:
            self.refresh()
        except NotFound:
            return b""
        return os.pread(self.descriptor, length, position)

    def mark(self, item: TextItem, status: TextStatus) -> None:
        """Change the control character of a message, from queued only."""
        with self.changing():
            try:
                place = self._find(item)
            except NotFound:
                self._dropped.add(self._clock.now_us(), item.value, status)
                raise
            if place.status is TextStatus.COMMENT:
                raise InvalidInput(f"a comment cannot be marked {status.value}: only messages can")
            if place.status is not status:
                if place.status is not TextStatus.QUEUED:
                    raise Conflict(
                        f"the message at byte {place.offset} of {self.path} is {place.status.value} already, "
                        "and stays so"
                    )
                self._put(place, status)
            item.offset, item.raw, item.ended = place.offset, place.raw, place.ended
            item.control = CONTROLS[status]
            self._recent.add(self._clock.now_us(), item, status)

    @property
    def has_dropped(self) -> bool:
        """Whether messages were missing lately when they were to be marked."""
        return bool(self._dropped)

    def mark_again(self, item: TextItem) -> bool:
        """Whether this message was missing when it was to be marked, and is back. Then it is marked now."""
        status = self._dropped.take(self._clock.now_us(), item.value)
        if status is None:
            return False
        with suppress(NotFound, Conflict):  # dropped once more; or marked by another process
            self.mark(item, status)
        return True

    def set_variable(self, item: TextItem, index: int, value: str | bytes) -> None:
        """Write a variable over the one that is there, padded with spaces to its length in bytes."""
        data = encode_variable(index, value)
        with self.changing():
            self._put_variable(item, self._find(item), index, data)

    def _put_variable(self, item: TextItem, place: TextItem, index: int, data: bytes) -> None:
        span = find_variable(place.raw, place.ended, index) if index >= 0 else None
        if span is None:
            have = len(place.variables)
            raise InvalidInput(
                f"the item at byte {place.offset} of {self.path} has {have} variables and none with number {index}: "
                "they count from 0, and are given when a message is appended"
            )
        start, end = span
        offset = place.offset + 1 + start
        if len(data) > end - start:
            line = self.line_of(offset)
            raise MalformedText(
                f"New variable is too long: variable {index}, in line {line} at byte {offset} of {self.path}, has "
                f"{end - start} bytes, and {len(data)} were given; append messages with more spaces in it",
                path=self.path,
                line=line,
                offset=offset,
            )
        padded, found = data.ljust(end - start), self.stat()
        descriptor, whole = self.writable(), self._known_end()
        if self._locking:
            self.sidecar.write(Intent("variable", found.st_dev, found.st_ino, offset, len(padded), padded))
        reach("text.variable")
        os.pwrite(descriptor, padded, offset)
        self._sync_if_asked()
        self._settle(whole)
        item.offset, item.ended, item.control = place.offset, place.ended, place.control
        item.raw = place.raw[:start] + padded + place.raw[end:]

    def claim(self, item: TextItem, owner: str | None) -> bool:
        """Take the mutex variable; False if another one has it or the message is not queued any more."""
        with self.changing():
            place = self._find(item)
            if place.status is not TextStatus.QUEUED:
                item.control = place.control
                return False
            index = self._mutex(place)
            variable = place.variables[index]
            holder = mutex.holder_of(variable)
            if holder is not None and not mutex.is_dead(holder):
                return False
            self._put_variable(item, place, index, mutex.claimed(variable, owner).encode())
            return True

    def release(self, item: TextItem, owner: str | None) -> None:
        """Give the mutex variable back; a Conflict where it is another one's."""
        with self.changing():
            place = self._find(item)
            index = self._mutex(place)
            variable = place.variables[index]
            ours = mutex.holder_of(mutex.claimed(variable, owner))
            if mutex.holder_of(variable) != ours:
                raise Conflict(
                    f"the mutex of the message at byte {place.offset} of {self.path} is not held by {ours or 'anyone'}"
                )
            self._put_variable(item, place, index, mutex.released(variable).encode())

    def _mutex(self, place: TextItem) -> int:
        index = mutex.find_mutex(place.variables)
        if index is None:
            raise InvalidInput(
                f"the message at byte {place.offset} of {self.path} has no mutex variable: append messages with "
                "variables=[MUTEX]"
            )
        return index

    def _find(self, item: TextItem) -> TextItem:
        """The item as it is now, wherever an editor has moved it."""
        place = self.at_place(item)
        if place is not None:
            return place
        self.rewritten()  # readers must look, too
        alike = [other for other in self.scan(self) if _same_value(item, other)]
        if not alike:
            raise NotFound(
                f"the message of byte {item.offset} is no longer in {self.path}: someone has removed or changed it"
            )
        return min(
            alike,
            key=lambda other: (
                other.control != b"-",
                other.variables != item.variables,
                abs(other.offset - item.offset),
            ),
        )


def _same_value(item: TextItem, other: TextItem) -> bool:
    comment = TextStatus.COMMENT
    return (
        (item.status is comment) == (other.status is comment)
        and other.value == item.value
        and len(other.variables) == len(item.variables)
    )
