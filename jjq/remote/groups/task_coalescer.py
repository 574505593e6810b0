"""Takes and acks that one client makes at the same time travel together (jjq/remote/coalesce.py).

Takes of one group that do not wait for a task go as one take: each caller gets its share, the first one first. Acks of
one group and session go as one likewise.

Tasks for a caller that has gone meanwhile are released at once. Two acks of the same task are never in one request: the
second one has its own answer. A repeated ack goes alone, as it is judged in another way.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from coldstore.shared.deadline import settle
from hotstore.groups.values import Take, TakenTasks, TaskChange, TaskOutcomes
from jjq.limits import JOIN_TASKS_MAX, JOIN_WORK_CALLS
from jjq.remote.coalesce import Coalescer


class TaskCoalescer:
    """The takes and acks of one client."""

    def __init__(
        self,
        take: Callable[[Take], Awaitable[TakenTasks]],
        change: Callable[[TaskChange], Awaitable[TaskOutcomes]],
    ) -> None:
        self._take = take
        self._change = change
        self._takes: Coalescer[Take, TakenTasks] = Coalescer(
            take, _gather_takes, _join_takes, self._hand_out,
            calls=JOIN_WORK_CALLS, unheard=self._give_back, wait_a_round=True,
        )  # fmt: skip
        self._acks: Coalescer[TaskChange, TaskOutcomes] = Coalescer(
            change, _gather_acks, _join_acks, _share_outcomes, calls=JOIN_WORK_CALLS, wait_a_round=True
        )
        self._releases: set[asyncio.Task[TaskOutcomes]] = set()

    async def take(self, take: Take) -> TakenTasks:
        """A take that does not wait."""
        if take.keys is not None or take.max > JOIN_TASKS_MAX:
            return await self._take(take)
        return await self._takes.ask((take.group, take.session, take.ttr, take.stage, take.worker), take)

    async def change(self, change: TaskChange) -> TaskOutcomes:
        single = change.again or change.attempts is None or len(change.ids) > JOIN_TASKS_MAX
        if change.verb != "ack" or single:
            return await self._change(change)
        return await self._acks.ask((change.group, change.session), change)

    def _hand_out(self, joined: list[tuple[Take, asyncio.Future[TakenTasks]]], taken: TakenTasks) -> None:
        at, ids = 0, taken.ids
        for take, reply in joined:
            if not reply.done():
                reply.set_result(_part(taken, ids, at, at + take.max))
                at += take.max
        if at < len(ids):
            self._give_back(joined[0][0], _part(taken, ids, at, len(ids)))

    def _give_back(self, take: Take, taken: TakenTasks) -> None:
        """Nobody is there to have these tasks."""
        if taken.attempts:
            change = TaskChange(take.group, "release", taken.ids, taken.attempts, take.session)
            task = asyncio.ensure_future(self._change(change))
            self._releases.add(task)
            task.add_done_callback(self._released)

    def _released(self, task: asyncio.Task[TaskOutcomes]) -> None:
        self._releases.discard(task)
        if not task.cancelled():
            task.exception()  # then they come back by their ttr


def _part(taken: TakenTasks, ids: Sequence[int], begin: int, end: int) -> TakenTasks:
    """Some of the tasks. Their ids were read once for all: a column of Arrow costs as much for one as for a hundred."""
    some = ids[begin:end]
    return TakenTasks(
        taken.elements.slice(begin, len(some)),
        taken.attempts[begin:end],
        taken.deadlines_us[begin:end],
        taken.priorities[begin:end],
        some,
    )


def _gather_takes(waiting: deque[Any]) -> list[Any]:
    found: list[Any] = []
    count = 0
    while waiting and count + waiting[0][0].max <= JOIN_TASKS_MAX:
        one = waiting.popleft()
        if not one[1].done():
            found.append(one)
            count += one[0].max
    return found


def _join_takes(takes: list[Take]) -> Take:
    return takes[0]._replace(max=sum(take.max for take in takes))


def _gather_acks(waiting: deque[Any]) -> list[Any]:
    found: list[Any] = []
    ids: set[int] = set()
    while waiting and len(ids) + len(waiting[0][0].ids) <= JOIN_TASKS_MAX:
        if not ids.isdisjoint(waiting[0][0].ids):
            break
        one = waiting.popleft()
        if not one[1].done():
            found.append(one)
            ids.update(one[0].ids)
    return found


def _join_acks(changes: list[TaskChange]) -> TaskChange:
    if len(changes) == 1:
        return changes[0]
    ids = [id for change in changes for id in change.ids]
    return changes[0]._replace(ids=ids, attempts=[n for change in changes for n in change.attempts or ()])


def _share_outcomes(joined: list[Any], outcomes: TaskOutcomes) -> None:
    if len(joined) == 1:
        settle(joined[0][1], outcomes)
        return
    errors = {error.id: error for error in outcomes.errors}
    for change, reply in joined:
        refused = [errors[id] for id in change.ids if id in errors] if errors else []
        changed = len(change.ids) - len(refused)
        settle(reply, TaskOutcomes(changed, refused, {"done": changed} if changed else {}))
