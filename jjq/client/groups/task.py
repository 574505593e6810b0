"""What a take gives and an ack takes: tasks, as a sequence over Arrow columns.

A batch makes the object of a task when somebody looks at it. A batch that is acked whole never makes one: its ids
and attempts are columns already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, Final, NamedTuple, overload

import pyarrow as pa

from coldstore.shared.attachments import Naming, ObjectSource
from coldstore.shared.batch import from_us
from coldstore.shared.errors import Conflict, InvalidInput, JjqError, NotFound
from coldstore.shared.limits import OFFSET_MAX
from hotstore.groups.values import TakenTasks, TaskInfo, TaskOutcomes, TaskState

_NAMED: Final = 5  # tasks that a message names
_KINDS: Final[dict[str, type[JjqError]]] = {
    kind.__name__: kind for kind in (NotFound, Conflict, InvalidInput)
}


class TaskReceipt(NamedTuple):
    """A task by its numbers alone: enough to ack it from another process of the same session."""

    id: int
    attempt: int


class Task(Naming):
    """One task that was handed out. Its id is the offset of its element."""

    __slots__ = ("_batch", "_row", "attempt", "id")

    state: TaskState = "taken"

    def __init__(self, batch: TaskBatch, row: int) -> None:
        self.id = batch.ids[row]
        self.attempt = batch.attempts[row]
        self._batch = batch
        self._row = row

    @property
    def value(self) -> bytes | str:
        return self._batch.column("value")[self._row]  # type: ignore[no-any-return]

    @property
    def key(self) -> bytes | None:
        return self._batch.column("key")[self._row]  # type: ignore[no-any-return]

    @property
    def headers(self) -> Mapping[str, bytes]:
        return dict(self._batch.column("headers")[self._row] or ())

    def _naming(self) -> tuple[Mapping[str, bytes], ObjectSource | None]:
        return self.headers, self._batch.source

    @property
    def priority(self) -> int:
        return self._batch.taken.priorities[self._row]

    @property
    def deadline(self) -> datetime:
        """When the task goes to another worker, by the server's clock."""
        return from_us(self._batch.taken.deadlines_us[self._row])

    @property
    def created(self) -> datetime:
        """When its element was pushed."""
        return from_us(self._batch.column("timestamp")[self._row])

    def __repr__(self) -> str:
        shown = repr(self.value)
        shown = shown if len(shown) <= 40 else f"{shown[:37]}..."
        return f"Task(id={self.id}, attempt={self.attempt}, value={shown})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Task):
            return NotImplemented
        return (self.id, self.attempt, self.value) == (other.id, other.attempt, other.value)

    def __hash__(self) -> int:
        return hash((self.id, self.attempt))

    def __reduce__(self) -> tuple[Any, ...]:
        # By itself: the others of its batch stay where they are.
        return Task, (self._batch[self._row : self._row + 1], 0)


class TaskBatch(Sequence[Task]):
    """The tasks of one take. `batch` has their elements as Arrow."""

    def __init__(self, taken: TakenTasks, source: ObjectSource | None = None) -> None:
        self.taken = taken
        self.source = source  # reads the objects that tasks name
        self._columns: dict[str, list[Any]] = {}

    @property
    def batch(self) -> pa.RecordBatch:
        return self.taken.elements

    @cached_property
    def ids(self) -> Sequence[int]:
        return self.taken.ids

    @property
    def attempts(self) -> Sequence[int]:
        return self.taken.attempts

    def column(self, name: str) -> list[Any]:
        """A column of the elements as Python values, made once; times as microseconds."""
        found = self._columns.get(name)
        if found is None:
            column = self.batch.column(name)
            if name == "timestamp":
                column = column.cast(pa.int64())
            found = self._columns[name] = column.to_pylist()
        return found

    def __len__(self) -> int:
        return len(self.taken.attempts)

    def __iter__(self) -> Iterator[Task]:
        for row in range(len(self)):
            yield Task(self, row)

    @overload
    def __getitem__(self, at: int) -> Task: ...

    @overload
    def __getitem__(self, at: slice) -> TaskBatch: ...

    def __getitem__(self, at: int | slice) -> Task | TaskBatch:
        if not isinstance(at, slice):
            return Task(self, range(len(self))[at])
        rows = range(len(self))[at]
        taken = self.taken
        columns = ([values[row] for row in rows] for values in _numbers(taken))
        if rows.step == 1:
            elements = self.batch.slice(rows.start, len(rows))
        else:
            elements = self.batch.take(pa.array(list(rows), pa.int64()))
        return TaskBatch(TakenTasks(elements, *columns), self.source)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, list | TaskBatch):
            return NotImplemented
        return len(self) == len(other) and all(one == two for one, two in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __add__(self, other: Iterable[Task]) -> list[Task]:
        return [*self, *other]

    def __radd__(self, other: Iterable[Task]) -> list[Task]:
        return [*other, *self]

    def __repr__(self) -> str:
        return f"<{len(self)} tasks>" if len(self) > _NAMED else repr(list(self))


def _numbers(taken: TakenTasks) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
    return taken.attempts, taken.deadlines_us, taken.priorities


Tasks = Task | TaskReceipt | TaskInfo | Iterable[Task | TaskReceipt | TaskInfo]
TasksOrIds = Tasks | int | Iterable[int]
_WITH_ATTEMPT: Final = (Task, TaskReceipt, TaskInfo)


def receipts_of(tasks: object) -> tuple[Sequence[int], Sequence[int]]:
    """The ids and attempts of tasks, for verbs that only the worker who took them may call."""
    if isinstance(tasks, TaskBatch):
        return tasks.ids, tasks.attempts
    listed = _listed(tasks)
    for each in listed:
        if not isinstance(each, _WITH_ATTEMPT):
            raise InvalidInput(
                f"tasks has {_shown(each)}: give tasks as take gave them; an id alone does not tell the attempt"
            )
    return [each.id for each in listed], [each.attempt for each in listed]


def ids_of(name: str, tasks: object) -> Sequence[int]:
    """The ids of tasks, for verbs that anybody may call."""
    if isinstance(tasks, TaskBatch):
        return tasks.ids
    ids: list[int] = []
    for each in _listed(tasks, int):
        found = each.id if isinstance(each, _WITH_ATTEMPT) else each
        if isinstance(found, bool) or not isinstance(found, int):
            raise InvalidInput(f"{name} has {_shown(each)}: give tasks, or their ids as whole numbers")
        if not 0 <= found <= OFFSET_MAX:
            raise InvalidInput(f"{name} has {found}, which cannot be the id of a task")
        ids.append(found)
    return ids


def _listed(tasks: object, *more: type) -> Sequence[Any]:
    if isinstance(tasks, (*_WITH_ATTEMPT, *more)):
        return [tasks]
    if isinstance(tasks, str | bytes | bytearray | Mapping) or not isinstance(tasks, Iterable):
        raise InvalidInput(f"tasks is {_shown(tasks)}: give a task, or a list of tasks")
    return tasks if isinstance(tasks, list | tuple) else list(tasks)


def _shown(given: object) -> str:
    shown = repr(given)
    return f"{shown if len(shown) <= 40 else shown[:37] + '...'} ({type(given).__name__})"


class RefusedTasks(Conflict):
    """Tasks of a batch that were not changed; the others were. `outcomes` names each one and why."""

    def __init__(self, message: str, outcomes: TaskOutcomes) -> None:
        super().__init__(message)
        self.outcomes = outcomes


RefusedTasks.__module__ = "jjq"  # where users know it from, as the other errors


def raise_refusals(verb: str, outcomes: TaskOutcomes, asked: int, *, whole: bool = False) -> None:
    """Raise if tasks were refused: for a single task its own error. `whole`: then no task was changed."""
    errors = outcomes.errors
    if not errors:
        return
    if asked == 1:
        raise _KINDS.get(errors[0].code, Conflict)(errors[0].message)
    named = "; ".join(error.message for error in errors[:_NAMED])
    more = f"; and {len(errors) - _NAMED} more" if len(errors) > _NAMED else ""
    rest = "nothing was done" if whole else f"{verb} of the other {outcomes.changed} was done"
    raise RefusedTasks(f"{len(errors)} of {asked} tasks were refused, {rest}: {named}{more}", outcomes)
