"""The wall clock jumps: an hour back, a day ahead, or somewhere between."""

from __future__ import annotations

from tests.faults.nemeses.nemesis import Harm, Nemesis

HOUR_US, DAY_US = 3_600_000_000, 86_400_000_000


def _jump(harm: Harm) -> None:
    harm.pen.note("skewed", harm.queues[0])
    for node in harm.cluster.nodes:
        if node.shim is not None:
            by = (-HOUR_US, DAY_US, harm.below(2 * HOUR_US) - HOUR_US)[harm.below(3)]
            node.shim["clock_us"] = by
            harm.notes["seconds"] = by / 1e6


def _back(harm: Harm) -> None:
    harm.pen.note("skewed", harm.queues[0])
    for node in harm.cluster.nodes:
        if node.shim is not None:
            node.shim["clock_us"] = 0


CLOCK = Nemesis("clock", _jump, _back, shim=True)
