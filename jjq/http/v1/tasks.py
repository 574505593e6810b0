"""Routes of tasks: workers take them, and say what became of them.

A worker names a task by its id and by the attempt that it was handed out with. HTTP has no connection that a session
could end with: a task that nobody finishes comes back after its ttr.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Annotated, Any, Final, Literal, cast

from msgspec import Meta, Struct

from coldstore.shared.batch import from_us, to_us
from coldstore.shared.errors import InvalidInput
from hotstore.groups.values import TASK_STATES, Take, TaskChange, TaskInfo, TaskOutcomes, TaskState, TaskVerb
from hotstore.port import Push
from jjq.access.quotas import SPENDER
from jjq.http.problems import HttpRefusal
from jjq.http.replies import BytesReply, Reply, StreamReply, document
from jjq.http.request import Request
from jjq.http.routing import HttpRoute, Parameter
from jjq.http.v1.documents import Name, NewElement, Offset, ReceiptDocument, Sent, receipt_document
from jjq.http.v1.element_text import write_elements
from jjq.http.v1.elements import ARROW, NDJSON, batch_of
from jjq.http.v1.groups import GROUP, group_id, work_of
from jjq.http.v1.queues import PAGE, queue_of, requested_page
from jjq.http.v1.sql import row_texts
from jjq.limits import HTTP_JSON_BYTES_MAX, HTTP_PAGE_ELEMENTS
from jjq.server.groups.group_verbs import take_tasks
from jjq.wire import arrow_ipc

_AT_ROWS: Final = 10_000  # in one part of a reply
_SIMPLE: Final[tuple[tuple[TaskVerb, str], ...]] = (
    ("ack", "They are done"),
    ("nack", "They failed: they are delayed and handed out again, or buried"),
    ("release", "Give them back"),
    ("touch", "Hold them for longer"),
    ("bury", "Set them aside, until they are kicked"),
    ("delete", "They are not to be done"),
)


class TakeOrder(Sent):
    max: Annotated[int, Meta(ge=1, le=HTTP_PAGE_ELEMENTS)] = 1
    wait_seconds: Annotated[float, Meta(ge=0)] = 0.0
    session: str = ""
    worker: str = ""
    ttr: float | None = None
    keys: list[str] | None = None
    stage: Literal["ready", "written", "synced"] = "ready"


class TaskReference(Sent):
    """A task, and the attempt that it was handed out with."""

    id: Offset
    attempt: int | None = None


class TaskChangeOrder(Sent):
    tasks: Annotated[list[TaskReference], Meta(min_length=1, max_length=HTTP_PAGE_ELEMENTS)]
    session: str = ""
    delay: float | None = None
    priority: int | None = None
    seconds: float | None = None
    reason: str | None = None


class KickOrder(Sent):
    """`tasks`, or the `count` oldest that are buried."""

    tasks: list[TaskReference] | None = None
    count: Annotated[int, Meta(ge=1)] | None = None


class TaskPush(Sent):
    queue: Name
    elements: Annotated[list[NewElement], Meta(min_length=1)]


class CompletionOrder(Sent):
    """Acks and pushes: all of it happens, or nothing. All queues must be of one node."""

    tasks: Annotated[list[TaskReference], Meta(min_length=1)]
    pushes: list[TaskPush]
    session: str = ""


class TaskErrorDocument(Struct):
    id: int
    code: str
    message: str
    state: str | None


class OutcomesDocument(Struct):
    """How many tasks were changed, and each one that was not, with its reason."""

    changed: int
    states: dict[str, int]
    errors: list[TaskErrorDocument]


class CompletionDocument(Struct):
    outcomes: OutcomesDocument
    receipts: list[ReceiptDocument]


class TaskCount(Struct):
    count: int


class TaskDocument(Struct):
    """Bytes that are no UTF-8 are shown with their odd bytes as \\\\xNN; a replay of the queue has them exactly.

    `value_bytes` is there if `value` is only the beginning, and says how long all of it is.
    """

    id: int
    state: str
    attempt: int
    priority: int
    key: str | None
    value: str
    headers: dict[str, str]
    session: str
    worker: str
    created: datetime
    until: datetime | None
    reason: str
    value_bytes: int | None = None


class TaskPage(Struct):
    tasks: list[TaskDocument]
    next_page_token: str = ""


class TakenTask(Struct):
    """A task in your hands until its deadline: the fields of its element, and these."""

    id: int
    attempt: int
    deadline: datetime
    priority: int
    element: dict[str, Any]


class TakenPage(Struct):
    tasks: list[TakenTask]


async def _take(request: Request) -> Reply:
    wanted = await request.decode(TakeOrder)
    keys = None if wanted.keys is None else [key.encode() for key in wanted.keys]
    take = Take(
        group_id(request), wanted.max, 0.0, wanted.session, wanted.ttr, keys, wanted.stage, wanted.worker
    )
    backend, work = request.backend, work_of(request)
    backend.outgoing.check_room()
    taken = await take_tasks(work, backend.drain, take)
    if not len(taken.attempts) and wanted.wait_seconds:
        patient = take_tasks(work, backend.drain, take._replace(wait=wanted.wait_seconds))
        taken = await request.while_connected(patient)
    backend.metrics.meter("http_take").moved(len(taken.attempts))
    rest = zip(taken.attempts, taken.deadlines_us, taken.priorities, strict=True)

    def frame(offset: int, text: bytes) -> bytes:
        attempt, deadline, priority = next(rest)
        until = from_us(deadline).isoformat().replace("+00:00", "Z").encode()
        head = b'{"id":%d,"attempt":%d,"deadline":"%b","priority":%d,"element":' % (
            offset,
            attempt,
            until,
            priority,
        )
        return head + text + b"},"

    content = await backend.content_of(queue_of(request))
    texts = await backend.scheduler.run(write_elements(taken.elements, content, frame))
    return BytesReply(b'{"tasks":[' + texts.removesuffix(b",") + b"]}")


def _change(verb: TaskVerb) -> Callable[[Request], Any]:
    async def change(request: Request) -> Reply:
        wanted = await request.decode(TaskChangeOrder, HTTP_JSON_BYTES_MAX)
        return document(_outcomes(await _changed(request, _task_change(request, verb, wanted))))

    return change


def _task_change(request: Request, verb: TaskVerb, wanted: TaskChangeOrder) -> TaskChange:
    attempts = [task.attempt for task in wanted.tasks]
    if verb in {"ack", "nack", "release", "touch"} and None in attempts:
        raise HttpRefusal(
            422, f"{verb} needs the attempt of each task, as it was handed out: send id and attempt"
        )
    numbers = None if None in attempts else [attempt for attempt in attempts if attempt is not None]
    return TaskChange(
        group_id(request), verb, [task.id for task in wanted.tasks], numbers, wanted.session, wanted.delay,
        wanted.priority, wanted.seconds, wanted.reason,
    )  # fmt: skip


async def _changed(request: Request, change: TaskChange) -> TaskOutcomes:
    """Finished and written even if the client has gone."""
    work = asyncio.ensure_future(work_of(request).change_tasks(change))
    request.backend.drain.keep(work)
    return await asyncio.shield(work)


def _outcomes(outcomes: TaskOutcomes) -> OutcomesDocument:
    errors = [TaskErrorDocument(*error) for error in outcomes.errors]
    return OutcomesDocument(outcomes.changed, dict(outcomes.states), errors)


async def _kick(request: Request) -> Reply:
    wanted = await request.decode(KickOrder, HTTP_JSON_BYTES_MAX)
    if (wanted.tasks is None) == (wanted.count is None):
        raise HttpRefusal(422, "give tasks, or the count of buried tasks to kick, and not both")
    if wanted.tasks is not None:
        change = TaskChange(group_id(request), "kick", [task.id for task in wanted.tasks])
        return document(_outcomes(await _changed(request, change)))
    count = await work_of(request).kick(group_id(request), wanted.count or 0)
    return document(OutcomesDocument(count, {"ready": count}, []))


async def _complete(request: Request) -> Reply:
    wanted = await request.decode(CompletionOrder, HTTP_JSON_BYTES_MAX)
    backend, usage = request.backend, SPENDER.get()
    if usage is not None:
        usage.check()
    pushes = []
    for each in wanted.pushes:
        request.require("push", each.queue)  # the route's right is that to work
        if backend.keys is not None:
            backend.keys.check_signature(each.queue, None, b"")
        batch = batch_of(each.elements, await backend.content_of(each.queue))
        if backend.keys is not None:
            backend.keys.check_size(each.queue, batch.nbytes)
        pushes.append(Push(each.queue, batch))
    change = _task_change(request, "ack", TaskChangeOrder(wanted.tasks, wanted.session))
    work = asyncio.ensure_future(work_of(request).complete_tasks(change, pushes))
    backend.drain.keep(work)
    outcomes, receipts = await asyncio.shield(work)
    if usage is not None:
        usage.spend_all(pushes)
    return document(CompletionDocument(_outcomes(outcomes), [receipt_document(each) for each in receipts]))


async def _purge(request: Request) -> Reply:
    return document(TaskCount(await work_of(request).purge_group(group_id(request))))


async def _release_all(request: Request) -> Reply:
    return document(TaskCount(await work_of(request).release_all(group_id(request))))


async def _list(request: Request) -> Reply:
    query = request.query("page_size", "page_token", "state", "cut")
    state = requested_state(query.get("state"))
    cut = request.number("cut", 0) if "cut" in query else None
    page = requested_page(request, f"tasks {group_id(request)} {state or ''}", "state", "cut")
    size = min(page.size or HTTP_PAGE_ELEMENTS, HTTP_PAGE_ELEMENTS)
    found = await work_of(request).list_tasks(
        group_id(request), state=state, after=page.offset - 1, limit=size + 1
    )
    shown = found[:size]
    token = page.token_after(shown[-1].id + 1) if len(found) > size else ""
    return document(TaskPage([_task(task, cut) for task in shown], token))


async def _get(request: Request) -> Reply:
    request.query()
    return document(_task(await work_of(request).peek_task(group_id(request), requested_task(request))))


async def _at(request: Request) -> Reply:
    """The tasks as they were, as lines or Arrow: a group may have many."""
    form = request.accepts((NDJSON, ARROW))
    request.query("time")
    table = await work_of(request).tasks_at(group_id(request), requested_time(request, "time"))

    async def parts() -> AsyncIterator[bytes]:
        if form == ARROW:
            yield table.schema.serialize().to_pybytes()
        for batch in table.to_batches(max_chunksize=_AT_ROWS):
            if form == ARROW:
                yield batch.serialize().to_pybytes()
            else:
                texts = await request.backend.scheduler.run(row_texts(batch))
                yield b"".join(line + b"\n" for line in texts)
        if form == ARROW:
            yield arrow_ipc.END

    return StreamReply(parts(), form.encode())


def requested_state(text: str | None) -> TaskState | None:
    """A parameter that is a state of tasks."""
    if text is not None and text not in TASK_STATES:
        raise InvalidInput(f"state is {text[:60]!r}: use one of {', '.join(TASK_STATES)}")
    return cast("TaskState | None", text)


def requested_task(request: Request) -> int:
    """The task that the path names."""
    text = request.params["task"]
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        raise InvalidInput(f"task {text[:60]!r} is not an id: write the offset of its element")
    return int(text)


def requested_time(request: Request, name: str) -> int:
    """A parameter that is a time, in microseconds; `query` was called before."""
    text = request.text(name)
    try:
        return to_us(datetime.fromisoformat(text))
    except ValueError:
        raise InvalidInput(
            f"{name} is {text[:60]!r}: write for instance {name}=2026-01-31T12:00:00Z"
        ) from None


def _task(task: TaskInfo, cut: int | None = None) -> TaskDocument:
    value, size = task.value, None
    if cut is not None and len(value) > cut:
        value, size = value[:cut], len(value.encode() if isinstance(value, str) else value)
    return TaskDocument(
        task.id, task.state, task.attempt, task.priority, None if task.key is None else _text(task.key),
        _text(value), {name: _text(value) for name, value in task.headers.items()}, task.session, task.worker,
        from_us(task.created_us), None if task.until_us is None else from_us(task.until_us), task.reason, size,
    )  # fmt: skip


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "backslashreplace")


ROUTES = (
    HttpRoute(
        "POST", f"{GROUP}/take", _take, "take", "Take tasks; each is yours until its deadline", "work", "queue",
        waits=True, body=TakeOrder, reply=TakenPage,
    ),
    *(
        HttpRoute(
            "POST", f"{GROUP}/{verb}", _change(verb), f"{verb}_tasks", about, "work", "queue", body=TaskChangeOrder,
            reply=OutcomesDocument,
        )
        for verb, about in _SIMPLE
    ),
    HttpRoute(
        "POST", f"{GROUP}/kick", _kick, "kick_tasks", "Buried tasks are ready again", "work", "queue",
        body=KickOrder, reply=OutcomesDocument,
    ),
    HttpRoute(
        "POST", f"{GROUP}/complete", _complete, "complete_tasks", "Ack tasks and push elements: all of it or nothing",
        "work", "queue", body=CompletionOrder, reply=CompletionDocument,
    ),
    HttpRoute(
        "POST", f"{GROUP}/purge", _purge, "purge_group", "Every task that is not done is done", queue="queue",
        reply=TaskCount,
    ),
    HttpRoute(
        "POST", f"{GROUP}/release-all", _release_all, "release_all_tasks", "Every taken task is ready again",
        queue="queue", reply=TaskCount,
    ),
    HttpRoute(
        "GET", f"{GROUP}/tasks", _list, "list_tasks", "Tasks by id", "work|read", "queue", reply=TaskPage,
        parameters=(
            *PAGE, Parameter("state", "ready, taken, delayed, buried or done"),
            Parameter("cut", "cut values after this many characters", "integer"),
        ),
    ),
    HttpRoute(
        "GET", f"{GROUP}/tasks-at", _at, "tasks_at", "The tasks as they were at a time", "work|read", "queue",
        gives=(NDJSON, ARROW), parameters=(Parameter("time", "RFC 3339, with a zone"),),
    ),
    HttpRoute("GET", f"{GROUP}/tasks/{{task}}", _get, "get_task", "One task", "work|read", "queue", reply=TaskDocument),
)  # fmt: skip
