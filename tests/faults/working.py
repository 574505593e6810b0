"""The last worker of a run: it finishes every task of a group, and writes down what the group's ledger says.

Also the tasks as they were at some times of the run, so that they can be compared with the ledger.
"""

from __future__ import annotations

from typing import Any

import grpc
import orjson

from coldstore.layout.ledger import TASK_EVENTS
from jjq.v1 import jjq_pb2 as pb
from tests.faults.clients.takers import Task, changing, refused, taken
from tests.faults.history import type_of_call
from tests.faults.reading import ANSWER_SECONDS, PAGE, Reader
from tests.faults.table import STATES

ROUNDS = 50  # of take and ack between two looks at how much is left
MOMENTS = 3  # of the run, at which the tasks are looked at


class LastWorker:
    """Works on the group of one queue, by a reader that asks again until it is answered."""

    def __init__(self, reader: Reader, queue: str, group: str) -> None:
        self._reader = reader
        self._queue = queue
        self._group = f"{queue}/{group}"
        self._ledger = f"{queue}~{group}"

    async def work_off(self, seconds: float) -> None:
        """Take and ack until no task is open, and write down the ledger.

        It gives up after so many seconds in which no task was done: a busy machine is slow, and loses nothing.
        """
        reader, group = self._reader, self._group
        done, deadline = -1, 0.0
        while True:
            ask = pb.GetGroupStatisticsRequest(group=group)
            try:
                await reader.kick(group)
                await self._take_and_ack()
                counts = (await reader.answered(lambda: reader.stub.GetGroupStatistics(ask))).tasks  # noqa: B023
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.DATA_LOSS:
                    raise
                return  # the last reading tells of it
            now = reader.clock.monotonic()
            if counts["done"] > done:
                done, deadline = counts["done"], now + seconds
            if not counts["total"] or now > deadline:
                break
        reader.pen.note("worked", self._queue, open=counts["total"], done=counts["done"])
        await self._look_back(await self._read_ledger())

    async def _take_and_ack(self) -> None:
        """As often as there is something to take, and not for ever: with keys there are few at a time."""
        for _ in range(ROUNDS):
            if not await self._take_and_ack_some():
                return

    async def _take_and_ack_some(self) -> bool:
        """Whether there was something to take."""
        reader = self._reader

        async def take() -> list[Task]:
            op = reader.pen.invoke("take", self._queue, durable=False)
            request = pb.TakeRequest(group=self._group, max=PAGE, wait_seconds=0.2, session="last")
            try:
                return taken(op, await reader.stub.Take(request, timeout=ANSWER_SECONDS))
            except grpc.aio.AioRpcError as error:
                op.end(type_of_call(error), error.code().name)
                raise

        async def ack() -> None:
            op = reader.pen.invoke(
                "ack", self._queue, tasks=[t for t, _ in tasks], attempts=[a for _, a in tasks]
            )
            try:
                op.ok(refused=refused(await reader.stub.ChangeTasks(request, timeout=ANSWER_SECONDS)))
            except grpc.aio.AioRpcError as error:
                op.end(type_of_call(error), error.code().name)
                raise

        tasks = await reader.answered(take)
        if tasks:
            request = changing(self._group, "ack", tasks, "last")
            await reader.answered(ack)
        return bool(tasks)

    async def _read_ledger(self) -> list[int]:
        """Write down the rows that are about tasks; their times."""
        stub = self._reader.stub

        async def read() -> list[tuple[int, dict[str, Any]]]:
            found = []
            async for message in stub.Read(pb.ReadRequest(queue=self._ledger), timeout=ANSWER_SECONDS):
                found += [(each.timestamp_us, orjson.loads(each.value)) for each in message.elements.elements]
            return [(time, row) for time, row in found if row["event"] in TASK_EVENTS]

        op = self._reader.pen.invoke("ledger", self._queue)
        rows = await self._reader.answered(read)
        times = [time for time, _ in rows]
        op.ok(
            tasks=[row["task"] for _, row in rows], counts=[row["count"] for _, row in rows],
            events=[row["event"] for _, row in rows], attempts=[row["attempt"] for _, row in rows],
            states=[STATES.index(row["state"]) for _, row in rows], times=times,
        )  # fmt: skip
        return times

    async def _look_back(self, times: list[int]) -> None:
        """The tasks as they were at some times, which are those of rows."""
        for n in range(MOMENTS if times else 0):
            time = times[(2 * n + 1) * len(times) // (2 * MOMENTS)]
            op = self._reader.pen.invoke("at", self._queue, time=time)
            moments = await self._reader.answered(lambda time=time: self._moments(time))  # type: ignore[misc]
            op.ok(
                tasks=[moment.task for moment in moments], attempts=[moment.attempt for moment in moments],
                states=[moment.state - pb.TASK_STATE_READY for moment in moments],
            )  # fmt: skip

    async def _moments(self, time: int) -> list[pb.TaskMoment]:
        request = pb.TasksAtRequest(group=self._group, time_us=time)
        return [
            task
            async for message in self._reader.stub.TasksAt(request, timeout=ANSWER_SECONDS)
            for task in message.tasks
        ]
