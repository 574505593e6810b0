"""Plans: which shards to move, and where to cut a queue's history."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from coldstore.shared.results import BlockInfo
from sharding.documents.load import spread, weights
from sharding.documents.shards import Range
from sharding.limits import PLAN_MOVES_MAX
from sharding.operations import Move, Plan, Shard, Share


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
