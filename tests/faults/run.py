"""One run: servers, clients, faults by a schedule, healing, a restart, the last reading, the verdict.

    make soak MINUTES=10            or    python -m tests.faults --minutes 10 --seed 7
    python -m tests.faults.check FOLDER   judges a run's histories again

Everything a run leaves is in its folder: `history/` with a file for each client process and, among
several nodes, for each server, `faults.jsonl`, `run.json`, `report.json`, and the servers' logs.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from coldstore.objects.open import open_objects
from coldstore.shared.chance import SeededChance
from coldstore.shared.clock import SystemClock
from coldstore.store import ColdStore
from tests.faults.building import Building
from tests.faults.cluster import Cluster
from tests.faults.history import SUFFIX, Recorder, open_history
from tests.faults.moving import Mover
from tests.faults.nemeses.all import NEMESES
from tests.faults.nemeses.nemesis import Harm
from tests.faults.nemeses.power import cut
from tests.faults.plan import GROUPS, QUEUES, READS, Plan, workers
from tests.faults.reading import Reader
from tests.faults.report import Report, report
from tests.faults.schedule import QUIET, Period
from tests.faults.working import LastWorker
from tests.servers.s3 import S3Server
from tests.servers.waiting import wait_until

RUNNER, FINAL, TWIN = 900, 901, 902  # process ids of the run itself
REVIVE_SECONDS = (15.0, 60.0)  # alone, and among others: with a busy machine they may believe each other dead
# With a mistake in the server perhaps nothing goes on for ever, which is then what was to be shown.
PROGRESS_SECONDS = (15.0, 3.0)  # that clients get to go on, without and with a mistake
MISTAKEN_SECONDS = 3.0  # that a queue of a server with a mistake gets
WORK_SECONDS = 60.0  # that the last worker waits for another task to be done
_PAUSE = threading.Event()


def _grown(path: Path, client: subprocess.Popen[bytes]) -> bool:
    return client.poll() is not None or (path.exists() and path.stat().st_size > 2_000)


def _acknowledged(path: Path, since: int) -> int:
    """How many pushes were acknowledged in this part of a history."""
    with path.open("rb") as file:
        file.seek(since)
        return sum(b'"f":"push"' in line and b'"type":"ok"' in line for line in file)


class Run:
    """See the module."""

    def __init__(self, plan: Plan, folder: Path, s3: S3Server | None = None) -> None:
        self.plan = plan
        self.folder = folder
        self._s3 = s3
        self._building = Building(plan, folder, s3)
        self._clock = SystemClock()
        self._history = folder / "history"
        self._file = open_history(self._history, "run")
        self._twin = self.pen(TWIN)  # one for all faults: values are numbered by it
        self._patience = PROGRESS_SECONDS[plan.bug is not None]
        (folder / "run.json").write_bytes(orjson.dumps(asdict(plan)))

    def now_ns(self) -> int:
        return round(self._clock.monotonic() * 1e9)

    def pen(self, process: int) -> Recorder:
        return Recorder(self._file, process, self.now_ns)

    def run(self) -> Report:
        plan = self.plan
        with self._building.cluster(self._history) as cluster:
            subs = [
                f"{queue}/w{n}"
                for some in workers(plan.clients)
                for kind, n, queue, _ in some
                if kind in READS
            ]
            with cluster.supervised():
                asyncio.run(self._prepare(cluster, subs))
            with self._clients(cluster) as clients:
                with Mover(cluster, list(QUEUES), plan.seed, plan.moves) as mover:
                    for period in plan.periods:
                        self._await_progress()
                        self._suffer(cluster, period)
                        for client in clients:
                            assert client.poll() is None, f"a client ended: see {self.folder}/clients.log"
                cluster.settle()
                with cluster.supervised():
                    alive = asyncio.run(self._revive(cluster))
            self._restart(cluster)
            with cluster.supervised():
                asyncio.run(self._finish(cluster, subs))
            extra = [] if alive else ["liveness: a queue takes no push after healing"]
            extra += cluster.stop()
        return report(self.folder, plan.seed, [*extra, *self._verify()], mover.outcomes)

    # Parts

    async def _prepare(self, cluster: Cluster, subs: Sequence[str]) -> None:
        async with Reader(cluster.direct, self.pen(RUNNER)) as reader:
            await reader.prepare(QUEUES, GROUPS, list(subs))

    @contextmanager
    def _clients(self, cluster: Cluster) -> Iterator[list[subprocess.Popen[bytes]]]:
        clients = []
        with (self.folder / "clients.log").open("wb") as log:
            for n, some in enumerate(workers(self.plan.clients)):
                order = {"address": cluster.address, "http": cluster.http, "folder": str(self._history),
                         "name": f"client{n}", "seed": self.plan.seed, "workers": some}  # fmt: skip
                command = [sys.executable, "-m", "tests.faults.clients", orjson.dumps(order).decode()]
                clients.append(
                    subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT)
                )
        try:
            for n, client in enumerate(clients):
                path = self._history / f"client{n}{SUFFIX}"
                wait_until(partial(_grown, path, client), f"{path} grows", 120)
                assert client.poll() is None, f"a client ended: see {self.folder}/clients.log"
            yield clients
            for client in clients:
                if client.stdin:
                    client.stdin.close()
            codes = [client.wait(60) for client in clients]
            assert not any(codes), f"a client failed: see {self.folder}/clients.log"
        finally:
            for client in clients:
                client.kill()
                client.wait()
                if client.stdin:
                    client.stdin.close()

    def _await_progress(self) -> None:
        """Let every client be acknowledged something between two faults, however slow the machine is."""
        most = self.plan.progress
        paths = [self._history / f"client{n}{SUFFIX}" for n in range(self.plan.clients)]
        since = {path: path.stat().st_size for path in paths}
        try:
            wait_until(
                lambda: all(_acknowledged(*each) >= most for each in since.items()),
                "clients go on",
                self._patience,
            )
        except AssertionError:
            self._patience = 1.0  # that it goes on in the end is for the checker to say

    def _suffer(self, cluster: Cluster, period: Period) -> None:
        """One period of the schedule; afterwards everything runs."""
        cluster.ensure_up()  # who was taken over by mistake has ended by itself
        begun = self.now_ns()
        notes: dict[str, Any] = {}
        if period.kind == QUIET:
            _PAUSE.wait(period.seconds)
        else:
            nemesis = NEMESES[period.kind]
            harm = self._harm(cluster, period.dice)
            nemesis.begin(harm)
            alone = len(cluster.nodes) == 1  # then nothing happens while it is dead
            _PAUSE.wait(period.seconds / 4 if alone and not cluster.nodes[0].is_alive() else period.seconds)
            nemesis.end(harm)
            cluster.ensure_up()
            notes = harm.notes
        fault = {"kind": period.kind, "begun": begun, "ended": self.now_ns(), **notes}
        with (self.folder / "faults.jsonl").open("ab") as file:
            file.write(orjson.dumps(fault, option=orjson.OPT_APPEND_NEWLINE))

    def _harm(self, cluster: Cluster, dice: int) -> Harm:
        return Harm(cluster, SeededChance(dice), self._twin, self.folder / "twins", list(QUEUES), self.now_ns)

    async def _revive(self, cluster: Cluster) -> bool:
        """Nothing is wrong any more, and nothing was restarted for it: every queue takes a push."""
        self.pen(RUNNER).note("alive", next(iter(QUEUES)))
        alive = []
        seconds = REVIVE_SECONDS[len(cluster.nodes) > 1] if self.plan.bug is None else MISTAKEN_SECONDS
        for n, node in enumerate(cluster.nodes):  # any of them answers
            async with Reader(node.listens, self.pen(RUNNER + 10 + n)) as reader:
                alive += [
                    await reader.push(queue, f"{queue}/{group}", seconds)
                    for queue, (group, _) in GROUPS.items()
                ]
        return all(alive)

    def _restart(self, cluster: Cluster) -> None:
        if self.plan.undo:
            cut(self._harm(cluster, self.plan.seed))
        cluster.restart()

    async def _finish(self, cluster: Cluster, subs: Sequence[str]) -> None:
        """The last reading, and every subscriber to its end."""
        async with Reader(cluster.direct, self.pen(FINAL)) as reader:
            for queue in QUEUES:
                await reader.whole("final", queue)
            last = [LastWorker(reader, queue, GROUPS[queue][0]) for queue in QUEUES]
            await asyncio.gather(
                *(worker.work_off(self._work_seconds) for worker in last)
            )  # they share commits
            for sub in subs:
                await reader.drain(sub)
            for queue in QUEUES:
                await reader.read_afresh(queue)

    @property
    def _work_seconds(self) -> float:
        """How long the last worker may take."""
        return WORK_SECONDS if self.plan.bug is None else MISTAKEN_SECONDS

    def _verify(self) -> list[str]:
        """`jjq verify` of what is in the cold store."""
        s3 = self._s3.settings() if self._s3 is not None and self.plan.cold == "s3" else None
        objects = open_objects(self._building.cold_url, s3=s3, clock=self._clock, chance=SeededChance(0))
        cold = ColdStore(objects, self._clock, SeededChance(1))
        return [
            f"verify: {defect}" for queue in cold.list_queues() for defect in cold.verify(queue.name).defects
        ]
