"""Checks the arguments of callers where they come in: an error names the argument at once.

Without this, a wrong type would travel until distant code fails on it, with a sentence about a "built-in operation" or
an attribute that the caller never used. Ranges are not checked here, but in the code that knows them.
"""

from __future__ import annotations

import math
import operator
import os
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from coldstore.shared.batch import from_us, to_us
from coldstore.shared.errors import InvalidInput
from coldstore.shared.limits import OFFSET_MAX
from coldstore.shared.results import STAGES, Stage, SubscriberInfo
from coldstore.start_points import FORMS

Start = str | int | datetime | timedelta
Size = int | str
K = TypeVar("K")

_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgtpe]?)(i?)b?", re.IGNORECASE)
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5, "e": 6}


def text(name: str, given: object) -> str:
    """A name, an id, a list of addresses."""
    if not isinstance(given, str):
        raise _wrong(name, given, "a str")
    return given


def subscriber_id(given: object) -> str:
    """A subscriber by its id, or as `create_subscriber` returned it."""
    if isinstance(given, SubscriberInfo):
        return given.id
    if not isinstance(given, str):
        raise _wrong(
            "subscriber", given, "an id such as 'orders/billing', or what create_subscriber returned"
        )
    return given


def group_id(given: object) -> str:
    """A worker group by its id."""
    if not isinstance(given, str):
        raise _wrong("group", given, "an id such as 'orders/billing', or what create_group returned")
    return given


def utf8(name: str, given: str) -> bytes:
    """Text as bytes."""
    try:
        return given.encode()
    except UnicodeEncodeError:
        raise _wrong(name, given, "text that UTF-8 can hold") from None


def queue_name(given: object) -> str:
    """A queue by its name, or by one of its subscribers."""
    if isinstance(given, SubscriberInfo):
        return given.id
    return text("queue", given)


def whole(name: str, given: object) -> int:
    """A number without a fraction; NumPy's do as well."""
    if not isinstance(given, bool):
        try:
            found = operator.index(cast("Any", given))
        except TypeError:
            pass
        else:
            if abs(found) > OFFSET_MAX:
                raise InvalidInput(
                    f"{name} has {len(str(found))} digits: whole numbers go up to {OFFSET_MAX}"
                )
            return found
    raise _wrong(name, given, "a whole number")


def number(name: str, given: object) -> float:
    """Seconds, mostly."""
    if isinstance(given, bool) or not hasattr(given, "__float__"):
        raise _wrong(name, given, "a number")
    found = float(cast("Any", given))
    if not math.isfinite(found):
        raise _wrong(name, given, "a finite number")
    return found


def waiting_time(name: str, given: object) -> float:
    """Seconds from 0 on."""
    found = number(name, given)
    if found < 0:
        raise InvalidInput(f"{name} is {found:g}: give seconds from 0 on")
    return found


def flag(name: str, given: object) -> bool:
    if not isinstance(given, bool):
        raise _wrong(name, given, "True or False")
    return given


def stage(given: object) -> Stage:
    if not isinstance(given, str) or given not in STAGES:
        raise _wrong("stage", given, f"one of {', '.join(STAGES)}")
    return cast("Stage", given)


def size(name: str, given: object) -> int:
    """Bytes: a whole number, or as people write them: 65536, "64KiB", "1.5GiB"."""
    if not isinstance(given, str):
        return whole(name, given)
    match = _SIZE.fullmatch(given.strip())
    if match is None:
        raise InvalidInput(f"{name} {given[:40]!r} is not a size: write bytes, or a unit as in 64MiB")
    unit: int = (1024 if match[3] else 1000) ** _POWERS[match[2].lower()]
    return round(float(match[1]) * unit)


def starting_point(name: str, given: object) -> str:
    """A starting point: in words, or an offset, a time with its zone, or how long ago."""
    if isinstance(given, str):
        return given
    if isinstance(given, datetime):
        return f"time:{from_us(to_us(given)).isoformat()}"
    if isinstance(given, timedelta):
        if given < timedelta(0):
            raise InvalidInput(f"{name} is {given}, which lies in the future: give an age that is positive")
        return f"ago:{given // timedelta(microseconds=1)}us"
    if hasattr(given, "__index__") and not isinstance(given, bool):
        return f"offset:{whole(name, given)}"
    forms = f"{FORMS}, or an int (an offset), a datetime with its zone, or a timedelta (so long ago)"
    raise _wrong(name, given, forms)


def path(name: str, given: object) -> Path:
    """Where something is in the file system."""
    if not isinstance(given, str | os.PathLike):
        raise _wrong(name, given, "a path: a str or a pathlib.Path")
    return Path(cast("Any", given))


def kind(name: str, given: object, wanted: type[K], example: str) -> K:
    """A value of one of our own types."""
    if not isinstance(given, wanted):
        raise _wrong(name, given, example)
    return given


def _wrong(name: str, given: object, wanted: str) -> InvalidInput:
    shown = repr(given)
    shown = shown if len(shown) <= 40 else f"{shown[:37]}..."
    return InvalidInput(f"{name} is {shown} ({type(given).__name__}): give {wanted}")
