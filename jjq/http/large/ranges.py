"""Which bytes are answered: all, a range, or none because the client has them."""

from __future__ import annotations

import re
from typing import Final

from jjq.http.problems import HttpRefusal
from jjq.http.request import Request

_RANGE: Final = re.compile(r"bytes=\s*(?:(\d{1,19})-(\d{0,19})|-(\d{1,19}))\s*")


def is_known(request: Request, etag: str) -> bool:
    """Whether the client has these bytes, as If-None-Match says."""
    said = request.header("if-none-match")
    return said is not None and (
        said == "*" or etag in {part.strip().removeprefix("W/") for part in said.split(",")}
    )


def asked_range(request: Request, size: int, etag: str) -> tuple[int, int] | None:
    """The range `start`..`stop` that is asked for; None: all. 416 for one that begins after the end.

    Several ranges, other units and what is malformed are answered by all bytes, as RFC 9110 has it, and so is the
    range of something else (If-Range).
    """
    said, only_of = request.header("range"), request.header("if-range")
    match = None if said is None else _RANGE.fullmatch(said)
    if match is None or (only_of is not None and only_of != etag):
        return None
    first, last, suffix = match.groups()
    if suffix is not None:
        start, stop = max(0, size - int(suffix)), size
    else:
        start, stop = int(first), min(size, int(last) + 1) if last else size
        if last and int(last) < start:
            return None
    if start >= stop:
        raise HttpRefusal(
            416,
            f"the range {said} is not within the {size} bytes: ask for less",
            Content_Range=f"bytes */{size}",
        )
    return start, stop
