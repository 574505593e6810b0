"""The verbs of worker groups that are one request and one reply, and `TasksAt`: decode, ask the store, encode."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any, cast

from coldstore.shared.errors import InvalidInput
from coldstore.shared.results import queue_part
from hotstore.groups.port import WorkStore
from hotstore.groups.values import Take, TakenTasks, TaskChange, TaskInfo, TaskState
from hotstore.port import Push, Store
from jjq.access.quotas import SPENDER
from jjq.limits import (
    CHANGE_BYTES_MAX,
    TASK_PAGE,
    TASK_PAGE_BYTES,
    TASK_STEP,
    TASK_STEP_MAX,
    WAIT_SECONDS_MAX,
)
from jjq.server.cluster_port import Hint
from jjq.server.handlers import Call
from jjq.server.loop_steps import StepScheduler
from jjq.server.outgoing import Outgoing
from jjq.server.shutdown import Drain
from jjq.server.unary import Count, Verb, open_push, payload_of, push_value, simple_verb
from jjq.v1 import jjq_pb2 as pb
from jjq.wire import convert
from jjq.wire.batches import encoding, queue_of
from jjq.wire.batches import request as parse
from jjq.wire.enums import FORM
from jjq.wire.groups.group_messages import (
    STATE,
    group_out,
    settings_in,
    statistics_out,
    task_out,
    update_in,
)
from jjq.wire.groups.task_messages import change_in, outcomes_out, split_completion, take_in, taken_out
from jjq.wire.groups.tasks_at import table_parts
from jjq.wire.pages import Page


def work_of(store: Store) -> WorkStore:
    """The same store: every store that serves queues serves their groups."""
    return cast("WorkStore", store)


async def take_tasks(work: WorkStore, drain: Drain, take: Take) -> TakenTasks:
    """Take; wait only if no task is ready, so that a stopping server breaks off nothing else."""
    wait = take.wait
    if not math.isfinite(wait) or not 0 <= wait <= WAIT_SECONDS_MAX:
        raise InvalidInput(f"wait_seconds must be between 0 and {WAIT_SECONDS_MAX:g}, not {wait}")
    taken = await work.take(take._replace(wait=0.0))
    if len(taken.attempts) or not wait or drain.stopping:
        return taken
    return await drain.wait(work.take(take))


def give_back(work: WorkStore, drain: Drain, take: Take, taken: TakenTasks) -> None:
    """The caller has gone before it was answered: others get the tasks now, and not when their time is over."""
    if len(taken.attempts):
        change = TaskChange(take.group, "release", taken.ids, taken.attempts, take.session)
        drain.keep(asyncio.ensure_future(work.change_tasks(change)))


class GroupVerbs:
    """One method of the service each; `table` maps their names to coroutines from bytes to bytes."""

    def __init__(
        self,
        store: Store,
        drain: Drain,
        scheduler: StepScheduler,
        outgoing: Outgoing,
        hint: Hint,
        count: Callable[[str], Count],
    ) -> None:
        self._work = work_of(store)
        self._drain = drain
        self._scheduler = scheduler
        self._outgoing = outgoing
        self._hint = hint
        self._taken, self._changed = count("Take"), count("ChangeTasks")

    def table(self) -> dict[str, Verb]:
        plain: list[tuple[str, Any, Callable[[Any], Awaitable[Any]]]] = [
            ("CreateGroup", pb.CreateGroupRequest, self._create),
            ("GetGroup", pb.GetGroupRequest, self._get),
            ("ListGroups", pb.ListGroupsRequest, self._list),
            ("UpdateGroup", pb.UpdateGroupRequest, self._update),
            ("DeleteGroup", pb.DeleteGroupRequest, self._delete),
            ("PauseGroup", pb.PauseGroupRequest, self._pause),
            ("SeekGroup", pb.SeekGroupRequest, self._seek),
            ("KickTasks", pb.KickTasksRequest, self._kick),
            ("PurgeGroup", pb.PurgeGroupRequest, self._purge),
            ("ReleaseAllTasks", pb.ReleaseAllTasksRequest, self._release_all),
            ("PeekTask", pb.PeekTaskRequest, self._peek),
            ("ListTasks", pb.ListTasksRequest, self._list_tasks),
            ("GetGroupStatistics", pb.GetGroupStatisticsRequest, self._statistics),
        ]
        table: dict[str, Verb] = {name: simple_verb(kind, verb, self._hint) for name, kind, verb in plain}
        return table | {"Take": self._take, "ChangeTasks": self._change, "CompleteTasks": self._complete}

    # Groups ---------------------------------------------------------------------------------------

    async def _create(self, request: pb.CreateGroupRequest) -> pb.CreateGroupResponse:
        found = await self._work.create_group(
            request.queue, request.name, settings_in(request.settings), start=request.start or "beginning"
        )
        return pb.CreateGroupResponse(group=group_out(found))

    async def _get(self, request: pb.GetGroupRequest) -> pb.GetGroupResponse:
        return pb.GetGroupResponse(group=group_out(await self._work.get_group(request.group)))

    async def _list(self, request: pb.ListGroupsRequest) -> pb.ListGroupsResponse:
        page = Page.requested(f"groups {request.queue}", request.page_size, request.page_token)
        found = await self._work.list_groups(request.queue or None, after=page.place, limit=page.limit)
        groups, token = page.cut(found, lambda group: group.id)
        return pb.ListGroupsResponse(groups=[group_out(g) for g in groups], next_page_token=token)

    async def _update(self, request: pb.UpdateGroupRequest) -> pb.UpdateGroupResponse:
        found = await self._work.update_group(request.group, update_in(request))
        return pb.UpdateGroupResponse(group=group_out(found))

    async def _delete(self, request: pb.DeleteGroupRequest) -> pb.DeleteGroupResponse:
        await self._work.delete_group(request.group, force=request.force)
        return pb.DeleteGroupResponse()

    async def _pause(self, request: pb.PauseGroupRequest) -> pb.PauseGroupResponse:
        found = await self._work.pause_group(request.group, paused=not request.resume)
        return pb.PauseGroupResponse(group=group_out(found))

    async def _seek(self, request: pb.SeekGroupRequest) -> pb.SeekGroupResponse:
        found = await self._work.seek_group(
            request.group, request.start, clamp=request.clamp, dry_run=request.dry_run
        )
        return pb.SeekGroupResponse(group=group_out(found))

    async def _statistics(self, request: pb.GetGroupStatisticsRequest) -> pb.GetGroupStatisticsResponse:
        return statistics_out(await self._work.group_statistics(request.group))

    # Tasks ----------------------------------------------------------------------------------------

    async def _take(self, raw: bytes) -> bytes:
        request = parse(pb.TakeRequest, raw)
        form = FORM.word(request.form)  # an unknown one is refused before anything is taken
        self._outgoing.check_room()
        take = take_in(request)
        taken = await take_tasks(self._work, self._drain, take)
        self._taken(len(taken.attempts))
        reply = taken_out(taken, self._hint(queue_of(request)))
        try:
            return await self._scheduler.run(encoding(reply, taken.elements, form))
        except BaseException:
            give_back(self._work, self._drain, take, taken)
            raise

    async def _change(self, raw: bytes) -> bytes:
        change = change_in(parse(pb.ChangeTasksRequest, raw, CHANGE_BYTES_MAX))
        work = asyncio.ensure_future(self._work.change_tasks(change))
        self._drain.keep(work)  # finished and written even if the client has gone
        outcomes = await asyncio.shield(work)
        self._changed(outcomes.changed)
        return outcomes_out(outcomes, self._hint(queue_part(change.group))).SerializeToString()

    async def _complete(self, raw: bytes) -> bytes:
        change, spans = split_completion(raw)
        pushes: list[Push] = []
        for span in spans:
            request, batch = open_push(span)
            payload = await payload_of(batch, self._scheduler)
            pushes.append(push_value(request, payload, request.queue))
        work = asyncio.ensure_future(self._work.complete_tasks(change, pushes))
        self._drain.keep(work)
        outcomes, receipts = await asyncio.shield(work)
        if (usage := SPENDER.get()) is not None:
            usage.spend_all(pushes)
        return pb.CompleteTasksResponse(
            outcomes=outcomes_out(outcomes),
            receipts=[convert.receipt_out(receipt) for receipt in receipts],
            owner=self._hint(queue_part(change.group)),
        ).SerializeToString()

    async def _kick(self, request: pb.KickTasksRequest) -> pb.KickTasksResponse:
        return pb.KickTasksResponse(count=await self._work.kick(request.group, request.count))

    async def _purge(self, request: pb.PurgeGroupRequest) -> pb.PurgeGroupResponse:
        return pb.PurgeGroupResponse(count=await self._work.purge_group(request.group))

    async def _release_all(self, request: pb.ReleaseAllTasksRequest) -> pb.ReleaseAllTasksResponse:
        return pb.ReleaseAllTasksResponse(count=await self._work.release_all(request.group))

    async def _peek(self, request: pb.PeekTaskRequest) -> pb.PeekTaskResponse:
        return pb.PeekTaskResponse(task=task_out(await self._work.peek_task(request.group, request.id)))

    async def _list_tasks(self, request: pb.ListTasksRequest) -> pb.ListTasksResponse:
        """A page ends at its size, or where its tasks are large."""
        self._outgoing.check_room()
        state: TaskState | None = STATE.word(request.state) if request.state else None
        scope = f"tasks {request.group} {state or ''}"
        page = Page.requested(scope, request.page_size or TASK_PAGE, request.page_token)
        found: list[TaskInfo] = []
        size, step, full = 0, TASK_STEP, False
        while not full:
            after = found[-1].id if found else page.offset - 1
            some = await self._work.list_tasks(request.group, state=state, after=after, limit=step)
            for task in some:
                size += _size(task)
                full = len(found) == page.size or bool(found and size > TASK_PAGE_BYTES)
                if full:
                    break
                found.append(task)
            if len(some) < step:
                break
            step = min(2 * step, TASK_STEP_MAX)
        token = page.token_after(found[-1].id + 1) if full else ""
        return pb.ListTasksResponse(tasks=[task_out(task) for task in found], next_page_token=token)

    async def tasks_at(self, call: Call) -> None:
        """The tasks at a time, in parts."""
        request = parse(pb.TasksAtRequest, call.first or b"")
        form = FORM.word(request.form)
        table = await self._work.tasks_at(request.group, request.time_us)
        for part in table_parts(table, form, self._hint(queue_of(request)), call.outgoing.room):
            await call.write(part)
            await asyncio.sleep(0)  # others work between two parts
        call.meter.moved(table.num_rows)


def _size(task: TaskInfo) -> int:
    headers = sum(len(name) + len(value) for name, value in task.headers.items())
    return len(task.value) + len(task.key or b"") + headers
