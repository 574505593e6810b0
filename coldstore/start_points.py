"""Starting points: where a new subscriber, a seek or a replay begins.

beginning        the first offset
end              the next offset, at this instant
offset:N         N; outside first..next an error with the valid range, unless clamped
time:ISO         the first element not before that time; the zone is required
ago:7d           as time, counted back from the server's clock; units us ms s m h d w
last:N           N elements before the end
subscriber:NAME  where that subscriber of the same queue is now
"""

from __future__ import annotations

import re
from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, Protocol

from coldstore.layout.paths import check_name
from coldstore.shared.batch import to_us
from coldstore.shared.errors import InvalidInput, OutOfRange
from coldstore.shared.limits import OFFSET_MAX
from coldstore.shared.results import Resolved

FORMS: Final = "beginning, end, offset:N, time:ISO, ago:7d, last:N or subscriber:NAME"
_UNITS_US: Final = {
    "us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000,
    "d": 86_400_000_000, "w": 604_800_000_000,
}  # fmt: skip
_AGO = re.compile(r"(\d+(?:\.\d+)?)(us|ms|s|m|h|d|w)")

Kind = Literal["beginning", "end", "offset", "time", "ago", "last", "subscriber"]


@dataclass(frozen=True, slots=True)
class Start:
    """A starting point, read and checked, not yet resolved: `number` is an offset, time, age or count."""

    kind: Kind
    number: int = 0
    name: str = ""


class ResolvableQueue(Protocol):
    """Port: what a queue must answer so that a starting point can be resolved in it."""

    @property
    def first_offset(self) -> int: ...

    @property
    def next_offset(self) -> int: ...

    def now_us(self) -> int: ...

    def offset_at(self, timestamp_us: int) -> Awaitable[int | None]:
        """Offset of the first element not before that time, None if there is none."""
        ...

    def timestamp_of(self, offset: int) -> Awaitable[int | None]:
        """Timestamp of an element, None for the next offset."""
        ...

    def position_of(self, subscriber: str) -> int:
        """Where a subscriber of the queue is, or `NotFound`."""
        ...


def parse(text: str) -> Start:
    """Read a starting point, or say what is wrong with it."""
    if not isinstance(text, str) or not text.isprintable():
        raise InvalidInput(f"a starting point is plain text: {FORMS}")
    kind, colon, rest = text.partition(":")
    match kind:
        case "beginning" | "end" if not colon:
            return Start("beginning" if kind == "beginning" else "end")
        case "offset" | "last" if colon:
            return Start("offset" if kind == "offset" else "last", _number(kind, rest))
        case "time" if colon:
            return Start("time", _time(rest))
        case "ago" if colon:
            return Start("ago", _age(rest))
        case "subscriber" if colon:
            return Start("subscriber", name=check_name(rest, "subscriber"))
    raise InvalidInput(f"starting point {text[:60]!r} is not known: use {FORMS}")


def named_offset(text: str | None) -> int | None:
    """The offset that a starting point names by itself; None if the queue must be asked."""
    if text is None or not re.fullmatch(r"offset:\d{1,19}", text, re.ASCII):
        return None
    offset = int(text.removeprefix("offset:"))
    return offset if offset <= OFFSET_MAX else None


def _number(kind: str, text: str) -> int:
    if not re.fullmatch(r"-?\d{1,19}", text) or not -OFFSET_MAX <= int(text) <= OFFSET_MAX:
        raise InvalidInput(f"{kind}:{text[:40]} needs a whole number, for instance {kind}:1000")
    if kind == "last" and int(text) < 0:
        raise InvalidInput(
            f"last:{text} is negative: say how many elements before the end, for instance last:100"
        )
    return int(text)


def _time(text: str) -> int:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(
            f"time:{text[:40]} is not ISO 8601; write for instance time:2026-01-31T12:00:00Z"
        ) from None
    if time.tzinfo is None:
        full = time.isoformat()  # a zone cannot follow a date alone
        raise InvalidInput(
            f"time:{text} has no zone: add one, for instance time:{full}Z or time:{full}+02:00"
        )
    return to_us(time)


def _age(text: str) -> int:
    if text.startswith("-"):
        raise InvalidInput(
            f"ago:{text[:40]} is negative, so it lies in the future; use an age such as ago:7d"
        )
    match = _AGO.fullmatch(text)
    if match is None or len(text) > 20:
        raise InvalidInput(
            f"ago:{text[:40]} is not an age: give a number and one of {', '.join(_UNITS_US)}, as ago:7d"
        )
    return min(
        round(float(match[1]) * _UNITS_US[match[2]]), OFFSET_MAX // 2
    )  # older than everything is enough


async def resolve(start: Start, queue: ResolvableQueue, *, clamp: bool = False) -> Resolved:
    """The offset that `start` means in this queue at this instant, and which rule led there."""
    offset, rule = await _offset(start, queue, clamp)
    return Resolved(
        offset=offset,
        timestamp_us=await queue.timestamp_of(offset),
        first_offset=queue.first_offset,
        next_offset=queue.next_offset,
        rule=rule,
    )


async def _offset(start: Start, queue: ResolvableQueue, clamp: bool) -> tuple[int, str]:
    first, end = queue.first_offset, queue.next_offset
    match start.kind:
        case "beginning":
            return first, "beginning"
        case "end":
            return end, "end"
        case "offset":
            return _within(start.number, first, end, clamp)
        case "last":
            at = end - start.number
            return (at, "last") if at >= first else (first, "last: fewer elements → beginning")
        case "subscriber":
            return queue.position_of(start.name), "subscriber"
        case "time" | "ago":
            at_us = start.number if start.kind == "time" else queue.now_us() - start.number
            return await _at_time(at_us, queue, start.kind)


def _within(offset: int, first: int, end: int, clamp: bool) -> tuple[int, str]:
    if first <= offset <= end:
        return offset, "offset"
    if clamp:
        return (
            (first, "offset: before all → beginning") if offset < first else (end, "offset: after all → end")
        )
    raise OutOfRange(
        f"offset {offset} is outside {first}..{end}: choose one inside, or ask to clamp",
        first=first,
        next=end,
    )


async def _at_time(at_us: int, queue: ResolvableQueue, kind: str) -> tuple[int, str]:
    found = await queue.offset_at(at_us)
    if found is None:
        return queue.next_offset, f"{kind}: after all → end"
    if found == queue.first_offset:
        first_us = await queue.timestamp_of(found)
        if first_us is not None and first_us > at_us:
            return found, f"{kind}: before all → beginning"
    return found, kind
