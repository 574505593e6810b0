"""Takes and acks that one client makes at the same time travel together.

A request costs as much as a hundred tasks. While one take of a group is under way, further ones that do not wait
for a task gather, and then go as one take for all of them: each caller gets its share, the first one first. Acks of
one group and session gather likewise. A caller that awaits each request before the next sees no difference.
Where the last request was one of several callers, the next one waits until the event loop has come round: the answer to
that request wakes all of them, and what they ask for next goes together, too.

Tasks for a caller that has gone meanwhile are released at once. Two acks of the same task are never in one request: the
second one has its own answer. A repeated ack goes alone, as it is judged in another way. If an error says that the
input is wrong, each request is sent by itself, to find out which one it is; any other error is true of all.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar

from coldstore.shared.deadline import settle
from coldstore.shared.errors import InvalidInput, JjqError
from hotstore.groups.values import Take, TakenTasks, TaskChange, TaskOutcomes
from jjq.limits import JOIN_TASKS_MAX, JOIN_WORK_CALLS

Asked = TypeVar("Asked")
Got = TypeVar("Got")


class _Line(Generic[Asked, Got]):
    """Requests that may go as one."""

    __slots__ = ("calls", "soon", "waiting")

    def __init__(self) -> None:
        self.calls = 0  # on their way
        self.soon = False  # those who wait go when the loop has come round
        self.waiting: deque[tuple[Asked, asyncio.Future[Got]]] = deque()


class RequestJoiner(Generic[Asked, Got]):
    """Sends requests by `send`, several as one where that saves requests."""

    def __init__(
        self,
        send: Callable[[Asked], Awaitable[Got]],
        gather: Callable[[deque[tuple[Asked, asyncio.Future[Got]]]], list[tuple[Asked, asyncio.Future[Got]]]],
        join: Callable[[list[Asked]], Asked],
        share: Callable[[list[tuple[Asked, asyncio.Future[Got]]], Got], None],
        unheard: Callable[[Asked, Got], None],
    ) -> None:
        """`gather` takes those from a line that fit into one request, `join` makes that, `share` answers each.

        `unheard` gets an answer whose caller went away just when it came.
        """
        self._send = send
        self._gather = gather
        self._join = join
        self._share = share
        self._unheard = unheard
        self._lines: dict[Hashable, _Line[Asked, Got]] = {}
        self._crowded = False  # the last request was one of several callers
        self._tasks: set[asyncio.Task[None]] = set()

    async def ask(self, key: Hashable, asked: Asked) -> Got:
        """The answer; requests with the same key may go together."""
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Line()
        is_full = line.calls >= JOIN_WORK_CALLS
        if is_full or self._crowded:
            if not is_full and not line.soon:
                line.soon = True
                asyncio.get_running_loop().call_soon(self._go, key, line)
            reply: asyncio.Future[Got] = asyncio.get_running_loop().create_future()
            line.waiting.append((asked, reply))
            try:
                return await reply
            except asyncio.CancelledError:
                if reply.done() and not reply.cancelled() and reply.exception() is None:
                    self._unheard(asked, reply.result())
                raise
        line.calls += 1
        try:
            return await self._send(asked)
        finally:
            self._ended(key, line)

    def _ended(self, key: Hashable, line: _Line[Asked, Got]) -> None:
        line.calls -= 1
        self._send_next(key, line)

    def _go(self, key: Hashable, line: _Line[Asked, Got]) -> None:
        line.soon = False
        if line.calls < JOIN_WORK_CALLS:
            self._send_next(key, line)

    def _send_next(self, key: Hashable, line: _Line[Asked, Got]) -> None:
        """Send those who wait, as many as fit into one request."""
        joined = self._gather(line.waiting)
        if joined:
            self._crowded = len(joined) > 1
            line.calls += 1
            task = asyncio.create_task(self._send_all(key, line, joined), name="jjq-join")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif not line.calls and not line.soon:
            self._lines.pop(key, None)

    async def _send_all(self, key: Hashable, line: _Line[Asked, Got], joined: list[Any]) -> None:
        try:
            await self._try(joined)
        finally:
            for _, reply in joined:
                reply.cancel()  # those that have no answer: the client is being torn down
            self._ended(key, line)

    async def _try(self, joined: list[Any]) -> None:
        try:
            got = await self._send(self._join([asked for asked, _ in joined]))
        except InvalidInput as error:
            if len(joined) == 1:
                settle(joined[0][1], error.copy())
                return
            for one in joined:
                await self._try([one])
        except Exception as error:  # noqa: BLE001 - callers must not wait for ever
            for _, reply in joined:
                settle(reply, error.copy() if isinstance(error, JjqError) else error)
        else:
            self._share(joined, got)


class WorkJoiner:
    """The takes and acks of one client."""

    def __init__(
        self,
        take: Callable[[Take], Awaitable[TakenTasks]],
        change: Callable[[TaskChange], Awaitable[TaskOutcomes]],
    ) -> None:
        self._take = take
        self._change = change
        self._takes: RequestJoiner[Take, TakenTasks] = RequestJoiner(
            take, _gather_takes, _join_takes, self._hand_out, self._give_back
        )
        self._acks: RequestJoiner[TaskChange, TaskOutcomes] = RequestJoiner(
            change, _gather_acks, _join_acks, _share_outcomes, lambda change, outcomes: None
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
