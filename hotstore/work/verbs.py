"""The verbs of worker groups on this node; see `hotstore.groups.port.WorkStore`.

Each checks its input, lets the group do what is due, changes the state in one step, and answers when that is durable.
An answer that rests on what is not durable yet waits for it, too: a second ack is refused only when
the first one counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from coldstore import start_points
from coldstore.layout import ledger as events
from coldstore.layout import paths
from coldstore.layout.paths import check_name
from coldstore.shared.chance import Chance
from coldstore.shared.clock import Clock
from coldstore.shared.errors import Conflict, Fenced, InvalidInput, JjqError, NotFound
from coldstore.shared.push import Push
from coldstore.shared.results import Receipt, Resolved
from hotstore.groups.changes import apply_change, check_change, kick_oldest, purge, release_all
from hotstore.groups.drivers import DELAY
from hotstore.groups.ledger import LedgerRow
from hotstore.groups.open_tasks import TAKEN
from hotstore.groups.settings import Definition, change_settings, check_group_settings, definition_text
from hotstore.groups.tasks_at_time import first_untouched, put_to_sleep, tasks_at_time
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
from hotstore.large.desk import ObjectDesk
from hotstore.limits import LEDGER_BLOCK_BYTES, LEDGER_NAME_CHARS_MAX, LIST_TASKS_MAX
from hotstore.queue.queue import HotQueue
from hotstore.queue.registry import Registry
from hotstore.work.capacity import Capacity
from hotstore.work.completion import Completion
from hotstore.work.desk import WorkDesk
from hotstore.work.group_figures import WorkFigures
from hotstore.work.listing import settle_repeated, task_infos, tasks_in_state
from hotstore.work.sessions import session_ended
from hotstore.work.work_group import WorkGroup, check_take
from hotstore.write.admission import Admission
from hotstore.write.committer import Committer
from hotstore.write.push import JsonChecks, PushEntry, check_push


class WorkVerbs:
    """A part of the hot store; the hot store gives it what it needs."""

    _desk: WorkDesk
    _registry: Registry
    _clock: Clock
    _chance: Chance
    _committer: Committer
    _admission: Admission
    _capacity: Capacity
    _json: JsonChecks
    _large: ObjectDesk

    def _place(self, queue: HotQueue) -> Any:
        raise NotImplementedError

    # Groups -----------------------------------------------------------------------------------------

    async def create_group(
        self, queue: str, name: str, settings: GroupSettings, *, start: str = "beginning"
    ) -> GroupInfo:
        found = await self._registry.queue(queue)
        check_name(name, "group")
        check_group_settings(settings)
        if found.content == "ledger":
            raise InvalidInput(f"{queue} is the ledger of a group: a group works on a queue of yours")
        if len(queue) + len(name) > LEDGER_NAME_CHARS_MAX:
            raise InvalidInput(
                f"the names of queue and group have {len(queue) + len(name)} characters, at most "
                f"{LEDGER_NAME_CHARS_MAX} are allowed: choose a shorter one"
            )
        resolved = await start_points.resolve(start_points.parse(start), self._place(found))
        if name in self._registry.of(found):
            raise Conflict(f"queue {queue} has a subscriber {name}: choose another name for the group")
        kept = paths.ledger(queue, name)
        size = None if kept in self._registry.queues else LEDGER_BLOCK_BYTES  # one that exists stays as it is
        ledger = await self._registry.create(kept, "ledger", size, None)
        group = await self._desk.load(found, ledger, name)
        live = group.advance()
        if live.state.exists:
            if (live.state.settings, live.state.start) != (settings, start):
                raise Conflict(
                    f"group {group.id} exists and was created with start {live.state.start!r} and other settings: use "
                    f"it, update it, or choose another name"
                )
            await group.writer.flush().wait()
            return group.info()
        row = LedgerRow(
            resolved.offset,
            0,
            events.CREATE,
            reason=definition_text(Definition(settings, start, found.settings.id)),
        )
        live.note(row)
        live.start_anew()
        await self._done(group)
        return group.info(resolved)

    async def get_group(self, group: str) -> GroupInfo:
        return (await self._looked(group)).info()

    async def _looked(self, group: str) -> WorkGroup:
        """The group, after a look at all elements that its driver must know."""
        found = await self._desk.group(group)
        await found.look()
        return found

    async def list_groups(
        self, queue: str | None = None, *, after: str = "", limit: int | None = None
    ) -> list[GroupInfo]:
        if queue is not None:
            await self._registry.queue(queue)
        found: list[GroupInfo] = []
        for group_id in self._desk.names(queue):
            if limit is not None and len(found) >= limit:
                break
            if group_id > after:
                group = await self._desk.find_sound(group_id)
                if group is not None:
                    found.append(group.info())
        return found

    async def update_group(self, group: str, changes: Mapping[str, Any]) -> GroupInfo:
        pushed = await (await self._desk.group(group)).pushed_of_untaken()
        found = await self._desk.group(group)
        live = found.advance()
        settings = change_settings(live.state.settings, changes)
        if settings != live.state.settings:
            live.note(
                LedgerRow(
                    0,
                    0,
                    events.UPDATE,
                    reason=definition_text(live.state.definition._replace(settings=settings)),
                )
            )
            live.start_anew(pushed)
        await self._done(found)
        return found.info()

    async def delete_group(self, group: str, *, force: bool = False) -> None:
        found = await self._desk.group(group)
        live = found.advance()
        taken = live.state.open.by_state[TAKEN]
        if taken and not force:
            raise Conflict(
                f"{taken} tasks of group {group} are taken: wait until they are done, release them, or delete by force"
            )
        live.note(LedgerRow(0, 0, events.REMOVE))
        live.start_anew()
        found.end_line(NotFound(f"group {group} was deleted"))
        await self._done(found)

    async def pause_group(self, group: str, *, paused: bool = True) -> GroupInfo:
        found = await self._desk.group(group)
        live = found.advance()
        if live.state.paused != paused:
            live.note(LedgerRow(0, 0, events.PAUSE if paused else events.RESUME))
        await self._done(found)
        return found.info()

    async def seek_group(
        self, group: str, start: str, *, clamp: bool = False, dry_run: bool = False
    ) -> GroupInfo:
        found = await self._desk.group(group)
        point = start_points.parse(start)
        resolved: Resolved = await start_points.resolve(point, self._place(found.queue), clamp=clamp)
        if dry_run:
            return found.info(resolved)
        live = found.advance()
        taken = live.state.open.by_state[TAKEN]
        if taken:
            raise Conflict(
                f"{taken} tasks of group {group} are taken: pause it and wait, or release them all, then seek"
            )
        live.note(LedgerRow(resolved.offset, 0, events.SEEK))
        live.start_anew()
        await self._done(found)
        return found.info(resolved)

    async def _done(self, group: WorkGroup) -> None:
        """Answer when everything up to now is durable."""
        flush = group.writer.flush()
        self._desk.changed(group)
        await flush.wait()

    # Tasks ------------------------------------------------------------------------------------------

    async def take(self, take: Take) -> TakenTasks:
        group = self._desk.at_hand(take.group) or await self._desk.group(take.group)
        keys = check_take(take, group.live.kind)
        ends = self._clock.monotonic() + take.wait if take.wait else 0.0
        attached = False
        while True:
            attached = self._as_session(group, take, attached)
            tasks, flush = await group.take(take, keys)
            if attached and not self._desk.sessions.is_known(
                take.session
            ):  # it ended while elements were loaded
                self._give_back(group, take, tasks)
                raise session_ended(take)
            if tasks.attempts:
                self._desk.changed(group)
                if flush is not None:
                    try:
                        await flush.wait(written=take.stage == "written")
                    except asyncio.CancelledError:  # the caller is gone: others get them now
                        self._give_back(group, take, tasks)
                        raise
                return tasks
            self._desk.found_nothing(group, narrow=keys is not None)
            left = ends - self._clock.monotonic() if take.wait else 0.0
            if left <= 0 or not await group.wait_in_line(left):
                return tasks
            group = self._desk.at_hand(take.group) or await self._desk.group(take.group)

    def _as_session(self, group: WorkGroup, take: Take, attached: bool) -> bool:
        """Whether the session that takes is attached. One that ended meanwhile is not served: nobody could ack."""
        ttr = self._desk.sessions.ttr_of(take.session) if take.session else None
        if ttr is not None:
            group.note_session(take.session, ttr)
        elif attached:
            self._desk.changed(group)  # its turn is that of the next one
            raise session_ended(take)
        return ttr is not None

    def _give_back(self, group: WorkGroup, take: Take, tasks: TakenTasks) -> None:
        change = TaskChange(take.group, "release", tasks.ids, tasks.attempts, take.session)
        apply_change(group.advance(), change, self._chance.jitter)
        self._desk.changed(group)

    async def change_tasks(self, change: TaskChange) -> TaskOutcomes:
        group = self._desk.at_hand(change.group) or await self._desk.group(change.group)
        live = group.advance()
        check_change(change, live.kind.uses)
        if live.scanned < live.end and change.attempts is None:  # tasks that nobody took may be named
            group = await self._looked(change.group)
            live = group.advance()
        group.note_run(change)
        outcomes = apply_change(live, change, self._chance.jitter)
        flush = group.writer.flush()
        self._desk.changed(group)
        if not flush.ended or flush.error is not None:
            await flush.wait()
        return await settle_repeated(group, change, outcomes) if change.again else outcomes

    async def kick(self, group: str, count: int) -> int:
        if type(count) is not int or count < 1:
            raise InvalidInput(f"count is {count!r:.40}: kick at least one task")
        found = await self._desk.group(group)
        kicked = kick_oldest(found.advance(), count)
        await self._done(found)
        return kicked

    async def purge_group(self, group: str) -> int:
        found = await self._desk.group(group)
        purged = purge(found.advance())
        await self._done(found)
        return purged

    async def release_all(self, group: str) -> int:
        found = await self._desk.group(group)
        released = release_all(found.advance())
        await self._done(found)
        return released

    async def peek_task(self, group: str, task: int) -> TaskInfo:
        found = await self._looked(group)
        state = found.live.state
        if type(task) is not int or not state.first <= task < found.live.end:
            raise NotFound(f"no task {task!r:.40}: group {group} has {state.first}..{found.live.end - 1}")
        return (await task_infos(found, [task]))[0]

    async def list_tasks(
        self, group: str, *, state: TaskState | None = None, after: int = -1, limit: int = 100
    ) -> list[TaskInfo]:
        if state is not None and state not in TASK_STATES:
            raise InvalidInput(f"state {state!r:.40} is not known: use one of {', '.join(TASK_STATES)}")
        if type(limit) is not int or not 1 <= limit <= LIST_TASKS_MAX:
            raise InvalidInput(f"limit is {limit!r:.40}: use a whole number from 1 to {LIST_TASKS_MAX}")
        found = await self._looked(group)
        return await task_infos(found, tasks_in_state(found.live, state, after, limit))

    async def group_statistics(self, group: str) -> GroupStatistics:
        found = await self._looked(group)
        return found.statistics()

    async def group_figures(self) -> list[WorkFigures]:
        return await self._desk.figures()

    async def tasks_at(self, group: str, time_us: int) -> pa.Table:
        found = await self._desk.group(group)
        if type(time_us) is not int:
            raise InvalidInput(f"a time is microseconds since 1970, not {time_us!r:.40}")
        await found.writer.flush().wait()
        # Later than now, tasks are as they are now: a delay that is not over has not ended.
        time_us = min(time_us, max(self._clock.now_us(), found.ledger.last_us, found.queue.last_us))
        rows = [batch async for batch in found.history()]
        later = await self._place(found.queue).offset_at(time_us + 1)
        end = found.queue.next if later is None else later
        tasks = await self._desk.run(lambda: tasks_at_time(rows, time_us, end))
        first = first_untouched(tasks) if DELAY in found.live.kind.uses else None
        if first is None:
            return tasks
        asleep = await found.elements.asleep(first, end, time_us, found.live.state.settings.delay)
        return await self._desk.run(lambda: put_to_sleep(tasks, asleep))

    async def complete_tasks(
        self, change: TaskChange, pushes: list[Push]
    ) -> tuple[TaskOutcomes, list[Receipt]]:
        group = await self._desk.group(change.group)
        check_change(change, group.live.kind.uses)
        if change.verb != "ack" or not pushes:
            raise InvalidInput("complete acks tasks and pushes: name the tasks, and give at least one push")
        entries: list[tuple[HotQueue, PushEntry]] = []
        try:
            for push in pushes:  # one after another: what was admitted is given up if a later one is not
                entries += [await self._admitted(push)]
            group.note_run(change)
            completion = Completion(group, change, entries, self._chance.jitter)
            self._committer.submit(completion)
        except JjqError:
            for _, entry in entries:
                entry.give_up()
            raise
        outcomes = await completion.reply
        self._desk.changed(group)
        receipts = completion.receipts()
        for push in pushes if receipts else ():
            self._large.named(push)
        return outcomes, receipts

    async def _admitted(self, push: Push) -> tuple[HotQueue, PushEntry]:
        """The entry of a push that goes with others, checked and admitted."""
        if not push.plain or push.stage != "synced":
            raise InvalidInput("a push of complete has no producer, no expected offset and the stage synced")
        try:
            queue = await self._registry.queue(push.queue)
        except Fenced:
            raise Conflict(
                f"queue {push.queue} is on another node than group's queue: push to it as a producer with a sequence, "
                f"which may be repeated, and then ack"
            ) from None
        if queue.state.loss is not None:
            raise queue.state.loss.with_traceback(None)
        if push.objects:
            await self._large.check(push)
        entry = check_push(queue, push)
        if queue.content == "json":
            await self._json.check(entry)
        entry.on_settled = self._admission.leave
        if queue.on_grown is not None:
            await self._capacity.enter(queue, entry)
        try:
            await self._admission.enter(entry.bytes)
        except BaseException:
            self._capacity.leave(entry)
            raise
        return queue, entry

    # Sessions ---------------------------------------------------------------------------------------

    async def attach_session(self, session: str, ttr: float) -> SessionInfo:
        info = self._desk.sessions.attach(session, ttr)
        self._desk.session_changed()
        return info

    async def detach_session(self, session: str) -> None:
        self._desk.sessions.detach(session)
        self._desk.session_changed()
