"""Plans: which shards to move, and where to cut a queue's history.

A plan moves as little as balance needs. Balance is a band around the mean load, `BALANCE` on either side. While all
nodes are inside the band, nothing moves. Otherwise:

    nodes that leave           give everything
    nodes above the band       give what is above it
    the fullest nodes          give more, down to one common level, if some nodes are still below the band
    a shard that alone is      stays. Its node gives all else, and the other nodes are balanced among themselves
    too much for a node
    a shard that would make    stays
    its new node as full as
    its old node was

The first two amounts are lower bounds of what any plan must move. So a plan differs from the least possible one only
by the size of single shards, and by `_INSIDE`: it aims a little inside the band.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from coldstore.shared.results import BlockInfo
from sharding.documents.load import Floats, weights
from sharding.documents.shards import Range
from sharding.limits import BALANCE, PLAN_MOVES_MAX
from sharding.ports import Move, Plan, Shard, Share

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_INSIDE: Final = 0.03  # of the band


def plan_moves(shards: Sequence[Shard], nodes: Sequence[str], leaving: frozenset[str]) -> Plan:
    """As little movement as brings all `nodes` into balance and empties those that leave.

    Of a long plan the heaviest moves: when they are done, the next plan has the rest.
    """
    number = {node: n for n, node in enumerate(nodes)}
    movable = [shard for shard in shards if shard.node in number]
    weight = weights([shard.load for shard in movable])
    owners = np.array([number[shard.node] for shard in movable], np.int64)
    moved, targets = spread(owners, weight, np.array([node in leaving for node in nodes], np.bool_))
    moved, targets = moved[:PLAN_MOVES_MAX], targets[:PLAN_MOVES_MAX]
    before = np.bincount(owners, weight, len(nodes)) if len(owners) else np.zeros(len(nodes))
    after = before.copy()
    np.subtract.at(after, owners[moved], weight[moved])
    np.add.at(after, targets, weight[moved])
    moves = [Move(movable[shard], nodes[to]) for shard, to in zip(moved, targets, strict=True)]
    shares = [Share(node, 100 * before[n], 100 * after[n]) for n, node in enumerate(nodes)]
    return Plan(tuple(moves), tuple(shares))


def cut_history(blocks: Sequence[BlockInfo], parts: int, nodes: Sequence[str]) -> list[Range]:
    """Ranges of about equal bytes over whole blocks, each cut at the edge of a block that is nearest; handed out to
    `nodes` in turns."""
    parts = min(parts, len(blocks))
    if parts < 1 or not nodes:
        return []
    ends = np.cumsum([block.raw_bytes for block in blocks])
    wanted = ends[-1] * np.arange(1, parts) / parts
    after = np.minimum(np.searchsorted(ends, wanted), len(blocks) - 1)  # the block in which it is
    starts = np.concatenate(([0], ends[:-1]))
    cuts = [0, *np.where(ends[after] - wanted <= wanted - starts[after], after + 1, after), len(blocks)]
    edges = [blocks[cut].first_offset for cut in sorted({int(cut) for cut in cuts} - {len(blocks)})]
    edges.append(blocks[-1].last_offset + 1)
    return [Range(first, end, nodes[n % len(nodes)]) for n, (first, end) in enumerate(pairwise(edges))]


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
