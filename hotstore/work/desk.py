"""All groups of this node: found by id, loaded when first asked for, closed with their queue; one timer for all.

A group is where its queue is. Its ledger is a queue of this node's registry, so the names of all groups are known from
the start, and a group is loaded when it is first asked for, or soon after the start, so that its timers run.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from coldstore.layout import ledger as events
from coldstore.layout import paths
from coldstore.layout.paths import check_name
from coldstore.shared.clock import Clock, SteadyClock
from coldstore.shared.errors import DataLoss, InvalidInput, JjqError, NotFound, Unavailable
from coldstore.shared.single_flight import SingleFlight
from coldstore.store import ColdStore
from hotstore.groups.changes import release_all
from hotstore.limits import SNAPSHOT_ROWS
from hotstore.queue.queue import HotQueue
from hotstore.queue.registry import Registry
from hotstore.read.hot_blocks import HotBlocks
from hotstore.read.reading import Reading
from hotstore.runner import Runner
from hotstore.work.elements import TaskElements
from hotstore.work.group_figures import WorkFigures
from hotstore.work.ledger_writer import LAZY_SECONDS
from hotstore.work.loading import GroupLoader, settled_state
from hotstore.work.sessions import Sessions
from hotstore.work.work_group import WorkGroup
from hotstore.write.committer import Committer

log = logging.getLogger("jjq.hotstore")

_LOOK_US: Final = 50_000  # new elements that nobody waits for are looked at after this time
_STEP_US: Final = 2_000  # between two looks at a long backlog
_SECOND_US: Final = 1_000_000


def _log_snapshot(ledger: str, error: BaseException) -> None:
    log.info("no snapshot of %s now: %s", ledger, error)


class WorkDesk:
    """See the module's docstring."""

    def __init__(
        self,
        registry: Registry,
        committer: Committer,
        reading: Reading,
        blocks: HotBlocks,
        cold: ColdStore,
        runner: Runner,
        clock: Clock,
    ) -> None:
        self.registry = registry
        self.committer = committer
        self.clock = SteadyClock(clock)
        self._reading = reading
        self._blocks = blocks
        self._loader = GroupLoader(cold.objects, reading, runner)
        self._cold = cold
        self._runner = runner
        self.run = runner.run
        self.sessions = Sessions(self.clock, self._session_ended)
        self._groups: dict[str, WorkGroup] = {}
        self._of_queue: dict[str, dict[str, WorkGroup]] = {}  # by queue, then by id
        self._loading: SingleFlight[str, WorkGroup] = SingleFlight()
        self._opening: SingleFlight[str, None] = SingleFlight()
        self._snapshots: SingleFlight[str, None] = SingleFlight(_log_snapshot)
        self.lazy_seconds = LAZY_SECONDS
        self._alarm: asyncio.Task[None] | None = None
        self._alarm_us = 0
        self._broken: set[str] = set()  # loaded in this run before: what is taken was taken by living workers
        self._unloaded: set[str] = set()  # queues with groups that nobody has asked for yet
        self._coming: set[str] = set()  # queues that came to this node; some ledgers are not open yet
        self._closed = False

    # Finding ------------------------------------------------------------------------------------------

    def at_hand(self, group_id: str) -> WorkGroup | None:
        """The group, if it is loaded and takes verbs: what almost every verb finds. Else `group` says what is."""
        found = self._groups.get(group_id) if type(group_id) is str else None
        usable = found is not None and found.queue.state.is_open and found.refusal is None
        return found if usable and found is not None and found.live.state.exists else None

    async def group(self, group_id: str) -> WorkGroup:
        """The group, loaded; `NotFound` where there is none."""
        found = self._groups.get(group_id) if isinstance(group_id, str) else None
        if found is None or not found.queue.state.is_open:
            found = await self._load(group_id)
        if found.refusal is not None:
            raise found.refusal.with_traceback(None)
        if not found.live.state.exists:
            raise NotFound(
                f"queue {found.queue.name} has no group {found.name}: create it, or correct the name"
            )
        return found

    async def find(self, queue: str, name: str) -> WorkGroup | None:
        """As `group`; None where there is none, or it was deleted."""
        if paths.ledger(queue, name) not in self.registry.queues:
            return None
        found = self._groups.get(f"{queue}/{name}") or await self._load(f"{queue}/{name}")
        return found if found.live.state.exists else None

    async def find_sound(self, group_id: str) -> WorkGroup | None:
        """As `find`; also None where the driver is not installed, or the ledger is damaged: `group` says so."""
        try:
            return await self.find(*group_id.split("/", 1))
        except (InvalidInput, DataLoss) as error:
            log.warning("group %s cannot be loaded now: %s", group_id, error)
            return None

    def of(self, queue: str) -> list[WorkGroup]:
        """The groups of a queue that are loaded."""
        return [group for group in self._of_queue.get(queue, {}).values() if group.live.state.exists]

    def has_no_limits(self, queue: HotQueue) -> bool:
        """Whether all groups of a queue are here and loaded, and none has a capacity."""
        if queue.name in self._unloaded or queue.name in self._coming:
            return False
        return all(
            group.live.state.settings.capacity is None
            for group in self._of_queue.get(queue.name, {}).values()
        )

    async def all_of(self, queue: HotQueue) -> list[WorkGroup]:
        """The groups of a queue; those that were not asked for yet, or are still coming, are waited for."""
        while queue.name in self._coming:
            try:
                await self._come(queue)
            except JjqError as error:  # a push does not wait for a group that cannot work
                log.warning("groups of queue %s cannot be opened now: %s", queue.name, error)
                break
        while queue.name in self._unloaded:
            wanted = self.names(queue.name)
            for group_id in wanted:
                try:
                    await self._load(group_id)
                except JjqError as error:
                    log.warning("group %s cannot be loaded now: %s", group_id, error)
            if wanted == self.names(queue.name):  # only now: others wait for them as well
                self._unloaded.discard(queue.name)
        return self.of(queue.name)

    def expect(self, ledger: str) -> None:
        """The registry knows this ledger: its queue has a group, which is loaded when somebody needs it."""
        parts = paths.ledger_parts(ledger)
        queue = None if parts is None else self.registry.queues.get(parts[0])
        if queue is not None and f"{queue.name}/{parts[1] if parts else ''}" not in self._groups:
            self._unloaded.add(queue.name)
            if queue.on_grown is None:
                queue.on_grown = lambda: self._grown(self._of_queue.setdefault(queue.name, {}))

    async def figures(self) -> list[WorkFigures]:
        """Those of all groups that are loaded; the loop goes round in between, as there may be many."""
        found: list[WorkFigures] = []
        for group_id in list(self._groups):
            group = self.at_hand(group_id)
            if group is not None:
                found.append(group.figures())
                await asyncio.sleep(0)
        return found

    def names(self, queue: str | None = None) -> list[str]:
        """The ids of all groups whose ledgers this node has, by id; some may be deleted."""
        parts = (paths.ledger_parts(name) for name in self.registry.queues)
        return sorted(f"{each[0]}/{each[1]}" for each in parts if each and queue in (None, each[0]))

    async def _load(self, group_id: str) -> WorkGroup:
        queue, slash, name = group_id.partition("/") if isinstance(group_id, str) else ("", "", "")
        if not slash:
            raise InvalidInput(f"group {group_id!r:.80} is not known: give its id, <queue>/<name>")
        check_name(name, "group")
        found = await self.registry.queue(queue)
        try:
            ledger = await self.registry.queue(paths.ledger(queue, name))
        except NotFound:
            raise NotFound(f"queue {queue} has no group {name}: create it, or correct the name") from None
        return await self.load(found, ledger, name)

    async def load(self, queue: HotQueue, ledger: HotQueue, name: str) -> WorkGroup:
        """The group of this ledger, loaded once however many ask."""
        group_id = f"{queue.name}/{name}"
        known = self._groups.get(group_id)
        if known is not None:
            return known
        return await self._loading.run(
            group_id, lambda: self._load_once(queue, ledger, name), f"jjq-open-group-{group_id}"
        )

    async def _load_once(self, queue: HotQueue, ledger: HotQueue, name: str) -> WorkGroup:
        lost = ledger.state.damage or ledger.state.doubt
        if lost is not None:
            raise lost.with_traceback(None)
        state = await self._loader.load(ledger)
        if state.queue_id != queue.settings.id:
            state.exists = False  # it worked on a queue that had this name before
        elements = TaskElements(queue, self._reading, self._blocks, self.clock, self._runner)
        group = WorkGroup(
            queue, ledger, name, state, elements, self.committer, self.clock, self._group_failed,
            self.lazy_seconds,
        )  # fmt: skip
        await group.prepare()
        if not (queue.state.is_open and ledger.state.is_open):
            # It began to leave meanwhile, and `leave` did not know of this group: its rows would come too late.
            elements.leave()
            raise queue.state.refusal or Unavailable(f"queue {queue.name} is about to leave: ask again")
        if group.id in self._broken:
            self._broken.discard(group.id)
        else:
            for session, ttr in group.release_unknown(self.sessions.is_known).items():
                self.sessions.expect(session, ttr / 1_000)
        self._groups[group.id] = group
        self._of_queue.setdefault(queue.name, {})[group.id] = group
        queue.on_grown = lambda: self._grown(self._of_queue[queue.name])
        self.changed(group)
        return group

    async def load_all(self) -> None:
        """Load every group, so that its timers run; after a start, in the background."""
        for group_id in self.names():
            try:
                await self._load(group_id)
            except JjqError as error:
                log.warning("group %s cannot be loaded now: %s", group_id, error)

    # What happens -------------------------------------------------------------------------------------

    def changed(self, group: WorkGroup) -> None:
        """After every verb: wake who waits, write what is to be written, and set the timer."""
        if group.line:
            group.wake()
        self._go_on(group)

    def found_nothing(self, group: WorkGroup, *, narrow: bool) -> None:
        """After a take that has to wait: nobody else would find more, unless it asked for some keys only."""
        if narrow and group.line:
            group.pass_on()
        self._go_on(group)

    def _go_on(self, group: WorkGroup) -> None:
        if group.pushes:
            group.wake_pushes()
        group.writer.flush_soon()
        due_us = group.live.next_us()
        if due_us is not None and (group.due_us is None or due_us < group.due_us):
            self._schedule(group, due_us)

    def _grown(self, groups: dict[str, WorkGroup]) -> None:
        for group in groups.values():
            if group.grown():
                self.changed(group)
            else:
                self._schedule(group, self.clock.now_us() + _LOOK_US)

    def _schedule(self, group: WorkGroup, due_us: int) -> None:
        if group.due_us is None or due_us < group.due_us:
            group.due_us = due_us
            self._set_alarm(due_us)

    def _set_alarm(self, due_us: int) -> None:
        if self._closed or (self._alarm is not None and self._alarm_us <= due_us):
            return
        if self._alarm is not None:
            self._alarm.cancel()
        seconds = max(0, due_us - self.clock.now_us()) / _SECOND_US
        self._alarm_us = due_us
        self._alarm = asyncio.create_task(self._ring(seconds), name="jjq-work-timer")

    async def _ring(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._alarm = None
        self.tick()

    def tick(self) -> None:
        """Do what is due in all groups. The timer calls it; a simulation does so itself."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self.sessions.advance()
        now_us = self.clock.now_us()
        for group in list(self._groups.values()):
            if group.due_us is not None and group.due_us <= now_us:
                group.due_us, scanned = None, group.live.scanned
                live = group.advance()
                self.changed(group)
                # If no more could be looked at, they must be loaded: who takes does that.
                if group.elements.is_behind(live) and live.scanned > scanned:
                    self._schedule(group, now_us + _STEP_US)
        due = [group.due_us for group in self._groups.values() if group.due_us is not None]
        ending = self.sessions.next_us()
        if ending is not None:
            due.append(ending)
        if due:
            self._set_alarm(min(due))

    def session_changed(self) -> None:
        """A session was attached or detached."""
        self.sessions.advance()
        ending = self.sessions.next_us()
        if ending is not None:
            self._set_alarm(ending)

    def _session_ended(self, session: str) -> None:
        for group in self._groups.values():
            live = group.advance()
            live.state.sessions.pop(session, None)
            holders = live.state.open.holders.of_session(session)
            if holders and release_all(live, holders, events.ORPHAN):
                self.changed(group)

    # Ends ---------------------------------------------------------------------------------------------

    def _group_failed(self, group: WorkGroup, error: Exception) -> None:
        """Rows of it could not be written: what is durable counts. Who waits for tasks goes on waiting."""
        self._forget(group)
        self._broken.add(group.id)
        group.end_line(Unavailable(f"group {group.id} could not write what happened ({error}): take again"))

    def _forget(self, group: WorkGroup) -> None:
        if self._groups.get(group.id) is group:
            del self._groups[group.id]
            del self._of_queue[group.queue.name][group.id]
            self._unloaded.add(group.queue.name)  # a push must know whether it is full
        group.writer.stop()
        group.elements.leave()

    async def leave(self, queue: str, why: JjqError) -> None:
        """A queue is about to leave this node: its groups take no verbs any more, and all their rows are durable."""
        for group in list(self._of_queue.get(queue, {}).values()):
            group.refusal = why
            group.end_line(why)
            self._forget(group)
            self._broken.add(group.id)  # should it stay, its workers go on
            await group.writer.flush().wait()

    async def arrived(self, queue: HotQueue) -> None:
        """A queue has come to this node: its groups come, too."""
        if paths.ledger_parts(queue.name) is not None:
            self.expect(queue.name)
            return
        self._coming.add(queue.name)  # at once: the queue is open, and a push must know that it may be full
        if queue.on_grown is None:
            queue.on_grown = lambda: self._grown(self._of_queue.setdefault(queue.name, {}))
        await self._come(queue)

    async def _come(self, queue: HotQueue) -> None:
        """Open the ledgers of a queue, once however many ask."""
        await self._opening.run(queue.name, lambda: self._come_once(queue), f"jjq-open-ledgers-{queue.name}")

    async def _come_once(self, queue: HotQueue) -> None:
        for ledger in await self.run(lambda: self._cold.ledger_names(queue.name)):
            try:
                await self.registry.queue(ledger)
            except NotFound:
                continue  # deleted
            self._broken.discard(ledger.replace("~", "/", 1))
        self._coming.discard(queue.name)
        if not self.names(queue.name):
            queue.on_grown = None

    def sealed(self, ledger: HotQueue) -> None:
        """A block of this queue is cold. If it is a ledger, keep the state of its group, beside everything else."""
        if ledger.content == "ledger":
            self._snapshots.start(ledger.name, lambda: self.snapshot(ledger), f"jjq-seal-group-{ledger.name}")

    async def snapshot(self, ledger: HotQueue) -> None:
        """A block of this ledger is cold: keep the state beside it, so that a start folds only later rows."""
        parts = paths.ledger_parts(ledger.name)
        group = self._groups.get(f"{parts[0]}/{parts[1]}") if parts is not None else None
        if group is None or not group.live.state.exists:
            return
        await self._loader.keep(group, await settled_state(group), self.clock.measure())

    def end_waits(self, why: JjqError) -> None:
        for group in self._groups.values():
            group.end_line(why)

    async def close(self) -> None:
        """Write what is not written yet; later verbs are refused by the committer."""
        self._closed = True
        if self._alarm is not None:
            self._alarm.cancel()
        for group in list(self._groups.values()):
            group.writer.stop()
            group.advance()
            if group.live.outbox.rows and self.committer.poisoned is None:
                try:
                    await group.writer.flush().wait()
                except JjqError as error:
                    log.warning("closing group %s: %s", group.id, error)
                    continue
            if group.writer.is_idle and group.ledger.next - group.kept_rows >= SNAPSHOT_ROWS:
                state = group.live.state.copy(group.ledger.next)
                await self._loader.keep(group, state, self.clock.measure())
