"""A queue that leaves while something happens in its groups: what comes too late is refused, and harms nobody."""

from __future__ import annotations

import asyncio

import pytest

from coldstore.shared.batch import payload
from coldstore.shared.errors import Fenced, Unavailable
from coldstore.shared.push import Push
from hotstore.groups.group import GroupState
from hotstore.groups.values import TaskChange
from hotstore.queue.owners import Claim
from hotstore.queue.queue import HotQueue
from hotstore.queue.state import Phase
from hotstore.work.completion import Completion
from hotstore.write.push import check_push
from tests.hotstore.kit import World, push, read_all, turns
from tests.hotstore.work.kit import create, put, states, take

ELSEWHERE = Fenced("it is node b's", owner="b")


async def working(world: World) -> None:
    """A queue with two tasks, of which one is taken, and a queue that stays."""
    await world.store.create_queue("stays")
    await create(world.store, ttr=10.0)
    await put(world.store, b"a", b"b")
    assert await take(world.store, stage="synced") == [(0, 1)]


async def test_a_group_that_is_loaded_while_its_queue_leaves_writes_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await working(world)
    await world.restart()
    # Given a group that is being loaded
    desk, loaded = world.engine.work, asyncio.Event()
    fold = desk._loader.load

    async def slowly(ledger: HotQueue) -> GroupState:
        state = await fold(ledger)
        await loaded.wait()
        return state

    monkeypatch.setattr(desk._loader, "load", slowly)
    loading = asyncio.create_task(desk.group("q/g"))
    await turns()
    # When its queue leaves, and only then the group is there, with a task of a worker that is gone
    await world.engine.departures.begin("q", ELSEWHERE)
    loaded.set()
    with pytest.raises(Fenced):
        await loading
    world.clock.advance(60.0)
    desk.tick()
    # Then the journal takes what others push
    assert (await push(world.store, "stays", b"x")).first_offset == 0
    assert world.engine.committer.poisoned is None


async def test_rows_that_come_after_their_queue_has_left_are_dropped_and_their_callers_told(
    world: World,
) -> None:
    await working(world)
    group = await world.engine.work.group("q/g")
    leaving, _ = await world.engine.departures.begin("q", ELSEWHERE)
    # When a verb goes on that had waited for something, and a push of another queue is in the same commit
    world.clock.advance(60.0)
    group.advance()
    assert group.live.outbox.rows, "its worker's time was over"
    late, pushed = await asyncio.gather(
        group.writer.flush().wait(), push(world.store, "stays", b"x"), return_exceptions=True
    )
    # Then
    assert late is ELSEWHERE
    assert not isinstance(pushed, BaseException)
    assert pushed.first_offset == 0
    assert not group.live.outbox.rows
    # And if the queue stays after all, the group goes on from what is durable
    await world.engine.departures.stay(leaving)
    assert await states(world.store) == {"ready": 2}
    assert await take(world.store, 2) == [(0, 2), (1, 1)]


class Bar:
    """An entry of the committer: the journal is told that queues leave."""

    bytes = 0

    def __init__(self, *queues: HotQueue) -> None:
        self._queues = queues

    def prepare(self) -> None:
        for queue in self._queues:
            queue.state.close()
            queue.state.leave(ELSEWHERE)

    def written(self) -> None: ...

    def settle(self, sequence: int) -> None: ...

    def fail(self, error: Exception) -> None:
        raise error


async def test_rows_that_were_accepted_before_their_queue_leaves_are_in_the_same_commit(world: World) -> None:
    await working(world)
    group = await world.engine.work.group("q/g")
    rows = group.ledger.next
    committer = world.engine.committer
    # Given a commit that is under way, so that the next one has several entries
    committer._busy = True
    group.live.finish(0, "ack", session="s")
    flush = group.writer.flush()
    committer.submit(Bar(group.queue, group.ledger))
    committer._busy = False
    committer._begin()
    await flush.wait()
    assert group.ledger.next == rows + 1


async def test_a_completion_whose_queue_has_left_pushes_nothing(world: World) -> None:
    await working(world)
    group = await world.engine.work.group("q/g")
    stays = await world.engine.registry.queue("stays")
    entry = check_push(stays, Push("stays", payload("bytes", [b"done"])))
    completion = Completion(group, TaskChange("q/g", "ack", [0], [1], "s"), [(stays, entry)], lambda: 0.0)
    world.engine.committer.submit(Bar(group.queue, group.ledger))
    world.engine.committer.submit(completion)
    with pytest.raises(Fenced):
        await completion.reply
    assert await read_all(world.store, "stays") == []


async def test_a_commit_that_cannot_be_formed_ends_the_store_and_leaves_no_hole(world: World) -> None:
    await world.store.create_queue("other")
    committer = world.engine.committer

    class Fault(Bar):
        def prepare(self) -> None:
            raise ZeroDivisionError

        def fail(self, error: Exception) -> None: ...

    committer._busy = True
    pushing = asyncio.create_task(push(world.store, "other", b"lost"))
    await turns()
    committer.submit(Fault())
    committer._busy = False
    committer._begin()
    with pytest.raises(Unavailable, match="unknown"):
        await pushing
    with pytest.raises(Unavailable, match="start the server again"):
        await push(world.store, "other", b"later")
    await world.restart()
    assert (await push(world.store, "other", b"first")).first_offset == 0


class Hold:
    """Holds an opening of a queue up at its claim."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()
        claim = world.engine.registry.owners.claim

        async def slowly(asked: str) -> Claim:
            if asked == name:
                self.reached.set()
                await self.go_on.wait()
            return await claim(asked)

        monkeypatch.setattr(world.engine.registry.owners, "claim", slowly)


async def test_a_queue_whose_ledgers_are_still_arriving_leaves_with_all_of_them(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await working(world)
    departures, registry = world.engine.departures, world.engine.registry
    leaving, _ = await departures.begin("q", ELSEWHERE)
    await departures.leave(leaving, ELSEWHERE)
    # Given a queue that comes back, and whose ledger takes longer
    registry.on_arrived = world.engine.work.arrived  # as in a cluster
    hold = Hold(world, monkeypatch, "q~g")
    coming = asyncio.create_task(registry.queue("q"))
    await hold.reached.wait()
    assert registry.queues["q"].state.is_open
    # When it is to leave again meanwhile
    begin = asyncio.create_task(departures.begin("q", ELSEWHERE))
    await turns()
    hold.go_on.set()
    await coming
    leaving, _ = await begin
    # Then its ledger leaves with it
    assert [each.state.phase for each in registry.ledgers_of("q")] == [Phase.LEAVING]
    await departures.leave(leaving, ELSEWHERE)
    assert registry.ledgers_of("q") == []
    assert await states(world.store) == {"ready": 2}, "its worker is not known where the queue is now"


async def test_a_group_is_not_created_while_its_queue_leaves(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await working(world)
    leaving, _ = await world.engine.departures.begin("q", ELSEWHERE)
    # When somebody creates another group, and opens its ledger
    hold = Hold(world, monkeypatch, "q~other")
    hold.go_on.set()
    creating = asyncio.create_task(world.engine.registry.create("q~other", "ledger", None, None))
    await turns()
    assert not hold.reached.is_set()
    assert [each.name for each in world.engine.registry.ledgers_of("q")] == ["q~g"]
    # Then it is there as soon as the queue stays
    await world.engine.departures.stay(leaving)
    assert (await creating).state.is_open


async def test_a_ledger_that_is_opened_when_its_queue_begins_to_leave_is_waited_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await working(world)
    registry = world.engine.registry
    hold = Hold(world, monkeypatch, "q~other")
    creating = asyncio.create_task(registry.create("q~other", "ledger", None, None))
    await hold.reached.wait()
    begin = asyncio.create_task(world.engine.departures.begin("q", ELSEWHERE))
    await turns()
    assert not registry.queues["q"].state.is_open
    hold.go_on.set()
    await asyncio.gather(creating, begin)
    assert [each.state.phase for each in registry.ledgers_of("q")] == [Phase.LEAVING, Phase.LEAVING]
