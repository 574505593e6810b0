"""The load of a shard, or of all shards of a node, and loads made comparable.

A load has four sides. Each is divided by what the whole cluster has of it, so that bytes and requests can be added, and
weighted by how much of a node it uses up:

    traffic   0.4   elements pushed and read in a second: processor and network, the first to run short
    memory    0.3   bytes held for the shard, unsealed elements and loaded blocks
    bytes     0.2   bytes of history behind it: what will be read and cached from time to time
    count     0.1   every shard costs something, and queues without any load should spread, too

If nobody in the cluster has anything of one side, that side is left out and the others count for more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_TRAFFIC, _MEMORY, _BYTES, _COUNT = 0.4, 0.3, 0.2, 0.1
_FULLER: Final = 0.25  # of the mean
_CANDIDATES: Final = 2  # of a queue's first home: enough to even out, few enough to agree on


@dataclass(frozen=True, slots=True)
class Load:
    """What a shard, or all shards of a node, cost."""

    bytes: int = 0  # of history
    traffic: float = 0.0  # elements pushed and read in a second
    memory: int = 0  # bytes held
    count: int = 1  # shards

    def __add__(self, other: Load) -> Load:
        return Load(
            self.bytes + other.bytes,
            self.traffic + other.traffic,
            self.memory + other.memory,
            self.count + other.count,
        )


def weights(loads: Sequence[Load]) -> Floats:
    """One number for each load: its share of all that there is."""
    sides = np.array([(x.traffic, x.memory, x.bytes, x.count) for x in loads], np.float64).reshape(-1, 4)
    return weigh(sides)


def weigh(sides: Floats) -> Floats:
    """As `weights`, of rows of traffic, memory, bytes and count."""
    totals = sides.sum(axis=0)
    parts = np.where(totals > 0, (_TRAFFIC, _MEMORY, _BYTES, _COUNT), 0.0)
    if not parts.any():
        return np.zeros(len(sides))
    scale = parts / parts.sum() / np.where(totals > 0, totals, 1.0)
    return np.asarray(sides @ scale, np.float64)


def first_home(queue: str, loads: dict[str, float]) -> str:
    """The node of a queue that has none: of two that its name names the first, or if that is fuller the second.

    Every node comes to the same two, and nearly always to the same one, so that a new queue is not
    claimed at several places. Small differences do not count: loads are some seconds old, and of many
    queues created in that time all would go to the node that had one less.
    """
    ranked = sorted(loads, key=lambda node: hashlib.sha256(f"{queue}@{node}".encode()).digest())
    first, second = (ranked * _CANDIDATES)[:_CANDIDATES]
    fuller = loads[first] - loads[second] > _FULLER * sum(loads.values()) / len(loads)
    return second if fuller else first
