"""Sizes as people write them: 65536, 64KiB, 1.5GiB."""

from __future__ import annotations

import re
from typing import Final

from coldstore.shared.errors import InvalidInput

_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def size(text: str | None, what: str) -> int | None:
    """Bytes of `text`; None where nothing was said."""
    if text is None:
        return None
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise InvalidInput(f"{what} {text[:40]!r} is no size: write bytes, or a unit as in 64MiB")
    unit: int = (1024 if match[3] else 1000) ** _POWERS[match[2].lower()]
    return round(float(match[1]) * unit)
