"""Placement: balance within a tenth, with no more movement than balance needs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from coldstore.shared.chance import SeededChance
from sharding.documents.load import Floats, Load, first_home, weigh, weights
from sharding.operate.plan import Ints, spread

NODES, QUEUES = 1_000, 1_000_000


class Cluster:
    """Shards with weights at nodes; what happened to it is checked after every step."""

    def __init__(self, owners: Ints, weight: Floats, nodes: int) -> None:
        self.owners = owners
        self.weight = weight
        self.gone = np.zeros(nodes, np.bool_)

    def loads(self) -> Floats:
        return np.bincount(self.owners, self.weight, len(self.gone)).astype(np.float64)

    def least(self, leaving: np.ndarray) -> float:
        """What any plan must move: everything of those that leave, all above the band, all missing below it."""
        loads = self.loads()
        staying = loads[~leaving]
        mean = loads.sum() / len(staying)
        over = loads[leaving].sum() + np.maximum(0, staying - 1.1 * mean).sum()
        return float(max(over, np.maximum(0, 0.9 * mean - staying).sum()))

    def change(self, join: int = 0, leave: Ints | None = None) -> tuple[float, float]:
        """Movement, and the least that was possible."""
        self.gone = np.concatenate([self.gone, np.zeros(join, np.bool_)])
        if leave is not None:
            self.gone[leave] = True
        least = self.least(self.gone)
        moved, targets = spread(self.owners, self.weight, self.gone)
        self.owners = self.owners.copy()
        self.owners[moved] = targets
        return float(self.weight[moved].sum()), least

    def check(self) -> None:
        loads = self.loads()
        staying = loads[~self.gone]
        assert loads[self.gone].sum() == 0
        assert abs(staying / staying.mean() - 1).max() <= 0.1


def generator(seed: int) -> Any:
    bits = np.random.PCG64(int(SeededChance(seed).token(), 16))  # noqa: TID251 - seeded by a Chance
    return np.random.Generator(bits)  # noqa: TID251


def test_a_thousand_nodes_and_a_million_queues_stay_in_balance_with_the_least_movement() -> None:
    chance = generator(7)
    sides = np.stack(
        [
            chance.pareto(1.5, QUEUES),
            chance.lognormal(10, 2, QUEUES),
            chance.lognormal(15, 3, QUEUES),
            np.ones(QUEUES),
        ],
        axis=1,
    )
    sides = np.minimum(sides, sides.mean(axis=0) * 200)  # no queue is a fifth of a node by itself
    cluster = Cluster(chance.integers(0, NODES, QUEUES), weigh(sides), NODES)
    for join, leave in [(0, 0), (1, 0), (10, 0), (0, 1), (100, 5), (0, 200), (300, 0), (50, 50)]:
        alive = np.flatnonzero(~cluster.gone)
        moved, least = cluster.change(join, chance.choice(alive, leave, replace=False))
        cluster.check()
        assert moved <= 1.1 * least
        if (join, leave) != (0, 0):
            assert moved > 0


def test_loads_that_drift_inside_the_band_move_nothing() -> None:
    chance = generator(8)
    owners = np.arange(10_000) % 100
    cluster = Cluster(owners, 1 + 0.1 * chance.random(10_000), 100)
    assert cluster.change() == (0.0, 0.0)


def test_a_new_node_gets_its_part_of_a_small_cluster() -> None:
    cluster = Cluster(np.arange(12) % 2, np.ones(12), 2)
    cluster.change(join=1)
    assert sorted(cluster.loads()) == [4, 4, 4]


def test_a_node_that_leaves_ends_empty_however_uneven_that_is() -> None:
    cluster = Cluster(np.array([0, 0, 1]), np.array([5.0, 1.0, 1.0]), 3)
    cluster.change(leave=np.array([0]))
    assert sorted(cluster.loads()) == [0, 2, 5]


@pytest.mark.parametrize(
    ("owners", "nodes"),
    [([0], 2), ([0, 0, 1], 2), ([], 3)],
    ids=["a single queue", "three on two", "nothing at all"],
)
def test_what_cannot_be_better_stays(owners: list[int], nodes: int) -> None:
    cluster = Cluster(np.array(owners, np.int64), np.ones(len(owners)), nodes)
    assert cluster.change()[0] == 0.0


def test_a_giant_does_not_change_places() -> None:
    cluster = Cluster(np.array([0, 1, 1, 1]), np.array([10.0, 1.0, 1.0, 1.0]), 2)
    cluster.change()
    assert cluster.owners[0] == 0


def test_what_lives_beside_a_giant_moves_away_from_it() -> None:
    cluster = Cluster(np.array([0, 0, 0, 1, 1]), np.array([90.0, 1.0, 1.0, 1.0, 1.0]), 3)
    cluster.change()
    assert sorted(cluster.loads()) == [2, 2, 90]
    assert cluster.change()[0] == 0


def test_a_giant_elsewhere_does_not_keep_the_others_from_sharing() -> None:
    cluster = Cluster(np.array([0, *[1] * 10]), np.array([100.0, *[1.0] * 10]), 2)
    cluster.change(join=1)
    assert cluster.loads().tolist() == [100, 5, 5]
    assert cluster.change()[0] == 0


def test_where_every_node_has_a_giant_nothing_is_set_aside() -> None:
    cluster = Cluster(np.array([0, 1, 2]), np.array([10.0, 11.0, 12.0]), 3)
    assert cluster.change()[0] == 0
    cluster.change(leave=np.array([1]))
    assert sorted(cluster.loads()) == [0, 12, 21]


def test_nobody_moves_where_nobody_stays() -> None:
    moved, targets = spread(np.array([0, 1]), np.ones(2), np.ones(2, np.bool_))
    assert not len(moved)
    assert not len(targets)


def test_sides_without_anything_are_left_out() -> None:
    assert weights([Load(count=1), Load(count=3)]).tolist() == [0.25, 0.75]
    assert weights([Load(traffic=1.0), Load(memory=10), Load(bytes=10)]).sum() == pytest.approx(1.0)
    assert weights([]).tolist() == []


def test_traffic_counts_for_more_than_memory_and_memory_for_more_than_bytes() -> None:
    busy, full, old = weights([Load(traffic=1.0), Load(memory=1), Load(bytes=1)])
    assert busy > full > old > 0


def test_the_first_homes_of_queues_are_even_and_steady() -> None:
    loads = {f"node-{n}": 0.0 for n in range(10)}
    for n in range(2_000):
        home = first_home(f"queue-{n}", loads)
        assert first_home(f"queue-{n}", loads) == home
        loads[home] += 1
    assert max(loads.values()) <= 1.25 * 200
    assert min(loads.values()) >= 0.75 * 200


def test_many_queues_created_at_once_do_not_all_go_to_the_node_that_had_one_less() -> None:
    loads = {"a": 10.0, "b": 11.0}  # as they were some seconds ago
    homes = [first_home(f"queue-{n}", loads) for n in range(200)]
    assert 70 <= homes.count("a") <= 130
    assert {first_home(f"queue-{n}", {"a": 10.0, "b": 20.0}) for n in range(200)} == {"a"}
    assert first_home("queue", {"a": 5.0}) == "a"
