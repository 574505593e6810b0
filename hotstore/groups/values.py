"""What the verbs of worker groups take and answer: frozen values, the same from this process and from a server.

A group's id is `<queue>/<name>`, in the same name space as subscribers. A task's id is the offset of its element.
The pair (task, attempt) is the receipt of a take: a change by an earlier attempt is refused.

Batches stay columns: a change of a thousand tasks is one `TaskChange` with two sequences of numbers, and its answer
is one `TaskOutcomes`. Nothing here loops over tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, NamedTuple, get_args

import pyarrow as pa

from coldstore.shared import headers
from coldstore.shared.batch import from_us
from coldstore.shared.results import Resolved

TaskState = Literal["ready", "taken", "delayed", "buried", "done"]
TASK_STATES: Final[tuple[str, ...]] = get_args(TaskState)

TaskVerb = Literal["ack", "nack", "release", "touch", "bury", "kick", "delete"]
TASK_VERBS: Final[tuple[str, ...]] = get_args(TaskVerb)

OnExhausted = Literal["bury", "drop"]

TASK_OPTIONS: Final = headers.TASK_OPTIONS  # the headers that are options of a task, by the option's name


@dataclass(frozen=True, slots=True)
class RetryBackoff:
    """How long a task that failed is delayed: base × factor^(attempts - 1) seconds, at most `max`, ± a share of it."""

    base: float = 1.0
    factor: float = 2.0
    max: float = 300.0
    jitter: float = 0.1


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The settings of a group, from its creation or from an update. Times are seconds."""

    driver: str = "fifo"
    ttr: float = 60.0  # how long a worker may hold a task before it goes to another one
    # How long a task may wait and be worked on, from when it was first ready; None: for ever.
    ttl: float | None = None
    delay: float = 0.0  # before a pushed task is ready
    priority: int = 0  # of tasks that name none; a smaller number is taken first
    max_attempts: int | None = None  # takes that may fail; None: any number
    on_exhausted: OnExhausted = "bury"
    backoff: RetryBackoff = field(default_factory=RetryBackoff)
    capacity: int | None = None  # tasks that are not done, at most; a push beyond it waits, then is refused
    per_key: int | None = None  # tasks of one key that may be taken at a time
    rate: float | None = None  # takes of one key per second


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """A group, and where it stands."""

    id: str
    name: str
    queue: str
    settings: GroupSettings
    start: str  # the starting point it was created with
    first: int  # the first task that it sees
    created_us: int
    paused: bool
    waiting: int  # takes that wait for a task now
    tasks: Mapping[str, int]  # how many, by state; "total" without those done
    resolved: Resolved | None = None  # in replies to create and seek

    @property
    def created(self) -> datetime:
        return from_us(self.created_us)

    @property
    def ledger(self) -> str:
        """The hidden queue that keeps what happened to each task."""
        return ledger_of(self.id)


class Take(NamedTuple):
    """One request for tasks."""

    group: str
    max: int = 1
    wait: float = 0.0
    session: str = ""  # who takes: only this session may ack, nack, release and touch
    ttr: float | None = None  # None: as the task or the group says
    keys: Sequence[bytes] | None = None  # only tasks of these sub-queues
    stage: str = "ready"  # ready, written or synced: how durable a take is before it is answered
    worker: str = ""  # a name for the ledger


class TakenTasks(NamedTuple):
    """Tasks that were handed out. `elements` has their elements, in the order of the tasks."""

    elements: pa.RecordBatch
    attempts: Sequence[int]
    deadlines_us: Sequence[int]  # when the worker must be done, by the server's clock
    priorities: Sequence[int]
    known_ids: Sequence[int] | None = None  # else: in `elements`

    @property
    def ids(self) -> Sequence[int]:
        if self.known_ids is not None:
            return self.known_ids
        found: Sequence[int] = self.elements.column("offset").to_pylist()
        return found


class TaskChange(NamedTuple):
    """One verb for a batch of tasks of one group. `attempts` is None where the verb needs none (bury, kick, delete)."""

    group: str
    verb: TaskVerb
    ids: Sequence[int]
    attempts: Sequence[int] | None = None
    session: str = ""
    delay: float | None = None  # nack, release
    priority: int | None = None  # release
    seconds: float | None = None  # touch
    reason: str | None = None  # nack, bury
    # Of an ack: an earlier answer was lost, so what this session has acked with this attempt counts.
    again: bool = False


class TaskError(NamedTuple):
    """Why one task of a batch was not changed.

    A client that repeats a change after a lost answer looks at `state`: a bury whose task is buried has been made.
    An ack is repeated with `TaskChange.again`, since a task that is done may have been acked by who took it later.
    """

    id: int
    code: str  # NotFound, Conflict, … : the name of an error kind
    message: str
    state: TaskState | None = None  # what the task is; None: there is no such task


@dataclass(frozen=True, slots=True)
class TaskOutcomes:
    """What became of a batch: how many tasks were changed, and each one that was not, with its reason.

    `states` counts what the changed tasks are now: a nack may make ready, delayed, buried or (dropped) done.
    """

    changed: int
    errors: Sequence[TaskError] = ()
    states: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """One task, looked at and not taken."""

    id: int
    state: TaskState
    attempt: int
    priority: int
    key: bytes | None
    value: bytes | str
    headers: Mapping[str, bytes]
    session: str
    worker: str
    created_us: int  # when its element was pushed
    until_us: int | None  # taken: deadline; delayed: when it is ready
    reason: str  # of its last nack or bury


@dataclass(frozen=True, slots=True)
class GroupStatistics:
    """`tasks` by state with `total` (not done), `calls` by verb; ages in seconds. A fold of the ledger.

    `rates` are calls a second by verb over the last minute; after a start, of what the newest snapshot does not have.
    """

    tasks: Mapping[str, int]
    calls: Mapping[str, int]
    oldest_ready_seconds: float
    oldest_taken_seconds: float
    rates: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """Who takes. It lives while a connection is attached, and `ttr` seconds longer.

    The `ttr` of the last attach counts. A session that was never attached has no connection that could end: what
    it takes comes back by the ttr of the task alone.
    """

    id: str
    ttr: float


def ledger_of(group: str) -> str:
    """The name of a group's ledger: `<queue>~<name>`."""
    return group.replace("/", "~", 1)
