"""What values may be: pushed once, to this queue, not refused, unaltered, at one place."""

from __future__ import annotations

import numpy as np

from tests.faults.checker.finding import Finding, found
from tests.faults.table import TYPES, Ints, Table, match


def duplicate(table: Table) -> list[Finding]:
    """One value at two places of a queue, over acknowledgements and everything read."""
    _, acked, values = table.acked
    places, said = np.concatenate([acked, table.seen_place]), np.concatenate([values, table.seen_value])
    order = np.lexsort((places, said))
    places, said = places[order], said[order]
    twice = (said[1:] == said[:-1]) & (places[1:] != places[:-1]) & (said[1:] >= 0)
    return found(
        "duplicate",
        np.flatnonzero(twice),
        lambda n: f"{said[n]} is at {table.name(int(places[n]))} and {table.name(int(places[n + 1]))}",
    )


def _seen(table: Table) -> tuple[Ints, Ints]:
    """Each value that was read, once, with a row of `seen` that has it."""
    values, rows = np.unique(table.seen_value, return_index=True)
    return values, rows


def _pushes(table: Table, values: Ints) -> Ints:
    """The push of each value, NONE if there is none."""
    order = np.argsort(table.pushed_value, kind="stable")
    at = match(table.pushed_value[order], values)
    return np.where(at >= 0, table.pushed_op[order][at], -1) if len(order) else np.full(len(values), -1)


def corruption(table: Table) -> list[Finding]:
    """Bytes that are not those of any value. Damage may be reported; it may never be read."""
    values, rows = _seen(table)
    return found(
        "corruption", rows[values < 0], lambda n: f"other bytes at {table.name(int(table.seen_place[n]))}"
    )


def from_nowhere(table: Table) -> list[Finding]:
    """A sound value that nobody pushed."""
    values, rows = _seen(table)
    unknown = (values >= 0) & (_pushes(table, values) < 0)
    return found(
        "from-nowhere",
        rows[unknown],
        lambda n: f"{table.seen_value[n]} at {table.name(int(table.seen_place[n]))}",
    )


def aborted_read(table: Table) -> list[Finding]:
    """A value whose push was refused: `fail` means certainly not written."""
    values, rows = _seen(table)
    push = _pushes(table, values)
    failed = (push >= 0) & (table.ops.type[push] == TYPES["fail"])
    return found(
        "aborted-read",
        rows[failed],
        lambda n: f"{table.seen_value[n]} at {table.name(int(table.seen_place[n]))}",
    )


def isolation(table: Table) -> list[Finding]:
    """A value in another queue than it was pushed to."""
    push = _pushes(table, table.seen_value)
    strange = (push >= 0) & (table.ops.queue[push] != table.ops.queue[table.seen_op])
    return found(
        "isolation",
        np.flatnonzero(strange),
        lambda n: f"{table.seen_value[n]} of another queue at {table.name(int(table.seen_place[n]))}",
    )
