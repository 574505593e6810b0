"""One line of a measurement, and what it should be."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """A figure; `ok` is None where there is no target."""

    name: str
    value: float
    unit: str
    target: str = ""
    ok: bool | None = None


def at_least(name: str, value: float, unit: str, target: float) -> Row:
    return Row(name, value, unit, f"≥ {target:g}", value >= target)


def at_most(name: str, value: float, unit: str, target: float) -> Row:
    return Row(name, value, unit, f"≤ {target:g}", value <= target)
