"""Byte ranges of an object: one rule for every store."""

from __future__ import annotations

from coldstore.shared.errors import InvalidInput


def check_range(start: int, end: int | None) -> None:
    """Refuse a range that no object could have."""
    if start < 0 or (end is not None and end < start):
        raise InvalidInput(f"byte range {start}..{end} is not allowed: use 0 <= start <= end")


def cut_range(start: int, end: int | None, size: int) -> tuple[int, int]:
    """The range within an object of `size` bytes; beyond its end nothing is left of it."""
    check_range(start, end)
    stop = size if end is None else min(end, size)
    return min(start, stop), stop
