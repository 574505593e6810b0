"""Planned moves: nothing is lost, nothing goes back, whoever dies at whatever step."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from coldstore.objects.memory import MemoryObjects
from coldstore.shared import failpoint
from coldstore.shared.clock import ManualClock
from coldstore.shared.errors import Conflict, Fenced, NotFound, Unavailable
from sharding.documents import shards
from sharding.documents.shards import Shards
from sharding.documents.tenure import JournalKind
from tests.hotstore.kit import drain, values
from tests.jjq.serving import until
from tests.sharding.journals import Spoiled, lost
from tests.sharding.members import BLOCK_BYTES, Cluster, cluster, contents, push

JOURNALS: list[JournalKind] = ["s3", "disk"]
POINTS = ["move.intended", "move.sealed", "move.state_put", "move.swapped", "move.left"]


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    failpoint.disarm()


async def filled(made: Cluster, journal: JournalKind = "s3") -> None:
    """Node a owns `orders`, with a subscriber half-way and an idempotent producer; node b has nothing."""
    a = await made.open("a", journal)
    await made.open("b", journal)
    await a.engine.store.create_queue("orders", block_bytes=BLOCK_BYTES)
    await push(a, "orders", b"0", b"1", b"2", b"3")
    await a.engine.store.create_subscriber("orders", "s", "beginning")
    await a.engine.store.pop("orders/s", 2)
    await push(a, "orders", b"4", producer="p", sequence=0)


@pytest.mark.parametrize("journal", JOURNALS)
async def test_a_queue_moves_with_its_subscribers_and_producers(tmp_path: Path, journal: JournalKind) -> None:
    async with cluster(tmp_path) as made:
        await filled(made, journal)
        a, b = made._members
        new = await a.ownership.hand_over("orders", "b")
        assert (new.owner, new.epoch) == ("b", 2)
        with pytest.raises(Fenced) as refused:
            await push(a, "orders", b"x")
        assert refused.value.owner == "b"
        assert not a.ownership.owns("orders")
        popped = await b.engine.store.pop("orders/s", 10)
        assert values(popped) == [b"2", b"3", b"4"]
        assert await push(b, "orders", b"4", producer="p", sequence=0) == 4
        assert await push(b, "orders", b"5", producer="p", sequence=1) == 5
        assert b.ownership.owns("orders")
        assert await contents(b, "orders") == [b"0", b"1", b"2", b"3", b"4", b"5"]
        blocks = b.engine.registry.queues["orders"].cold
        assert blocks is not None
        await b.engine.store.seal("orders")
        assert [block.epoch for block in blocks.list_blocks()] == [1, 2]


async def test_there_and_back_and_restarts_in_between(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        await filled(made)
        a, b = made._members
        for to, source in (("b", a), ("a", b), ("b", a)):
            await source.ownership.hand_over("orders", to)
        assert len(list(made.objects.list("queues/orders/state/"))) == 1, "states of the past are deleted"
        assert values(await b.engine.store.pop("orders/s", 1)) == [b"2"]
        await made.close(b)
        b = await made.open("b")
        assert values(await b.engine.store.pop("orders/s", 1)) == [b"3"]
        await made.close(a)
        a = await made.open("a")
        with pytest.raises(Fenced):
            await a.engine.store.get_queue("orders")
        await b.ownership.hand_over("orders", "a")
        assert values(await a.engine.store.pop("orders/s", 1)) == [b"4"]
        assert (await a.engine.store.get_queue("orders")).next_offset == 5


async def test_pushes_wait_during_a_move_and_then_know_where_to_go(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        await filled(made)
        a, b = made._members
        entered = asyncio.Event()
        failpoint.arm("move.sealed", action=lambda name: entered.set())
        moving = asyncio.create_task(a.ownership.hand_over("orders", "b"))
        await entered.wait()
        pushing = asyncio.create_task(push(a, "orders", b"late"))
        popping = asyncio.create_task(a.engine.store.pop("orders/s", 1))
        await moving
        for waiting in (pushing, popping):
            with pytest.raises(Fenced) as refused:
                await waiting
            assert refused.value.owner == "b"
        assert await push(b, "orders", b"late") == 5


async def test_what_is_pushed_up_to_the_move_is_acknowledged_and_there(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        await filled(made)
        a, b = made._members
        acked: list[bytes] = []
        warm = asyncio.Event()

        async def produce(name: int) -> None:
            for number in range(1_000):
                value = b"%d-%d" % (name, number)
                try:
                    await push(a, "orders", value)
                except Fenced:
                    return
                acked.append(value)
                if len(acked) == 50:
                    warm.set()

        producers = [asyncio.create_task(produce(n)) for n in range(4)]
        await warm.wait()
        await a.ownership.hand_over("orders", "b")
        await asyncio.gather(*producers)
        there = await contents(b, "orders")
        assert sorted(there[5:]) == sorted(acked)


@pytest.mark.parametrize("journal", JOURNALS)
@pytest.mark.parametrize("point", POINTS)
async def test_a_move_that_dies_at_any_point_has_happened_or_not(
    tmp_path: Path, point: str, journal: JournalKind
) -> None:
    """The process of the owner stops dead at the point, and starts again."""
    async with cluster(tmp_path) as made:
        await filled(made, journal)
        a, b = made._members
        reached = asyncio.Event()

        class Dead(BaseException):
            pass

        def die(name: str) -> None:
            reached.set()
            raise Dead

        failpoint.arm(point, action=die)
        a.engine.departures.stay = _nothing  # type: ignore[assignment, method-assign]
        if point != "move.left":
            a.engine.departures.leave = _nothing  # type: ignore[assignment, method-assign]
        with pytest.raises(Dead):
            await a.ownership.hand_over("orders", "b")
        assert reached.is_set()
        await made.stop(a)
        a = await made.open("a", journal)
        found = shards.read(made.objects, "orders")
        assert found is not None
        owner, other = (b, a) if found.shards.owner == "b" else (a, b)
        assert (owner is b) == (point in ("move.swapped", "move.left"))
        with pytest.raises(Fenced):
            await push(other, "orders", b"x")
        assert values(await owner.engine.store.pop("orders/s", 1)) == [b"2"]
        assert await push(owner, "orders", b"4", producer="p", sequence=0) == 4
        assert await push(owner, "orders", b"5") == 5
        if owner is a:
            await a.ownership.hand_over("orders", "b")
        assert (await a.ownership.hand_over("orders", "b")).owner == "b"  # asked again: it has happened
        assert await contents(b, "orders") == [b"0", b"1", b"2", b"3", b"4", b"5"]
        assert len(await drain(b.engine.store, "orders/s")) == 3


async def _nothing(*_: object) -> None:
    return None


async def test_a_new_owner_that_dies_before_it_serves_serves_after_a_restart(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        await filled(made)
        a, b = made._members
        await made.stop(b)
        await a.ownership.hand_over("orders", "b")
        b = await made.open("b")
        assert values(await b.engine.store.pop("orders/s", 1)) == [b"2"]


async def test_a_swap_whose_outcome_is_unknown_is_found_out(tmp_path: Path) -> None:
    for applied in (True, False):
        objects = Spoiled(MemoryObjects())
        folder = tmp_path / str(applied)
        folder.mkdir()
        async with cluster(folder, objects) as made:
            await filled(made)
            a, b = made._members

            def fail(verb: str, key: str, objects: Spoiled = objects) -> None:
                if verb == "put_if_match" and key.endswith("shards.json"):
                    objects.before = objects.after = lambda verb, key: None
                    raise lost()

            if applied:
                objects.after = fail
            else:
                objects.before = fail
            with pytest.raises(Unavailable):
                await a.ownership.hand_over("orders", "b")
            if applied:
                with pytest.raises(Fenced):
                    await push(a, "orders", b"5")
                assert await push(b, "orders", b"5") == 5
            else:
                before = shards.read(objects, "orders")
                assert await push(a, "orders", b"5") == 5
                after = shards.read(objects, "orders")
                assert before is not None
                assert after is not None
                # the swap that failed may be on its way: its condition cannot hold any more
                assert after.etag != before.etag
                with pytest.raises(Fenced):
                    await push(b, "orders", b"6")


async def test_a_store_that_fails_during_a_move_leaves_the_queue_where_it_was(tmp_path: Path) -> None:
    objects = Spoiled(MemoryObjects())
    async with cluster(tmp_path, objects) as made:
        await filled(made)
        a, _ = made._members

        def fail(verb: str, key: str) -> None:
            if "/state/" in key:
                raise lost()

        objects.before = fail
        with pytest.raises(Unavailable):
            await a.ownership.hand_over("orders", "b")
        objects.before = lambda verb, key: None
        assert await push(a, "orders", b"5") == 5
        assert values(await a.engine.store.pop("orders/s", 1)) == [b"2"]
        assert (await a.ownership.hand_over("orders", "b")).epoch == 2


async def test_a_move_of_a_queue_that_was_taken_over_meanwhile_tells_where_it_is(tmp_path: Path) -> None:
    """Node c has taken the queue just before a's swap: whoever waits at a is sent to c, not to b."""
    objects = Spoiled(MemoryObjects())
    async with cluster(tmp_path, objects) as made, asyncio.timeout(60):
        await filled(made)
        c = await made.open("c")
        a, b = made._members[:2]
        await a.engine.store.create_subscriber("orders", "late", "end")

        def take(verb: str, key: str) -> None:
            if verb == "put_if_absent" and "/state/" in key:
                objects.before = lambda verb, key: None
                found = shards.read(objects, "orders")
                assert found is not None
                shards.swap(objects, found, found.shards.moved("c", c.ownership._claims.held.run, None))

        waiting = asyncio.create_task(a.engine.store.pop("orders/late", 1, wait=50.0))
        await until(lambda: a.engine.registry.queues["orders"]._readers)
        objects.before = take
        with pytest.raises(Fenced) as refused:
            await a.ownership.hand_over("orders", "b")
        assert refused.value.owner == "c"
        for late in (waiting, push(a, "orders", b"x"), a.engine.store.get_queue("orders")):
            with pytest.raises(Fenced) as told:
                await late
            assert told.value.owner == "c"
        assert not a.ownership.owns("orders")
        assert not b.ownership.owns("orders")


async def test_a_move_is_refused_where_it_makes_no_sense(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        await filled(made)
        a, b = made._members
        with pytest.raises(NotFound):
            await a.ownership.hand_over("orders", "nobody")
        with pytest.raises(NotFound):
            await a.ownership.hand_over("no-such-queue", "b")
        with pytest.raises(Fenced):
            await b.ownership.hand_over("orders", "nobody")
        assert (await a.ownership.hand_over("orders", "a")).epoch == 1
        with pytest.raises(Conflict):
            await a.ownership.take_over("b")


async def test_two_nodes_that_claim_a_new_queue_agree_on_one(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        a, b = await made.open("a"), await made.open("b")
        await asyncio.to_thread(a.engine.registry._cold.create_queue, "orders")
        outcomes = await asyncio.gather(
            a.ownership.acquire("orders"), b.ownership.acquire("orders"), return_exceptions=True
        )
        assert sum(isinstance(outcome, Fenced) for outcome in outcomes) == 1
        found = shards.read(made.objects, "orders")
        assert found is not None
        assert found.shards.epoch == 1
        assert a.ownership.owns("orders") == (found.shards.owner == "a")


async def test_who_asks_for_a_move_that_is_under_way_joins_it(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        await filled(made)
        a, b = made._members
        moves = [asyncio.create_task(a.ownership.hand_over("orders", "b")) for _ in range(3)]
        moves[0].cancel()  # whoever asked first goes away; the move goes on
        first, *others = await asyncio.gather(*moves, return_exceptions=True)
        assert isinstance(first, asyncio.CancelledError)
        assert [(each.owner, each.epoch) for each in others if isinstance(each, Shards)] == [("b", 2)] * 2
        assert await push(b, "orders", b"5") == 5


async def test_a_queue_that_is_expected_is_not_read_anew(tmp_path: Path) -> None:
    objects = Spoiled(MemoryObjects(ManualClock()))
    async with cluster(tmp_path, objects) as made:
        await filled(made)
        a, b = made._members
        for n in range(6):
            await push(a, "orders", b"more %d" % n)
            await a.engine.store.seal("orders")
        await b.ownership.expect("orders")
        read: list[str] = []
        objects.before = lambda verb, key: read.append(key) if verb == "get" else None
        await a.ownership.hand_over("orders", "b")
        await push(b, "orders", b"last")
        assert not [key for key in read if "/meta/" in key], "nothing was added since it was looked at"
        assert len(await contents(b, "orders")) == 12


async def test_a_queue_that_is_expected_in_vain_is_looked_at_again(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        await filled(made)
        a, b = made._members
        await b.ownership.expect("orders")
        for n in range(6):
            await push(a, "orders", b"more %d" % n)
            await a.engine.store.seal("orders")
        blocks = a.engine.registry.queues["orders"].cold
        assert blocks is not None
        await asyncio.to_thread(blocks.merge, epoch=1, everything=True)
        await a.ownership.hand_over("orders", "b")
        assert await push(b, "orders", b"last") == 11
        assert len(await contents(b, "orders")) == 12
