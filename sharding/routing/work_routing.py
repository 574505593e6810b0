"""The verbs of worker groups, routed by the queue that a group works on. Part of the stores of this room.

A group is where its queue is, and its ledger too. Sessions are known to every node, since a client takes from queues of
several nodes over one connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar, cast

import pyarrow as pa

from coldstore.shared.push import Push
from coldstore.shared.results import Receipt, queue_part
from hotstore.groups.port import WorkStore
from hotstore.groups.values import (
    GroupInfo,
    GroupSettings,
    GroupStatistics,
    SessionInfo,
    Take,
    TakenTasks,
    TaskChange,
    TaskInfo,
    TaskOutcomes,
    TaskState,
)
from hotstore.port import Store

T = TypeVar("T")


class WorkRouting:
    """Each verb names its queue and what to ask of the store that has it."""

    local: Store

    async def _ask(self, queue: str, call: Callable[[Store], Awaitable[T]], *, safe: bool = True) -> T:
        raise NotImplementedError

    async def _ask_work(
        self, group: str, call: Callable[[WorkStore], Awaitable[T]], *, safe: bool = True
    ) -> T:
        """Let the store that has the group's queue answer; `safe` calls may happen twice."""
        queue = queue_part(group) if isinstance(group, str) else group
        return await self._ask(queue, lambda store: call(work_of(store)), safe=safe)

    async def create_group(
        self, queue: str, name: str, settings: GroupSettings, *, start: str = "beginning"
    ) -> GroupInfo:
        return await self._ask_work(queue, lambda work: work.create_group(queue, name, settings, start=start))

    async def get_group(self, group: str) -> GroupInfo:
        return await self._ask_work(group, lambda work: work.get_group(group))

    async def list_groups(
        self, queue: str | None = None, *, after: str = "", limit: int | None = None
    ) -> list[GroupInfo]:
        if queue is None:
            return await work_of(self.local).list_groups(after=after, limit=limit)
        return await self._ask_work(queue, lambda work: work.list_groups(queue, after=after, limit=limit))

    async def update_group(self, group: str, changes: Mapping[str, Any]) -> GroupInfo:
        return await self._ask_work(group, lambda work: work.update_group(group, changes))

    async def delete_group(self, group: str, *, force: bool = False) -> None:
        # A second attempt after a success would find no group, and fail.
        await self._ask_work(group, lambda work: work.delete_group(group, force=force), safe=False)

    async def pause_group(self, group: str, *, paused: bool = True) -> GroupInfo:
        return await self._ask_work(group, lambda work: work.pause_group(group, paused=paused))

    async def seek_group(
        self, group: str, start: str, *, clamp: bool = False, dry_run: bool = False
    ) -> GroupInfo:
        return await self._ask_work(
            group, lambda work: work.seek_group(group, start, clamp=clamp, dry_run=dry_run), safe=dry_run
        )

    async def take(self, take: Take) -> TakenTasks:
        return await self._ask_work(take.group, lambda work: work.take(take), safe=False)

    async def change_tasks(self, change: TaskChange) -> TaskOutcomes:
        return await self._ask_work(change.group, lambda work: work.change_tasks(change), safe=False)

    async def kick(self, group: str, count: int) -> int:
        return await self._ask_work(group, lambda work: work.kick(group, count), safe=False)

    async def purge_group(self, group: str) -> int:
        return await self._ask_work(group, lambda work: work.purge_group(group), safe=False)

    async def release_all(self, group: str) -> int:
        return await self._ask_work(group, lambda work: work.release_all(group), safe=False)

    async def complete_tasks(
        self, change: TaskChange, pushes: list[Push]
    ) -> tuple[TaskOutcomes, list[Receipt]]:
        return await self._ask_work(
            change.group, lambda work: work.complete_tasks(change, pushes), safe=False
        )

    async def peek_task(self, group: str, task: int) -> TaskInfo:
        return await self._ask_work(group, lambda work: work.peek_task(group, task))

    async def list_tasks(
        self, group: str, *, state: TaskState | None = None, after: int = -1, limit: int = 100
    ) -> list[TaskInfo]:
        return await self._ask_work(
            group, lambda work: work.list_tasks(group, state=state, after=after, limit=limit)
        )

    async def group_statistics(self, group: str) -> GroupStatistics:
        return await self._ask_work(group, lambda work: work.group_statistics(group))

    async def tasks_at(self, group: str, time_us: int) -> pa.Table:
        return await self._ask_work(group, lambda work: work.tasks_at(group, time_us))

    async def attach_session(self, session: str, ttr: float) -> SessionInfo:
        return await work_of(self.local).attach_session(session, ttr)

    async def detach_session(self, session: str) -> None:
        await work_of(self.local).detach_session(session)


def work_of(store: Store) -> WorkStore:
    """A store with the verbs of worker groups: those of this room, of this node and of servers have them."""
    return cast("WorkStore", store)
