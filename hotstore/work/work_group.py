"""One group on this node: its state at work, its ledger, and the callers that wait for tasks.

A take that finds nothing waits in line. Whatever makes a task ready wakes the first in line, which takes for itself and
wakes the next one: a caller that is gone meanwhile passes its turn on, so no task is given to nobody.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa

from coldstore.layout import ledger as events
from coldstore.shared.clock import SteadyClock
from coldstore.shared.errors import InvalidInput, JjqError
from coldstore.shared.limits import NAME_CHARS_MAX
from hotstore.groups.changes import is_text
from hotstore.groups.drivers import KEY, TTL, Driver, DriverKind
from hotstore.groups.group import GroupState
from hotstore.groups.keyed import TaskRun
from hotstore.groups.ledger import LedgerRow
from hotstore.groups.live_group import Handed, LiveGroup
from hotstore.groups.open_tasks import READY, TAKEN
from hotstore.groups.options import check_seconds
from hotstore.groups.order import SECOND_US
from hotstore.groups.values import GroupInfo, GroupStatistics, Take, TakenTasks, TaskChange
from hotstore.limits import TAKE_TASKS_MAX
from hotstore.port import Resolved
from hotstore.queue.queue import HotQueue
from hotstore.work.elements import TaskElements, pushed_times
from hotstore.work.group_figures import TaskTimes, WorkFigures
from hotstore.work.ledger_writer import LAZY_SECONDS, Flush, LedgerWriter
from hotstore.work.sessions import check_session
from hotstore.write.committer import Committer

STAGES: Final = ("ready", "written", "synced")  # of a take


class WorkGroup:
    """`live` is the state; it is replaced when the group is loaded again."""

    def __init__(
        self,
        queue: HotQueue,
        ledger: HotQueue,
        name: str,
        state: GroupState,
        elements: TaskElements,
        committer: Committer,
        clock: SteadyClock,
        on_failed: Callable[[WorkGroup, Exception], None],
        lazy_seconds: float = LAZY_SECONDS,
    ) -> None:
        self.queue = queue
        self.ledger = ledger
        self.name = name
        self.id = f"{queue.name}/{name}"
        self.elements = elements
        self._clock = clock
        now_us, shift_us = clock.now_us(), clock.measure()
        state.come_to(now_us, shift_us)
        self.live = LiveGroup(state, queue.next, now_us, shift_us)
        self.writer = LedgerWriter(
            ledger, self.live.outbox, committer, clock, lambda error: on_failed(self, error), lazy_seconds
        )
        self.line: deque[asyncio.Future[bool]] = deque()  # takes, woken by True that wait
        self._passes = 0  # how many in line may still look because of what happened last
        self._woken = 0  # takes that were woken, and have not looked yet
        self.pushes: deque[asyncio.Future[None]] = deque()  # that wait until a task is done
        self._waits, self._runs = TaskTimes(), TaskTimes()
        self.kept_rows = 0  # of the ledger, that the newest snapshot has, if this node has put it
        self.refusal: JjqError | None = None  # why verbs are refused: the group leaves
        self.due_us: int | None = None  # when the desk looks at it again

    async def prepare(self) -> None:
        """After a load: what the elements of the open tasks say."""
        live = self.live
        if live.kind.looks:
            facts = await self.elements.facts(sorted(live.state.open.index), live.kind.uses)
            live.resume_open(*facts)
            await self._resume_rate(live)
        else:
            live.resume_open({})
        live.grow(self.queue.next)

    async def pushed_of_untaken(self) -> dict[int, int]:
        """When the open tasks were pushed that nobody took, since they were buried first; if their ttl counts."""
        tasks, uses = self.live.state.open, self.live.kind.uses
        if TTL not in uses:
            return {}
        ids = [
            task for task, slot in tasks.index.items() if not tasks.attempt[slot] and not tasks.expires[slot]
        ]
        return (await self.elements.facts(sorted(ids), uses))[1]

    async def _resume_rate(self, live: LiveGroup) -> None:
        state, shift_us = live.state, self._clock.shift_us
        if state.settings.rate is None or not state.takes:
            return
        since_us = live.now_us - round(SECOND_US / state.settings.rate)
        takes = [
            (time_us - shift_us, task)
            for time_us, first, count in state.takes
            if since_us <= time_us - shift_us <= live.now_us  # later ones are of a clock that was set back
            for task in range(first, first + count)
        ]
        state.takes = deque((time_us, task, 1) for time_us, task in takes)
        facts, _ = await self.elements.facts(sorted({task for _, task in takes}), live.kind.uses)
        live.resume_rate(takes, facts)

    def advance(self) -> LiveGroup:
        """Do what is due by now, and look at elements that are in memory; before every verb."""
        live = self.live
        live.advance(self._clock.now_us())
        if live.end < self.queue.next or live.scanned < live.end:
            self.elements.look_at_hand(live)
        return live

    async def look(self) -> None:
        """Look at all elements that the driver must know, also those that must be loaded."""
        live = self.advance()
        if live.scanned < live.end:
            await self.elements.look(live)
            self.advance()

    def shown_us(self, time_us: int) -> int:
        """A time of this group as the wall clock shows it."""
        return time_us + self._clock.shift_us

    def release_unknown(self, is_known: Callable[[str], bool]) -> dict[str, int]:
        """After a start: give back what was taken by sessions that nobody knows; the others, with their ttr."""
        live, tasks = self.live, self.live.state.open
        live.now_us = max(live.now_us, self._clock.now_us())
        waiting: dict[str, int] = {}
        orphaned: set[int] = set()
        for holder in tasks.taking():
            session = tasks.holders.pairs[holder][0]
            ttr = live.state.sessions.get(session)
            if is_known(session):
                continue
            if ttr:
                waiting[session] = ttr
            else:
                orphaned.add(holder)
        for task in tasks.held_by(orphaned) if orphaned else ():
            live.give_back(task, events.ORPHAN)
        return waiting

    # Takes ------------------------------------------------------------------------------------------

    def is_leaving(self) -> bool:
        """Whether the queue is about to leave this node: nothing may be changed any more."""
        return self.refusal is not None

    def share(self, most: int) -> int:
        """What one take may have while others wait: what is there is divided among all."""
        waiting = len(self.line) + self._woken
        if most == 1 or not waiting:
            return most
        return max(1, min(most, -(-self.live.ready // (waiting + 1))))

    async def take(self, take: Take, keys: Collection[bytes] | None) -> tuple[TakenTasks, Flush | None]:
        """Tasks that are ready now, perhaps none; and the write that they ride with."""
        live = self.advance()
        if live.scanned < live.end:
            await self.look()
            live = self.live
        while live.state.exists and not live.state.paused and not self.is_leaving():
            driver = live.driver
            runs = live.choose(self.share(take.max), keys)
            if not runs:
                break
            fetched = self.elements.fetch_at_hand(runs)
            if fetched is None:
                fetched = await self._fetch(live, driver, runs)
                if self.is_leaving():
                    break
                live.advance(self._clock.now_us())
                if not live.are_next(driver, fetched.runs, fetched.left):
                    continue  # something happened while they were loaded
            if fetched.left:
                live.put_back(fetched.left)
            stamps = pushed_times(fetched.batch) if TTL in live.kind.uses else None
            handed = live.take(fetched.runs, stamps, take.session, take.worker, take.ttr)
            if handed.ids:
                self._note_wait(handed)
                # Rows that nobody waits for are written soon: the desk sees to that.
                flush = None if take.stage == "ready" else self.writer.flush()
                return self._answer(fetched.batch, fetched.runs, handed), flush
        return TakenTasks(self.elements.none(), [], [], []), None

    async def _fetch(self, live: LiveGroup, driver: Driver, runs: list[TaskRun]) -> Any:
        """Load elements; if that fails, or the caller goes away, the tasks are put back to their driver."""
        try:
            return await self.elements.fetch(runs)
        except BaseException:
            if live.driver is driver:
                live.put_back(runs)
            self.wake()
            raise

    def _answer(self, batch: Any, runs: list[TaskRun], handed: Handed) -> TakenTasks:
        if len(handed.ids) < batch.num_rows:  # some had expired
            ids = [task for first, count in runs for task in range(first, first + count)]
            there = set(handed.ids)
            batch = batch.take([at for at, task in enumerate(ids) if task in there])
        shift_us = self._clock.shift_us
        deadlines = [each + shift_us for each in handed.deadlines] if shift_us else handed.deadlines
        return TakenTasks(batch, handed.attempts, deadlines, handed.priorities, handed.ids)

    def _note_wait(self, handed: Handed) -> None:
        if handed.attempts[0] == 1:
            pushed_us = self.elements.pushed_us(handed.ids[0])  # an eighth of what a scalar of Arrow costs
            self._waits.add(self.live.now_us + self._clock.shift_us - pushed_us, len(handed.ids))

    def note_run(self, change: TaskChange) -> None:
        """These tasks are about to be changed: if that ends their work, note how long it took."""
        if change.verb in {"ack", "nack"} and change.ids:
            tasks = self.live.state.open
            slot = tasks.index.get(change.ids[0])
            if slot is not None and tasks.state[slot] == TAKEN:
                self._runs.add(self.live.now_us - tasks.since[slot], len(change.ids))

    async def wait_in_line(self, seconds: float) -> bool:
        """Wait until there may be a task; False: the time is over."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[bool] = loop.create_future()
        self.line.append(turn)
        timer = loop.call_later(seconds, self._end_wait, turn)  # a fifth of what asyncio.timeout costs
        try:
            woken = await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._leave_line(turn)
            elif turn.exception() is None and turn.result():
                self._woken -= 1
                self.wake()  # the turn was this caller's, who is gone
            raise
        finally:
            timer.cancel()
        if woken:
            self._woken -= 1
        return woken

    def _end_wait(self, turn: asyncio.Future[bool]) -> None:
        if not turn.done():
            turn.set_result(False)
            self._leave_line(turn)

    def _leave_line(self, turn: asyncio.Future[bool]) -> None:
        with suppress(ValueError):  # who was to be woken may have been passed over already
            self.line.remove(turn)

    def wake(self) -> None:
        """Let the first in line look, if there may be something for it."""
        self._passes = len(self.line)
        self._wake_first()

    def pass_on(self) -> None:
        """Who was let to look wanted certain keys, and found none of them.

        Each in line looks once: tasks that are ready may be of keys that are busy, and those who wait must not wake
        each other for ever.
        """
        if self._passes > 0:
            self._passes -= 1
            self._wake_first()

    def _wake_first(self) -> None:
        while self.line and self.live.ready > 0 and not self.live.state.paused:
            turn = self.line.popleft()
            if not turn.done():
                turn.set_result(True)
                self._woken += 1
                return

    def wake_pushes(self) -> None:
        """There may be room for more tasks."""
        while self.pushes:
            turn = self.pushes.popleft()
            if not turn.done():
                turn.set_result(None)

    def end_line(self, error: JjqError) -> None:
        """Nothing comes any more: the calls that wait raise why."""
        self.wake_pushes()
        while self.line:
            turn = self.line.popleft()
            if not turn.done():
                turn.set_exception(error)

    def grown(self) -> bool:
        """The queue has new elements. False: nobody waits for them, but the driver should look at them soon."""
        if self.line:
            self.advance()
            self.wake()
            return True
        return not self.live.kind.looks

    # Others -----------------------------------------------------------------------------------------

    def note_session(self, session: str, ttr: float) -> None:
        """A session that is attached takes: its ttr must be known after a restart."""
        milliseconds = round(ttr * 1_000)
        if self.live.state.sessions.get(session) != milliseconds:
            self.live.note(LedgerRow(0, 0, events.SESSION, None, milliseconds, None, session))

    def history(self, start: int | None = None, end: int | None = None) -> AsyncIterator[pa.RecordBatch]:
        """The ledger so far, or some rows of it."""
        first = self.ledger.first if start is None else start
        return self.elements.reading.read(self.ledger, first, self.ledger.next if end is None else end)

    def statistics(self) -> GroupStatistics:
        live = self.advance()
        state = live.state
        calls = {**dict.fromkeys(events.TASK_EVENTS, 0), **state.calls, "put": live.end - state.first}
        tasks = state.open
        taken = min((tasks.since[tasks.index[task]] for task in tasks.of_state(TAKEN)), default=live.now_us)
        return GroupStatistics(
            live.counts,
            calls,
            self._oldest_ready(live),
            max(0.0, (live.now_us - taken) / SECOND_US),
            state.rates(live.now_us),
        )

    def _oldest_ready(self, live: LiveGroup) -> float:
        """How long ago the oldest ready task was pushed; if its element is cold, the first one of its block."""
        state = live.state
        ready = list(state.open.of_state(READY))
        if state.untouched(live.end) > live.sleeping.count:
            ready.append(live.sleeping.first_missing(state.floor))
        if not ready:
            return 0.0
        oldest = min(ready)
        pushed_us = live.pushes.of(oldest, self.elements.pushed_us(oldest))
        return max(0.0, (live.now_us - pushed_us) / SECOND_US)

    def figures(self) -> WorkFigures:
        found = self.statistics()
        return WorkFigures(
            self.queue.name, self.name, found.tasks, found.calls, found.oldest_ready_seconds,
            found.oldest_taken_seconds, self._waits, self._runs,
        )  # fmt: skip

    def info(self, resolved: Resolved | None = None) -> GroupInfo:
        live = self.advance()
        state = live.state
        return GroupInfo(
            id=self.id,
            name=self.name,
            queue=self.queue.name,
            settings=state.settings,
            start=state.start,
            first=state.first,
            created_us=state.created_us,
            paused=state.paused,
            waiting=len(self.line),
            tasks=live.counts,
            resolved=resolved,
        )


def check_take(take: Take, kind: DriverKind) -> frozenset[bytes] | None:
    """The keys that are asked for."""
    if type(take.max) is not int or not 1 <= take.max <= TAKE_TASKS_MAX:
        raise InvalidInput(f"max is {take.max!r:.40}: use a whole number from 1 to {TAKE_TASKS_MAX}")
    wait = take.wait
    if (
        type(wait) is not float and (isinstance(wait, bool) or not isinstance(wait, int))
    ) or not 0 <= wait < math.inf:
        raise InvalidInput(f"wait must be a number of seconds from 0 on, not {wait!r:.60}")
    if take.ttr is not None:
        check_seconds("ttr", take.ttr, least=0.001)
    if take.stage not in STAGES:
        raise InvalidInput(f"stage {take.stage!r:.40} is not known: use one of {', '.join(STAGES)}")
    check_session(take.session)
    if take.worker != "" and (not is_text(take.worker) or len(take.worker.encode()) > NAME_CHARS_MAX):
        raise InvalidInput(f"worker must be text of at most {NAME_CHARS_MAX} bytes, not {take.worker!a:.60}")
    if take.keys is None:
        return None
    if KEY not in kind.uses:
        raise InvalidInput(
            f"driver {kind.name} does not know keys: take without keys, or create a group with utube"
        )
    if not all(isinstance(key, bytes) for key in take.keys):
        raise InvalidInput("keys are bytes")
    return frozenset(take.keys)
