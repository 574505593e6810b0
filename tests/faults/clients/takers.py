"""Workers of a group: they take, and ack, nack, release, touch, bury, kick, complete or forget what they took."""

from __future__ import annotations

from typing import Any

from jjq.v1 import jjq_pb2 as pb
from tests.faults.clients.worker import Worker
from tests.faults.history import Operation
from tests.faults.values import read_value

GROUP = "work"  # of every queue
TTR_SECONDS = 0.5  # that a task may be held: a worker that forgets one gets it back soon
ACK_TRIES = 6
DELAYS = (None, 0.1, 0.5)
TOUCH_SECONDS = 0.2
FATES, FORGOTTEN = 12, 9

Task = tuple[int, int]  # id and attempt


class Taker(Worker):
    """Takes durably or not, and does with each batch what the dice say."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._left: list[Task] = []  # taken, and forgotten
        self._batches = 0

    @property
    def group(self) -> str:
        return f"{self.queue}/{GROUP}"

    async def once(self) -> None:
        tasks = await self._take()
        if not tasks:
            await self.pause()
            return
        if {id for id, _ in tasks} & {id for id, _ in self._left}:
            # Their time was over, and they are another attempt by now: the ack of the earlier one must be refused
            await self._change("ack", self._left)
            self._left = []
            await self._change("ack", tasks)
            return
        self._batches += 1
        await self._decide(self._fate(), tasks)

    def _fate(self) -> int:
        """What to do with this batch. The first ones go round, so that every run has all of it."""
        if self._batches == 1:
            return FORGOTTEN
        return (self.number + self._batches) % FATES if self._batches <= FATES else self.dice(FATES)

    async def _decide(self, fate: int, tasks: list[Task]) -> None:
        if fate < 6:
            await self._change("ack", tasks)
        elif fate == 6:
            await self._change("nack", tasks, delay=DELAYS[self.dice(len(DELAYS))])
        elif fate == 7:
            await self._change("release", tasks, delay=DELAYS[self.dice(len(DELAYS))])
        elif fate == 8:
            await self._change("bury", tasks)
            await self._change("kick", tasks)
        elif fate == FORGOTTEN:
            self._left = tasks
        elif fate == 10:
            await self._change("touch", tasks, seconds=TOUCH_SECONDS)
            await self._change("ack", tasks)
        else:
            await self._complete(tasks)

    async def _take(self) -> list[Task]:
        durable = self.dice(2) == 0 or bool(self._left)
        op = self.pen.invoke("take", self.queue, durable=durable)
        request = pb.TakeRequest(
            group=self.group, max=1 + self.dice(20), wait_seconds=0.1, session=f"w{self.number}",
            stage=pb.STAGE_SYNCED if durable else pb.STAGE_READY,
        )  # fmt: skip
        reply = await self.call(op, "Take", request)
        return [] if reply is None else taken(op, reply)

    async def _change(
        self, verb: str, tasks: list[Task], delay: float | None = None, seconds: float | None = None
    ) -> None:
        """An ack is repeated until its outcome is known; the others are tried once."""
        request = changing(self.group, verb, tasks, f"w{self.number}")
        fields = _named(tasks)
        if verb == "kick":  # nobody has these tasks, so there is no attempt to name
            del request.attempts[:], fields["attempts"]
        if delay is not None:
            request.delay = delay
            fields["delay"] = round(delay * 1e9)
        if seconds is not None:
            request.seconds = seconds
        op = self.pen.invoke(verb, self.queue, **fields)
        reply = await self.repeat(op, "ChangeTasks", request, ACK_TRIES if verb == "ack" else 1)
        if reply is not None:
            op.ok(refused=refused(reply))

    async def _complete(self, tasks: list[Task]) -> None:
        """Ack, and push to the same queue, which is therefore of the same node: both, or neither."""
        numbers = self.numbers(1)
        op = self.pen.invoke("complete", self.queue, values=numbers, **_named(tasks))
        push = pb.PushRequest(queue=self.queue, elements=self.elements(numbers))
        change = changing(self.group, "ack", tasks, f"w{self.number}")
        request = pb.CompleteTasksRequest(change=change, pushes=[push])
        reply = await self.call(op, "CompleteTasks", request)
        if reply is None:
            return
        if reply.outcomes.errors:
            op.end("fail", "REFUSED")
        else:
            op.ok(offset=reply.receipts[0].first_offset, refused=[])


def _named(tasks: list[Task]) -> dict[str, Any]:
    return {"tasks": [id for id, _ in tasks], "attempts": [attempt for _, attempt in tasks]}


def taken(op: Operation, reply: pb.TakeResponse) -> list[Task]:
    """Write down what a take was given."""
    elements = list(reply.elements.elements)
    ids, attempts = [element.offset for element in elements], list(reply.attempts)
    op.ok(
        position=ids[0] if ids else 0, tasks=ids, attempts=attempts, offsets=ids,
        values=[read_value(element.value) for element in elements],
    )  # fmt: skip
    return list(zip(ids, attempts, strict=True))


def changing(group: str, verb: str, tasks: list[Task], session: str) -> pb.ChangeTasksRequest:
    """The request for a change of these tasks."""
    return pb.ChangeTasksRequest(
        group=group, verb=f"TASK_VERB_{verb.upper()}", session=session,
        ids=[id for id, _ in tasks], attempts=[attempt for _, attempt in tasks],
    )  # fmt: skip


def refused(reply: pb.ChangeTasksResponse) -> list[int]:
    """The tasks that were not changed; also those that an earlier attempt of this request may have changed."""
    return [error.id for error in reply.errors]
