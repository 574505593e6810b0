"""Takes, changes of tasks and their outcomes, and the requests and results of a Work stream.

    WorkRequest    = ( 0a · length · NumberedWork )*
    WorkResponse   = ( padding? · 0a · length · WorkResult )*      as a PopStreamResponse, see results.py
    CompleteTasksRequest = ( 0a · length · ChangeTasksRequest | padding? · 12 · length · PushRequest )*

Requests of a stream, and the pushes of a completion, are cut out of the raw bytes and looked at one by one: what a
few bytes stand for is counted before it is parsed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

from coldstore.shared.errors import InvalidInput, JjqError
from hotstore.groups.values import SessionInfo, Take, TakenTasks, TaskChange, TaskError, TaskOutcomes
from jjq.limits import CHANGE_BYTES_MAX, COMPLETE_PUSHES_MAX, TASKS_MAX
from jjq.v1 import jjq_pb2 as pb
from jjq.wire import arrow_field
from jjq.wire.batches import decode, parse, request
from jjq.wire.enums import STAGE
from jjq.wire.groups.group_messages import STATE, VERB, finite, given
from jjq.wire.request import make_message
from jjq.wire.status import KINDS, error_in

_REQUESTS_TAG: Final = 1 << 3 | 2
_RESULTS_TAG: Final = 1 << 3 | 2
_TAKEN_TAG: Final = 2 << 3 | 2
_CHANGE_TAG: Final = 1 << 3 | 2
_PUSHES_TAG: Final = 2 << 3 | 2
_KIND_NUMBERS: Final = {kind.error.__name__: kind.number for kind in KINDS}
_KIND_NAMES: Final = {kind.number: kind.error.__name__ for kind in KINDS}

WorkAnswer = TakenTasks | TaskOutcomes | SessionInfo


# Takes --------------------------------------------------------------------------------------------


def take_out(take: Take) -> pb.TakeRequest:
    return make_message(
        pb.TakeRequest,
        group=take.group,
        max=take.max,
        wait_seconds=take.wait,
        session=take.session,
        form=pb.FORM_ARROW,
        ttr=take.ttr,
        keys=take.keys,
        stage=STAGE.number(cast("Any", take.stage)),
        worker=take.worker,
    )


def take_in(message: pb.TakeRequest, session: str = "") -> Take:
    """What a request asks for; `session` is that of the stream it came on."""
    ttr = given(message, "ttr")
    return Take(
        message.group,
        message.max or 1,
        message.wait_seconds,
        message.session or session,
        None if ttr is None else finite("ttr", ttr),
        list(message.keys) or None,
        STAGE.word(message.stage) if message.stage else "ready",
        message.worker,
    )


def taken_out(taken: TakenTasks, owner: str) -> pb.TakeResponse:
    """The answer to a take, but for the elements."""
    return pb.TakeResponse(
        attempts=taken.attempts, deadlines_us=taken.deadlines_us, priorities=taken.priorities, owner=owner
    )


def taken_in(raw: bytes, begin: int = 0, end: int | None = None) -> tuple[TakenTasks, str]:
    """The tasks in a TakeResponse, and the hint."""
    message, batch = decode(pb.TakeResponse, raw, begin, end, most=CHANGE_BYTES_MAX)
    if batch is None:
        raise InvalidInput("the server answered a take without elements")
    columns = (list(message.attempts), list(message.deadlines_us), list(message.priorities))
    return TakenTasks(batch, *columns), message.owner


# Changes ------------------------------------------------------------------------------------------


def change_out(change: TaskChange) -> pb.ChangeTasksRequest:
    refuse_many(change.ids)
    return make_message(
        pb.ChangeTasksRequest,
        group=change.group,
        verb=VERB.number(change.verb),
        ids=change.ids,
        attempts=change.attempts,
        session=change.session,
        delay=change.delay,
        priority=change.priority,
        seconds=change.seconds,
        reason=change.reason,
        again=change.again,
    )


def change_in(message: pb.ChangeTasksRequest, session: str = "") -> TaskChange:
    """The change that a request asks for; `session` is that of the stream it came on."""
    refuse_many(message.ids)
    if message.attempts and len(message.attempts) != len(message.ids):
        raise InvalidInput(
            f"{len(message.ids)} tasks but {len(message.attempts)} attempts: give one for each task, or none"
        )
    delay, seconds = given(message, "delay"), given(message, "seconds")
    return TaskChange(
        message.group,
        VERB.word(message.verb),
        list(message.ids),
        list(message.attempts) if message.attempts else None,
        message.session or session,
        None if delay is None else finite("delay", delay),
        given(message, "priority"),
        None if seconds is None else finite("seconds", seconds),
        given(message, "reason"),
        message.again,
    )


def refuse_many(ids: Sequence[int]) -> None:
    if len(ids) > TASKS_MAX:
        raise InvalidInput(f"{len(ids)} tasks in one request: at most {TASKS_MAX}, split them")


def outcomes_out(outcomes: TaskOutcomes, owner: str = "") -> pb.ChangeTasksResponse:
    errors = [
        pb.TaskError(
            id=error.id,
            kind=_KIND_NUMBERS.get(error.code, pb.ERROR_KIND_UNSPECIFIED),
            message=error.message,
            state=pb.TASK_STATE_UNSPECIFIED
            if error.state is None
            else cast("Any", STATE.number(error.state)),
        )
        for error in outcomes.errors
    ]
    return pb.ChangeTasksResponse(
        changed=outcomes.changed, errors=errors, states=dict(outcomes.states), owner=owner
    )


def outcomes_in(message: pb.ChangeTasksResponse) -> TaskOutcomes:
    errors = [
        TaskError(
            error.id,
            _KIND_NAMES.get(error.kind, "Unavailable"),
            error.message,
            STATE.word(error.state) if error.state else None,
        )
        for error in message.errors
    ]
    return TaskOutcomes(message.changed, errors, dict(message.states))


# Completion: an ack and pushes ----------------------------------------------------------------------


def join_completion(change: pb.ChangeTasksRequest, pushes: Sequence[bytes]) -> bytes:
    """A CompleteTasksRequest of encoded pushes; each begins at a multiple of 8 bytes, as its own padding expects."""
    head = change.SerializeToString()
    parts = [bytes((_CHANGE_TAG,)) + arrow_field.varint(len(head)), head]
    at = sum(map(len, parts))
    for raw in pushes:
        lead = bytes((_PUSHES_TAG,)) + arrow_field.varint(len(raw))
        padding = arrow_field.padding(at + len(lead))
        parts += (padding, lead, raw)
        at += len(padding) + len(lead) + len(raw)
    return b"".join(parts)


def split_completion(raw: bytes) -> tuple[TaskChange, list[arrow_field.Span]]:
    """The change and the pushes, not looked into, of a CompleteTasksRequest."""
    change: TaskChange | None = None
    pushes: list[arrow_field.Span] = []
    for tag, _, body, end in arrow_field.fields(raw, 0, len(raw), most=2 * COMPLETE_PUSHES_MAX + 2):
        if tag == _CHANGE_TAG:
            if change is not None:
                raise InvalidInput("the request has more than one change: put all tasks into one")
            change = change_in(request(pb.ChangeTasksRequest, raw[body:end], CHANGE_BYTES_MAX))
        elif tag == _PUSHES_TAG:
            pushes.append(arrow_field.part(raw, body, end))
    if change is None or change.verb != "ack":
        raise InvalidInput("say which tasks are completed: give a change whose verb is ACK")
    if len(pushes) > COMPLETE_PUSHES_MAX:
        raise InvalidInput(f"{len(pushes)} pushes in one request: at most {COMPLETE_PUSHES_MAX}")
    return change, pushes


# Work streams -------------------------------------------------------------------------------------


def work_requests(raw: bytes) -> Iterator[pb.NumberedWork]:
    """The requests of a WorkRequest, each parsed when it is its turn."""
    for tag, _, body, end in arrow_field.fields(raw, 0, len(raw), most=len(raw)):
        if tag == _REQUESTS_TAG:
            yield request(pb.NumberedWork, raw[body:end], CHANGE_BYTES_MAX)


def work_results(raw: bytes) -> Iterator[tuple[int, WorkAnswer | JjqError, str]]:
    """What each request came to, by its number, and the hint. Elements share the memory of `raw`."""
    for tag, _, body, end in arrow_field.fields(raw, 0, len(raw), most=len(raw)):
        if tag == _RESULTS_TAG:
            yield _work_result(raw, body, end)


def _work_result(raw: bytes, begin: int, end: int) -> tuple[int, WorkAnswer | JjqError, str]:
    taken, rest = None, b""
    for tag, at, body, after in arrow_field.fields(raw, begin, end):
        if tag == _TAKEN_TAG:
            taken = body, after
        else:
            rest += raw[at:after]
    result = parse(pb.WorkResult, rest)
    if taken is not None:
        try:
            return result.id, *taken_in(raw, *taken)
        except JjqError as error:
            return result.id, error, ""
    if result.WhichOneof("result") == "changed":
        return result.id, outcomes_in(result.changed), result.changed.owner
    if result.WhichOneof("result") == "attached":
        return result.id, SessionInfo(result.attached.id, result.attached.ttr), ""
    return result.id, error_in(result.error), ""
