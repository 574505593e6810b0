"""A `WorkStore` of dicts over the fake store: honest about states, attempts and sessions; no timers.

For tests of the doors alone: what goes in, what comes out, and what is sent twice. How tasks live is shown by the tests
of the engine, and by those that run over every kind of store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from coldstore.shared.batch import elements, payload
from coldstore.shared.errors import Conflict, InvalidInput, NotFound
from coldstore.shared.push import Push
from coldstore.shared.results import Receipt
from hotstore.groups.values import (
    TASK_STATES,
    GroupInfo,
    GroupSettings,
    GroupStatistics,
    SessionInfo,
    Take,
    TakenTasks,
    TaskChange,
    TaskError,
    TaskInfo,
    TaskOutcomes,
    TaskState,
)
from tests.jjq.fakestore import FakeStore

HOLDERS = ("ack", "nack", "release", "touch")
AFTER: dict[str, TaskState] = {
    "ack": "done", "nack": "ready", "release": "ready", "touch": "taken", "bury": "buried", "kick": "ready",
    "delete": "done",
}  # fmt: skip


@dataclass
class FakeTask:
    """One task that was touched by somebody."""

    state: TaskState = "ready"
    attempt: int = 0
    session: str = ""
    reason: str = ""


@dataclass
class FakeGroup:
    """One group: tasks that are not simply ready, and what was called how often."""

    info: GroupInfo
    tasks: dict[int, FakeTask] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)


class FakeWorkStore(FakeStore):
    """See the module's docstring."""

    def __init__(self) -> None:
        super().__init__()
        self.groups: dict[str, FakeGroup] = {}
        self.sessions: dict[str, list[float]] = {}  # how often attached, and the ttr
        self.released: list[str] = []  # sessions that ended

    async def append_values(self, queue: str, values: list[bytes]) -> None:
        await self.append(Push(queue, payload("bytes", values)))

    async def append_numbers(self, queue: str, count: int) -> None:
        """Elements that say their offset."""
        first = self._queue(queue).next_offset
        await self.append_values(queue, [b"%d" % n for n in range(first, first + count)])

    # Groups

    async def create_group(
        self, queue: str, name: str, settings: GroupSettings, *, start: str = "beginning"
    ) -> GroupInfo:
        first = (await self.create_subscriber(queue, "dry", start, dry_run=True)).resolved
        assert first is not None
        info = GroupInfo(
            f"{queue}/{name}", name, queue, settings, start, first.offset, 7, False, 0, {}, first
        )
        known = self.groups.setdefault(info.id, FakeGroup(info)).info
        if known.settings != settings:
            raise Conflict(f"group {info.id} exists with other settings")
        return await self.get_group(info.id)

    def _group(self, group: str) -> FakeGroup:
        if group not in self.groups:
            raise NotFound(f"no group {group}: create it")
        return self.groups[group]

    async def get_group(self, group: str) -> GroupInfo:
        found = self._group(group)
        return replace(found.info, tasks=self._counts(found))

    def _counts(self, group: FakeGroup) -> dict[str, int]:
        counts = dict.fromkeys(TASK_STATES, 0)
        for id in range(group.info.first, self._queue(group.info.queue).next_offset):
            counts[self._task(group, id).state] += 1
        return counts | {"total": sum(counts.values()) - counts["done"]}

    async def list_groups(
        self, queue: str | None = None, *, after: str = "", limit: int | None = None
    ) -> list[GroupInfo]:
        ids = [id for id in sorted(self.groups) if id > after and queue in (None, id.partition("/")[0])]
        return [await self.get_group(id) for id in ids[:limit]]

    async def update_group(self, group: str, changes: Mapping[str, Any]) -> GroupInfo:
        found = self._group(group)
        found.info = replace(found.info, settings=replace(found.info.settings, **changes))
        return await self.get_group(group)

    async def delete_group(self, group: str, *, force: bool = False) -> None:
        if not force and self._counts(self._group(group))["taken"]:
            raise Conflict(f"group {group} has taken tasks")
        del self.groups[group]

    async def pause_group(self, group: str, *, paused: bool = True) -> GroupInfo:
        found = self._group(group)
        found.info = replace(found.info, paused=paused)
        return await self.get_group(group)

    async def seek_group(
        self, group: str, start: str, *, clamp: bool = False, dry_run: bool = False
    ) -> GroupInfo:
        found = self._group(group)
        resolved = (
            await self.create_subscriber(found.info.queue, "dry", start, clamp=clamp, dry_run=True)
        ).resolved
        assert resolved is not None
        if not dry_run:
            found.info = replace(found.info, first=resolved.offset)
            found.tasks.clear()
        return replace(await self.get_group(group), resolved=resolved)

    async def group_statistics(self, group: str) -> GroupStatistics:
        found = self._group(group)
        return GroupStatistics(self._counts(found), dict(found.calls), 1.5, 2.5, {"ack": 0.5})

    # Tasks

    def _task(self, group: FakeGroup, id: int) -> FakeTask:
        return group.tasks.get(id) or FakeTask()

    async def take(self, take: Take) -> TakenTasks:
        if take.max < 1 or take.wait < 0:
            raise InvalidInput("max must be positive, and wait not negative")
        found = self._group(take.group)
        queue = self._queue(found.info.queue)

        def ready() -> list[int]:
            ids = range(found.info.first, queue.next_offset)
            free = [id for id in ids if self._task(found, id).state == "ready" and not found.info.paused]
            if take.keys is not None:
                free = [id for id in free if queue.slice(id, 1).column("key")[0].as_py() in take.keys]
            return free[: take.max]

        if take.wait:
            with suppress(TimeoutError):
                async with asyncio.timeout(take.wait), queue.grown:
                    await queue.grown.wait_for(ready)
        ids = ready()
        for id in ids:
            task = found.tasks.setdefault(id, FakeTask())
            task.state, task.session, task.attempt = "taken", take.session, task.attempt + 1
        self._count(found, "take", len(ids))
        rows = pa.Table.from_batches([queue.slice(id, 1) for id in ids] or [queue.empty()])
        batch = rows.combine_chunks().to_batches()[0] if ids else queue.empty()
        until = self.clock.now_us() + round((take.ttr or found.info.settings.ttr) * 1e6)
        attempts = [found.tasks[id].attempt for id in ids]
        return TakenTasks(batch, attempts, [until] * len(ids), [found.info.settings.priority] * len(ids))

    def _count(self, group: FakeGroup, verb: str, count: int) -> None:
        group.calls[verb] = group.calls.get(verb, 0) + count

    async def change_tasks(self, change: TaskChange) -> TaskOutcomes:
        found = self._group(change.group)
        if change.seconds is not None and change.seconds < 0:
            raise InvalidInput("seconds must not be negative")
        errors = self._refusals(found, change)
        states: dict[str, int] = {}
        refused = {error.id for error in errors}
        for id in change.ids:
            if id not in refused:
                task = found.tasks.setdefault(id, FakeTask())
                task.state = AFTER[change.verb]
                task.reason = change.reason or task.reason
                states[task.state] = states.get(task.state, 0) + 1
        changed = len(change.ids) - len(errors)
        self._count(found, change.verb, changed)
        await self._wake(found)
        return TaskOutcomes(changed, errors, states)

    def _refusals(self, group: FakeGroup, change: TaskChange) -> list[TaskError]:
        errors = []
        end = self._queue(group.info.queue).next_offset
        for id, attempt in zip(change.ids, change.attempts or [0] * len(change.ids), strict=True):
            task = self._task(group, id)
            if not group.info.first <= id < end:
                errors.append(TaskError(id, "NotFound", f"no task {id}: it was never pushed"))
            elif change.verb in HOLDERS and (task.state, task.session, task.attempt) != (
                "done" if change.again and task.state == "done" else "taken", change.session, attempt,
            ):  # fmt: skip
                errors.append(TaskError(id, "Conflict", f"task {id} is not taken by you", task.state))
            elif change.verb == "kick" and task.state != "buried":
                errors.append(TaskError(id, "Conflict", f"task {id} is not buried", task.state))
        return errors

    async def _wake(self, group: FakeGroup) -> None:
        grown = self._queue(group.info.queue).grown
        async with grown:
            grown.notify_all()

    async def _set_all(self, group: str, state: TaskState, to: TaskState, most: int) -> int:
        found = self._group(group)
        ids = [id for id, task in sorted(found.tasks.items()) if task.state == state][:most]
        for id in ids:
            found.tasks[id].state = to
        await self._wake(found)
        return len(ids)

    async def kick(self, group: str, count: int) -> int:
        return await self._set_all(group, "buried", "ready", count)

    async def release_all(self, group: str) -> int:
        return await self._set_all(group, "taken", "ready", 1_000_000)

    async def purge_group(self, group: str) -> int:
        found = self._group(group)
        ids = range(found.info.first, self._queue(found.info.queue).next_offset)
        open_ = [id for id in ids if self._task(found, id).state != "done"]
        for id in open_:
            found.tasks.setdefault(id, FakeTask()).state = "done"
        return len(open_)

    async def complete_tasks(
        self, change: TaskChange, pushes: list[Push]
    ) -> tuple[TaskOutcomes, list[Receipt]]:
        errors = self._refusals(self._group(change.group), change)
        if errors:
            return TaskOutcomes(0, errors), []
        return await self.change_tasks(change), [await self.append(push) for push in pushes]

    async def peek_task(self, group: str, task: int) -> TaskInfo:
        found = self._group(group)
        queue = self._queue(found.info.queue)
        if not found.info.first <= task < queue.next_offset:
            raise NotFound(f"no task {task} in {group}")
        element, known = next(elements(queue.slice(task, 1))), self._task(found, task)
        until = 5_000_000 if known.state == "taken" else None
        return TaskInfo(
            task, known.state, known.attempt, found.info.settings.priority, element.key, element.value,
            element.headers, known.session, "", 3, until, known.reason,
        )  # fmt: skip

    async def list_tasks(
        self, group: str, *, state: TaskState | None = None, after: int = -1, limit: int = 100
    ) -> list[TaskInfo]:
        found = self._group(group)
        ids = range(max(after + 1, found.info.first), self._queue(found.info.queue).next_offset)
        some = [id for id in ids if state in (None, self._task(found, id).state)][:limit]
        return [await self.peek_task(group, id) for id in some]

    async def tasks_at(self, group: str, time_us: int) -> pa.Table:
        found = await self.list_tasks(group, limit=1_000_000)
        return pa.table({
            "task": pa.array([task.id for task in found], pa.int64()),
            "state": pa.array([task.state for task in found], pa.string()),
            "attempt": pa.array([task.attempt for task in found], pa.int32()),
            "since": pa.array([time_us for _ in found], pa.timestamp("us", "UTC")),
            "worker": pa.nulls(len(found), pa.string()),
            "reason": pa.array([task.reason for task in found], pa.string()),
        })  # fmt: skip

    # Sessions

    async def attach_session(self, session: str, ttr: float) -> SessionInfo:
        if not session or ttr < 0:
            raise InvalidInput("a session has a name, and a ttr that is not negative")
        count = self.sessions.get(session, [0])[0]
        self.sessions[session] = [count + 1, ttr]
        return SessionInfo(session, ttr)

    async def detach_session(self, session: str) -> None:
        self.sessions[session][0] -= 1
        if self.sessions[session] == [0, 0.0]:
            self.released.append(session)
            for name, group in self.groups.items():
                held = [task for task in group.tasks.values() if task.session == session]
                for task in held:
                    task.state = "ready" if task.state == "taken" else task.state
                await self._wake(self._group(name))
