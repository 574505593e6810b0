"""Takes and acks of one client that are made at the same time: few requests, and each caller has its own answer."""

from __future__ import annotations

import asyncio

import pytest

from coldstore.shared.batch import payload, stamp
from coldstore.shared.errors import Conflict, InvalidInput, Unavailable
from hotstore.groups.values import Take, TakenTasks, TaskChange, TaskError, TaskOutcomes
from jjq.remote.groups.task_coalescer import TaskCoalescer


class Server:
    """Hands out tasks 0, 1, 2 … up to `there`, one request at a time when the gate is open."""

    def __init__(self, there: int = 100) -> None:
        self.gate = asyncio.Event()
        self.next = 0
        self.there = there
        self.takes: list[Take] = []
        self.changes: list[TaskChange] = []
        self.refused: set[int] = set()
        self.error: Exception | None = None
        self.joiner = TaskCoalescer(self.take, self.change)

    async def take(self, take: Take) -> TakenTasks:
        self.takes.append(take)
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        if take.worker == "wrong":
            raise InvalidInput("wrong")
        count = min(take.max, self.there - self.next)
        first, self.next = self.next, self.next + count
        batch = stamp(payload("bytes", [b"x"] * count), first, 0)
        return TakenTasks(batch, [1] * count, [7] * count, [0] * count)

    async def change(self, change: TaskChange) -> TaskOutcomes:
        self.changes.append(change)
        await self.gate.wait()
        if -1 in change.ids:
            raise InvalidInput("no such id")
        errors = [TaskError(id, "Conflict", f"task {id}", "done") for id in change.ids if id in self.refused]
        changed = len(change.ids) - len(errors)
        return TaskOutcomes(changed, errors, {"done": changed})


def ack(*ids: int) -> TaskChange:
    return TaskChange("q/g", "ack", list(ids), [1] * len(ids), "me")


async def test_takes_that_come_together_are_one_request_and_each_gets_its_own() -> None:
    server = Server(there=5)
    takes = [asyncio.create_task(server.joiner.take(Take("q/g", 2, session="me"))) for _ in range(4)]
    await asyncio.sleep(0)
    server.gate.set()
    found = [(await take).ids for take in takes]
    assert found == [[0, 1], [2, 3], [4], []]
    assert [take.max for take in server.takes] == [2, 6]


async def test_an_ack_that_is_repeated_goes_alone() -> None:
    """The others with it would count as acked if they were acked before, by whoever has this session."""
    server = Server()
    repeated = ack(3)._replace(again=True)
    acks = [asyncio.create_task(server.joiner.change(each)) for each in (ack(1), ack(2), repeated, ack(4))]
    await asyncio.sleep(0)
    server.gate.set()
    await asyncio.gather(*acks)
    assert sorted((sorted(change.ids), change.again) for change in server.changes) == [
        ([1], False),
        ([2, 4], False),
        ([3], True),
    ]


async def test_takes_that_differ_do_not_go_together() -> None:
    server = Server()
    server.gate.set()
    takes = [
        Take("q/g", session="me"),
        Take("q/h", session="me"),
        Take("q/g", session="you"),
        Take("q/g", ttr=1.0),
    ]
    await asyncio.gather(*(server.joiner.take(take) for take in takes))
    assert len(server.takes) == 4
    await server.joiner.take(Take("q/g", keys=[b"k"]))
    assert server.takes[-1].keys == [b"k"]


async def test_what_was_taken_for_a_caller_that_has_gone_is_released() -> None:
    server = Server()
    takes = [asyncio.create_task(server.joiner.take(Take("q/g", session="me"))) for _ in range(4)]
    await asyncio.sleep(0)
    server.gate.set()
    await takes[0]
    assert len(server.takes) == 2
    takes[1].cancel()
    server.gate.clear()  # the joined one is under way
    await asyncio.sleep(0)
    server.gate.set()
    found = [(await take).ids for take in takes[2:]]
    await asyncio.sleep(0)
    released = [change for change in server.changes if change.verb == "release"]
    handed = [id for ids in found for id in ids] + [id for change in released for id in change.ids]
    assert sorted(handed) == [1, 2, 3]
    assert len(found) == 2


async def test_acks_that_come_together_are_one_request_and_each_hears_of_its_own() -> None:
    server = Server()
    server.refused = {3}
    acks = [asyncio.create_task(server.joiner.change(ack(*ids))) for ids in ((1,), (2, 3), (4,), (5,))]
    await asyncio.sleep(0)
    server.gate.set()
    outcomes = [await one for one in acks]
    assert [outcome.changed for outcome in outcomes] == [1, 1, 1, 1]
    assert [[error.id for error in outcome.errors] for outcome in outcomes] == [[], [3], [], []]
    assert [change.ids for change in server.changes] == [[1], [2, 3, 4, 5]]


async def test_two_acks_of_one_task_are_two_requests() -> None:
    server = Server()
    acks = [asyncio.create_task(server.joiner.change(ack(id))) for id in (1, 2, 2)]
    await asyncio.sleep(0)
    server.gate.set()
    await asyncio.gather(*acks)
    assert [change.ids for change in server.changes] == [[1], [2], [2]]


async def test_other_changes_go_by_themselves() -> None:
    server = Server()
    server.gate.set()
    nacks = [TaskChange("q/g", "nack", [n], [1], "me", delay=float(n)) for n in range(3)]
    await asyncio.gather(*(server.joiner.change(nack) for nack in nacks))
    assert server.changes == nacks


async def test_a_wrong_request_is_found_and_the_others_are_done() -> None:
    server = Server()
    acks = [asyncio.create_task(server.joiner.change(ack(id))) for id in (1, 2, -1, 3)]
    await asyncio.sleep(0)
    server.gate.set()
    done = await asyncio.gather(*acks, return_exceptions=True)
    assert [type(each) for each in done] == [TaskOutcomes, TaskOutcomes, InvalidInput, TaskOutcomes]


@pytest.mark.parametrize("error", [Unavailable("lost"), Conflict("no"), RuntimeError("bug")])
async def test_any_other_error_is_told_to_all(error: Exception) -> None:
    server = Server()
    server.error = error
    takes = [asyncio.create_task(server.joiner.take(Take("q/g", session="me"))) for _ in range(3)]
    await asyncio.sleep(0)
    server.gate.set()
    done = await asyncio.gather(*takes, return_exceptions=True)
    assert [(type(each), str(each)) for each in done] == [(type(error), str(error))] * 3


async def test_after_a_crowd_the_first_one_does_not_go_alone() -> None:
    server = Server()
    takes = [asyncio.create_task(server.joiner.take(Take("q/g", session="me"))) for _ in range(4)]
    await asyncio.sleep(0)
    server.gate.set()
    await asyncio.gather(*takes)
    assert [take.max for take in server.takes] == [1, 3]
    # When the same callers come again, they are one request
    found = await asyncio.gather(*(server.joiner.take(Take("q/g", session="me")) for _ in range(4)))
    assert [taken.ids for taken in found] == [[4], [5], [6], [7]]
    assert [take.max for take in server.takes] == [1, 3, 4]
    # And one that comes alone is served, and goes at once the next time
    assert [(await server.joiner.take(Take("q/g", session="me"))).ids for _ in range(2)] == [[8], [9]]
    assert not server.joiner._takes._lines


async def test_who_waits_for_a_crowd_and_goes_away_asks_for_nothing() -> None:
    server = Server()
    server.gate.set()
    server.joiner._takes._several = True
    gone = asyncio.create_task(server.joiner.take(Take("q/g", session="me")))
    await asyncio.sleep(0)
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    assert not server.takes
    assert (await server.joiner.take(Take("q/g", session="me"))).ids == [0]
    assert not server.joiner._takes._lines
