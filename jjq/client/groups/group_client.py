"""The verbs of worker groups, a part of `AsyncClient`.

Arguments are checked here and in group_arguments.py; ranges are for the store to judge. Verbs that change several tasks
raise if some of them were refused; the others are changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from types import EllipsisType
from typing import Any, cast

import pyarrow as pa

from coldstore.shared.batch import to_us
from coldstore.shared.chance import Chance
from coldstore.shared.clock import Clock
from coldstore.shared.errors import InvalidInput
from coldstore.shared.push import Push
from coldstore.shared.results import queue_part
from hotstore.groups.port import WorkStore
from hotstore.groups.values import (
    TASK_STATES,
    GroupInfo,
    GroupSettings,
    GroupStatistics,
    OnExhausted,
    RetryBackoff,
    SessionInfo,
    Take,
    TaskChange,
    TaskInfo,
    TaskOutcomes,
    TaskState,
    TaskVerb,
    ledger_of,
)
from hotstore.port import Receipt, Stage, Store
from jjq import arguments
from jjq.arguments import Start, flag, number, starting_point, text, whole
from jjq.client.groups.client_session import ClientSession
from jjq.client.groups.group_arguments import (
    Backoff,
    Group,
    TaskKeys,
    backoff_of,
    group_id,
    if_given,
    keys_of,
    on_exhausted_word,
    optional_reason,
    optional_seconds,
)
from jjq.client.groups.task import TaskBatch, Tasks, TasksOrIds, ids_of, raise_refusals, receipts_of
from jjq.client.groups.worker import AsyncWorker, Handler
from jjq.client.large.verbs import LargeClient
from jjq.client.payload import to_payload
from jjq.client.replay import AsyncReplay
from jjq.limits import EVER_US, SESSION_SECONDS, TASK_PAGE


class GroupClient(LargeClient):
    """The verbs of groups and tasks; `AsyncClient` has a store for them."""

    _store: Store
    _clock: Clock
    _chance: Chance

    # Groups ---------------------------------------------------------------------------------------

    async def create_group(
        self,
        queue: str,
        name: str,
        *,
        start: Start = "beginning",
        driver: str = "fifo",
        ttr: float = 60.0,
        ttl: float | None = None,
        delay: float = 0.0,
        priority: int = 0,
        max_attempts: int | None = None,
        on_exhausted: OnExhausted = "bury",
        backoff: Backoff | None = None,
        capacity: int | None = None,
        per_key: int | None = None,
        rate: float | None = None,
    ) -> GroupInfo:
        """A worker group: the queue's elements from `start` on become tasks, each for one worker at a time.

        The same request again returns the existing group. Times are seconds: a worker may hold a task for `ttr`, a
        task lives for `ttl`. `backoff` is (base, factor, max, jitter).
        """
        settings = GroupSettings(
            driver=text("driver", driver),
            ttr=number("ttr", ttr),
            ttl=None if ttl is None else number("ttl", ttl),
            delay=number("delay", delay),
            priority=whole("priority", priority),
            max_attempts=None if max_attempts is None else whole("max_attempts", max_attempts),
            on_exhausted=on_exhausted_word(on_exhausted),
            backoff=RetryBackoff() if backoff is None else backoff_of(backoff),
            capacity=None if capacity is None else whole("capacity", capacity),
            per_key=None if per_key is None else whole("per_key", per_key),
            rate=None if rate is None else number("rate", rate),
        )
        return await self._work.create_group(
            text("queue", queue), text("name", name), settings, start=starting_point("start", start)
        )

    async def get_group(self, group: Group) -> GroupInfo:
        """A group, its settings, and how many tasks are in which state."""
        return await self._work.get_group(group_id(group))

    async def list_groups(self, queue: str | None = None) -> list[GroupInfo]:
        """The groups of a queue, or of all queues."""
        return await self._work.list_groups(None if queue is None else text("queue", queue))

    async def update_group(
        self,
        group: Group,
        *,
        ttr: float | EllipsisType = ...,
        ttl: float | EllipsisType | None = ...,
        delay: float | EllipsisType = ...,
        priority: int | EllipsisType = ...,
        max_attempts: int | EllipsisType | None = ...,
        on_exhausted: OnExhausted | EllipsisType = ...,
        backoff: Backoff | EllipsisType = ...,
        capacity: int | EllipsisType | None = ...,
        per_key: int | EllipsisType | None = ...,
        rate: float | EllipsisType | None = ...,
    ) -> GroupInfo:
        """Change settings from now on. What is not given stays; None takes a limit away."""
        given = {
            "ttr": if_given(number, "ttr", ttr),
            "ttl": if_given(number, "ttl", ttl, optional=True),
            "delay": if_given(number, "delay", delay),
            "priority": if_given(whole, "priority", priority),
            "max_attempts": if_given(whole, "max_attempts", max_attempts, optional=True),
            "on_exhausted": ... if on_exhausted is ... else on_exhausted_word(on_exhausted),
            "backoff": ... if backoff is ... else backoff_of(backoff),
            "capacity": if_given(whole, "capacity", capacity, optional=True),
            "per_key": if_given(whole, "per_key", per_key, optional=True),
            "rate": if_given(number, "rate", rate, optional=True),
        }
        changes = {name: value for name, value in given.items() if value is not ...}
        return await self._work.update_group(group_id(group), changes)

    async def delete_group(self, group: Group, *, force: bool = False) -> None:
        """Forget a group; refused while tasks are taken, unless forced. Elements and the ledger stay."""
        await self._work.delete_group(group_id(group), force=flag("force", force))

    async def pause(self, group: Group) -> GroupInfo:
        """Hand out no tasks until `resume`. Acks and the rest go on."""
        return await self._work.pause_group(group_id(group))

    async def resume(self, group: Group) -> GroupInfo:
        """Hand out tasks again."""
        return await self._work.pause_group(group_id(group), paused=False)

    async def seek_group(
        self, group: Group, start: Start, *, clamp: bool = False, dry_run: bool = False
    ) -> GroupInfo:
        """Begin again: tasks from the starting point on are ready again, also those that are done.

        Refused while tasks are taken.
        """
        return await self._work.seek_group(
            group_id(group),
            starting_point("start", start),
            clamp=flag("clamp", clamp),
            dry_run=flag("dry_run", dry_run),
        )

    # Tasks ----------------------------------------------------------------------------------------

    async def take(
        self,
        group: Group,
        max: int = 1,
        wait: float = 0.0,
        *,
        ttr: float | None = None,
        keys: TaskKeys | None = None,
        stage: Stage = "ready",
        worker: str = "",
    ) -> TaskBatch:
        """Up to `max` tasks that are ready; waits up to `wait` seconds for the first one.

        They are this client's for `ttr` seconds: ack, nack, release or touch them before that. With `keys` only tasks
        with one of these keys. `stage` is how durable the take is before it is answered: after a crash of the server
        a task that was taken `ready` is handed out again.
        """
        name, most, seconds = group_id(group), whole("max", max), number("wait", wait)
        own_ttr = None if ttr is None else number("ttr", ttr)
        some = None if keys is None else keys_of(keys)
        durable, named = arguments.stage(stage), text("worker", worker)
        session = await self._session.id()
        taken = await self._work.take(Take(name, most, seconds, session, own_ttr, some, durable, named))
        return TaskBatch(taken, self._objects(queue_part(name)))

    async def ack(self, group: Group, tasks: Tasks) -> None:
        """The tasks are done; durable when this returns."""
        await self._change_taken(group, "ack", tasks)

    async def nack(
        self, group: Group, tasks: Tasks, delay: float | None = None, reason: str | None = None
    ) -> None:
        """The tasks failed: they come back after the group's backoff, or after `delay`, as often as it allows."""
        await self._change_taken(
            group, "nack", tasks, delay=optional_seconds("delay", delay), reason=optional_reason(reason)
        )

    async def release(
        self, group: Group, tasks: Tasks, delay: float | None = None, priority: int | None = None
    ) -> None:
        """Give the tasks back, to their places. That does not count as an attempt."""
        await self._change_taken(
            group,
            "release",
            tasks,
            delay=optional_seconds("delay", delay),
            priority=None if priority is None else whole("priority", priority),
        )

    async def touch(self, group: Group, tasks: Tasks, seconds: float) -> None:
        """Hold the tasks for so much longer; their ttl grows as well."""
        await self._change_taken(group, "touch", tasks, seconds=number("seconds", seconds))

    async def bury(self, group: Group, tasks: TasksOrIds, reason: str | None = None) -> None:
        """Set tasks aside, in whatever state, until they are kicked."""
        await self._change(group, "bury", ids_of("tasks", tasks), reason=optional_reason(reason))

    async def kick(
        self,
        group: Group,
        count: int | None = None,
        ids: TasksOrIds | None = None,
        where: str | None = None,
    ) -> int:
        """Make buried tasks ready: up to `count`, the oldest first, those with these `ids`, or those `where` … .

        `where` is a condition in SQL over task, attempt, since, worker and reason, for instance
        "reason LIKE '%timeout%' AND since < '2026-01-31'". Returns how many there were.
        """
        if [count, ids, where].count(None) != 2:
            raise InvalidInput("say what to kick: give one of count, ids and where")
        if count is not None:
            return await self._work.kick(group_id(group), whole("count", count))
        if ids is not None:
            return (await self._change(group, "kick", ids_of("ids", ids))).changed
        return await self._kick_where(group_id(group), text("where", where))

    async def _kick_where(self, group: str, where: str) -> int:
        """Tasks that are not buried any more when they are kicked do not count."""
        from jjq.client.groups.conditions import buried_where, in_parts

        tasks = await self._work.tasks_at(group, EVER_US)
        found = await asyncio.to_thread(buried_where, tasks, where)
        session, kicked = await self._session.id(), 0
        for some in in_parts(found):
            change = TaskChange(group, "kick", some, session=session)
            kicked += (await self._work.change_tasks(change)).changed
        return kicked

    async def delete_tasks(self, group: Group, ids: TasksOrIds) -> None:
        """The tasks are done, in whatever state they are. Their elements stay in the queue."""
        await self._change(group, "delete", ids_of("ids", ids))

    async def purge(self, group: Group) -> int:
        """Every task that is not done becomes done, taken ones too; how many."""
        return await self._work.purge_group(group_id(group))

    async def release_all(self, group: Group) -> int:
        """Every taken task becomes ready, whoever holds it; how many."""
        return await self._work.release_all(group_id(group))

    async def complete(self, group: Group, tasks: Tasks, push: Mapping[str, Any]) -> dict[str, Receipt]:
        """Ack tasks and push values to queues in one step: all of it or nothing. A receipt for each queue.

        All queues must be of one node. `push` has for each queue what the verb push takes: a list of values, or Arrow.
        """
        if not isinstance(push, Mapping):
            raise InvalidInput(f"push is a {type(push).__name__}: give a dict of queues to lists of values")
        ids, attempts = receipts_of(tasks)
        pushes = [Push(text("queue", queue), to_payload(values)) for queue, values in push.items()]
        if not pushes:
            raise InvalidInput("push is empty: give values to push, or use ack")
        change = TaskChange(group_id(group), "ack", ids, attempts, await self._session.id())
        outcomes, receipts = await self._work.complete_tasks(change, pushes)
        raise_refusals("complete", outcomes, len(ids), whole=True)
        return dict(zip(push, receipts, strict=True))

    async def _change_taken(self, group: Group, verb: TaskVerb, tasks: object, **more: Any) -> None:
        ids, attempts = receipts_of(tasks)
        await self._change(group, verb, ids, attempts=attempts, **more)

    async def _change(self, group: Group, verb: TaskVerb, ids: Any, **more: Any) -> TaskOutcomes:
        name = group_id(group)
        if not len(ids):
            return TaskOutcomes(0)
        session = await self._session.id()
        outcomes = await self._work.change_tasks(TaskChange(name, verb, ids, session=session, **more))
        raise_refusals(verb, outcomes, len(ids))
        return outcomes

    # Looks ----------------------------------------------------------------------------------------

    async def peek_task(self, group: Group, id: int) -> TaskInfo:
        """Look at a task, whatever its state; nothing changes."""
        return await self._work.peek_task(group_id(group), whole("id", id))

    async def tasks(
        self, group: Group, state: TaskState | None = None, limit: int = TASK_PAGE, *, after: int = -1
    ) -> list[TaskInfo]:
        """Tasks by id, after the id `after`: those that are not done, or those in one state.

        States are ready, taken, delayed, buried and done.
        """
        if state is not None and (not isinstance(state, str) or state not in TASK_STATES):
            raise InvalidInput(f"state {state!r:.40} is not known: use one of {', '.join(TASK_STATES)}")
        first, most = whole("after", after), whole("limit", limit)
        if first < -1 or most < 1:
            raise InvalidInput("after is the id of a task, or -1; limit is a number from 1 on")
        return await self._work.list_tasks(group_id(group), state=state, after=first, limit=most)

    async def statistics(self, group: Group) -> GroupStatistics:
        """How many tasks are in which state (`tasks`), and how often each verb was called (`calls`)."""
        return await self._work.group_statistics(group_id(group))

    async def tasks_at(self, group: Group, time: datetime) -> pa.Table:
        """The tasks as they were at a time, one row each: task, state, attempt, since, worker, reason."""
        at = to_us(arguments.kind("time", time, datetime, "a datetime with its zone"))
        return await self._work.tasks_at(group_id(group), at)

    def changes(self, group: Group, start: Start = "end") -> AsyncReplay:
        """What happens to the tasks of a group, as it happens: the rows of its ledger from `start` on.

        Iterate over it for record batches, or over its `elements()`; the value of each has task, event, state, attempt
        and more. It never ends by itself.
        """
        ledger, first = ledger_of(group_id(group)), starting_point("start", start)

        async def empty() -> pa.Schema:
            raise InvalidInput("changes never end: iterate over them")

        return AsyncReplay(self._store.read(ledger, first, None, follow=True), empty, endless=True)

    # Sessions and workers ---------------------------------------------------------------------------

    async def session(self, id: str | None = None, ttr: float = SESSION_SECONDS) -> SessionInfo:
        """Be this session from now on: clients with the same session share their tasks.

        Without an id it is a session of this client alone. The tasks of a session are released when none of its
        clients is connected for `ttr` seconds.
        """
        return await self._session.replace(None if id is None else text("id", id), number("ttr", ttr))

    async def _close_session(self) -> None:
        await self._session.leave()

    @cached_property
    def _session(self) -> ClientSession:
        return ClientSession(lambda: self._work, self._chance)

    def work(
        self, group: Group, handler: Handler, concurrency: int = 1, ttr: float | None = None
    ) -> AsyncWorker:
        """A worker: takes tasks, calls `handler` with each, acks when it returns, nacks when it raises.

        `handler` is a coroutine function, or a function that is then called in threads; `concurrency` tasks are handled
        at a time. Tasks are touched while their handler runs. `await worker.run()` works until `stop`, or until the
        process is asked to end (SIGTERM): then handlers that run are finished, and no further task is taken.
        """
        return AsyncWorker(
            self,
            group_id(group),
            handler,
            whole("concurrency", concurrency),
            None if ttr is None else number("ttr", ttr),
            self._clock,
        )

    @property
    def _work(self) -> WorkStore:
        if not hasattr(self._store, "change_tasks"):
            raise InvalidInput("this store has no worker groups: open a directory, or connect to a server")
        return cast("WorkStore", self._store)
