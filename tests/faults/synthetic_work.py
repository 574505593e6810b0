"""The history of a group that does everything right: keys, a capacity, a session, completions, a look at the past.

It is added to those of `synthetic`, after everything was healed there.
"""

from __future__ import annotations

from typing import Any

from tests.faults.table import STATES

Event = dict[str, Any]
QUEUE = "g"
CAPACITY, KEYS = 6, 2
FIRST_VALUE = 10**6
_SECOND = 10**9


class PerfectGroup:
    """One queue, its group, and one worker after the other."""

    def __init__(self, now: int) -> None:
        self.events: list[Event] = []
        self._now = now
        self._ops = 0
        self._log: list[int] = []
        self._state: dict[int, tuple[str, int]] = {}  # of tasks: state and attempt
        self._rows: list[tuple[int, str, int, int, int]] = []  # task, event, attempt, state, time

    def _op(self, f: str, kind: str = "ok", **fields: Any) -> Event:
        """Begin and end; which fields belong to which does not matter here, but for values that were read."""
        self._ops += 1
        self._now += _SECOND
        common = {"process": 5_000, "op": self._ops, "f": f, "queue": QUEUE, "sub": None}
        read = {name: fields.pop(name) for name in ("values",) if f in {"take", "final"}}
        self.events.append({**common, "type": "invoke", "t": self._now, **fields})
        end = {**common, "type": kind, "t": self._now + _SECOND // 2, **fields, **read}
        self.events.append(end)
        return end

    def _step(self, task: int, event: str, state: str) -> int:
        """A row of the ledger; the attempt."""
        attempt = self._state.get(task, ("", 0))[1] + (event == "take")
        self._state[task] = (state, attempt)
        self._rows.append((task, event, attempt, STATES.index(state), self._now // 1_000))
        return attempt

    def _push(self) -> None:
        value = FIRST_VALUE + len(self._log)
        self._log.append(value)
        self._state[len(self._log) - 1] = ("ready", 0)
        self._op("push", values=[value], offset=len(self._log) - 1)

    def _take(self) -> list[int]:
        """The first ready task of each key."""
        found: dict[int, int] = {}
        for task, (state, _) in sorted(self._state.items()):
            if state == "ready":
                found.setdefault(self._log[task] % KEYS, task)
        ids = sorted(found.values())
        attempts = [self._step(task, "take", "taken") for task in ids]
        self._op(
            "take", durable=True, position=ids[0], tasks=ids, offsets=ids, attempts=attempts,
            values=[self._log[task] for task in ids],
        )  # fmt: skip
        return ids

    def _change(self, verb: str, ids: list[int], state: str, **fields: Any) -> None:
        attempts = [self._step(task, verb, state) for task in ids]
        self._op(verb, tasks=ids, attempts=attempts, refused=[], **fields)

    def _complete(self, ids: list[int]) -> None:
        """Ack, and push, and nobody is told."""
        attempts = [self._step(task, "ack", "done") for task in ids]
        value = FIRST_VALUE + len(self._log)
        self._log.append(value)
        self._state[len(self._log) - 1] = ("ready", 0)
        self._op("complete", "info", tasks=ids, attempts=attempts, values=[value])

    def _fill(self) -> None:
        while sum(state != "done" for state, _ in self._state.values()) < CAPACITY:
            self._push()

    def live(self) -> list[Event]:
        """Every verb once, twice over."""
        self._op("group", most=CAPACITY, keys=KEYS)
        for _ in range(2):
            self._fill()
            self._change("ack", self._take(), "done")
            self._change("ack", self._take(), "done", until=self._now + 100 * _SECOND)
            self._change("nack", self._take(), "ready")
            self._change("release", self._take(), "ready")
            self._change("touch", taken := self._take(), "taken")
            self._change("bury", taken, "buried")
            self._change("kick", taken, "ready")
            self._complete(self._take())
        while any(state != "done" for state, _ in self._state.values()):
            self._change("ack", self._take(), "done")
        return self._finish()

    def _finish(self) -> list[Event]:
        size = len(self._log)
        self._op("final", position=0, next=size, values=list(self._log))
        self._op("worked", open=0, done=size)
        tasks, names, attempts, states, times = map(list, zip(*self._rows, strict=True))
        self._op(
            "ledger", tasks=tasks, counts=[1] * len(tasks), events=names, attempts=attempts, states=states,
            times=times,
        )  # fmt: skip
        for at in (len(times) // 3, 2 * len(times) // 3):
            seen = {row[0]: row for row in self._rows if row[4] <= times[at]}
            known = sorted(seen)
            self._op(
                "at", time=times[at], tasks=known, attempts=[seen[task][2] for task in known],
                states=[seen[task][3] for task in known],
            )  # fmt: skip
        return self.events
