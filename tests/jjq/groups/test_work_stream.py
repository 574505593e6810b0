"""The stream Work, and requests that are wrong: what a client of another language may send."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from jjq.limits import CHANGE_BYTES_MAX, TASKS_MAX, WORK_STREAM_MAX
from jjq.server.handlers import Call
from jjq.v1 import jjq_pb2 as pb
from tests.jjq.serving import Served, rest, until


def work(*requests: pb.NumberedWork) -> pb.WorkRequest:
    return pb.WorkRequest(requests=requests)


def attach(number: int = 1, session: str = "me", ttr: float = 5.0) -> pb.NumberedWork:
    return pb.NumberedWork(id=number, attach=pb.AttachSession(session=session, ttr=ttr))


def take(number: int, count: int = 1, wait: float = 0.0) -> pb.NumberedWork:
    request = pb.TakeRequest(group="orders/billing", max=count, wait_seconds=wait)
    return pb.NumberedWork(id=number, take=request)


async def results(call: Any, count: int) -> dict[int, pb.WorkResult]:
    found: dict[int, pb.WorkResult] = {}
    while len(found) < count:
        reply = await asyncio.wait_for(call.read(), 10)
        found |= {result.id: result for result in reply.results}
    return found


async def test_a_stream_takes_and_changes_as_its_session(jjq: Served) -> None:
    call = jjq.stub.Work()
    await call.write(work(attach(), take(2, 2), take(3)))
    found = await results(call, 3)
    assert found[1].attached == pb.Session(id="me", ttr=5.0)
    assert [e.offset for e in found[2].taken.elements.elements] == [0, 1]
    change = pb.ChangeTasksRequest(group="orders/billing", verb=pb.TASK_VERB_ACK, ids=[0, 2], attempts=[1, 1])
    await call.write(work(pb.NumberedWork(id=4, change=change)))
    assert (await results(call, 1))[4].changed.changed == 2
    assert jjq.store.sessions == {"me": [1, 5.0]}
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF
    assert jjq.store.sessions == {"me": [0, 5.0]}


async def test_a_stream_that_breaks_detaches_and_its_waiting_takes_are_never_served(jjq: Served) -> None:
    call = jjq.stub.Work()
    await call.write(work(attach(), take(2, 10), take(3, 1, 60.0)))
    await results(call, 2)
    call.cancel()
    await until(lambda: jjq.store.sessions == {"me": [0, 5.0]})
    await jjq.store.append_numbers("orders", 1)
    assert (await jjq.store.get_group("orders/billing")).tasks["ready"] == 1


async def test_tasks_that_no_answer_has_named_are_given_back_when_the_stream_breaks(
    jjq: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = asyncio.Event()

    async def write(call: Call, message: bytes) -> None:
        await stuck.wait()  # as with a client that does not read

    monkeypatch.setattr(Call, "write", write)
    call = jjq.stub.Work()
    await call.write(work(attach()))
    await until(lambda: jjq.store.sessions == {"me": [1, 5.0]})
    await call.write(work(take(2, 4)))
    group = jjq.store.groups["orders/billing"]
    await until(lambda: [task.state for task in group.tasks.values()] == ["taken"] * 4)
    call.cancel()
    await until(lambda: [task.state for task in group.tasks.values()] == ["ready"] * 4)


async def test_a_waiting_call_that_is_cancelled_is_never_served(jjq: Served) -> None:
    await jjq.stub.Take(pb.TakeRequest(group="orders/billing", max=10))
    call = jjq.stub.Take(pb.TakeRequest(group="orders/billing", wait_seconds=60.0))
    await until(lambda: jjq.store.queues["orders"].grown._waiters)
    call.cancel()
    await until(lambda: not jjq.store.queues["orders"].grown._waiters)
    await jjq.store.append_numbers("orders", 1)
    assert (await jjq.store.get_group("orders/billing")).tasks["ready"] == 1


async def test_the_ttr_of_a_session_is_changed_on_its_stream(jjq: Served) -> None:
    call = jjq.stub.Work()
    await call.write(work(attach(), attach(2, ttr=0.0)))
    await results(call, 2)
    assert jjq.store.sessions == {"me": [2, 0.0]}
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF
    assert jjq.store.released == ["me"]


@pytest.mark.parametrize(
    ("requests", "why"),
    [
        ([take(1)], "the first request of a Work stream attaches a session"),
        ([attach(), pb.NumberedWork(id=2)], "request 2 is empty"),
        ([attach(), take(2, 10, 60.0), take(2)], "give each request a number of its own"),
    ],
)
async def test_a_wrong_stream_is_ended_with_the_reason(
    jjq: Served, requests: list[pb.NumberedWork], why: str
) -> None:
    await jjq.stub.Take(pb.TakeRequest(group="orders/billing", max=10))
    call = jjq.stub.Work()
    await call.write(work(*requests))
    with pytest.raises(grpc.aio.AioRpcError, match=why) as ended:
        await rest(call)
    assert ended.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_one_wrong_request_does_not_end_the_stream(jjq: Served) -> None:
    call = jjq.stub.Work()
    wrong = pb.NumberedWork(id=2, take=pb.TakeRequest(group="orders/none"))
    other = attach(3, "you")
    await call.write(work(attach(), wrong, other, take(4)))
    found = await results(call, 4)
    assert found[2].error.kind == pb.ERROR_KIND_NOT_FOUND
    assert "another one for another session" in found[3].error.message
    assert len(found[4].taken.elements.elements) == 1


async def test_so_many_requests_are_in_flight_and_no_more_are_read(jjq: Served) -> None:
    await jjq.stub.Take(pb.TakeRequest(group="orders/billing", max=10))
    call = jjq.stub.Work()
    waiting = [take(number, 1, 60.0) for number in range(2, WORK_STREAM_MAX + 50)]
    await call.write(work(attach(), *waiting))
    await results(call, 1)
    waiters = jjq.store.queues["orders"].grown._waiters
    await until(lambda: len(waiters) == WORK_STREAM_MAX)
    call.cancel()
    await until(lambda: not waiters)


@pytest.mark.parametrize(
    ("method", "request_", "why"),
    [
        ("Take", pb.TakeRequest(group="orders/billing", wait_seconds=float("nan")), "wait_seconds"),
        ("Take", pb.TakeRequest(group="orders/billing", ttr=float("inf")), "ttr is inf"),
        ("Take", pb.TakeRequest(group="orders/billing", form=9), "form 9 is not known"),  # type: ignore[arg-type]
        ("ChangeTasks", pb.ChangeTasksRequest(group="orders/billing", ids=[1]), "verb 0 is not known"),
        (
            "ChangeTasks",
            pb.ChangeTasksRequest(group="orders/billing", verb=pb.TASK_VERB_ACK, ids=[1, 2], attempts=[1]),
            "2 tasks but 1 attempts",
        ),
        (
            "ChangeTasks",
            pb.ChangeTasksRequest(group="orders/billing", verb=pb.TASK_VERB_KICK, ids=range(TASKS_MAX + 1)),
            "split them",
        ),
        ("CompleteTasks", pb.CompleteTasksRequest(), "say which tasks are completed"),
        (
            "UpdateGroup",
            pb.UpdateGroupRequest(group="orders/billing", cleared=["driver"]),
            "cannot be cleared",
        ),
        (
            "CreateGroup",
            pb.CreateGroupRequest(queue="orders", name="x", settings=pb.GroupSettings(ttr=float("nan"))),
            "ttr is nan",
        ),
        ("ListTasks", pb.ListTasksRequest(group="orders/billing", state=9), "state 9 is not known"),  # type: ignore[arg-type]
    ],
)
async def test_wrong_requests_are_refused_before_anything_changes(
    jjq: Served, method: str, request_: Any, why: str
) -> None:
    before = (await jjq.store.get_group("orders/billing")).tasks
    with pytest.raises(grpc.aio.AioRpcError, match=why) as refused:
        await getattr(jjq.stub, method)(request_)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert (await jjq.store.get_group("orders/billing")).tasks == before


async def test_a_change_that_is_too_large_is_refused_before_it_is_parsed(jjq: Served) -> None:
    with pytest.raises(grpc.aio.AioRpcError, match=f"has at most {CHANGE_BYTES_MAX}"):
        await jjq.raw("ChangeTasks")(b"\x1a\x01\x01" * (CHANGE_BYTES_MAX // 3 + 1))
