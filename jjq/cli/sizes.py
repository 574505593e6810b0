"""Sizes on the command line: 65536, 64KiB, 1.5GiB."""

from __future__ import annotations

from jjq import arguments


def size(text: str | None, what: str) -> int | None:
    """Bytes of `text`; None where nothing was said."""
    return None if text is None else arguments.size(what, text)
