"""Which fault happens when: by a seed, so that a run can be repeated. About a quarter of the time is quiet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from coldstore.shared.chance import SeededChance

QUIET = "quiet"


@dataclass(frozen=True)
class Period:
    """So many seconds of one fault; `dice` decides all that the nemesis leaves to chance."""

    kind: str
    seconds: float
    dice: int


def schedule(seed: int, kinds: Sequence[str], seconds: float, longest: float = 2.0) -> list[Period]:
    """Periods that fill `seconds`. Every kind comes up before one comes again; never quiet twice in a row."""
    chance = SeededChance(seed)
    periods: list[Period] = []
    left, bag = seconds, list[str]()
    while left > 0:
        kind = QUIET
        if chance.jitter() >= 0.25 or (periods and periods[-1].kind == QUIET) or not periods:
            bag = bag or list(kinds)
            kind = bag.pop(int(chance.jitter() * len(bag)))
        took = longest * (0.3 + 0.7 * chance.jitter())
        periods.append(Period(kind, round(min(took, left + 0.1), 3), int(chance.jitter() * 2**31)))
        left -= took
    return periods
