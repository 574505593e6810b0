"""Options of a task, given with the push: delay, ttl, ttr and priority, kept as headers of the element.

    jjq-delay     seconds before the task is ready
    jjq-ttl       seconds that it may live from then on
    jjq-ttr       seconds that a worker may hold it
    jjq-priority  a whole number; a smaller one is taken first

All groups of the queue see them, and history keeps them. Their values are checked when they are pushed, before anything
is written. A push without such headers costs nothing more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa

from coldstore.shared.errors import InvalidInput
from coldstore.shared.headers import TASK_OPTIONS, has_reserved
from hotstore.limits import PRIORITY_MAX, SECONDS_MAX

DELAY: Final = TASK_OPTIONS["delay"]
TTL: Final = TASK_OPTIONS["ttl"]
TTR: Final = TASK_OPTIONS["ttr"]
PRIORITY: Final = TASK_OPTIONS["priority"]
OPTION_HEADERS: Final = frozenset(TASK_OPTIONS.values())


class TaskOptions(NamedTuple):
    """What was said with the push of one task; None: as the group says."""

    delay: float | None = None
    ttl: float | None = None
    ttr: float | None = None
    priority: int | None = None


def check_seconds(name: str, seconds: Any, *, least: float = 0.0) -> float:
    """Return `seconds` if they are a time that a task may be given."""
    if (
        isinstance(seconds, bool)
        or not isinstance(seconds, int | float)
        or not math.isfinite(seconds)
        or not least <= seconds <= SECONDS_MAX
    ):
        raise InvalidInput(
            f"{name} is {seconds!r:.40}: use a number of seconds from {least:g} to {SECONDS_MAX:.0f}"
        )
    return float(seconds)


def check_priority(priority: Any) -> int:
    if type(priority) is not int or abs(priority) > PRIORITY_MAX:
        raise InvalidInput(
            f"priority is {priority!r:.40}: use a whole number from {-PRIORITY_MAX} to {PRIORITY_MAX}; a smaller "
            f"one is taken first"
        )
    return priority


def read_options(headers: Mapping[str, bytes]) -> TaskOptions | None:
    """The options among an element's headers; None if there are none."""
    if not OPTION_HEADERS & headers.keys():
        return None
    return TaskOptions(
        _seconds(headers, DELAY, 0.0),
        _seconds(headers, TTL, 0.001),
        _seconds(headers, TTR, 0.001),
        check_priority(_number(headers, PRIORITY, int)) if PRIORITY in headers else None,
    )


def _seconds(headers: Mapping[str, bytes], name: str, least: float) -> float | None:
    if name not in headers:
        return None
    return check_seconds(name.removeprefix("jjq-"), _number(headers, name, float), least=least)


def _number(headers: Mapping[str, bytes], name: str, kind: type[int] | type[float]) -> float:
    try:
        return kind(headers[name].decode())
    except ValueError:
        raise InvalidInput(f"header {name} is {headers[name]!r:.40}, which is no number") from None


def check_options(headers: pa.MapArray) -> frozenset[str]:
    """The options that elements of a batch have; refuse those that make no sense, by position."""
    if headers.null_count == len(headers) or not has_reserved(headers):
        return frozenset()
    found: set[str] = set()
    for position, pairs in enumerate(headers.to_pylist()):
        if pairs:
            try:
                read_options(dict(pairs))
            except InvalidInput as error:
                raise InvalidInput(f"element {position}: {error.message}", position=position) from None
            found |= OPTION_HEADERS.intersection(name for name, _ in pairs)
    return frozenset(found)
