"""Work: takes and changes of a busy worker on one stream, to which its session is attached.

    attach   first; in the order of the stream, so that what follows belongs to the session
    take     begun in order; those that wait end with the stream, and tasks that no answer has named are given back
    change   begun in order, and finished even if the stream ends

The end of the stream, for whatever reason, detaches the session: the store then keeps what it has taken for the
session's ttr.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import ClassVar

from coldstore.shared.clock import Clock
from coldstore.shared.errors import InvalidInput, JjqError
from coldstore.shared.results import queue_part
from hotstore.groups.values import SessionInfo, Take, TakenTasks, TaskOutcomes
from hotstore.port import Store
from jjq.limits import WORK_STREAM_MAX
from jjq.server.cluster_port import Hint
from jjq.server.groups.group_verbs import give_back, take_tasks, work_of
from jjq.server.handlers import Call
from jjq.server.loop_steps import StepScheduler
from jjq.server.shutdown import Drain
from jjq.server.streams.duplex import AddResult, NumberedStream
from jjq.v1 import jjq_pb2 as pb
from jjq.wire.enums import FORM
from jjq.wire.groups.group_messages import finite
from jjq.wire.groups.task_messages import change_in, outcomes_out, take_in, taken_out, work_requests
from jjq.wire.repeated_elements import Steps
from jjq.wire.results import Results

_CHANGED, _ATTACHED = pb.WorkResult.CHANGED_FIELD_NUMBER, pb.WorkResult.ATTACHED_FIELD_NUMBER


class WorkStream(NumberedStream):
    """One open stream; see the module's docstring."""

    most: ClassVar[int] = WORK_STREAM_MAX
    _session = ""
    _attached = 0  # how often

    def __init__(
        self, store: Store, drain: Drain, scheduler: StepScheduler, hint: Hint, clock: Clock, call: Call
    ) -> None:
        super().__init__(store, drain, scheduler, hint, clock, call)
        self._unanswered: dict[int, tuple[Take, TakenTasks]] = {}  # taken, and in no message yet

    async def run(self) -> None:
        try:
            await super().run()
        finally:
            for take, taken in self._unanswered.values():
                give_back(work_of(self._store), self._drain, take, taken)
            if self._attached:
                await asyncio.shield(asyncio.ensure_future(self._detach()))

    async def _detach(self) -> None:
        while self._attached:
            self._attached -= 1
            try:
                await work_of(self._store).detach_session(self._session)
            except JjqError as error:  # the node that has its tasks notices by itself
                self._call.failed(error)

    async def _listen(self, answers: asyncio.Task[None]) -> None:
        while not answers.done():
            raw = await self._next_message()
            if raw is None:
                return
            for request in work_requests(raw):
                await self._admit(request.id)
                await self._start(request)

    async def _start(self, request: pb.NumberedWork) -> None:
        kind = request.WhichOneof("request")
        if kind == "attach":
            # In order: a take that follows belongs to the session.
            await asyncio.wait([self._begin(request.id, partial(self._attach, request.id, request.attach))])
        elif not self._session:
            raise InvalidInput("the first request of a Work stream attaches a session: send attach")
        elif kind == "take":
            self._begin(request.id, partial(self._take, request.id, request.take))
        elif kind == "change":
            self._begin(request.id, partial(self._change, request.id, request.change), finished=True)
        else:
            raise InvalidInput(f"request {request.id} is empty: send attach, take or change")

    async def _attach(self, number: int, request: pb.AttachSession) -> AddResult:
        if self._session not in ("", request.session):
            raise InvalidInput(
                f"the stream is attached to session {self._session!r}: open another one for another session"
            )
        found = await work_of(self._store).attach_session(request.session, finite("ttr", request.ttr))
        self._session = request.session
        self._attached += 1
        return partial(_add_attached, number, found)

    async def _take(self, number: int, request: pb.TakeRequest) -> AddResult:
        FORM.word(request.form)  # an unknown one is refused before anything is taken
        self._call.require(queue_part(request.group))
        self._call.outgoing.check_room()
        take = take_in(request, self._session)
        taken = await take_tasks(work_of(self._store), self._drain, take)
        self._unanswered[number] = take, taken
        return partial(self._add_taken, number, request, taken)

    def _add_taken(
        self, number: int, request: pb.TakeRequest, taken: TakenTasks, results: Results
    ) -> Steps[None]:
        self._unanswered.pop(number, None)
        self._call.meter.moved(len(taken.attempts))
        reply = taken_out(taken, self._hint(queue_part(request.group)))
        return results.popped(number, reply, taken.elements, FORM.word(request.form))

    async def _change(self, number: int, request: pb.ChangeTasksRequest) -> AddResult:
        self._call.require(queue_part(request.group))
        change = change_in(request, self._session)
        outcomes = await work_of(self._store).change_tasks(change)
        return partial(self._add_changed, number, queue_part(change.group), outcomes)

    def _add_changed(self, number: int, queue: str, outcomes: TaskOutcomes, results: Results) -> Steps[None]:
        results.plain(number, _CHANGED, outcomes_out(outcomes, self._hint(queue)))
        yield from ()


def _add_attached(number: int, found: SessionInfo, results: Results) -> Steps[None]:
    results.plain(number, _ATTACHED, pb.Session(id=found.id, ttr=found.ttr))
    yield from ()
