"""The marks of a text queue as states of tasks in a worker group, and back.

    =  done     a task that is done
    !  critical a task that is buried
    -  queued   a task that is ready, taken or delayed

States go from the file to the group at an import, and from the group to the file at an export. Neither goes back: what
is done in one is never queued in the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from coldstore.shared.clock import Clock
from coldstore.shared.errors import Conflict, NotFound
from jjq.textqueue.format import TextStatus

if TYPE_CHECKING:
    from jjq.blocking import Client

_STATUSES = {"done": TextStatus.DONE, "buried": TextStatus.CRITICAL}
_CHANGES = 10_000  # tasks in one request
_ATTEMPTS = 5  # while workers change tasks at the same time


class GroupStates:
    """The tasks of one group, as a text queue sees them."""

    def __init__(self, client: Client, queue: str, group: str, clock: Clock) -> None:
        self._client = client
        self._queue = queue
        self._name = group.removeprefix(f"{queue}/")
        self._clock = clock
        self._paused = False
        self.id = f"{queue}/{self._name}"

    def create(self) -> None:
        """Make the group if there is none; it sees the queue from the beginning."""
        try:
            self._client.get_group(self.id)
        except NotFound:
            self._client.create_group(self._queue, self._name)

    def pause(self) -> None:
        """Let no worker take a task: what is pushed next may be done already."""
        if not self._paused and not self._client.get_group(self.id).paused:
            self._client.pause(self.id)
            self._paused = True

    def resume(self) -> None:
        """Undo `pause`; a group that somebody else has paused stays so."""
        if self._paused:
            self._client.resume(self.id)
            self._paused = False

    def first(self) -> int:
        """The first task; elements before it are none of this group."""
        return self._client.get_group(self.id).first

    def read(self) -> dict[int, TextStatus]:
        """Tasks that are done or buried, by offset."""
        now = datetime.fromtimestamp(self._clock.now_us() / 1e6, UTC)
        table = self._client.tasks_at(self.id, now + timedelta(days=1))  # a server's clock may be ahead
        pairs = zip(table.column("task").to_pylist(), table.column("state").to_pylist(), strict=True)
        return {task: _STATUSES[state] for task, state in pairs if state in _STATUSES}

    def write(self, wanted: dict[int, TextStatus]) -> int:
        """Make tasks done or buried that are not yet; how many were changed."""
        changed = 0
        for attempt in range(_ATTEMPTS):
            now, first = self.read(), self.first()
            left = {
                task: status
                for task, status in wanted.items()
                if task >= first and now.get(task) not in (status, TextStatus.DONE)
            }
            try:
                self._finish([task for task, status in left.items() if status is TextStatus.DONE])
                self._bury([task for task, status in left.items() if status is TextStatus.CRITICAL])
            except (Conflict, NotFound):
                if attempt + 1 == _ATTEMPTS:
                    raise
            else:
                changed += len(left)
                break
        return changed

    def _finish(self, tasks: list[int]) -> None:
        for some in _parts(tasks):
            self._client.delete_tasks(self.id, some)

    def _bury(self, tasks: list[int]) -> None:
        for some in _parts(tasks):
            self._client.bury(self.id, some, reason="critical in a text queue")


def _parts(tasks: list[int]) -> Iterable[list[int]]:
    return (tasks[first : first + _CHANGES] for first in range(0, len(tasks), _CHANGES))
