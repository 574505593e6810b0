"""Histories of a store that does everything right, for testing the checker. The same seed, the same history."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from coldstore.shared.chance import SeededChance
from tests.faults.table import STATES

Event = dict[str, Any]
SUBS = ("popper", "shy", "streamer", "seeker")


@dataclass
class _Sub:
    position: int = 0
    session: int = 0
    ahead: int | None = None


@dataclass
class _Queue:
    name: str
    log: list[int] = field(default_factory=list)
    subs: dict[str, _Sub] = field(default_factory=lambda: {name: _Sub() for name in SUBS})
    attempts: dict[int, int] = field(default_factory=dict)  # of tasks that were taken
    until: dict[int, int] = field(default_factory=dict)  # of delayed tasks: when they are ready
    done: set[int] = field(default_factory=set)
    taken: set[int] = field(default_factory=set)
    ledger: list[tuple[int, int, str, int, int]] = field(
        default_factory=list
    )  # task, count, event, attempt, state

    def write(self, task: int, event: str, state: str) -> None:
        """A row of the ledger."""
        self.ledger.append((task, 1, event, self.attempts[task], STATES.index(state)))
        (self.taken.add if state == "taken" else self.taken.discard)(task)

    def ready(self, now: int, most: int) -> list[int]:
        """Tasks that may be handed out."""
        waiting = (task for task in range(len(self.log)) if task not in self.done)
        return list(islice((task for task in waiting if self.until.get(task, 0) <= now), most))


class Perfect:
    """The store, and the pens of its clients."""

    def __init__(self, seed: int, queues: int = 2) -> None:
        self.events: list[Event] = []
        self.epoch = 1
        self._chance = SeededChance(seed)
        self._queues = [_Queue(f"q{n}") for n in range(queues)]
        self._time = 0
        self._values = 0
        self._places = 0
        self._process = dict.fromkeys(range(100), 0)
        self._ops = 0

    # Pens

    def _write(self, event: Event) -> None:
        self._time += 1_000 + self._dice(5_000)
        self.events.append({**event, "t": self._time})

    def _begin(self, f: str, queue: _Queue, worker: int, sub: str | None = None, **fields: Any) -> Event:
        self._ops += 1
        process = worker + 100 * self._process[worker]
        name = None if sub is None else f"{queue.name}/{sub}"
        common = {"process": process, "op": self._ops, "f": f, "queue": queue.name, "sub": name}
        self._write({**common, "type": "invoke", **fields})
        return common

    def _end(self, common: Event, kind: str, worker: int = 0, **fields: Any) -> None:
        self._write({**common, "type": kind, **fields})
        if kind == "info":
            self._process[worker] += 1

    def _dice(self, below: int) -> int:
        return int(self._chance.jitter() * below)

    def new_values(self, count: int) -> list[int]:
        self._values += count
        return list(range(self._values - count, self._values))

    # What clients do

    def push(self, queue: _Queue, *, pipelined: bool = False) -> None:
        values = self.new_values(1 + self._dice(3))
        fields: Event = {"values": values}
        if pipelined:
            self._places += 1
            fields |= {"pipeline": self._queues.index(queue), "place": self._places}
        begun = self._begin("push", queue, 1, **fields)
        fate = self._dice(20)
        if fate == 0:
            self._end(begun, "fail", code="RESOURCE_EXHAUSTED")
            return
        if fate != 1:  # 1: lost on its way
            queue.log.extend(values)
        if fate <= 2:
            self._end(begun, "info", 1, code="UNAVAILABLE")
        else:
            self._end(begun, "ok", offset=len(queue.log) - len(values), epoch=self.epoch)

    def pop(self, queue: _Queue, most: int = 4, sub: str = "popper") -> None:
        at = queue.subs[sub]
        begun = self._begin("pop", queue, 2, sub, most=most)
        values = queue.log[at.position : at.position + most]
        if self._dice(20) == 0:
            at.position += len(values) if self._dice(2) else 0
            self._end(begun, "info", 2)
            return
        start, at.position = at.position, at.position + len(values)
        self._end(begun, "ok", position=start, next=at.position, values=values, epoch=self.epoch)

    def peek(self, queue: _Queue) -> None:
        begun = self._begin("peek", queue, 3, "shy", most=2)
        at = queue.subs["shy"].position
        self._end(
            begun, "ok", position=at, next=at + len(queue.log[at : at + 2]), values=queue.log[at : at + 2]
        )

    def deliver(self, queue: _Queue) -> None:
        at = queue.subs["streamer"]
        if at.ahead is None or self._dice(10) == 0:
            at.session, at.ahead = at.session + 1, at.position
        values = queue.log[at.ahead : at.ahead + 3]
        if values:
            begun = self._begin("deliver", queue, 4, "streamer")
            self.events.pop()  # a delivery has no beginning
            start, at.ahead = at.ahead, at.ahead + len(values)
            self._end(begun, "ok", position=start, next=at.ahead, values=values, session=at.session)
        if self._dice(2):
            begun = self._begin("confirm", queue, 4, "streamer", offset=at.ahead)
            at.position = max(at.position, at.ahead)
            self._end(begun, "ok")

    def seek(self, queue: _Queue) -> None:
        begun = self._begin("seek", queue, 5, "seeker")
        queue.subs["seeker"].position = to = self._dice(len(queue.log) + 1)
        self._end(begun, "ok", position=to)
        self.pop(queue, 3, "seeker")

    def read(self, queue: _Queue) -> None:
        begun = self._begin("read", queue, 6, position=0)
        self._end(begun, "ok", position=0, next=len(queue.log), values=list(queue.log[:50]) or None, end=True)
        if len(queue.log) > 50:
            self.events[-1]["values"] = list(queue.log)

    def twin(self, queue: _Queue, taken: int) -> None:
        begun = self._begin("twin", queue, 7, taken=taken)
        half = len(queue.log) // 2
        self._end(begun, "ok", position=0, next=half, values=list(queue.log[:half]))
        begun = self._begin("twin", queue, 7, taken=taken, position=half, next=len(queue.log))
        self._end(begun, "fail", code="DATA_LOSS", loss=True)

    def take(self, queue: _Queue, most: int) -> list[int]:
        """Hand out tasks; those that a worker forgot come back at once."""
        begun = self._begin("take", queue, 10, durable=True)
        ids = queue.ready(self._time, most)
        for task in ids:
            if task in queue.taken:
                queue.write(task, "timeout", "ready")
            queue.attempts[task] = queue.attempts.get(task, 0) + 1
            queue.write(task, "take", "taken")
        self._end(
            begun, "ok", position=ids[0] if ids else 0, tasks=ids, offsets=ids,
            attempts=[queue.attempts[task] for task in ids], values=[queue.log[task] for task in ids],
        )  # fmt: skip
        return ids

    def change(self, queue: _Queue, verb: str, ids: list[int], delay: int = 0, *, late: bool = False) -> None:
        """Change tasks that are taken; `late`: as the attempt before the last, which is refused."""
        attempts = [queue.attempts[task] - late for task in ids]
        begun = self._begin(verb, queue, 10, tasks=ids, attempts=attempts, delay=delay)
        for task in () if late else ids:
            queue.write(task, verb, "done" if verb == "ack" else "delayed")
            if verb == "ack":
                queue.done.add(task)
            else:
                queue.until[task] = self._time + delay
        self._end(begun, "ok", refused=ids if late else [])

    def work(self, queue: _Queue) -> None:
        ids = self.take(queue, 1 + self._dice(4))
        if not ids:
            return
        fate = self._dice(6)
        again = [task for task in ids if queue.attempts[task] > 1]
        if fate == 0:
            self.change(queue, "nack", ids, delay=40_000)
        elif fate == 1 and again:
            self.change(queue, "ack", again, late=True)
        elif fate > 1:
            self.change(queue, "ack", ids)

    def work_off(self, queue: _Queue) -> None:
        """Finish all tasks, and tell what the ledger has."""
        while len(queue.done) < len(queue.log):
            self.change(queue, "ack", self.take(queue, 100))
        begun = self._begin("ledger", queue, 9)
        tasks, counts, events, attempts, states = map(list, zip(*queue.ledger, strict=True))
        self._end(begun, "ok", tasks=tasks, counts=counts, events=events, attempts=attempts, states=states)
        begun = self._begin("worked", queue, 9)
        self.events.pop()
        self._end(begun, "ok", open=0, done=len(queue.done))

    # Lives

    def live(self, operations: int) -> Perfect:
        """So many operations, in any order."""
        verbs: list[Callable[[_Queue], None]] = [
            self.push,
            self.push,
            self.pop,
            self.peek,
            self.deliver,
            self.seek,
            self.work,
        ]
        for n in range(operations):
            queue = self._queues[self._dice(len(self._queues))]
            if n == operations // 2:
                self.epoch += 1
            if n % 200 == 150:
                self.read(queue)
            elif n % 7 == 3:
                self.push(queue, pipelined=True)
            else:
                verbs[self._dice(len(verbs))](queue)
        return self

    def finish(self) -> list[Event]:
        """Heal, push to every queue, drain every subscriber, read everything."""
        taken = self._time
        self._ops += 1
        alive = {"process": 0, "op": self._ops, "f": "alive", "queue": self._queues[0].name, "sub": None}
        self._write({**alive, "type": "ok"})
        for queue in self._queues:
            values = self.new_values(2)
            begun = self._begin("push", queue, 8, values=values)
            queue.log.extend(values)
            self._end(begun, "ok", offset=len(queue.log) - 2, epoch=self.epoch)
            self.twin(queue, taken)
            for sub in SUBS:
                begun = self._begin("drained", queue, 9, sub)
                self.events.pop()
                self._end(begun, "ok", next=len(queue.log))
            for start in range(0, len(queue.log), 1_000):
                values = queue.log[start : start + 1_000]
                begun = self._begin("final", queue, 9, position=start)
                self._end(begun, "ok", position=start, next=start + len(values), values=values)
            self.work_off(queue)
        return self.events
