"""The router: any node, any request; one retry after a move; no loops; reads that do not notice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from coldstore.shared.errors import Conflict, Fenced, InvalidInput, NotFound, Unavailable
from hotstore.port import Store
from sharding.documents.load import Load
from sharding.documents.shards import Shards
from sharding.limits import AGAIN_SECONDS, HOPS_MAX, ROUTES_MAX
from sharding.routing.keyed_lock import KeyedLock
from sharding.routing.local_only import LocalOnlyStore
from sharding.routing.router import Router
from sharding.routing.routes import Routes
from tests.jjq.serving import until
from tests.sharding.cluster import FakeNode, World, elements


@pytest.fixture
async def world() -> World:
    """Nodes a, b and c; queue q with ten elements at b, with a subscriber s at its beginning."""
    made = World()
    for name in "abc":
        await made.add(name)
    await made.store.create_queue("q")
    made.own("q", "b")
    await made.store.push("q", elements(*(b"%d" % n for n in range(10))))
    await made.store.create_subscriber("q", "s", "beginning")
    return made


async def values(router: Store, *given: Any, **named: Any) -> list[bytes]:
    found: list[bytes] = []
    async for batch in router.read("q", *given, **named):
        found += batch.column("value").to_pylist()
    return found


VERBS: dict[str, Callable[[Store], Awaitable[Any]]] = {
    "create_queue": lambda store: store.create_queue("q"),
    "get_queue": lambda store: store.get_queue("q"),
    "get_queue by subscriber": lambda store: store.get_queue("q/s"),
    "list_blocks": lambda store: store.list_blocks("q"),
    "accept_loss": lambda store: store.accept_loss("q", next_offset=10, dry_run=True),
    "create_subscriber": lambda store: store.create_subscriber("q", "t", "last:2"),
    "get_subscriber": lambda store: store.get_subscriber("q/s"),
    "list_subscribers": lambda store: store.list_subscribers("q"),
    "seek": lambda store: store.seek("q/s", "offset:3"),
    "sleep": lambda store: store.sleep("q/s"),
    "wakeup": lambda store: store.wakeup("q/s"),
    "append": lambda store: store.push("q", elements(b"x")),
    "pop": lambda store: store.pop("q/s", 2),
    "peek": lambda store: store.peek("q/s", 2),
    "confirm": lambda store: store.confirm("q/s", 4),
    "delete_subscriber": lambda store: store.delete_subscriber("q/s"),
}


@pytest.mark.parametrize("verb", VERBS)
async def test_any_node_answers_any_request(world: World, verb: str) -> None:
    for name in "ab":
        await VERBS[verb](world.nodes[name].router)
        if verb == "delete_subscriber":
            await world.store.create_subscriber("q", "s", "beginning")
    assert world.nodes["b"].asked == [verb.partition(" ")[0]]  # by a; its own request went nowhere


def test_a_router_is_a_store() -> None:
    stores: list[type[Store]] = [Router, LocalOnlyStore]
    assert stores


async def test_a_route_is_read_once_and_then_known(world: World) -> None:
    a = world.nodes["a"]
    for _ in range(5):
        await a.router.push("q", elements(b"x"))
    assert a.ownership.reads == 1
    b = world.nodes["b"]
    await b.router.push("q", elements(b"x"))
    assert b.ownership.reads == 0


async def test_a_stale_map_is_corrected_by_one_retry(world: World) -> None:
    a = world.nodes["a"]
    await a.router.push("q", elements(b"x"))
    world.move("q", "c")
    receipt = await a.router.push("q", elements(b"y"))
    assert receipt.first_offset == 11
    assert (world.nodes["b"].asked, world.nodes["c"].asked) == (["append", "append"], ["append"])
    assert a.ownership.reads == 1  # b said who has it
    assert a.router.hint("q") == "c:1"


async def test_the_old_owner_forwards_after_a_move(world: World) -> None:
    b = world.nodes["b"]
    await b.router.push("q", elements(b"x"))
    world.move("q", "c")
    await b.router.push("q", elements(b"y"))
    assert world.nodes["c"].asked == ["append"]
    world.move("q", "b")
    await b.router.push("q", elements(b"z"))
    assert world.nodes["c"].asked == ["append"]


async def test_a_forwarded_request_is_not_forwarded_again(world: World) -> None:
    with pytest.raises(Fenced) as refused:
        await world.nodes["c"].router.local_only.push("q", elements(b"x"))
    assert refused.value.owner == "b"
    assert world.nodes["b"].asked == []


async def test_nodes_that_send_each_other_round_in_circles_are_left_alone(world: World) -> None:
    async def refuse(*_: Any, **__: Any) -> Any:
        raise Fenced("not here", owner=next(names))

    names = iter("cbcbcbcbcb")
    for name in "bc":
        world.nodes[name].router.local_only.append = refuse  # type: ignore[method-assign]
    with pytest.raises(Fenced) as refused:
        await world.nodes["a"].router.push("q", elements(b"x"))
    assert refused.value.owner in {"b:1", "c:1"}  # an address, for a client
    assert len(world.nodes["b"].asked + world.nodes["c"].asked) == HOPS_MAX


async def test_hints_name_the_owner_and_nothing_where_it_is_here(world: World) -> None:
    a, b = world.nodes["a"].router, world.nodes["b"].router
    assert a.hint("q") == ""  # not asked yet
    await a.get_queue("q")
    await b.get_queue("q")
    assert (a.hint("q"), b.hint("q")) == ("b:1", "")


async def test_a_new_queue_goes_where_placement_says_from_wherever_it_is_created() -> None:
    world = World()
    for name, memory in [("a", 100), ("b", 0), ("c", 100)]:
        await world.add(name, Load(memory=memory))
    for n in range(30):
        await world.nodes["abc"[n % 3]].router.create_queue(f"q{n}")
    owners = [world.shards[f"q{n}"].owner for n in range(30)]
    assert owners.count("b") > 15
    assert set(owners) == {"a", "b", "c"}


async def test_nothing_new_goes_to_a_node_that_drains_or_is_dead(world: World) -> None:
    await world.nodes["a"].registry.drain(True)
    world.clock.advance(11)
    for name in "ab":
        await world.nodes[name].registry.beat()
    await world.nodes["b"].registry.look()
    for n in range(20):
        await world.nodes["b"].router.create_queue(f"new{n}")
    assert {world.shards[f"new{n}"].owner for n in range(20)} == {"b"}


async def test_a_queue_that_is_not_there_is_not_found_and_nobody_claims_it(world: World) -> None:
    for name in "abc":
        with pytest.raises(NotFound):
            await world.nodes[name].router.get_queue("nothing")
    assert "nothing" not in world.shards
    with pytest.raises(InvalidInput):
        await world.nodes["a"].router.get_queue("no good name")


async def test_an_owner_that_is_silent_is_unavailable_and_looked_for_again(world: World) -> None:
    a = world.nodes["a"]
    await a.router.get_queue("q")
    world.clock.advance(11)
    await a.registry.look()
    with pytest.raises(Unavailable, match="node b"):
        await a.router.get_queue("q")
    world.move("q", "a")  # taken over
    world.clock.advance(AGAIN_SECONDS)
    await a.router.get_queue("q")


async def test_a_queue_of_a_dead_node_is_served_by_whoever_may_take_it(world: World) -> None:
    world.clock.advance(11)
    await world.nodes["c"].registry.beat()
    for name in "ac":
        await world.nodes[name].registry.look()
    world.nodes["a"].local.adopts = world.nodes["c"].local.adopts = {"b"}
    assert (await world.nodes["a"].router.push("q", elements(b"x"))).first_offset == 10
    assert world.shards["q"].owner in "ac"


async def test_a_node_that_came_just_now_is_asked(world: World) -> None:
    await world.nodes["a"].router.get_queue("q")
    late = world.nodes["d"] = FakeNode(world, "d", Load(count=0))
    await late.registry.beat()
    world.move("q", "d")
    assert (await world.nodes["a"].router.get_queue("q")).next_offset == 10
    assert late.asked == ["get_queue"]


async def test_what_may_happen_twice_follows_a_takeover_and_other_calls_do_not(world: World) -> None:
    a, b = world.nodes["a"], world.nodes["b"]
    await a.router.get_queue("q")
    b.cut = True
    with pytest.raises(Unavailable):
        await a.router.get_queue("q")  # cut off, and still the owner
    b.cut = False
    await a.router.get_queue("q")
    b.cut = True
    world.move("q", "c")
    with pytest.raises(Unavailable):
        await a.router.push("q", elements(b"x"))  # nobody knows whether b has it
    b.cut = False
    await world.nodes["a"].router.get_queue("q")
    world.move("q", "b")
    await a.router.get_queue("q")
    b.cut = True
    world.move("q", "c")
    assert (await a.router.get_queue("q")).next_offset == 10


async def test_pushes_with_an_identity_are_sent_back_when_the_queue_moves_and_none_overtakes(
    world: World,
) -> None:
    router = world.nodes["a"].router
    await router.push("q", elements(b"x"), producer="p", sequence=0)
    world.move("q", "c")
    pushes = [router.push("q", elements(b"x"), producer="p", sequence=n) for n in (1, 2)]
    first, second = await asyncio.gather(*pushes, return_exceptions=True)
    assert isinstance(first, Unavailable)
    assert isinstance(second, Unavailable | Conflict)  # the client pushes both again, in order
    for n in (1, 2):
        await router.push("q", elements(b"x"), producer="p", sequence=n)
    assert world.store.queues["q"].next_offset == 13


async def test_lists_are_merged_over_nodes_page_by_page(world: World) -> None:
    for n in range(20):
        await world.store.create_queue(f"l{n:02}")
        world.own(f"l{n:02}", "abc"[n % 3])
        await world.store.create_subscriber(f"l{n:02}", "s")
    for name in "abc":
        router = world.nodes[name].router
        found: list[str] = []
        while page := await router.list_queues(after=found[-1] if found else "", limit=7):
            assert len(page) <= 7
            found += [queue.name for queue in page]
        assert found == [*(f"l{n:02}" for n in range(20)), "q"]
        assert len(await router.list_subscribers()) == 21
        assert [s.id for s in await router.list_subscribers(after="l18/s", limit=2)] == ["l19/s", "q/s"]


async def test_a_list_that_lacks_a_node_is_no_list(world: World) -> None:
    world.nodes["c"].cut = True
    with pytest.raises(Unavailable):
        await world.nodes["a"].router.list_queues()


# Reading ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", "abc")
async def test_a_read_crosses_ranges_in_order_from_any_node(world: World, at: str) -> None:
    world.split("q", (0, 3, "c"), (5, 6, "a"))
    router = world.nodes[at].router
    assert await values(router) == [b"%d" % n for n in range(10)]
    assert await values(router, "offset:2", "offset:6") == [b"2", b"3", b"4", b"5"]
    assert await values(router, "last:1") == [b"9"]
    histories = {name: node.ownership.histories for name, node in world.nodes.items()}
    assert histories == {"a": [(5, 6), (5, 6)], "b": [], "c": [(0, 3), (2, 3)]}


async def test_the_owner_serves_a_range_whose_node_is_gone(world: World) -> None:
    world.split("q", (0, 3, "c"))
    world.nodes["c"].cut = True
    assert await values(world.nodes["a"].router) == [b"%d" % n for n in range(10)]
    assert world.nodes["c"].ownership.histories == []


async def test_hints_of_reads_follow_the_ranges(world: World) -> None:
    world.split("q", (0, 3, "c"), (5, 6, "a"))
    router = world.nodes["a"].router
    await values(router)
    assert [router.hint("q", offset) for offset in (0, 2, 3, 5, 6)] == ["c:1", "c:1", "b:1", "", "b:1"]


@pytest.mark.parametrize("at", "abc")
async def test_a_read_goes_on_where_it_was_when_the_queue_moves(world: World, at: str) -> None:
    found: list[bytes] = []
    async for batch in world.nodes[at].router.read("q"):
        found += batch.column("value").to_pylist()
        if len(found) == 2:
            world.move("q", "c")
    assert found == [b"%d" % n for n in range(10)]


async def test_a_read_that_follows_sees_what_is_pushed_after_a_move(world: World) -> None:
    found: list[bytes] = []

    async def follow() -> None:
        async for batch in world.nodes["a"].router.read("q", "offset:9", follow=True):
            found.extend(batch.column("value").to_pylist())

    reader = asyncio.create_task(follow())
    await until(lambda: found == [b"9"])
    world.move("q", "c")
    await world.nodes["a"].router.push("q", elements(b"x"))
    await until(lambda: found == [b"9", b"x"])
    await world.nodes["b"].router.push("q", elements(b"y"))
    await until(lambda: found == [b"9", b"x", b"y"])
    reader.cancel()
    await asyncio.gather(reader, return_exceptions=True)


async def test_a_read_from_a_dead_owner_is_unavailable(world: World) -> None:
    world.nodes["b"].cut = True
    with pytest.raises(Unavailable):
        await values(world.nodes["a"].router)


async def test_a_wrong_read_is_refused(world: World) -> None:
    router = world.nodes["a"].router
    with pytest.raises(InvalidInput):
        await values(router, "offset:5", "offset:3")
    with pytest.raises(InvalidInput):
        await values(router, "offset:5", "offset:6", follow=True)


# Counting and remembering -------------------------------------------------------------------------


async def test_traffic_is_counted_where_it_is_served(world: World) -> None:
    await world.nodes["a"].router.push("q", elements(*[b"x"] * 60))
    await world.nodes["b"].router.pop("q/s", 60)
    await values(world.nodes["b"].router, "offset:0", "offset:60")
    world.clock.advance(60)
    assert world.nodes["b"].traffic.rates() == {"q": 3.0}
    world.clock.advance(60)
    assert world.nodes["b"].traffic.rates() == {}


async def test_concurrent_questions_are_one_read(world: World) -> None:
    a = world.nodes["a"]
    await asyncio.gather(*(a.router.get_queue("q") for _ in range(20)))
    assert a.ownership.reads == 1


async def test_the_map_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ROUTES_MAX >= 100_000
    monkeypatch.setattr("sharding.routing.routes.ROUTES_MAX", 10)

    async def read(queue: str) -> Shards:
        return Shards(queue, "0" * 32, 1, "b", 1)

    routes = Routes(read, world.clock)
    for n in range(11):
        await routes.find(f"q{n}")
    assert routes.known("q0") is None
    assert routes.known("q1") is not None


async def test_hearsay_never_hides_a_newer_epoch(world: World) -> None:
    shards = Shards("q", "0" * 32, 5, "b", 1, version=5)

    async def read(queue: str) -> Shards:
        return shards

    routes = Routes(read, world.clock)
    found = await routes.find("q")
    assert found is not None
    assert found.epoch == 5
    shards = Shards("q", "0" * 32, 4, "c", 1, version=5)  # an older answer comes late
    world.clock.advance(1)
    again = await routes.find("q", max_age=0.5)
    assert again is not None
    assert again.owner == "b"


async def test_whoever_asks_first_goes_on_first_also_when_the_answer_is_known_meanwhile() -> None:
    locks: KeyedLock[int] = KeyedLock()
    order: list[int] = []
    asked = asyncio.Event()

    async def ask(key: str) -> int:
        await asked.wait()
        return 7

    async def go(n: int) -> None:
        assert await locks.run("q", ask) == 7
        order.append(n)

    early = [asyncio.create_task(go(n)) for n in range(3)]
    await until(lambda: locks.is_held("q"))
    asked.set()
    late = []
    for n in range(3, 20):
        await asyncio.sleep(0)
        late.append(asyncio.create_task(go(n)))
    await asyncio.gather(*early, *late)
    assert order == list(range(20))
    assert not locks.is_held("q")
