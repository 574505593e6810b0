"""`jjq task …`: tasks of a worker group, taken and given back by hand."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from coldstore.shared.errors import InvalidInput
from jjq.cli.connection import HERE, AsJson, Connection, GroupId
from jjq.cli.output import print_fields, print_json, print_table

if TYPE_CHECKING:
    from hotstore.groups.values import TaskInfo
    from jjq.blocking import Client
    from jjq.client.groups.task import Task, TaskReceipt

app = App(name="task", help="Take tasks of a worker group, give them back, and look at them.")

State = Literal["ready", "taken", "delayed", "buried", "done"]
Session = Annotated[str, Parameter(env_var="JJQ_SESSION", help="Who takes: the same name may ack.")]
TaskAttempt = Annotated[str, Parameter(help="ID:ATTEMPT each, as `jjq task take` printed them.")]
TaskId = Annotated[int, Parameter(help="Ids of the tasks.")]
Reason = Annotated[str | None, Parameter(help="Why, for the ledger.")]
_SHOWN = 60
_SESSION_SECONDS = 86_400.0  # long: the ttr of the task decides, not that of the session


@contextmanager
def _session_client(at: Connection, session: str) -> Iterator[Client]:
    """A client of this session. Tasks that it takes stay taken after the command has ended, for their ttr."""
    with at.open() as client:
        client.session(session, ttr=_SESSION_SECONDS)
        yield client


@app.command
def take(
    group: GroupId,
    /,
    *,
    max: Annotated[int, Parameter(name=["--max", "-n"])] = 1,
    wait: float = 0.0,
    ttr: float | None = None,
    key: Annotated[list[str], Parameter(negative=())] | None = None,
    session: Session = "cli",
    json: AsJson = False,
    at: Connection = HERE,
) -> None:
    """Take tasks that are ready. They are yours for the group's ttr, or for --ttr.

    ```
    jjq task take orders/billing
    jjq task take orders/billing -n 10 --wait 5 --json
    ```

    Parameters
    ----------
    max
        At most this many tasks.
    wait
        Seconds to wait for the first one.
    ttr
        Seconds for which you may hold them. Default: the ttr of the task or the group.
    key
        Only tasks with this key; may be repeated.
    """
    with _session_client(at, session) as client:
        tasks = client.take(group, max, wait, ttr=ttr, keys=key)
    if json:
        for task in tasks:
            print_json(taken_json(task))
        return
    rows = [(f"{t.id}:{t.attempt}", _text(t.key), t.priority, t.deadline, _text(t.value)) for t in tasks]
    if rows:
        print_table(("TASK", "KEY", "PRIORITY", "DEADLINE", "VALUE"), rows)


@app.command
def ack(group: GroupId, /, *tasks: TaskAttempt, session: Session = "cli", at: Connection = HERE) -> None:
    """Mark tasks as done.

    ```
    jjq task ack orders/billing 17:1 18:1
    ```
    """
    with _session_client(at, session) as client:
        client.ack(group, _receipts_of(tasks))


@app.command
def nack(
    group: GroupId,
    /,
    *tasks: TaskAttempt,
    delay: float | None = None,
    reason: Reason = None,
    session: Session = "cli",
    at: Connection = HERE,
) -> None:
    """Mark tasks as failed: they come back later, as often as the group allows.

    ```
    jjq task nack orders/billing 17:1 --reason "no such customer"
    ```

    Parameters
    ----------
    delay
        Seconds before they are ready again. Default: the group's backoff.
    """
    with _session_client(at, session) as client:
        client.nack(group, _receipts_of(tasks), delay, reason)


@app.command
def release(
    group: GroupId,
    /,
    *tasks: TaskAttempt,
    delay: float | None = None,
    priority: int | None = None,
    session: Session = "cli",
    at: Connection = HERE,
) -> None:
    """Give tasks back; each keeps its place in the order. This does not count as a failure.

    ```
    jjq task release orders/billing 17:1
    ```

    Parameters
    ----------
    delay
        Seconds before they are ready again.
    priority
        Their new priority; a smaller number is taken first.
    """
    with _session_client(at, session) as client:
        client.release(group, _receipts_of(tasks), delay, priority)


@app.command
def touch(
    group: GroupId, seconds: float, /, *tasks: TaskAttempt, session: Session = "cli", at: Connection = HERE
) -> None:
    """Hold tasks for some seconds longer.

    ```
    jjq task touch orders/billing 60 17:1
    ```

    Parameters
    ----------
    seconds
        How much longer.
    """
    with _session_client(at, session) as client:
        client.touch(group, _receipts_of(tasks), seconds)


@app.command
def complete(
    group: GroupId,
    /,
    *tasks: TaskAttempt,
    push: Annotated[list[str], Parameter(negative=())],
    session: Session = "cli",
    json: AsJson = False,
    at: Connection = HERE,
) -> None:
    """Ack tasks and push values to other queues of the same node, in one step: all of it or nothing.

    ```
    jjq task complete orders/billing 17:1 --push invoices="invoice of order 17"
    ```

    Parameters
    ----------
    push
        QUEUE=VALUE; may be repeated.
    """
    values: dict[str, list[bytes]] = {}
    for given in push:
        queue, sign, value = given.partition("=")
        if not sign:
            raise InvalidInput(f"--push {given!r:.60} is not QUEUE=VALUE: write for instance invoices=17")
        values.setdefault(queue, []).append(value.encode())
    with _session_client(at, session) as client:
        receipts = client.complete(group, _receipts_of(tasks), values)
    offsets = {queue: receipt.first_offset for queue, receipt in receipts.items()}
    if json:
        print_json(offsets)
        return
    for queue, offset in offsets.items():
        print(f"{queue}: {len(values[queue])} from offset {offset} on")


@app.command
def bury(group: GroupId, /, *ids: TaskId, reason: Reason = None, at: Connection = HERE) -> None:
    """Set tasks aside, whatever their state, until they are kicked.

    ```
    jjq task bury orders/billing 17 --reason "wrong currency"
    ```
    """
    with at.open() as client:
        client.bury(group, _some(ids), reason)


@app.command
def kick(
    group: GroupId, /, *ids: TaskId, count: int | None = None, where: str | None = None, at: Connection = HERE
) -> None:
    """Make buried tasks ready: the oldest --count of them, those with these ids, or those that match --where.

    ```
    jjq task kick orders/billing --count 100
    jjq task kick orders/billing 17
    jjq task kick orders/billing --where "reason LIKE '%timeout%' AND since < '2026-01-31'"
    ```

    Parameters
    ----------
    count
        At most this many.
    where
        A condition in SQL over task, attempt, since, worker and reason.
    """
    with at.open() as client:
        kicked = client.kick(group, count, list(ids) or None, where)
    print(f"kicked {kicked}")


@app.command
def delete(group: GroupId, /, *ids: TaskId, at: Connection = HERE) -> None:
    """Mark tasks as done, whatever their state. Their elements stay.

    ```
    jjq task delete orders/billing 17
    ```
    """
    with at.open() as client:
        client.delete_tasks(group, _some(ids))


@app.command
def peek(group: GroupId, id: int, /, *, json: AsJson = False, at: Connection = HERE) -> None:
    """Look at a task, whatever its state.

    ```
    jjq task peek orders/billing 17
    ```

    Parameters
    ----------
    id
        Id of the task.
    """
    with at.open() as client:
        found = client.peek_task(group, id)
    if json:
        print_json(task_json(found))
        return
    fields = task_json(found) | {"value": _text(found.value), "key": _text(found.key)}
    print_fields(fields)


@app.command(name="list")
def list_(
    group: GroupId,
    /,
    *,
    state: State | None = None,
    limit: int = 100,
    after: int = -1,
    json: AsJson = False,
    at: Connection = HERE,
) -> None:
    """List tasks by id: those that are not done, or those in one state.

    ```
    jjq task list orders/billing --state buried
    ```

    Parameters
    ----------
    state
        Only tasks in this state.
    limit
        At most this many.
    after
        Only tasks with a larger id.
    """
    with at.open() as client:
        found = client.tasks(group, state, limit, after=after)
    if json:
        print_json([task_json(task) for task in found])
        return
    rows = [(t.id, t.state, t.attempt, t.priority, t.worker, t.reason, _text(t.value)) for t in found]
    print_table(("TASK", "STATE", "ATTEMPT", "PRIORITY", "WORKER", "REASON", "VALUE"), rows)


@app.command
def at(group: GroupId, time: str, /, *, json: AsJson = False, at: Connection = HERE) -> None:
    """Show the tasks as they were at a time.

    ```
    jjq task at orders/billing 2026-01-31T12:00:00Z
    ```

    Parameters
    ----------
    time
        The time, in ISO 8601; without a zone it is UTC.
    """
    with at.open() as client:
        rows = client.tasks_at(group, _time(time)).to_pylist()
    if json:
        print_json(rows)
        return
    columns = ("task", "state", "attempt", "since", "worker", "reason")
    print_table([name.upper() for name in columns], [[row[name] for name in columns] for row in rows])


def _receipts_of(tasks: tuple[str, ...]) -> list[TaskReceipt]:
    from jjq.client.groups.task import TaskReceipt

    found = []
    for text in _some(tasks):
        id, colon, attempt = text.partition(":")
        if not colon or not id.isdecimal() or not attempt.isdecimal():
            raise InvalidInput(f"task {text!r:.40} is not ID:ATTEMPT: write it as `jjq task take` printed it")
        found.append(TaskReceipt(int(id), int(attempt)))
    return found


def _some(given: tuple[Any, ...]) -> list[Any]:
    if not given:
        raise InvalidInput("name at least one task")
    return list(given)


def _time(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(f"{text!r:.40} is not a time: write 2026-01-31T12:00:00Z") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _text(value: bytes | str | None) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else value.decode("utf-8", "backslashreplace")
    text = text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return text if len(text) <= _SHOWN or not sys.stdout.isatty() else f"{text[: _SHOWN - 1]}…"


def taken_json(task: Task) -> dict[str, Any]:
    from jjq.client.element_json import content_json

    return {
        "task": f"{task.id}:{task.attempt}",
        "id": task.id,
        "attempt": task.attempt,
        "priority": task.priority,
        "deadline": task.deadline,
        **content_json(task.key, task.value, task.headers),
    }


def task_json(task: TaskInfo) -> dict[str, Any]:
    from coldstore.shared.batch import from_us
    from jjq.client.element_json import content_json

    names = ("id", "state", "attempt", "priority", "session", "worker", "reason")
    return {
        **{name: getattr(task, name) for name in names},
        "created": from_us(task.created_us),
        "until": None if task.until_us is None else from_us(task.until_us),
        **content_json(task.key, task.value, task.headers),
    }
