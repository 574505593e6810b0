"""`TextItem`: one message or comment of a text queue.

Items are made by the million, so an item is three bare fields and its text is decoded when somebody asks. It holds a
copy of its bytes, not the block they were read from. Its verbs go through the file, which finds the item again if an
editor moved it meanwhile.
"""

from __future__ import annotations

from typing import Protocol

from jjq.textqueue.format import STATUSES, TextStatus, parse_item


class ItemFile(Protocol):
    """Port: the file of an item."""

    @property
    def path(self) -> str: ...

    def mark(self, item: TextItem, status: TextStatus) -> None: ...

    def set_variable(self, item: TextItem, index: int, value: str) -> None: ...

    def claim(self, item: TextItem, owner: str | None) -> bool: ...

    def release(self, item: TextItem, owner: str | None) -> None: ...


class TextItem:
    """A message or a comment. `status` and `variables` are as last read or written through this object."""

    __slots__ = ("control", "ended", "file", "offset", "raw")

    def __init__(
        self, file: ItemFile, offset: int, raw: bytes, control: bytes = b"-", ended: bool = True
    ) -> None:
        self.file = file
        self.offset = offset  # of its control character, in bytes from the beginning of the file
        self.raw = raw  # its bytes between the control character and the last newline
        self.control = control
        self.ended = ended  # False: the file ends without a newline

    @property
    def value(self) -> str:
        """The text of the message; its continuation lines are joined by newlines."""
        raw = self.raw
        if b"\n" in raw or raw[-1:] == b"\r":
            return parse_item(raw, self.ended).value
        return raw.decode()

    @property
    def status(self) -> TextStatus:
        """queued, done, critical or comment."""
        return STATUSES[self.control]

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables, with the spaces that pad them."""
        return parse_item(self.raw, self.ended).variables if b"\n" in self.raw else ()

    @property
    def path(self) -> str:
        """The file that the item is in."""
        return self.file.path

    @property
    def end(self) -> int:
        """Where the item ended when it was read: the offset of the byte after its last one."""
        return self.offset + 1 + len(self.raw) + (1 if self.ended else 0)

    def mark_done(self) -> None:
        """The message was handled: one byte of the file changes. Marking it again does nothing."""
        self.file.mark(self, TextStatus.DONE)

    def mark_error(self) -> None:
        """The message can never be handled: one byte of the file changes."""
        self.file.mark(self, TextStatus.CRITICAL)

    def set_variable(self, index: int, value: str) -> None:
        """Write a variable in place, padded with spaces; an error if it is longer than its place, in bytes."""
        self.file.set_variable(self, index, value)

    def claim(self, owner: str | None = None) -> bool:
        """Take the message's mutex variable; False if someone else has it or the message was handled.

        Without `owner` this process is the owner, and another process of this machine may take the mutex when
        this one is dead.
        """
        return self.file.claim(self, owner)

    def release(self, owner: str | None = None) -> None:
        """Give the mutex variable back, for another worker to claim."""
        self.file.release(self, owner)

    # The names of the reference implementation.

    @property
    def control_offset(self) -> int:
        return self.offset

    def mark_as_cleared(self) -> None:
        self.mark_done()

    def mark_as_critical_error(self) -> None:
        self.mark_error()

    def get_variables(self) -> list[str]:
        return list(self.variables)

    def __repr__(self) -> str:
        shown = self.value if len(self.raw) <= 60 else f"{self.value[:57]}..."
        return f"TextItem({self.status.value}, {shown!r}, offset {self.offset} of {self.path})"
