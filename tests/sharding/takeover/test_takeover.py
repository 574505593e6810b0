"""Dead nodes: with the journal on object storage nothing acknowledged is lost, and zombies acknowledge nothing."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from coldstore.layout import paths
from coldstore.objects.memory import MemoryObjects
from coldstore.objects.port import Body
from coldstore.shared import failpoint
from coldstore.shared.errors import Conflict, Exhausted, Fenced, InvalidInput, JjqError, NotFound, Unavailable
from sharding.documents import shards, tenure
from sharding.documents.tenure import JournalKind
from sharding.node import Member
from tests.hotstore.kit import values
from tests.servers.waiting import wait_until
from tests.sharding.members import BLOCK_BYTES, SLOW, Cluster, cluster, contents, push

POINTS = [
    "tenure.ended",
    "takeover.fenced",
    "takeover.replayed",
    "move.sealed",
    "move.state_put",
    "move.swapped",
]


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    failpoint.disarm()


async def filled(made: Cluster) -> tuple[Member, Member]:
    """Node a owns two queues, partly sealed, with a subscriber half-way and a producer; b watches."""
    a, b = await made.open("a"), await made.open("b")
    for name in ("orders", "other"):
        await a.engine.store.create_queue(name, block_bytes=BLOCK_BYTES)
        await push(a, name, b"0", b"1")
    await a.engine.store.seal("orders")
    await push(a, "orders", b"2", b"3")
    await a.engine.store.create_subscriber("orders", "s", "beginning")
    await a.engine.store.pop("orders/s", 2)
    await push(a, "orders", b"4", producer="p", sequence=0)
    return a, b


async def settled(made: Cluster, node: str) -> None:
    def nothing_left() -> bool:
        found = tenure.read(made.objects, node)
        return found is not None and not found.tenure.orphans and found.tenure.state != "ended"

    await asyncio.to_thread(wait_until, nothing_left, f"node {node} has left nothing to take over")


async def check_taken(member: Member) -> None:
    """All that `filled` made is served by `member`."""
    assert await push(member, "orders", b"4", producer="p", sequence=0) == 4
    assert await push(member, "orders", b"5", producer="p", sequence=1) == 5
    assert await contents(member, "orders") == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert await contents(member, "other") == [b"0", b"1"]
    assert values(await member.engine.store.pop("orders/s", 2)) == [b"2", b"3"]


async def test_a_dead_nodes_queues_are_taken_over_and_nothing_is_lost(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        a, b = await filled(made)
        await made.stop(a)
        await made.pronounce_dead(b)
        await check_taken(b)
        found = tenure.read(made.objects, "a")
        assert found is not None
        assert found.tenure.state == "settled"
        left = list(made.objects.list(paths.journal_folder("a")))
        assert [info.size for info in left] == [64, 64], "fences stay, and nothing else"
        with pytest.raises(Unavailable):  # a zombie: outcome unknown, never acknowledged
            await push(a, "orders", b"zombie")
        assert (await asyncio.wait_for(a.failed, 5)) is not None
        assert b"zombie" not in await contents(b, "orders")


async def test_a_node_that_beats_is_left_alone(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        a, b = await filled(made)
        await made.pronounce_dead(b, a)
        assert await push(a, "orders", b"5") == 5
        with pytest.raises(Fenced):
            await push(b, "orders", b"x")
        with pytest.raises(Conflict, match="alive"):
            await b.ownership.take_over("a")


async def test_a_node_that_restarts_in_time_keeps_everything_without_a_look_at_any_queue(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as made:
        a, b = await filled(made)
        before = shards.read(made.objects, "orders")
        await made.stop(a)
        a = await made.open("a")
        await made.pronounce_dead(b, a)
        await check_taken(a)
        assert shards.read(made.objects, "orders") == before


async def test_a_node_that_comes_back_too_late_starts_with_nothing(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        a, b = await filled(made)
        await made.stop(a)
        await made.pronounce_dead(b)
        a = await made.open("a")
        with pytest.raises(Fenced) as refused:
            await push(a, "orders", b"x")
        assert refused.value.owner == "b"
        await check_taken(b)
        await b.ownership.hand_over("orders", "a")
        assert await push(a, "orders", b"6") == 6


async def test_an_ended_node_that_comes_back_first_takes_its_own_estate(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        a, b = await filled(made)
        await made.stop(a)
        found = tenure.read(made.objects, "a")
        assert found is not None
        tenure.end(made.objects, found, "b")  # b ends the tenure, and does no more
        await made.stop(b)
        a = await made.open("a")
        await a._watch.look()
        await settled(made, "a")
        await check_taken(a)
        assert a._watch._held.tenure.since == 2


@pytest.mark.parametrize("point", POINTS)
async def test_a_takeover_that_dies_at_any_point_is_finished_by_another(tmp_path: Path, point: str) -> None:
    async with cluster(tmp_path) as made:
        a, b = await filled(made)
        c = await made.open("c")
        await made.stop(a)

        class Dead(BaseException):
            pass

        def die(name: str) -> None:
            raise Dead

        failpoint.arm(point, action=die)
        with pytest.raises(Dead):
            await made.pronounce_dead(b, c)
        await made.stop(b)
        await made.pronounce_dead(c)
        await made.pronounce_dead(c)  # b, which may have taken a queue, is dead as well
        await check_taken(c)


async def test_a_queue_that_is_being_taken_over_is_refused_for_certain(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        a, b = await filled(made)
        await made.stop(a)
        found = tenure.read(made.objects, "a")
        assert found is not None
        tenure.end(made.objects, found, "c")  # a node that never was: its turn is over
        with pytest.raises(Exhausted):
            await push(b, "orders", b"x")
        await made.pronounce_dead(b)
        await check_taken(b)


async def test_several_nodes_that_take_over_at_once_agree(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        a, b = await filled(made)
        c = await made.open("c")
        await made.stop(a)
        found = tenure.read(made.objects, "a")
        assert found is not None
        tenure.end(made.objects, found, "b")
        taken = await asyncio.gather(
            *(member.ownership.take_over("a") for member in (b, c)), return_exceptions=True
        )
        moved = [name for each in taken if not isinstance(each, BaseException) for name in each.moved]
        assert sorted(moved) == ["orders", "other"], "each queue moved once"
        owners = {name: shards.read(made.objects, name) for name in ("orders", "other")}
        for name, each in owners.items():
            assert each is not None
            assert each.shards.epoch == 2
            owner = {"b": b, "c": c}[each.shards.owner]
            assert (await contents(owner, name))[:2] == [b"0", b"1"]
            with pytest.raises(Fenced):
                await push(c if owner is b else b, name, b"x")


async def test_a_node_that_loses_touch_with_the_store_stops_if_there_are_others(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        a = await made.open("a")
        await a._watch.close()  # from here on it reaches the store no more
        for _ in range(100):
            made.clock.advance(1_000)
            await a._watch.check_cut_off()
        assert not a.failed.done(), "it is alone: nobody takes over"
        b = await made.open("b")
        await a._watch.look()
        await b._watch.check_cut_off()
        assert not b.failed.done()
        await a._watch.check_cut_off()
        assert "has not reached the object store" in str(a.failed.result())


async def test_a_machine_that_was_suspended_with_all_its_nodes_goes_on(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        a, b = await made.open("a"), await made.open("b")
        for member in (a, b):
            await member._watch.look()
            await member._watch.check_cut_off()
        made.clock.advance(1_000_000)  # nobody ran
        for member in (a, b):
            await member._watch.check_cut_off()
            await member._watch.look()
            await member._watch.beat()
            assert not member.failed.done()
        await a.engine.store.create_queue("orders")
        assert await push(a, "orders", b"0") == 0


async def test_a_store_whose_conditions_do_not_hold_is_refused(tmp_path: Path) -> None:
    class Careless(MemoryObjects):
        def put_if_absent(self, key: str, data: Body) -> str:
            return self.put(key, data)

    async with cluster(tmp_path, Careless()) as made:
        with pytest.raises(InvalidInput, match="conditional writes do not hold"):
            await made.open("a")


async def test_after_a_restart_the_documents_of_its_queues_are_known_again(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        a, _ = await filled(made)
        ranges = (shards.Range(0, 2, "b"),)
        await a.ownership.set_ranges("orders", ranges)
        await made.close(a)
        a = await made.open("a")
        assert a.ownership._learning is not None
        await a.ownership._learning
        assert a.ownership.held()["orders"].ranges == ranges
        assert set(a.ownership.held()) == {"orders", "other"}


async def test_a_zombie_that_had_its_put_through_does_not_acknowledge_it(tmp_path: Path) -> None:
    """Paused between put and check: its push is in the queue, but the client is told `unknown`."""
    async with cluster(tmp_path) as made:
        a, b = await filled(made)
        reached, loop = asyncio.Event(), asyncio.get_running_loop()
        import threading

        resume = threading.Event()

        def pause(name: str) -> None:
            loop.call_soon_threadsafe(reached.set)
            resume.wait(30)

        failpoint.arm("journal.written", action=pause)
        pushing = asyncio.create_task(push(a, "orders", b"5"))
        await reached.wait()
        await a._watch.close()
        await made.pronounce_dead(b)
        assert await contents(b, "orders") == [b"0", b"1", b"2", b"3", b"4", b"5"]
        assert await push(b, "orders", b"6") == 6
        resume.set()
        with pytest.raises(Unavailable):
            await pushing
        for verb in (push(a, "orders", b"7"), a.engine.store.pop("orders/s", 1)):
            with pytest.raises(JjqError):
                await verb
        assert len(await contents(b, "orders")) == 7


async def test_a_zombie_cannot_trim_what_its_successor_still_needs(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        a, b = await filled(made)
        await made.stop(a)
        found = tenure.read(made.objects, "a")
        assert found is not None
        tenure.end(made.objects, found, "b")
        with pytest.raises(JjqError):
            await a.engine.sealer.seal(a.engine.registry.queues["other"])
        made.clock.advance(3_600)
        with pytest.raises(JjqError):
            await a.engine.checkpointer.write()
        with pytest.raises(JjqError):
            a.engine.journal.trim(a.engine.journal.next_sequence)
        await made.pronounce_dead(b)
        await check_taken(b)


async def test_a_queue_that_was_given_to_a_node_which_never_opened_it_is_adopted(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        a, b = await filled(made)
        c = await made.open("c")
        await made.stop(b)
        await a.ownership.hand_over("orders", "b")
        await a.ownership.hand_over("other", "b")
        with pytest.raises(Fenced):
            await push(c, "orders", b"x")
        await made.pronounce_dead(c, a)
        await check_taken(c)


async def test_a_node_is_dead_after_a_lease_and_a_half_and_not_before(tmp_path: Path) -> None:
    """Looks are 1,000 s apart and a lease has 3,000 s: the fifth look without a sign is beyond 4,500 s."""
    async with cluster(tmp_path) as made:
        a, b = await made.open("a"), await made.open("b")
        await a._watch.beat()
        await b._watch.look()
        for _ in range(4):
            made.clock.advance(SLOW.look_seconds)
            await b._watch.look()
            assert not b._watch.is_dead("a")
        made.clock.advance(SLOW.look_seconds)
        await b._watch.look()
        assert b._watch.is_dead("a")
        await made.stop(a)


async def test_time_in_which_nobody_looked_does_not_make_a_node_dead(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        a, b = await made.open("a"), await made.open("b")
        await b._watch.look()
        made.clock.advance(1_000_000.0)
        await b._watch.look()
        assert not b._watch.is_dead("a")
        await a._watch.beat()
        await b._watch.look()
        for _ in range(4):
            made.clock.advance(SLOW.look_seconds)
            await b._watch.look()
        assert not b._watch.is_dead("a"), "it beat after the pause: all begins anew"


@pytest.mark.parametrize("journal", ["s3", "disk"])
async def test_a_queue_that_nobody_created_is_not_claimed(tmp_path: Path, journal: JournalKind) -> None:
    async with cluster(tmp_path) as made:
        a = await made.open("a", journal)
        store = a.engine.store
        calls: list[Callable[[], Awaitable[Any]]] = [
            lambda: push(a, "nothing", b"x"),
            lambda: store.get_queue("nothing"),
            lambda: store.create_subscriber("nothing", "s"),
            lambda: store.pop("nothing/s", 1),
            lambda: store.list_blocks("nothing"),
        ]
        for call in calls:
            with pytest.raises(NotFound, match="no queue nothing: create it, or correct the name"):
                await call()
        assert not [info.key for info in made.objects.list("queues/")]
        await store.create_queue("nothing")
        assert await push(a, "nothing", b"x") == 0


async def test_a_node_alone_joins_others_and_keeps_what_it_has(tmp_path: Path) -> None:
    """`jjq serve` without a name first; then as a node of a cluster, on the same disk."""
    from coldstore.shared.chance import SystemChance
    from coldstore.store import ColdStore
    from hotstore.opening import open_engine
    from tests.hotstore.kit import push as push_values
    from tests.hotstore.kit import settings

    async with cluster(tmp_path) as made:
        cold = ColdStore(made.objects, made.clock, SystemChance())
        (tmp_path / "a").mkdir()
        alone = await open_engine(
            tmp_path / "a", cold, settings=settings(), clock=made.clock, chance=SystemChance()
        )
        await alone.store.create_queue("orders")
        await push_values(alone.store, "orders", b"0", b"1")
        assert not [info.key for info in made.objects.list("") if "shards" in info.key]
        await alone.close()
        a = await made.open("a", "disk")
        assert await contents(a, "orders") == [b"0", b"1"]
        found = shards.read(made.objects, "orders")
        assert found is not None
        assert (found.shards.owner, found.shards.epoch) == ("a", 1)
        await made.close(a)
        with pytest.raises(Conflict, match="has a journal"):
            await made.open("a", "s3")


async def test_beats_do_not_give_way_to_other_processes(tmp_path: Path) -> None:
    """On a busy machine a node would lose its tenure, or take minutes to see that it has lost it."""
    async with cluster(tmp_path) as made:
        a = await made.open("a")
        found = await a._watch._runner.run(lambda: os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        assert found == os.getpriority(os.PRIO_PROCESS, 0)
