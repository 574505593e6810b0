"""One run: a server, processes of workers, a producer, kill -9 of either, and the judgement."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jjq
from coldstore.shared.chance import Chance
from coldstore.shared.clock import SystemClock
from tests.faults.work.judge import judge_ledger, judge_notes
from tests.faults.work.worker import read_notes
from tests.servers.jjq_server import JjqServer, clean_environment
from tests.servers.waiting import wait_until

QUEUE = "orders"
TTR_SECONDS = 2.0
BACKLOG = 1_000  # tasks that wait, about, so that there is always work
PUSH = 200
PROGRESS_BYTES = 4_000  # of notes: about fifty tasks that were taken and acked


@dataclass(frozen=True, slots=True)
class WorkPlan:
    """How long, how many, and how often something is killed."""

    seconds: float = 0.0  # of kills by chance
    kills: Sequence[str] = ()  # before that: "server" or "worker", each after some tasks were done
    processes: int = 8
    callers: int = 8  # of each process
    pause: float = 2.0  # between two kills by chance, at most
    servers: float = 0.2  # of all kills by chance


@dataclass(slots=True)
class WorkReport:
    """What happened."""

    tasks: int = 0
    takes: int = 0
    late: int = 0
    server_kills: int = 0
    worker_kills: int = 0
    defects: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.tasks} tasks, {self.takes} takes, {self.late} late acks refused, kill -9 of the server "
            f"{self.server_kills} times and of workers {self.worker_kills} times: {self.defects or 'all is well'}"
        )


class WorkRun:
    """See the module's docstring."""

    def __init__(self, folder: Path, plan: WorkPlan, chance: Chance) -> None:
        self._folder = folder
        self._plan = plan
        self._chance = chance
        self._server = JjqServer(folder)
        self._workers: list[subprocess.Popen[bytes]] = []
        self._notes = folder / "notes"
        self.report = WorkReport()

    def run(self) -> WorkReport:
        with self._server, jjq.connect(self._server.address, timeout=120.0) as client:
            client.create_queue(QUEUE)
            group = client.create_group(QUEUE, "g", ttr=TTR_SECONDS)
            try:
                for _ in range(self._plan.processes):
                    self._start_worker(group.id)
                with _producing(lambda: self._push(client, group.id)):
                    self._suffer(group.id)
                wait_until(
                    lambda: client.get_group(group).tasks["total"] == 0,
                    "all tasks are done",
                    TTR_SECONDS + 120,
                )
            finally:
                for worker in self._workers:
                    worker.kill()
                    worker.wait()
            self._judge(client, group)
        return self.report

    def _start_worker(self, group: str) -> None:
        module = "tests.faults.work.worker"
        arguments = [self._server.address, group, str(self._notes), str(self._plan.callers)]
        self._workers.append(
            subprocess.Popen([sys.executable, "-m", module, *arguments], env=clean_environment())
        )

    def _push(self, client: jjq.Client, group: str) -> None:
        if client.get_group(group).tasks["total"] < BACKLOG:
            client.push(QUEUE, [b"x"] * PUSH)

    def _suffer(self, group: str) -> None:
        """Kill now and then, the server or one of the workers."""
        plan, clock, pause = self._plan, SystemClock(), threading.Event()
        for victim in plan.kills:
            enough = self._noted() + PROGRESS_BYTES
            wait_until(lambda enough=enough: self._noted() > enough, "tasks are done", 60)  # type: ignore[misc]
            self._kill(victim, group)
        ends = clock.monotonic() + plan.seconds
        while clock.monotonic() < ends:
            pause.wait(plan.pause * self._chance.jitter())
            self._kill("server" if self._chance.jitter() < plan.servers else "worker", group)

    def _noted(self) -> int:
        return self._notes.stat().st_size if self._notes.exists() else 0

    def _kill(self, victim: str, group: str) -> None:
        if victim == "server":
            self._server.restart()
            self.report.server_kills += 1
            return
        worker = self._workers.pop(int(self._chance.jitter() * len(self._workers)))
        worker.kill()
        worker.wait()
        self._start_worker(group)
        self.report.worker_kills += 1

    def _judge(self, client: jjq.Client, group: jjq.GroupInfo) -> None:
        rows: list[dict[str, Any]] = client.replay(group.ledger).to_table().column("value").to_pylist()
        notes = read_notes(self._notes.read_text())
        report = self.report
        report.tasks = client.get_queue(QUEUE).next_offset
        report.takes = sum(note.verb == "take" for note in notes)
        report.late = sum(note.verb == "late" for note in notes)
        report.defects = judge_ledger(rows, report.tasks) + judge_notes(notes, rows)


@contextmanager
def _producing(step: Callable[[], None]) -> Iterator[None]:
    """Push in a thread of its own meanwhile; a failure of it is raised at the end."""
    stop = threading.Event()
    errors: list[Exception] = []

    def produce() -> None:
        while not stop.wait(0.02):
            try:
                step()
            except jjq.Unavailable:
                continue  # perhaps pushed, perhaps not: a task more or less
            except Exception as error:  # noqa: BLE001 - raised in the thread that waits
                errors.append(error)
                return

    thread = threading.Thread(target=produce, name="producer")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    if errors:
        raise errors[0]
