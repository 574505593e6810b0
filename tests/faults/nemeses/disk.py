"""The disk: full, slow, failing once; through the shim."""

from __future__ import annotations

from tests.faults.nemeses.nemesis import Harm, Nemesis
from tests.faults.shim import Shim

DEAD_SECONDS = 5.0


def _shims(harm: Harm) -> list[Shim]:
    return [node.shim for node in harm.cluster.nodes if node.shim is not None]


def _fill(harm: Harm) -> None:
    for shim in _shims(harm):
        shim["full"] = 1


def _slow(harm: Harm) -> None:
    for shim in _shims(harm):
        shim["delay_sync_us"] = 20_000 + harm.below(400_000)


def _fail(harm: Harm) -> None:
    """One fsync of the journal fails; the server must end, and never try again."""
    for shim in _shims(harm):
        shim["fail_again"] = 3  # if the first does not end it
        shim["fail_sync"] = 1 + harm.below(5)


def _failed(harm: Harm) -> None:
    """Wait for the end of a server whose fsync failed; it is started again by the run."""
    for node in harm.cluster.nodes:
        if node.shim is not None and node.shim["failed"]:
            harm.notes["failed"] = harm.notes.get("failed", 0) + node.shim["failed"]
            node.shim["failed"] = 0
            harm.notes["died"] = node.wait_dead(DEAD_SECONDS)
    _heal(harm)


def _heal(harm: Harm) -> None:
    for shim in _shims(harm):
        shim.heal()


FULL = Nemesis("disk-full", _fill, _heal, shim=True)
SLOW = Nemesis("slow-fsync", _slow, _heal, shim=True)
FSYNC = Nemesis("fsync", _fail, _failed, shim=True)
