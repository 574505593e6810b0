"""Plans from shards, and cutting a history."""

from __future__ import annotations

from itertools import pairwise

import pytest

from coldstore.shared.results import BlockInfo
from sharding.documents.load import Load
from sharding.documents.shards import Range
from sharding.operate.plan import cut_history, plan_moves
from sharding.ports import Shard


def block(first: int, count: int, size: int) -> BlockInfo:
    last = first + count - 1
    return BlockInfo(first, first, last, count, "final", False, 0, 0, size, size, "", "", 0)


def test_a_plan_moves_by_load_and_says_what_it_leads_to() -> None:
    shards = [Shard("busy", 0, None, "a", 1, Load(traffic=100.0))]
    shards += [Shard(f"idle{n}", 0, None, "a", 1, Load()) for n in range(10)]
    plan = plan_moves(shards, ["a", "b"], frozenset())
    assert plan.shares[0].before == pytest.approx(100.0)
    assert sum(each.after for each in plan.shares) == pytest.approx(100.0)
    assert "busy" in {each.shard.queue for each in plan.moves} or len(plan.moves) == 10


def test_shards_of_nodes_that_are_not_there_are_left_alone() -> None:
    shards = [Shard("q", 0, None, "dead", 1, Load()), Shard("r", 0, None, "a", 1, Load())]
    plan = plan_moves(shards, ["a", "b"], frozenset({"a"}))
    assert [(each.shard.queue, each.to) for each in plan.moves] == [("r", "b")]


def test_a_long_plan_is_told_in_parts_the_heaviest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sharding.operate.plan.PLAN_MOVES_MAX", 3)
    shards = [Shard(f"q{n}", 0, None, "a", 1, Load(bytes=n)) for n in range(10)]
    plan = plan_moves(shards, ["a", "b"], frozenset({"a"}))
    assert [each.shard.queue for each in plan.moves] == ["q9", "q8", "q7"]
    assert plan.shares[0].after > 0


def test_an_empty_cluster_has_an_empty_plan() -> None:
    plan = plan_moves([], ["a", "b"], frozenset())
    assert plan.moves == ()
    assert [each.before for each in plan.shares] == [0.0, 0.0]


def test_history_is_cut_at_blocks_into_parts_of_equal_bytes() -> None:
    blocks = [
        block(0, 10, 100),
        block(10, 10, 100),
        block(20, 10, 400),
        block(30, 10, 100),
        block(40, 5, 100),
    ]
    assert cut_history(blocks, 2, ["b", "c"]) == [Range(0, 30, "b"), Range(30, 45, "c")]
    assert cut_history(blocks, 1, ["b", "c"]) == [Range(0, 45, "b")]
    many = cut_history(blocks, 99, ["b", "c"])
    assert (many[0].first, many[-1].next) == (0, 45)
    assert all(left.next == right.first for left, right in pairwise(many))
    assert {each.node for each in many} == {"b", "c"}


def test_history_is_cut_at_the_nearest_edge_so_that_parts_have_about_as_many_bytes() -> None:
    sizes = [90, 90, 90, 60, 90, 90, 90]  # a third of it ends shortly after the second block
    blocks = [block(10 * n, 10, size) for n, size in enumerate(sizes)]
    assert [each.next for each in cut_history(blocks, 3, ["b"])] == [20, 50, 70]
    last = [block(10 * n, 10, size) for n, size in enumerate([1, 1, 1, 1_000])]
    assert [each.next for each in cut_history(last, 2, ["b"])] == [30, 40]


def test_nothing_is_cut_where_there_is_nothing() -> None:
    assert cut_history([], 3, ["b"]) == []
    assert cut_history([block(0, 1, 1)], 3, []) == []
