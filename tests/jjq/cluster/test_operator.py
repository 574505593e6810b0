"""jjq.v1.Operator over gRPC: lists, plans and moves, from any node, again and again."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from coldstore.shared.errors import Fenced, InvalidInput, NotFound, Unavailable
from jjq.remote.operate.operator import RemoteOperator
from jjq.wire.services import PEER_OPERATOR
from tests.jjq.cluster.serving import OPERATING, Cluster, cluster
from tests.jjq.serving import numbers, values


@pytest.fixture
async def nodes() -> AsyncIterator[Cluster]:
    """Nodes a and b with six queues each, and c with nothing."""
    async with cluster() as made:
        for n in range(12):
            await made.world.store.create_queue(f"q{n:02}")
            made.world.own(f"q{n:02}", "ab"[n % 2])
        yield made


def owners(nodes: Cluster) -> list[str]:
    return [nodes.world.shards[f"q{n:02}"].owner for n in range(12)]


@pytest.mark.parametrize("at", "abc")
async def test_rebalance_moves_a_fair_part_to_an_empty_node_and_then_nothing(nodes: Cluster, at: str) -> None:
    operator = nodes.operator(at)
    plan = await operator.plan()
    assert [each.to for each in plan.moves] == ["c"] * 4
    assert [round(each.before) for each in plan.shares] == [50, 50, 0]
    assert [round(each.after) for each in plan.shares] == [33, 33, 33]
    for each in plan.moves:
        moved = await operator.move(each.shard.queue, each.to)
        assert (moved.node, moved.epoch) == ("c", 2)
        again = await operator.move(each.shard.queue, each.to)
        assert (again.node, again.epoch) == ("c", 2)
    assert sorted(owners(nodes).count(name) for name in "abc") == [4, 4, 4]
    assert (await operator.plan()).moves == ()


async def test_a_plan_that_was_broken_off_is_resumed_by_another_operator(nodes: Cluster) -> None:
    plan = await nodes.operator("a").plan()
    for each in plan.moves[:2]:
        await nodes.operator("a").move(each.shard.queue, each.to)
    rest = await nodes.operator("b").plan()
    assert {each.shard.queue for each in rest.moves}.isdisjoint({e.shard.queue for e in plan.moves[:2]})
    for each in rest.moves:
        await nodes.operator("b").move(each.shard.queue, each.to)
    assert sorted(owners(nodes).count(name) for name in "abc") == [4, 4, 4]


async def test_drain_empties_a_node_and_keeps_it_empty(nodes: Cluster) -> None:
    operator = nodes.operator("c")
    drained = await operator.drain("a")
    assert drained.node.draining
    for each in (await operator.plan(leaving="a")).moves:
        await operator.move(each.shard.queue, each.to)
    assert owners(nodes).count("a") == 0
    for node in nodes.world.nodes.values():
        await node.registry.look()
    assert [state.node.draining for state in await operator.nodes()] == [True, False, False]
    for n in range(9):
        await (await nodes.client("b")).create_queue(f"new{n}")
    assert "a" not in {nodes.world.shards[f"new{n}"].owner for n in range(9)}
    assert (await operator.plan()).moves == ()
    assert not (await operator.drain("a", undo=True)).node.draining


async def test_moves_are_served_at_once_and_elsewhere_refused(nodes: Cluster) -> None:
    operator, client = nodes.operator("a"), await nodes.client("a")
    await client.push("q00", values(b"x"))
    await operator.move("q00", "b")
    assert nodes.world.expected == [("b", "q00")], "the next owner looks at it before it has it"
    assert (await client.push("q00", values(b"y"))).first_offset == 1
    with pytest.raises(NotFound, match="no node z"):
        await operator.move("q00", "z")
    with pytest.raises(NotFound):
        await operator.move("nothing", "b")
    nodes.world.clock.advance(11)
    for name in "ab":
        await nodes.world.nodes[name].registry.beat()
    for node in nodes.world.nodes.values():
        await node.registry.look()
    with pytest.raises(Unavailable, match="no signs of life"):
        await operator.move("q00", "c")


async def test_shards_are_listed_page_by_page_from_any_node(nodes: Cluster) -> None:
    for at in "abc":
        operator = nodes.operator(at)
        found: list[str] = []
        while page := await operator.shards(after=found[-1] if found else "", limit=5):
            found += page
        assert found == [f"q{n:02}" for n in range(12)]
        mine = await operator.shards(node="a")
        assert list(mine) == [f"q{n:02}" for n in range(0, 12, 2)]
        assert [shard.node for shard in (await operator.shards("q01"))["q01"]] == ["b"]


async def test_a_queue_is_split_over_the_other_nodes_moved_and_joined(nodes: Cluster) -> None:
    await nodes.world.store.push("q00", numbers(0, 10))
    operator = nodes.operator("b")
    dry = await operator.split("q00", dry_run=True)
    assert [(shard.first, shard.next) for shard in dry] == [(0, 10), (10, None)]
    assert not nodes.world.shards["q00"].ranges
    shards = await operator.split("q00")
    assert shards[0].node in "bc"
    assert shards[-1].node == "a"
    other = "b" if shards[0].node == "c" else "c"
    assert (await operator.move("q00", other, 0)).node == other
    assert list(nodes.world.shards["q00"].ranges) == [(0, 10, other)]
    with pytest.raises(NotFound, match="begins at 5"):
        await operator.move("q00", other, 5)
    await operator.move("q00", "a", 0)  # to the owner: the range is no more
    assert not nodes.world.shards["q00"].ranges
    await operator.split("q00")
    assert [shard.next for shard in await operator.split("q00", -1)] == [None]
    with pytest.raises(InvalidInput):
        await operator.split("q00", -2)


async def test_a_takeover_tells_what_is_lost(nodes: Cluster) -> None:
    operator = nodes.operator("c")
    told = await operator.take_over("a", dry_run=True)
    assert (told.moved, len(told.lost)) == ((), 6)
    done = await operator.take_over("a", accept_loss=True)
    assert len(done.moved) == 6
    assert owners(nodes).count("c") == 6


async def test_between_nodes_nothing_is_forwarded(nodes: Cluster) -> None:
    settings = OPERATING.__class__(5.0, direct=False, service=PEER_OPERATOR)
    peer = RemoteOperator(nodes.address("c"), settings)
    with pytest.raises(Fenced):
        await peer.drain("a")
    with pytest.raises(Fenced):
        await peer.move("q00", "b")
    with pytest.raises(InvalidInput):
        await peer.plan()
    await peer.close()


async def test_the_last_node_cannot_be_emptied() -> None:
    async with cluster("a") as nodes:
        with pytest.raises(InvalidInput, match="no node would be left"):
            await nodes.operator("a").plan(leaving="a")
        with pytest.raises(NotFound):
            await nodes.operator("a").plan(leaving="z")
        await nodes.world.store.create_queue("q")
        nodes.world.own("q", "a")
        with pytest.raises(InvalidInput, match="no other node"):
            await nodes.operator("a").split("q")
