"""The port of worker groups: the verbs. This node, another node or a server answers them.

Every verb with a batch answers for each task: tasks that cannot be changed are named in the outcomes, the others are
changed. A request that is wrong as a whole (unknown group, negative time) raises, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import pyarrow as pa

from coldstore.shared.push import Push
from coldstore.shared.results import Receipt
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


class WorkStore(Protocol):
    """The verbs of worker groups. Errors are those of coldstore.shared.errors."""

    async def create_group(
        self, queue: str, name: str, settings: GroupSettings, *, start: str = "beginning"
    ) -> GroupInfo:
        """Create; the same request again returns the existing group, another one is a `Conflict`."""
        ...

    async def get_group(self, group: str) -> GroupInfo: ...

    async def list_groups(
        self, queue: str | None = None, *, after: str = "", limit: int | None = None
    ) -> list[GroupInfo]:
        """Of one queue or all, by id: all, or the first `limit` of those after the id `after`."""
        ...

    async def update_group(self, group: str, changes: Mapping[str, Any]) -> GroupInfo:
        """Change settings by name, from now on; the driver stays."""
        ...

    async def delete_group(self, group: str, *, force: bool = False) -> None:
        """Delete; refused while tasks are taken, unless forced. The ledger stays in the cold store."""
        ...

    async def pause_group(self, group: str, *, paused: bool = True) -> GroupInfo:
        """While paused no task is handed out; acks and the rest go on."""
        ...

    async def seek_group(
        self, group: str, start: str, *, clamp: bool = False, dry_run: bool = False
    ) -> GroupInfo:
        """Begin again at a starting point: tasks from there on are ready again; refused while tasks are taken."""
        ...

    async def take(self, take: Take) -> TakenTasks:
        """Hand out tasks; waits up to `wait` seconds for the first one."""
        ...

    async def change_tasks(self, change: TaskChange) -> TaskOutcomes:
        """ack, nack, release, touch, bury, kick or delete a batch; durable before the answer."""
        ...

    async def kick(self, group: str, count: int) -> int:
        """Make up to `count` buried tasks ready, the oldest first; how many were."""
        ...

    async def purge_group(self, group: str) -> int:
        """Every task that is not done becomes done, taken ones too; how many."""
        ...

    async def release_all(self, group: str) -> int:
        """Every taken task becomes ready, whoever holds it; how many."""
        ...

    async def complete_tasks(
        self, change: TaskChange, pushes: list[Push]
    ) -> tuple[TaskOutcomes, list[Receipt]]:
        """Ack and push in one journal batch: all of it or nothing. All queues must be of one node."""
        ...

    async def peek_task(self, group: str, task: int) -> TaskInfo:
        """Look at a task, whatever its state; one that is long done is answered from the ledger."""
        ...

    async def list_tasks(
        self, group: str, *, state: TaskState | None = None, after: int = -1, limit: int = 100
    ) -> list[TaskInfo]:
        """Tasks by id, after the one named."""
        ...

    async def group_statistics(self, group: str) -> GroupStatistics: ...

    async def tasks_at(self, group: str, time_us: int) -> pa.Table:
        """The tasks as they were at that time: task, state, attempt, since, worker, reason."""
        ...

    async def attach_session(self, session: str, ttr: float) -> SessionInfo:
        """A connection of this session begins. Attach as often as detach."""
        ...

    async def detach_session(self, session: str) -> None:
        """A connection of this session ended; after the last one and the session's ttr its tasks are released."""
        ...
