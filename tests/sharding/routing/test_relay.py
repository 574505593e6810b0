"""Pushes that are passed on as they came: what the router makes of their outcomes."""

from __future__ import annotations

import asyncio

import pytest

from coldstore.shared.errors import Exhausted, Fenced, JjqError, Unavailable
from hotstore.port import Receipt
from tests.sharding.cluster import FakeNode, World

RECEIPT = Receipt(10, 3, 1, "synced")
ANOTHER = Receipt(20, 1, 2, "synced")


@pytest.fixture
async def world() -> World:
    """Queue q is at b, which a and c know; b takes what is relayed."""
    made = World()
    for name in "abc":
        await made.add(name)
        made.nodes[name].relayed = []
    await made.store.create_queue("q")
    made.own("q", "b")
    for name in "ac":
        await made.nodes[name].router.get_queue("q")
    return made


async def pushed() -> Receipt:
    return ANOTHER


def relay(node: FakeNode, ordered: bool = False) -> asyncio.Future[Receipt] | None:
    return node.router.relay("q", ordered, b"message", pushed)


async def outcome(world: World, what: Receipt | JjqError, *, ordered: bool = False) -> Receipt:
    """Of a push that a has relayed to b, where this has come of it."""
    waiting = relay(world.nodes["a"], ordered)
    assert waiting is not None
    relayed = world.nodes["b"].relayed
    assert relayed is not None
    message, settle = relayed.pop()
    assert message == b"message"
    settle(what)
    return await waiting


async def test_a_push_is_passed_on_unread_and_counted(world: World) -> None:
    assert await outcome(world, RECEIPT) == RECEIPT
    world.clock.advance(60)
    assert world.nodes["a"].traffic.rates() == {"q": 3 / 60}


async def test_what_is_here_or_unknown_or_asked_for_by_others_is_not_relayed(world: World) -> None:
    assert relay(world.nodes["b"]) is None  # its own
    a = world.nodes["a"]
    a.router._routes.forget("q")
    assert relay(a) is None
    await a.router.get_queue("q")
    world.nodes["b"].relayed = None  # no wire to it
    assert relay(a) is None
    world.nodes["b"].relayed = []
    assert relay(a) is not None
    free = asyncio.Event()

    async def hold(_queue: str) -> tuple[str, object]:
        await free.wait()
        return "", None

    turn = asyncio.ensure_future(a.router._queue_locks.run("q", hold))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    assert relay(a) is None, "it would overtake who stands in line"
    free.set()
    await turn


async def test_a_plain_push_that_was_refused_as_the_queue_has_moved_is_pushed_there(world: World) -> None:
    assert await outcome(world, Fenced("moved", owner="c")) == ANOTHER
    route = world.nodes["a"].router._routes.known("q")
    assert route is not None
    assert route.owner == "c"


async def test_one_with_an_identity_goes_back_to_be_pushed_again_in_order(world: World) -> None:
    with pytest.raises(Unavailable, match="push the same sequence again"):
        await outcome(world, Fenced("moved", owner="c"), ordered=True)
    route = world.nodes["a"].router._routes.known("q")
    assert route is not None
    assert route.owner == "c"


@pytest.mark.parametrize("ordered", [False, True])
async def test_where_the_outcome_is_unknown_it_is_not_pushed_again(world: World, ordered: bool) -> None:
    with pytest.raises(Unavailable, match="broke"):
        await outcome(world, Unavailable("it broke"), ordered=ordered)
    assert world.nodes["a"].router._routes.known("q") is None, "perhaps it has another owner by now"


async def test_other_refusals_are_told_as_they_are(world: World) -> None:
    with pytest.raises(Exhausted) as refused:
        await outcome(world, Exhausted("full", retry_after=3.0))
    assert refused.value.retry_after == 3.0
    assert world.nodes["a"].router._routes.known("q") is not None


@pytest.mark.parametrize("what", [RECEIPT, Fenced("moved", owner="c"), Unavailable("broke")])
async def test_who_has_gone_does_no_harm(world: World, what: Receipt | JjqError) -> None:
    waiting = relay(world.nodes["a"])
    assert waiting is not None
    waiting.cancel()
    relayed = world.nodes["b"].relayed
    assert relayed is not None
    relayed.pop()[1](what)
    await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}), return_exceptions=True)
    assert waiting.cancelled()
