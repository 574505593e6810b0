"""The queues and subscribers of this node, by name and by the journal's numbers.

A queue that the journal knows is here from the start, with its unsealed elements. Its cold side is opened at first use.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

from coldstore.layout.paths import check_name, ledger_parts
from coldstore.layout.queue_settings import QueueSettings
from coldstore.queue.cold_queue import ColdQueue
from coldstore.queue.deletion import has_ended
from coldstore.shared.bounded_dict import BoundedDict
from coldstore.shared.clock import Clock
from coldstore.shared.errors import DataLoss, Fenced, InvalidInput, JjqError, NotFound
from coldstore.shared.results import in_order
from coldstore.shared.single_flight import SingleFlight
from coldstore.store import ColdStore
from hotstore.journal import records
from hotstore.journal.witness import Exposed
from hotstore.limits import EXPECTED_QUEUES_MAX
from hotstore.queue import state_document
from hotstore.queue.arrival import arrive
from hotstore.queue.changes import JournalNumbers, StateChanges
from hotstore.queue.holes import RECORDS_LOST, reconcile
from hotstore.queue.moves import chunks, commit_state
from hotstore.queue.owners import Claim, Owners, SoleOwner
from hotstore.queue.queue import HotQueue, NoSealer, SealsBlocks
from hotstore.queue.state import SUBSCRIBERS_LOST, Phase
from hotstore.queue.subscriber import Subscriber
from hotstore.runner import Runner
from hotstore.write.admission import Usage
from hotstore.write.committer import Committer

log = logging.getLogger("jjq.hotstore")


class Registry:
    """Finds queues and subscribers, and opens queues once."""

    def __init__(
        self,
        cold: ColdStore,
        committer: Committer,
        runner: Runner,
        clock: Clock,
        usage: Usage,
        owners: Owners | None = None,
    ) -> None:
        self.owners = owners or SoleOwner()
        self._cold = cold
        self._committer = committer
        self._runner = runner
        self._clock = clock
        self._usage = usage
        self.opening: SingleFlight[str, HotQueue] = SingleFlight()
        self.queues: dict[str, HotQueue] = {}
        self.by_number: dict[int, HotQueue] = {}
        self.subscribers: dict[int, Subscriber] = {}
        self._named: dict[int, dict[str, Subscriber]] = {}  # by queue, then by name
        self.sealer: SealsBlocks = NoSealer()  # the engine sets it; a registry that only replays has none
        self.on_arrived: Callable[[HotQueue], Awaitable[None]] = lambda _: asyncio.sleep(0)  # for groups
        # What the next checkpoint must write.
        self.changes: StateChanges[HotQueue, Subscriber] = StateChanges()
        self.numbers = JournalNumbers()
        # Opened before they are this node's.
        self._expected: BoundedDict[str, ColdQueue] = BoundedDict(EXPECTED_QUEUES_MAX)
        # Names that the journal may have lost with what it knew of them; the cause.
        self.suspects: dict[str, str] = {}
        self._exposed: dict[str, Exposed] = {}  # where the journal is known to have reached, by name
        # Queues of which the journal has elements, but no row: the first batch.
        self.nameless: dict[int, int] = {}

    # Called by recovery too -----------------------------------------------------------------------

    def add_queue(self, settings: QueueSettings, number: int | None = None) -> HotQueue:
        number = self.numbers.queue if number is None else number
        self.numbers.reserve(number)
        queue = HotQueue(number, settings, self._clock, self._committer, self._usage, self)
        self.changes.queues.add(queue)
        self.queues[queue.name] = queue
        self.by_number[number] = queue
        return queue

    def forget(self, number: int) -> None:
        """The queue is not this node's, or the journal does not know of it."""
        queue = self.by_number.pop(number, None)
        if queue is None:
            return
        queue.state.end()
        if self.queues.get(queue.name) is queue:
            del self.queues[queue.name]
        self.changes.lose_queue(queue)
        for subscriber in self._named.pop(number, {}).values():
            self.subscribers.pop(subscriber.number, None)
            self.changes.lose_subscriber(subscriber)

    def add_subscriber(
        self, queue: HotQueue, name: str, start: str, clamp: bool, created_us: int, number: int | None = None
    ) -> Subscriber:
        number = self.numbers.subscriber if number is None else number
        self.numbers.reserve(0, number)
        subscriber = Subscriber(number, name, queue, start, clamp, created_us)
        subscriber.used = self._clock.monotonic()
        self.enter(subscriber)
        self.changes.subscribers.add(subscriber)
        return subscriber

    def enter(self, subscriber: Subscriber) -> None:
        queue = subscriber.queue
        self._named.setdefault(queue.number, {})[subscriber.name] = subscriber
        queue.subscribers += 1
        self.subscribers[subscriber.number] = subscriber

    def drop_subscriber(self, subscriber: Subscriber) -> None:
        subscriber.deleted = True
        self.subscribers.pop(subscriber.number, None)
        self.changes.lose_subscriber(subscriber)
        named = self.of(subscriber.queue)
        if named.get(subscriber.name) is subscriber:
            del named[subscriber.name]
            subscriber.queue.subscribers -= 1

    def blocks_changed(self, queue: HotQueue) -> None:
        """Its blocks have changed, or are known for the first time; and how far it is sealed."""
        self.changes.queues.add(queue)
        self.changes.blocks.add(queue)

    def of(self, queue: HotQueue) -> dict[str, Subscriber]:
        """The subscribers of a queue, by name."""
        return self._named.get(queue.number, {})

    def ledgers_of(self, name: str) -> list[HotQueue]:
        """The ledgers of the groups that work on a queue."""
        return [queue for queue in self.queues.values() if queue.name.startswith(f"{name}~")]

    # Called by the verbs --------------------------------------------------------------------------

    async def queue(self, name: str) -> HotQueue:
        """The queue, opened; `NotFound` where there is none."""
        queue = self.queues.get(name)
        if queue is not None and queue.state.is_open:
            return queue
        return await asyncio.shield(self.open_soon(check_name(name)))

    def open_soon(self, name: str) -> asyncio.Task[HotQueue]:
        """Begin to open a queue, once however many ask."""
        return self.opening.start(name, lambda: self._open(name), f"jjq-open-{name}")

    async def expect(self, name: str) -> None:
        """The queue may soon become this node's: know its blocks by then, up to those that are yet to come."""
        self._expected[name] = await self._runner.run(lambda: self._cold.open_queue(name))

    async def all(
        self, after: str = "", limit: int | None = None, *, ledgers: bool = False
    ) -> list[HotQueue]:
        """Queues by name, those after `after`, and ledgers if asked for, opened side by side; one that cannot be
        opened as the journal knows it."""
        shown = (name for name in self.queues if ledgers or ledger_parts(name) is None)
        return await self._opened_all(in_order(shown, after, limit))

    async def all_subscribers(self, after: str = "", limit: int | None = None) -> list[Subscriber]:
        """Subscribers of all queues by queue and name, those after the id `after`."""
        queue, _, name = after.partition("/")
        with_some = {each.queue.name for each in self.subscribers.values() if each.queue.name >= queue}
        wanted: dict[str, list[str]] = {}
        room = limit
        for each in sorted(with_some):
            if room is not None and room <= 0:
                break
            named = self.of(self.queues[each])
            wanted[each] = in_order(named, name if each == queue else "", room)
            room = None if room is None else room - len(wanted[each])
        found = [self.of(each) for each in await self._opened_all(list(wanted))]
        # One that was deleted while its queue was opened is not there any more.
        return [
            named[name]
            for named, names in zip(found, wanted.values(), strict=True)
            for name in names
            if name in named
        ]

    async def _opened_all(self, names: list[str]) -> list[HotQueue]:
        opened = await asyncio.gather(*(self.queue(name) for name in names), return_exceptions=True)
        for name, queue in zip(names, opened, strict=True):
            if isinstance(queue, BaseException) and not isinstance(queue, JjqError):
                raise queue
            if isinstance(queue, JjqError):
                log.warning("queue %s cannot be opened: %s", name, queue)
        return [self.queues[name] for name in names if name in self.queues]

    async def subscriber(self, subscriber_id: str) -> Subscriber:
        """The subscriber `<queue>/<name>`; `NotFound` where there is none."""
        queue_name, slash, name = (
            subscriber_id.partition("/") if isinstance(subscriber_id, str) else ("", "", "")
        )
        if not slash:
            raise InvalidInput(f"subscriber {subscriber_id!r:.80} is not known: give its id, <queue>/<name>")
        queue = self.queues.get(queue_name)
        if queue is not None and queue.state.is_open and (found := self.of(queue).get(name)) is not None:
            return found  # nearly always: then its names need no look
        check_name(queue_name)
        check_name(name, "subscriber")
        found = self.of(queue := await self.queue(queue_name)).get(name)
        if found is None:
            queue.state.check_subscribers_known()
            raise NotFound(f"queue {queue_name} has no subscriber {name}: create it, or correct the name")
        return found

    async def create(
        self, name: str, content: str, block_bytes: int | None, block_seconds: float | None
    ) -> HotQueue:
        """Create the queue in the cold store, which makes its name unique, and open it."""
        await self._runner.run(
            lambda: self._cold.create_queue(
                name, content=content, block_bytes=block_bytes, block_seconds=block_seconds
            )
        )
        return await self.queue(name)

    async def discover(self) -> None:
        """Learn the names of all queues in the cold store: a new node, or one that lost its disk."""
        try:
            found = await self._runner.run(lambda: self._cold.list_queues(ledgers=True))
        except DataLoss:
            found = await self._runner.run(self._readable)
        for settings in [each for each in found if each.state is not None]:
            await self.queue(settings.name)  # brought back by undelete, and its subscribers are not here yet
        fresh = [self._fresh(settings) for settings in found if settings.name not in self.queues]
        for some in chunks(fresh):
            await self._store_rows(some)
        await self.store_doubts()

    async def _store_rows(self, queues: list[HotQueue]) -> None:
        rows = records.rows(records.QUEUES, [queue.row() for queue in queues])
        await commit_state(self._committer, lambda: [rows], done=lambda _: self.changes.stored(*queues))

    def expose(self, exposed: Iterable[Exposed]) -> None:
        """The cold store knows that these queues had reached so far."""
        self._exposed = {each.name: each for each in exposed}
        for queue in self.queues.values():
            self._promise(queue)

    def _promise(self, queue: HotQueue) -> None:
        said = self._exposed.pop(queue.name, None)
        if said is not None and said.id == queue.settings.id:
            queue.promised = max(queue.promised, said.next)
            self.changes.queues.add(queue)

    async def suspect_unknown(self, cause_of: Callable[[str], str] = lambda _: RECORDS_LOST) -> None:
        """State is lost, perhaps with the rows of queues that nothing here names any more."""
        unknown = {*await self._runner.run(self._cold.queue_names)} - self.queues.keys()
        reported = {name for name, cause in self.suspects.items() if cause.startswith(SUBSCRIBERS_LOST)}
        self.suspects |= {name: cause_of(name) for name in sorted(unknown - reported)}

    def in_doubt(self) -> list[HotQueue]:
        return [queue for queue in self.queues.values() if queue.state.doubt is not None]

    def has_lost_subscribers(self) -> bool:
        """Whether a checkpoint may still be put back, since the loss of one is not accepted by all queues."""
        return any(queue.state.has_lost_subscribers for queue in self.in_doubt())

    async def store_doubts(self) -> None:
        """Make what is suspected durable: it stays until an operator accepts the loss, whatever the journal forgets."""
        queues = [queue for queue in self.in_doubt() if not queue.state.doubt_stored]
        rows = [queue.state.doubt_row(queue.number) for queue in queues]
        rows += [[0, name, cause] for name, cause in self.suspects.items()]
        for some in chunks(rows):
            await commit_state(self._committer, lambda some=some: [records.rows(records.DOUBTS, some)])  # type: ignore[misc]
        for queue in queues:
            queue.state.doubt_stored = True

    def hold(self) -> int | None:
        """The first journal batch that is kept for elements whose queue is not known yet."""
        return min(self.nameless.values(), default=None) if self.suspects or self.in_doubt() else None

    def _fresh(self, settings: QueueSettings, *, owned_before: bool = True) -> HotQueue:
        """A queue that the journal does not name; `owned_before`: it was this node's before this run."""
        queue = self.add_queue(settings)
        cause = self.suspects.pop(queue.name, None)
        if owned_before:
            self._promise(queue)
            if cause is not None:
                queue.suspect(cause)
        return queue

    def _readable(self) -> list[QueueSettings]:
        """If one queue is damaged, go on with the others."""
        found: list[QueueSettings] = []
        for name in self._cold.queue_names():
            try:
                found.append(self._cold.open_queue(name).settings)
            except DataLoss as error:
                log.error("%s", error)
        return found

    async def _open(self, name: str) -> HotQueue:
        # A ledger leaves with the queue that its group works on: it is not opened while that one leaves.
        worked_on, _ = ledger_parts(name) or (name, "")
        while decision := self._decision(worked_on) or self._decision(name):
            await asyncio.shield(decision)  # soon it has left, or it stays
        known = self.queues.get(name)
        if known is not None and known.state.is_open:
            return known
        if known is not None and (known.state.phase is Phase.UNDECIDED or self.owners.doubts(known.epoch)):
            known = await self._confirmed(known)
        claim = await self.owners.claim(name) if known is None else None
        try:
            # Only now, since the last owner's last blocks must be seen.
            cold = await self._runner.run(lambda: self._look(name))
        except NotFound:
            if name not in self.queues:
                raise
            raise DataLoss(
                f"queue {name} is in this node's journal but not in the cold store: is this the right cold store?"
            ) from None
        queue = self.queues.get(name)
        if queue is not None:
            return await self._reopened(queue, cold)
        return await self._arrived(claim, cold) if claim is not None else await self._open(name)

    def _decision(self, name: str) -> asyncio.Future[None] | None:
        queue = self.queues.get(name)
        return None if queue is None else queue.state.decision

    def _look(self, name: str) -> ColdQueue:
        """In a worker thread: the queue in the cold store with all its blocks."""
        expected = self._expected.pop(name)
        if expected is not None:
            with suppress(DataLoss):  # if it is not what is there any more, look at it with fresh eyes
                settings = self._cold.find(name)
                if settings is not None and (settings.id, settings.deleted) == (expected.settings.id, None):
                    expected.use(settings)
                    expected.refresh()
                    return expected
        return self._cold.open_queue(name)

    async def _reopened(self, queue: HotQueue, cold: ColdQueue) -> HotQueue:
        before = queue.unsealed_bytes
        if cold.settings.id == queue.settings.id:
            queue.settings = cold.settings  # the size of its blocks may have been changed
        reconcile(queue, cold, [subscriber.offset for subscriber in self.of(queue).values()])
        self._usage.unsealed_bytes += queue.unsealed_bytes - before
        self.blocks_changed(queue)
        queue.state.open()
        if queue.state.doubt is not None and not queue.state.doubt_stored:
            await self.store_doubts()
        return queue

    async def _arrived(self, claim: Claim, cold: ColdQueue) -> HotQueue:
        fresh = self._fresh(cold.settings, owned_before=claim.owned_before)
        fresh.epoch = claim.epoch
        try:
            objects = self._cold.objects
            state = await self._runner.run(lambda: state_document.load(objects, cold.settings, claim.state))
            await arrive(self, self._committer, fresh, state)
        except JjqError:
            self.forget(fresh.number)
            raise
        # Only now is it open: a push before its row would be lost in a restart.
        reconcile(fresh, cold, [subscriber.offset for subscriber in self.of(fresh).values()])
        fresh.state.open()
        if fresh.state.doubt is not None:
            await self.store_doubts()
        await self.on_arrived(fresh)
        return fresh

    async def _confirmed(self, queue: HotQueue) -> HotQueue | None:
        """Ask which node owns a queue that the journal names in doubt; None if it has left, and may have returned."""
        if queue.state.phase is Phase.UNDECIDED and not queue.unsealed_bytes:
            found = await self._runner.run(lambda: self._cold.find(queue.name))
            if has_ended(found, queue.settings.id):
                return await self._gone(queue, NotFound(f"queue {queue.name} was deleted"))
        try:
            epoch = await self.owners.confirm(queue.name, queue.epoch)
        except Fenced as error:
            if queue.state.phase is not Phase.UNDECIDED:
                damage = DataLoss(
                    f"queue {queue.name} was taken over by node {error.owner} without what this disk has of it: keep "
                    f"the data directory if that matters, and start this node with a new one"
                )
                queue.state.report_damage(damage)
                raise
            return await self._gone(queue, error)
        queue.epoch = epoch
        queue.state.confirm()
        self.changes.queues.add(queue)
        await commit_state(self._committer, lambda: [records.rows(records.QUEUES, [queue.row()])])
        return queue

    async def _gone(self, queue: HotQueue, why: JjqError) -> HotQueue | None:
        # All of it was sealed before it changed hands, or was deleted.
        left = records.rows(records.LEFT, [[queue.number]])
        await commit_state(self._committer, lambda: [left], done=lambda _: self.forget(queue.number))
        queue.end_waits(why)
        return None
