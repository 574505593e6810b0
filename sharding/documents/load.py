"""Where things should live: loads made comparable, and as little movement as balance needs.

A load has four sides. Each is divided by what the whole cluster has of it, so that bytes and
requests can be added, and weighted by how much of a node it uses up:

    traffic   0.4   bytes pushed and read in a second: processor and network, the first to run short
    memory    0.3   bytes held for the shard, unsealed elements and loaded blocks
    bytes     0.2   bytes of history behind it: what will be read and cached from time to time
    count     0.1   every shard costs something, and queues without any load shall spread, too

A side of which there is nothing anywhere is left out and the others count for more.

Balance is a band around the mean, `BALANCE` on either side; while all nodes are inside, nothing moves.
Nodes that leave give everything; nodes above the band give what is above; if that does not lift all
nodes below the band into it, the fullest give more, down to one common level. Both amounts are lower
bounds of what any plan must move, so the plan differs from the least possible one only by the size
of single shards and a hair's breadth (`_INSIDE`), by which it aims inside of the band. A shard that
would make its new node as full as its old one was stays. A shard that alone is more than a node should
have stays, too; its node gives all else, and the others are balanced among themselves.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from sharding.limits import BALANCE

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_TRAFFIC, _MEMORY, _BYTES, _COUNT = 0.4, 0.3, 0.2, 0.1
_INSIDE: Final = 0.03  # of the band
_FULLER: Final = 0.25  # of the mean
_CANDIDATES: Final = 2  # of a queue's first home: enough to even out, few enough to agree on


@dataclass(frozen=True, slots=True)
class Load:
    """What a shard, or all shards of a node, cost."""

    bytes: int = 0  # of history
    traffic: float = 0.0  # bytes pushed and read in a second
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


def spread(owners: Ints, weight: Floats, leaving: Bools) -> tuple[Ints, Ints]:
    """Which shards move, and where to: shard `i` weighs `weight[i]` and is at node `owners[i]`.

    `leaving` says for each node whether it must end empty. Nothing moves where nobody stays.
    """
    none = np.empty(0, np.int64)
    if leaving.all() or not len(owners):
        return none, none
    nodes = len(leaving)
    loads = np.bincount(owners, weight, nodes).astype(np.float64)
    aside = _aside(owners, weight, loads, leaving)
    free = ~leaving & ~aside
    give = np.where(leaving, loads, 0.0)
    give[aside] = loads[aside] - _heaviest(owners, weight, nodes)[aside]
    give[free] = _surplus(loads[free], give.sum())
    chosen = _choose(owners, weight, give, leaving, aside)
    loads -= np.bincount(owners[chosen], weight[chosen], nodes)
    return _hand_out(chosen, owners, weight, loads, leaving, free)


def _heaviest(owners: Ints, weight: Floats, nodes: int) -> Floats:
    """The weight of each node's heaviest shard."""
    found = np.zeros(nodes)
    np.maximum.at(found, owners, weight)
    return found


def _aside(owners: Ints, weight: Floats, loads: Floats, leaving: Bools) -> Bools:
    """Nodes with a shard that alone is too much: it stays, and all else is balanced without it and them."""
    heaviest = _heaviest(owners, weight, len(leaving))
    aside = np.zeros(len(leaving), np.bool_)
    while not (leaving | aside).all():
        free = ~leaving & ~aside
        mean = (loads.sum() - heaviest[aside].sum()) / np.count_nonzero(free)
        more = free & (heaviest > mean * (1 + BALANCE))
        if not more.any():
            return aside
        aside |= more
    return np.zeros(len(leaving), np.bool_)  # all of them: then nobody is


def _surplus(loads: Floats, arriving: float) -> Floats:
    """What each of these nodes has to give, if so much comes to them from others."""
    falling = np.sort(loads)[::-1]
    mean = (loads.sum() + arriving) / len(loads)
    inside = BALANCE * (1 - _INSIDE)
    above = np.where(loads > mean * (1 + BALANCE), loads - mean * (1 + inside), 0.0)
    below = falling[falling < mean * (1 - BALANCE)]
    wanted = (mean * (1 - inside) - below).sum() - arriving
    if wanted <= above.sum():
        return above
    # The sum of what is above a level falls with it, by pieces that are straight lines.
    sums = np.cumsum(falling) - falling * np.arange(1, len(falling) + 1)
    full = int(np.searchsorted(sums, wanted, "left"))  # so many nodes reach above the level
    level = (falling[:full].sum() - wanted) / full
    return np.asarray(np.maximum(0.0, loads - level), np.float64)


def _choose(owners: Ints, weight: Floats, give: Floats, leaving: Bools, aside: Bools) -> Ints:
    """Shards of the nodes that give, about as much as each of them has to give."""
    candidates = np.flatnonzero(give[owners] > 0)
    if not len(candidates):
        return candidates
    order = candidates[np.lexsort((-weight[candidates], owners[candidates]))]
    givers, starts = np.unique(owners[order], return_index=True)
    chosen, missing = [], 0.0  # what one could not give for want of a shard of that size, the next one gives
    for giver, part in zip(givers, np.split(order, starts[1:]), strict=True):
        if aside[giver]:
            part = part[1:]
        elif not leaving[giver]:
            amount = give[giver] + missing
            part = part[_fitting(weight[part], amount)]
            missing = max(0.0, amount - weight[part].sum())
        chosen.append(part)
    return np.concatenate(chosen)


def _fitting(falling: Floats, amount: float) -> Ints:
    """Indices of weights, the heaviest first, whose sum comes near `amount`: few moves, little too much."""
    taken = np.zeros(len(falling), np.bool_)
    at = 0
    while at < len(falling):
        at += int(np.searchsorted(-falling[at:], -amount, "left"))  # the first that fits
        run = np.cumsum(falling[at:])
        count = int(np.searchsorted(run, amount, "right"))
        if not count:
            break
        taken[at : at + count] = True
        amount -= float(run[count - 1])
        at += count
    enough = np.flatnonzero(~taken & (falling >= amount))
    if amount > 0 and len(enough) and falling[enough[-1]] - amount < amount:
        taken[enough[-1]] = True  # the lightest that covers what is missing
    return np.flatnonzero(taken)


def _hand_out(
    chosen: Ints, owners: Ints, weight: Floats, loads: Floats, leaving: Bools, free: Bools
) -> tuple[Ints, Ints]:
    """Each to the node that has least, the heaviest first."""
    least = [(float(loads[node]), int(node)) for node in np.flatnonzero(free)]
    heapq.heapify(least)
    moved, targets = [], []
    for shard in chosen[np.argsort(-weight[chosen], kind="stable")]:
        while least[0][0] != loads[least[0][1]]:  # what stayed there after all
            heapq.heapreplace(least, (float(loads[least[0][1]]), least[0][1]))
        load, node = least[0]
        owner = owners[shard]
        if not leaving[owner] and load >= loads[owner]:
            loads[owner] += weight[shard]
            continue  # it would only change places
        moved.append(shard)
        targets.append(node)
        loads[node] = load + weight[shard]
        heapq.heapreplace(least, (float(loads[node]), node))
    return np.array(moved, np.int64), np.array(targets, np.int64)


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
