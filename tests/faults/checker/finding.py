"""What a property has to say when it does not hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.faults.table import Ints, Table

SHOWN = 5


@dataclass(frozen=True)
class Finding:
    """A property that does not hold, how often, and examples."""

    property: str
    count: int
    examples: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.property}: {self.count}, such as {'; '.join(self.examples)}"


def found(property: str, rows: Ints, tell: Callable[[int], str]) -> list[Finding]:
    """A finding about these rows, none if there are none."""
    if not len(rows):
        return []
    return [Finding(property, len(rows), tuple(tell(int(row)) for row in rows[:SHOWN]))]


Property = Callable[[Table], list[Finding]]
