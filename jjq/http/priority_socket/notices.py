"""Notices of the later stages of a post: assign, finish, retry and drop, read from the ledger of the queue's group.

The ledger says what happened to each task, over every interface: a worker of gRPC may finish a message
that was posted here. One reader follows the ledger of each queue of which somebody awaits something.

A post is awaited by its offset, which is known when it was pushed. Its task may be taken before that, so transitions
that come while a push is under way are kept until the offsets are known.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from itertools import islice
from typing import Any, Final, NamedTuple

import pyarrow as pa

from coldstore import compute as pc
from coldstore.layout import ledger as events
from coldstore.shared import lists
from coldstore.shared.backoff import Backoff
from coldstore.shared.errors import Exhausted, JjqError, NotFound
from hotstore.groups.values import ledger_of
from jjq.http.backend import Backend
from jjq.http.priority_socket.frames import NoticeName, NoticeReply
from jjq.http.priority_socket.session import SocketSession
from jjq.limits import (
    BACKOFF_SECONDS,
    BACKOFF_SECONDS_MAX,
    CONNECT_EARLY_MAX,
    CONNECT_IDLE_SECONDS,
    CONNECT_ROWS,
    CONNECT_WANTED_MAX,
    CONNECT_WANTED_TOTAL_MAX,
)

LATER: Final[frozenset[NoticeName]] = frozenset({"assign", "finish", "retry", "drop"})
POP_WORKER: Final = "pop"  # the name under which a pop takes; its takes make no notice
_TOLD: Final = lists.array([*events.TASK_EVENTS, events.REMOVE], pa.string())
_FIELDS: Final = ("task", "count", "event", "state", "worker")


class Awaited:
    """A post of which later stages are awaited."""

    __slots__ = ("label", "popped", "session", "stages")

    def __init__(self, session: SocketSession, label: int, stages: frozenset[NoticeName]) -> None:
        self.session = session
        self.label = label
        self.stages = stages
        self.popped = False


class _Transition(NamedTuple):
    task: int
    tasks: int
    event: str
    state: str | None
    worker: str | None

    @property
    def notice(self) -> NoticeName | None:
        """The notice that a producer gets."""
        if self.event == events.TAKE:
            return "assign"
        if self.event == events.ACK:
            return "finish"
        if self.state in {"done", "buried"}:
            return "drop"
        if self.event in {events.TIMEOUT, events.NACK, events.RELEASE, events.ORPHAN}:
            return "retry"
        return None


class NoticeBoard:
    """All posts of this node of which somebody awaits something."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.total = 0  # posts that are awaited
        self._followers: dict[str, LedgerFollower] = {}

    @asynccontextmanager
    async def pushing(self, group: str, session: SocketSession, posts: int) -> AsyncIterator[LedgerFollower]:
        """Around the push of so many posts to the group's queue, which are awaited at the end of it."""
        if len(session.awaits) + posts > CONNECT_WANTED_MAX or self.total + posts > CONNECT_WANTED_TOTAL_MAX:
            raise Exhausted(
                f"{len(session.awaits)} posts of this client wait for a notice of assign, finish, retry or drop: "
                f"post without these, or wait until some are done"
            )
        follower = self._followers.get(group)
        if follower is None:
            follower = self._followers[group] = LedgerFollower(self, group)
        follower.pushes += 1
        try:
            await follower.start()
            yield follower
        finally:
            follower.pushes -= 1
            follower.settle()

    async def session_ended(self, session: SocketSession) -> None:
        """Forget what this client awaited, a little at a time."""
        while session.awaits:
            for follower, task in list(islice(session.awaits, CONNECT_ROWS)):
                follower.done(task)
            await asyncio.sleep(0)

    def forget(self, group: str) -> None:
        """Nobody awaits anything of this group."""
        self._followers.pop(group, None)


class LedgerFollower:
    """Reads one ledger while somebody awaits something of it."""

    def __init__(self, board: NoticeBoard, group: str) -> None:
        self.pushes = 0  # under way
        self._board = board
        self._group = group
        self._awaited: dict[int, Awaited] = {}
        self._early: deque[_Transition] = deque(maxlen=CONNECT_EARLY_MAX)
        self._next = 0  # offset in the ledger
        self._starting = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._used = False  # since the timer was set
        self._reading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Be where the ledger ends now; what happens to later pushes is seen."""
        async with self._starting:
            if self._reading is None:
                store = self._board.backend.store
                self._next = (await store.get_queue(ledger_of(self._group))).next_offset
                self._reading = asyncio.create_task(self._follow(), name="jjq-connect-notices")

    def expect(self, task: int, awaited: Awaited) -> None:
        """Send notices of this task from now on, and of what has happened already."""
        if self._reading is None or awaited.session.ended:
            return  # the queue was deleted, or the client has gone
        self._awaited[task] = awaited
        awaited.session.awaits.add((self, task))
        self._board.total += 1
        for each in self._early:
            if each.task <= task < each.task + each.tasks:
                self._tell(task, each)

    def settle(self) -> None:
        """A push has ended. If nobody awaits anything for a while, the ledger is left alone."""
        self._used = True
        if not self.pushes:
            self._early.clear()
            self._look_later()

    def _look_later(self) -> None:
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(CONNECT_IDLE_SECONDS, self._stop_if_idle)

    def _stop_if_idle(self) -> None:
        self._timer = None
        if self.pushes or self._awaited:
            return  # the end of a push, or of what is awaited, sets the timer again
        if self._used:
            self._used = False
            self._look_later()
            return
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None
        self._board.forget(self._group)

    async def _follow(self) -> None:
        """Read on, through moves of the queue and whatever else passes by, until the queue or the server ends."""
        backend = self._board.backend
        backoff = Backoff(BACKOFF_SECONDS, BACKOFF_SECONDS_MAX, backend.chance)
        while True:
            try:
                source: Any = backend.store.read(
                    ledger_of(self._group), f"offset:{self._next}", None, follow=True
                )
                async with aclosing(source):
                    while True:
                        batch = await backend.drain.wait(anext(source))
                        backoff.reset()
                        await self._look(batch)
            except (NotFound, StopAsyncIteration):
                break
            except JjqError as error:
                if backend.drain.stopping:
                    return
                backend.log.warning("a ledger cannot be read for notices", group=self._group, why=str(error))
                await asyncio.sleep(backoff.next_pause())
        for task in list(self._awaited):
            self.done(task)
        self._reading = None
        self._board.forget(self._group)

    async def _look(self, batch: pa.RecordBatch) -> None:
        for start in range(0, batch.num_rows, CONNECT_ROWS):
            part = batch.slice(start, CONNECT_ROWS)
            for transition in _transitions(part):
                self._pass_on(transition)
            self._next = part.column("offset")[part.num_rows - 1].as_py() + 1
            await asyncio.sleep(0)  # others may have their turn

    def _pass_on(self, transition: _Transition) -> None:
        if transition.event == events.REMOVE:
            for task in list(self._awaited):
                self.done(task)
            return
        if self.pushes:
            self._early.append(transition)
        first, end = transition.task, transition.task + transition.tasks
        if transition.tasks <= len(self._awaited):
            found = [task for task in range(first, end) if task in self._awaited]
        else:
            found = [task for task in self._awaited if first <= task < end]
        for task in found:
            self._tell(task, transition)

    def _tell(self, task: int, transition: _Transition) -> None:
        awaited, notice = self._awaited.get(task), transition.notice
        if awaited is None or notice is None:
            return
        if notice == "assign":
            awaited.popped = transition.worker == POP_WORKER
        if notice in awaited.stages and not (awaited.popped and notice != "finish"):
            awaited.session.send(NoticeReply(awaited.label, notice))
        if notice == "finish" or (notice == "drop" and transition.state == "done"):
            self.done(task)

    def done(self, task: int) -> None:
        """Nothing of this task is awaited any more."""
        awaited = self._awaited.pop(task, None)
        if awaited is not None:
            awaited.session.awaits.discard((self, task))
            self._board.total -= 1
            self._look_later()


def _transitions(batch: pa.RecordBatch) -> list[_Transition]:
    values = batch.column("value")
    values = values.filter(pc.is_in(pc.struct_field(values, "event"), value_set=_TOLD))
    columns = [pc.struct_field(values, name).to_pylist() for name in _FIELDS]
    return [_Transition(*row) for row in zip(*columns, strict=True)]
