"""What a group should do, written the slow and plain way: one object for each task, and a look at all of them."""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import dataclass, field

from hotstore.groups.values import GroupSettings

SECOND = 1_000_000


@dataclass
class OracleTask:
    """One task as a person would note it down."""

    id: int
    pushed_us: int
    key: bytes | None
    priority: int
    ready_us: int
    expires_us: int | None
    ttr: float
    state: str = "ready"
    attempt: int = 0
    failures: int = 0
    until_us: int = 0
    session: str = ""
    gone: bool = False  # before the place that the group was moved to


@dataclass
class OracleGroup:
    """All tasks, and the time."""

    settings: GroupSettings
    keyed: bool
    now_us: int = 0
    paused: bool = False
    tasks: list[OracleTask] = field(default_factory=list)

    def copy(self) -> OracleGroup:
        return copy.deepcopy(self)

    def push(
        self, now_us: int, key: bytes | None, delay: float | None, ttl: float | None, priority: int | None
    ) -> None:
        settings = self.settings
        delay_us = round((settings.delay if delay is None else delay) * SECOND)
        lives = settings.ttl if ttl is None else ttl
        self.tasks.append(
            OracleTask(
                id=len(self.tasks),
                pushed_us=now_us,
                key=key,
                priority=settings.priority if priority is None else priority,
                ready_us=now_us + delay_us,
                expires_us=None if lives is None else now_us + delay_us + round(lives * SECOND),
                ttr=settings.ttr,
                state="delayed" if delay_us else "ready",
                until_us=now_us + delay_us,
            )
        )

    def advance(self, now_us: int) -> None:
        """Step by step to each moment at which something happens."""
        while True:
            due = [time for task in self.tasks if (time := self._due(task)) is not None and time <= now_us]
            if not due:
                break
            self.now_us = max(self.now_us, min(due))
            for task in self.tasks:
                time = self._due(task)
                if time is not None and time <= self.now_us:
                    self._happen(task)
        self.now_us = now_us

    def _due(self, task: OracleTask) -> int | None:
        times = [] if task.expires_us is None else [task.expires_us]
        if task.state in ("taken", "delayed"):
            times.append(task.until_us)
        return None if task.state == "done" else min(times, default=None)

    def _happen(self, task: OracleTask) -> None:
        if task.expires_us is not None and task.expires_us <= self.now_us:
            task.state = "done"
        elif task.state == "delayed":
            task.state = "ready"
        else:
            self.fail(task, 0)

    def fail(self, task: OracleTask, delay_us: int) -> None:
        task.failures += 1
        task.session = ""
        most = self.settings.max_attempts
        if most is not None and task.failures >= most:
            task.state = "buried" if self.settings.on_exhausted == "bury" else "done"
        else:
            self.back(task, delay_us)

    def back(self, task: OracleTask, delay_us: int) -> None:
        task.session = ""
        task.state = "delayed" if delay_us else "ready"
        task.until_us = self.now_us + delay_us
        if delay_us and task.expires_us is not None:
            task.expires_us += delay_us

    def take(self, most: int, session: str) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        while len(found) < most:
            out = Counter(task.key for task in self.tasks if task.state == "taken")
            most_of_key = self.settings.per_key or 1
            free = [
                task
                for task in self.tasks
                if task.state == "ready"
                and not (self.keyed and task.key is not None and out[task.key] >= most_of_key)
            ]
            if not free:
                break
            best = min(free, key=lambda task: (task.priority, task.id))
            limit = self.settings.max_attempts
            last = limit is not None and best.failures > 0 and best.failures >= limit - 1
            if last and found:
                break
            self._hand_out(best, session)
            found.append((best.id, best.attempt))
            if last:
                break
        return found

    def _hand_out(self, task: OracleTask, session: str) -> None:
        task.state, task.session = "taken", session
        task.attempt += 1
        until = self.now_us + round(task.ttr * SECOND)
        task.until_us = until if task.expires_us is None else min(until, task.expires_us)

    def holds(self, task: int, attempt: int, session: str) -> OracleTask | None:
        """The task, if this session may ack it."""
        found = self.tasks[task]
        fits = (found.state, found.attempt, found.session) == ("taken", attempt, session)
        return found if fits else None

    def crash(self, now_us: int) -> None:
        """Workers whose sessions nobody knows are dead."""
        self.now_us = now_us
        for task in self.tasks:
            if task.state == "taken":
                self.back(task, 0)
        self.advance(now_us)

    def states(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for task in self.tasks:
            if not task.gone:
                found[task.state] = found.get(task.state, 0) + 1
        return found
