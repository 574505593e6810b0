"""`RemoteWorkStore`: a `RemoteStore` with the verbs of worker groups.

Which verbs are repeated after a lost answer:

    reading, create, update, pause   yes: twice comes to the same
    delete_group                     yes: if a repeated one finds no group, the first one has deleted it
    ack, nack, release, bury, delete, kick by id
                                     yes: a repeated one is refused for tasks that the first one has changed; those
                                     count as changed, as the refusal says what state they are in. A repeated ack is
                                     judged by the server, which knows by whom the task was acked
    take                             no: tasks that were handed out, but not received, come back by their ttr. To
                                     repeat it would hand out other tasks and let these wait all the same
    touch, kick by number, purge, release_all, seek, complete
                                     no: twice is not the same as once. The error says that the outcome is unknown

Takes that do not wait, and changes, go over the Work stream of their session, if it is attached (sessions.py); those
that are made at the same time go together (task_coalescer.py). A take that waits is a call: cancelling it tells the
server that nobody wants its tasks any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar, cast

import pyarrow as pa
from google.protobuf.message import Message

from coldstore.shared.chance import Chance
from coldstore.shared.clock import Clock
from coldstore.shared.errors import InvalidInput, NotFound, Unavailable
from coldstore.shared.limits import MESSAGE_BYTES_MAX
from coldstore.shared.push import Push
from coldstore.shared.results import Receipt, queue_part
from hotstore.groups.values import (
    TASK_STATES,
    GroupInfo,
    GroupSettings,
    GroupStatistics,
    SessionInfo,
    Take,
    TakenTasks,
    TaskChange,
    TaskInfo,
    TaskOutcomes,
    TaskState,
)
from jjq.limits import TASK_PAGE, WAIT_SECONDS_MAX
from jjq.remote.channels import Lane, read_message
from jjq.remote.groups.sessions import RemoteSession, SessionStream
from jjq.remote.groups.task_coalescer import TaskCoalescer
from jjq.remote.settings import RemoteSettings
from jjq.remote.store import RemoteStore, all_pages, encode_push
from jjq.v1 import jjq_pb2 as pb
from jjq.wire import convert
from jjq.wire.batches import parse, queue_of
from jjq.wire.groups.group_messages import (
    STATE,
    group_in,
    settings_out,
    statistics_in,
    task_in,
    update_out,
)
from jjq.wire.groups.task_messages import change_out, join_completion, outcomes_in, take_out, taken_in
from jjq.wire.groups.tasks_at import TASKS_AT_SCHEMA, part_in
from jjq.wire.pages import token
from jjq.wire.request import at_least_one, make_message, refuse_empty

M = TypeVar("M", bound=Message)

# In which states a task is that a change, repeated after a lost answer, has changed before.
_REACHED: Final[dict[str, tuple[str, ...]]] = {
    "ack": (),  # the server says so: a task that is done may have been acked by somebody else
    "delete": ("done",),
    "bury": ("buried",),
    "kick": ("ready", "delayed", "taken"),
    "nack": TASK_STATES,  # if it is taken, then by somebody else: it was given back
    "release": TASK_STATES,
}


class RemoteWorkStore(RemoteStore):
    """A `Store` and a `WorkStore` behind one or several servers."""

    def __init__(
        self,
        targets: str,
        settings: RemoteSettings | None = None,
        *,
        clock: Clock | None = None,
        chance: Chance | None = None,
    ) -> None:
        super().__init__(targets, settings, clock=clock, chance=chance)
        self._sessions: dict[str, RemoteSession] = {}
        self._coalesced_tasks = TaskCoalescer(self._take_once, self._change_once)

    async def close(self) -> None:
        sessions, self._sessions = list(self._sessions.values()), {}
        for session in sessions:
            await session.close()
        await super().close()

    async def _once(
        self,
        method: str,
        request: Message,
        reply: type[M],
        *,
        again: bool = False,
        done: type[NotFound] | None = None,
    ) -> M:
        """One verb; `again` says that it may happen twice."""
        queue, seconds = queue_of(request), self._settings.timeout_seconds
        raw = await self._caller.call(
            method, request.SerializeToString(), seconds, again=again, done=done, queue=queue
        )
        message = parse(reply, raw)
        self._link.learn(queue, getattr(message, "owner", ""))
        return message

    # Groups ---------------------------------------------------------------------------------------

    async def create_group(
        self, queue: str, name: str, settings: GroupSettings, *, start: str = "beginning"
    ) -> GroupInfo:
        refuse_empty(queue=queue, name=name, start=start)
        request = make_message(
            pb.CreateGroupRequest, queue=queue, name=name, settings=settings_out(settings), start=start
        )
        return group_in((await self._call("CreateGroup", request, pb.CreateGroupResponse)).group)

    async def get_group(self, group: str) -> GroupInfo:
        request = make_message(pb.GetGroupRequest, group=group)
        return group_in((await self._call("GetGroup", request, pb.GetGroupResponse)).group)

    async def list_groups(
        self, queue: str | None = None, *, after: str = "", limit: int | None = None
    ) -> list[GroupInfo]:
        if queue is not None:
            refuse_empty(queue=queue)
        scope = f"groups {queue or ''}"
        request = make_message(pb.ListGroupsRequest, queue=queue or "", page_token=token(scope, after))

        async def page() -> tuple[list[GroupInfo], str]:
            reply = await self._call("ListGroups", request, pb.ListGroupsResponse)
            return [group_in(group) for group in reply.groups], reply.next_page_token

        return await all_pages(request, page, lambda group: (group.queue, group.name), limit)

    async def update_group(self, group: str, changes: Mapping[str, Any]) -> GroupInfo:
        request = update_out(group, changes)
        return group_in((await self._call("UpdateGroup", request, pb.UpdateGroupResponse)).group)

    async def delete_group(self, group: str, *, force: bool = False) -> None:
        request = make_message(pb.DeleteGroupRequest, group=group, force=force)
        await self._once("DeleteGroup", request, pb.DeleteGroupResponse, again=True, done=NotFound)

    async def pause_group(self, group: str, *, paused: bool = True) -> GroupInfo:
        request = make_message(pb.PauseGroupRequest, group=group, resume=not paused)
        return group_in((await self._call("PauseGroup", request, pb.PauseGroupResponse)).group)

    async def seek_group(
        self, group: str, start: str, *, clamp: bool = False, dry_run: bool = False
    ) -> GroupInfo:
        refuse_empty(start=start)
        request = make_message(pb.SeekGroupRequest, group=group, start=start, clamp=clamp, dry_run=dry_run)
        return group_in((await self._once("SeekGroup", request, pb.SeekGroupResponse, again=dry_run)).group)

    async def group_statistics(self, group: str) -> GroupStatistics:
        request = make_message(pb.GetGroupStatisticsRequest, group=group)
        return statistics_in(await self._call("GetGroupStatistics", request, pb.GetGroupStatisticsResponse))

    # Takes ----------------------------------------------------------------------------------------

    async def take(self, take: Take) -> TakenTasks:
        at_least_one(take.max)
        if take.keys is not None and not take.keys:
            raise InvalidInput("keys is empty: give at least one, or None for tasks of any key")
        wait = take.wait
        found: TakenTasks | None = None
        if wait == 0 or (0 < wait <= WAIT_SECONDS_MAX and take.group in self._lagging):
            found = await self._coalesced_tasks.take(take._replace(wait=0.0))
        if found is None or (wait and not len(found.attempts)):
            found = await self._take_once(take)
        self._lagging.note(take.group, len(found.attempts) >= take.max)
        return found

    async def _take_once(self, take: Take) -> TakenTasks:
        request, queue = take_out(take), queue_part(take.group)
        patience = take.wait if 0 < take.wait <= WAIT_SECONDS_MAX else 0.0

        async def attempt(lane: Lane, limit: float) -> TakenTasks:
            stream = await self._attached(lane, take.session, limit)
            if stream is not None and not take.wait:
                answer, owner = await stream.ask(request, limit)
                taken = cast("TakenTasks", answer)
            else:
                raw = await self._caller.attempt(lane, "Take", request.SerializeToString(), limit)
                taken, owner = taken_in(raw)
            self._link.learn(queue, owner)
            return taken

        try:
            return await self._caller.insist(
                attempt, self._settings.timeout_seconds, wait=patience, again=False, queue=queue
            )
        except Unavailable as error:
            if error.sent:
                error.message += "; tasks that were handed out come back when their time to run is over"
                error.args = (error.message,)
            raise

    async def _attached(self, lane: Lane, session: str, limit: float) -> SessionStream | None:
        """The stream of a session to this server, attached; None: the session is not attached by this client."""
        known = self._sessions.get(session)
        if known is None:
            return None
        stream = known.at(lane.target)
        if not stream.usable:
            await stream.attached(limit)
        return stream

    # Changes --------------------------------------------------------------------------------------

    async def change_tasks(self, change: TaskChange) -> TaskOutcomes:
        return await self._coalesced_tasks.change(change)

    async def _change_once(self, change: TaskChange) -> TaskOutcomes:
        request, queue = change_out(change), queue_part(change.group)
        doubt = change.again  # a node passes on what a client repeats

        async def attempt(lane: Lane, limit: float) -> TaskOutcomes:
            nonlocal doubt
            request.again = doubt and change.verb == "ack"
            try:
                stream = await self._attached(lane, change.session, limit)
                if stream is not None:
                    answer, owner = await stream.ask(request, limit)
                    outcomes = cast("TaskOutcomes", answer)
                else:
                    raw = await self._caller.attempt(lane, "ChangeTasks", request.SerializeToString(), limit)
                    reply = parse(pb.ChangeTasksResponse, raw)
                    outcomes, owner = outcomes_in(reply), reply.owner
            except Unavailable as error:
                doubt = doubt or error.sent
                raise
            self._link.learn(queue, owner)
            return outcomes

        again = change.verb in _REACHED
        outcomes = await self._caller.insist(
            attempt, self._settings.timeout_seconds, again=again, queue=queue
        )
        return _settle_repeated(change.verb, outcomes) if doubt else outcomes

    async def kick(self, group: str, count: int) -> int:
        request = make_message(pb.KickTasksRequest, group=group, count=count)
        return (await self._once("KickTasks", request, pb.KickTasksResponse)).count

    async def purge_group(self, group: str) -> int:
        request = make_message(pb.PurgeGroupRequest, group=group)
        return (await self._once("PurgeGroup", request, pb.PurgeGroupResponse)).count

    async def release_all(self, group: str) -> int:
        request = make_message(pb.ReleaseAllTasksRequest, group=group)
        return (await self._once("ReleaseAllTasks", request, pb.ReleaseAllTasksResponse)).count

    async def complete_tasks(
        self, change: TaskChange, pushes: list[Push]
    ) -> tuple[TaskOutcomes, list[Receipt]]:
        raw = join_completion(change_out(change), [encode_push(push) for push in pushes])
        if len(raw) > MESSAGE_BYTES_MAX:
            raise InvalidInput(
                f"the pushes make a message of {len(raw)} bytes; at most {MESSAGE_BYTES_MAX} fit: push fewer elements"
            )
        queue, seconds = queue_part(change.group), self._settings.timeout_seconds
        reply = parse(
            pb.CompleteTasksResponse,
            await self._caller.call("CompleteTasks", raw, seconds, again=False, queue=queue),
        )
        self._link.learn(queue, reply.owner)
        return outcomes_in(reply.outcomes), [convert.receipt_in(receipt) for receipt in reply.receipts]

    # Looks ----------------------------------------------------------------------------------------

    async def peek_task(self, group: str, task: int) -> TaskInfo:
        request = make_message(pb.PeekTaskRequest, group=group, id=task)
        return task_in((await self._call("PeekTask", request, pb.PeekTaskResponse)).task)

    async def list_tasks(
        self, group: str, *, state: TaskState | None = None, after: int = -1, limit: int = TASK_PAGE
    ) -> list[TaskInfo]:
        scope = f"tasks {group} {state or ''}"
        request = make_message(
            pb.ListTasksRequest,
            group=group,
            state=None if state is None else STATE.number(state),
            page_token=token(scope, after + 1),
        )

        async def page() -> tuple[list[TaskInfo], str]:
            reply = await self._call("ListTasks", request, pb.ListTasksResponse)
            return [task_in(task) for task in reply.tasks], reply.next_page_token

        return await all_pages(request, page, lambda task: task.id, limit)

    async def tasks_at(self, group: str, time_us: int) -> pa.Table:
        request = make_message(pb.TasksAtRequest, group=group, time_us=time_us, form=pb.FORM_ARROW)
        queue = queue_part(group)

        async def attempt(lane: Lane, limit: float) -> pa.Table:
            call = lane.server_stream("TasksAt")(request.SerializeToString(), timeout=limit)
            batches: list[pa.RecordBatch] = []
            try:
                while (raw := await read_message(call, writes=False)) is not None:
                    some, owner = part_in(raw)
                    batches += some
                    self._link.learn(queue, owner)
            finally:
                call.cancel()
            return pa.Table.from_batches(batches, schema=TASKS_AT_SCHEMA)

        seconds = self._settings.timeout_seconds
        return await self._caller.insist(attempt, seconds, queue=queue, writes=False)

    # Sessions -------------------------------------------------------------------------------------

    async def attach_session(self, session: str, ttr: float) -> SessionInfo:
        refuse_empty(session=session)
        seconds = self._settings.timeout_seconds
        known = self._sessions.get(session)
        if known is None:
            known = self._sessions[session] = RemoteSession(self._link, self._chance, session, ttr)
        else:
            await known.change_ttr(ttr, seconds)
        known.count += 1

        async def attempt(lane: Lane, limit: float) -> SessionInfo:
            return await known.at(lane.target).attached(limit)

        try:
            return await self._caller.insist(attempt, seconds)
        except BaseException:
            await self.detach_session(session)
            raise

    async def detach_session(self, session: str) -> None:
        known = self._sessions.get(session)
        if known is None:
            return
        known.count -= 1
        if known.count <= 0:
            del self._sessions[session]
            await known.close()


def _settle_repeated(verb: str, outcomes: TaskOutcomes) -> TaskOutcomes:
    """After a lost answer: tasks that are refused because an earlier attempt changed them count as changed."""
    reached = _REACHED.get(verb, ())
    before = [error.state for error in outcomes.errors if error.state in reached]
    if not before:
        return outcomes
    states = dict(outcomes.states)
    for state in before:
        states[str(state)] = states.get(str(state), 0) + 1
    refused = [error for error in outcomes.errors if error.state not in reached]
    return TaskOutcomes(outcomes.changed + len(before), refused, states)
