"""inconsistent-offsets: one offset, one value, whoever says so and when. dense: no offset is left out."""

from __future__ import annotations

import numpy as np

from tests.faults.checker.finding import Finding, found
from tests.faults.table import OFFSET_BITS, F, Table, inside


def inconsistent(table: Table) -> list[Finding]:
    """Over acknowledgements and everything read: pops, peeks, streams, replays, damaged copies."""
    _, acked, values = table.acked
    places, said = np.concatenate([acked, table.seen_place]), np.concatenate([values, table.seen_value])
    order = np.lexsort((said, places))
    places, said = places[order], said[order]
    differ = (places[1:] == places[:-1]) & (said[1:] != said[:-1])
    return found(
        "inconsistent-offsets",
        np.flatnonzero(differ),
        lambda n: f"{table.name(int(places[n]))} is {said[n]} and {said[n + 1]}",
    )


def dense(table: Table) -> list[Finding]:
    """The final log has every offset from 0 on, and no answer to a reader has a gap."""
    places, _ = table.final
    first = np.ones(len(places), bool)
    first[1:] = places[1:] >> OFFSET_BITS != places[:-1] >> OFFSET_BITS
    before = np.where(first, ((places >> OFFSET_BITS) << OFFSET_BITS) - 1, np.roll(places, 1))
    gap = (places != before + 1) & ~inside(before + 1, table.unreadable)
    same = table.seen_op[1:] == table.seen_op[:-1]
    same &= table.ops.f[table.seen_op[1:]] != F["take"]  # tasks are handed out in any order
    jump = same & (table.seen_offset[1:] != table.seen_offset[:-1] + 1)
    jump &= ~inside(table.seen_place[:-1] + 1, table.unreadable)
    return [
        *found("dense", places[gap], lambda at: f"nothing right before {table.name(at)}"),
        *found(
            "dense", np.flatnonzero(jump), lambda n: f"an answer goes on with {table.seen_offset[n + 1]} after "
            f"{table.seen_offset[n]}",
        ),
    ]  # fmt: skip
