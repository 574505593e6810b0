"""Power cuts and torn tails: kill -9, then undo what was not synced, sector by sector and name by name."""

from __future__ import annotations

import threading

from tests.faults.nemeses.nemesis import Harm, Nemesis
from tests.faults.powercut import PowerCut

SYNC_US = 150_000
_PAUSE = threading.Event()


def _cut_while_syncing(harm: Harm) -> None:
    """Let syncs take long for a moment, so that the cut comes in the midst of one: then there is a tail to tear."""
    for node in harm.cluster.nodes:
        if node.shim is not None:
            node.shim["delay_sync_us"] = SYNC_US
    _PAUSE.wait(2 * SYNC_US / 1e6 * harm.chance.jitter())
    cut(harm)


def cut(harm: Harm) -> None:
    """Cut the power of every node: they stand in one room."""
    for node in harm.cluster.nodes:
        node.kill()
        assert node.shim is not None
        assert node.shim.undo is not None
        node.shim.heal()
        sectors, names = PowerCut(node.shim.undo, node.data).strike(harm.chance)
        harm.notes["sectors"] = harm.notes.get("sectors", 0) + sectors
        harm.notes["names"] = harm.notes.get("names", 0) + names


POWER = Nemesis("power", _cut_while_syncing, shim=True, undo=True)
