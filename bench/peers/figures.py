"""Figures of a comparison: what was measured, how often, and how it compares with jjq."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

BASE = "jjq"  # ratios are against this system


@dataclass(frozen=True, slots=True)
class Work:
    """One line of the table."""

    key: str
    title: str
    unit: str
    higher_is_better: bool = True


@dataclass(slots=True)
class Outcome:
    """What one system did: figures by work, and why others are not there."""

    title: str
    client: str = ""
    durability: str = ""
    native: str = ""  # the name of its own load generator
    weaker: bool = False
    syncs: str = ""  # what was seen of fsync
    missing: str = ""  # why there is nothing at all
    failed: dict[str, str] = field(default_factory=dict)  # by phase
    values: dict[str, list[float]] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)  # by work: why it cannot be done

    def add(self, work: str, value: float) -> None:
        self.values.setdefault(work, []).append(value)


@dataclass(frozen=True, slots=True)
class Summary:
    """The median of some repetitions, and how far they lie apart as a part of it."""

    median: float
    low: float
    high: float

    @property
    def spread(self) -> float:
        return (self.high - self.low) / self.median if self.median else 0.0


def summary(values: Iterable[float]) -> Summary:
    found = sorted(values)
    return Summary(statistics.median(found), found[0], found[-1])


def ratio(work: Work, peer: float, ours: float) -> float | None:
    """How many times as good as jjq a peer is: above 1 it is better, whichever way the figure points."""
    if peer <= 0 or ours <= 0:
        return None
    return peer / ours if work.higher_is_better else ours / peer


def compare(works: list[Work], outcomes: dict[str, Outcome]) -> list[dict[str, Any]]:
    """For each work the figures of every system; a system without one says why."""
    rows = []
    ours = outcomes.get(BASE)
    for work in works:
        base = ours.values.get(work.key) if ours else None
        cells = {
            name: _cell(work, outcome, summary(base).median if base else None)
            for name, outcome in outcomes.items()
        }
        if any("median" in cell for cell in cells.values()):
            rows.append({"work": work.key, "title": work.title, "unit": work.unit, "systems": cells})
    return rows


def _cell(work: Work, outcome: Outcome, base: float | None) -> dict[str, Any]:
    values = outcome.values.get(work.key)
    if not values:
        reasons = [outcome.missing, outcome.absent.get(work.key, ""), *outcome.failed.values()]
        return {"why": next(filter(None, reasons), "not measured")}
    found = summary(values)
    cell: dict[str, Any] = {
        "median": found.median,
        "low": found.low,
        "high": found.high,
        "runs": len(values),
    }
    if base is not None:
        cell["ratio"] = ratio(work, found.median, base)
    return cell
