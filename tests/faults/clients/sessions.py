"""A worker whose session is attached: what it holds stays its own through restarts, takeovers and cuts."""

from __future__ import annotations

import jjq.aio
from coldstore.shared.errors import JjqError, NotFound, Unavailable
from tests.faults.clients.takers import GROUP
from tests.faults.clients.worker import Worker
from tests.faults.values import read_value

SESSION_SECONDS = 30.0  # that it outlives its connection: longer than any fault
HOLD_SECONDS = 20.0  # that it may hold tasks
TIMEOUT_SECONDS = 20.0  # of calls, which the library repeats


class SessionTaker(Worker):
    """Takes durably, holds what it has for a while, and acks. No such ack may be refused."""

    async def run(self) -> None:
        async with jjq.aio.connect(self.address, timeout=TIMEOUT_SECONDS) as client:
            await self._attach(client)
            while not self.stop.is_set():
                await self._work(client)

    async def _attach(self, client: jjq.aio.Client) -> None:
        while not self.stop.is_set():
            try:
                await client.session(f"s{self.number}", SESSION_SECONDS)
            except Unavailable:
                await self.pause()
            else:
                return

    async def _work(self, client: jjq.aio.Client) -> None:
        group = f"{self.queue}/{GROUP}"
        op = self.pen.invoke("take", self.queue, durable=True)
        since = self.pen.now_ns()
        try:
            tasks = await client.take(group, 1 + self.dice(5), 0.1, ttr=HOLD_SECONDS, stage="synced")
        except JjqError as error:
            op.end("info", error.code, late=True)
            await self.pause()
            return
        ids, attempts = [task.id for task in tasks], [task.attempt for task in tasks]
        op.ok(
            position=ids[0] if ids else 0, tasks=ids, attempts=attempts, offsets=ids,
            values=[read_value(task.value) for task in tasks],
        )  # fmt: skip
        await self.pause(0.1 + self.dice(10) / 10)
        if ids:
            await self._ack(client, group, tasks, since)

    async def _ack(self, client: jjq.aio.Client, group: str, tasks: jjq.TaskBatch, since: int) -> None:
        ids, attempts = [task.id for task in tasks], [task.attempt for task in tasks]
        until = since + round(HOLD_SECONDS * 1e9)
        op = self.pen.invoke("ack", self.queue, tasks=ids, attempts=attempts, until=until)
        try:
            await client.ack(group, tasks)
        except jjq.RefusedTasks as refused:
            op.ok(refused=[error.id for error in refused.outcomes.errors])
        except (jjq.Conflict, NotFound):
            op.ok(refused=ids)  # the only one
        except JjqError as error:
            op.end("info", error.code, late=True)
        else:
            op.ok(refused=[])
