"""One run: servers, clients, faults by a schedule, healing, a restart, the last reading, the verdict.

    make soak MINUTES=10            or    python -m tests.faults --minutes 10 --seed 7
    python -m tests.faults.check FOLDER   judges a run's histories again

Everything a run leaves is in its folder: `history/` with a file for each client process, `faults.jsonl`,
`run.json`, `report.json`, and the server's log.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from coldstore.chance import SeededChance
from coldstore.clock import SystemClock
from coldstore.objects.open import open_objects
from coldstore.store import ColdStore
from tests.faults.cluster import Cluster, Node
from tests.faults.history import SUFFIX, Recorder, open_history
from tests.faults.nemeses.all import NEMESES
from tests.faults.nemeses.nemesis import Harm
from tests.faults.nemeses.power import cut
from tests.faults.reading import Reader
from tests.faults.report import Report, report
from tests.faults.schedule import QUIET, Period, schedule
from tests.faults.shim import Shim
from tests.servers.faultproxy import FaultProxy, running_proxy
from tests.servers.s3 import S3Server
from tests.servers.waiting import wait_until

# One queue has small blocks, which go to the cold store and are merged all the time; the other has a
# block that never fills, so that it holds on to the journal.
QUEUES: dict[str, dict[str, Any]] = {
    "busy": {"block_bytes": 128 * 1024, "block_seconds": 1.0},
    "slow": {"block_bytes": 64 * 1024 * 1024, "block_seconds": 3_600.0},
}
WORKERS: tuple[tuple[tuple[str, str], ...], ...] = (  # of each client process
    (("PlainPusher", "busy"), ("Popper", "busy"), ("Streamer", "busy"), ("OncePusher", "slow")),
    (("StreamPusher", "busy"), ("Peeker", "busy"), ("Replayer", "slow"), ("Popper", "slow")),
    (("LibraryPusher", "busy"), ("Streamer", "slow"), ("Seeker", "busy"), ("Replayer", "busy"),
     ("PlainPusher", "slow")),
)  # fmt: skip
READS = {"Popper", "Streamer", "Peeker", "Seeker"}
RUNNER, FINAL, TWIN = 900, 901, 902  # process ids of the run itself
_PAUSE = threading.Event()


@dataclass(frozen=True)
class Plan:
    """What to do; with the same plan the same faults come in the same order."""

    seed: int
    kinds: tuple[str, ...]
    seconds: float
    longest: float = 2.0  # of one fault
    bug: str | None = None
    cold: str = "folder"
    clients: int = 3  # processes
    progress: int = 3  # pushes that each client is acknowledged between two faults

    @property
    def undo(self) -> bool:
        """Whether the last restart is a power cut: then nothing unsynced may be needed in the end."""
        return any(NEMESES[kind].undo for kind in self.kinds)

    @property
    def periods(self) -> list[Period]:
        return schedule(self.seed, self.kinds, self.seconds, self.longest)


def _workers(count: int) -> list[list[tuple[str, int, str]]]:
    """Kind, number and queue of each worker of each client process."""
    number = 0
    processes = []
    for some in WORKERS[:count]:
        processes.append([(kind, number + n, queue) for n, (kind, queue) in enumerate(some, 1)])
        number += len(some)
    return processes


def _grown(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 2_000


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
        self._clock = SystemClock()
        self._history = folder / "history"
        self._file = open_history(self._history, "run")
        self._patience = 15.0
        (folder / "run.json").write_bytes(orjson.dumps(asdict(plan)))

    def now_ns(self) -> int:
        return round(self._clock.monotonic() * 1e9)

    def pen(self, process: int) -> Recorder:
        return Recorder(self._file, process, self.now_ns)

    def run(self) -> Report:
        with self._storage() as proxy, Cluster([self._node(proxy)], proxy) as cluster:
            subs = [
                f"{queue}/w{n}"
                for some in _workers(self.plan.clients)
                for kind, n, queue in some
                if kind in READS
            ]
            asyncio.run(self._prepare(cluster, subs))
            with self._clients(cluster) as clients:
                for period in self.plan.periods:
                    self._await_progress()
                    self._suffer(cluster, period)
                    for client in clients:
                        assert client.poll() is None, f"a client ended: see {self.folder}/clients.log"
                alive = asyncio.run(self._revive(cluster))
            self._restart(cluster)
            asyncio.run(self._finish(cluster, subs))
            codes = [node.stop() for node in cluster.nodes if node.is_alive()]
            extra = [] if alive else ["liveness: a queue takes no push after healing"]
            extra += [f"a server ended with {code} when it was stopped" for code in codes if code]
        return report(self.folder, self.plan.seed, [*extra, *self._verify()])

    # Parts

    @contextmanager
    def _storage(self) -> Iterator[FaultProxy | None]:
        if self.plan.cold != "s3":
            yield None
            return
        assert self._s3 is not None, "this plan needs an S3 server"
        with running_proxy(self._s3.endpoint) as proxy:
            yield proxy

    def _node(self, proxy: FaultProxy | None) -> Node:
        folder = self.folder / "node"
        kinds = [NEMESES[kind] for kind in self.plan.kinds]
        shim = None
        if any(nemesis.shim for nemesis in kinds):
            shim = Shim(self.folder / "shim", folder / "data", undo=self.plan.undo)
        flags: tuple[str, ...] = ("--grace-seconds", "2")
        environment = {}
        if proxy is not None and self._s3 is not None:
            flags += ("--cold", self._cold_url, "--s3-endpoint", proxy.endpoint, "--s3-region", "us-east-1")
            environment = {"JJQ_S3_ACCESS_KEY": self._s3.access_key, "JJQ_S3_SECRET_KEY": self._s3.secret_key}
        return Node(folder, shim=shim, flags=flags, bug=self.plan.bug, environment=environment)

    @property
    def _cold_url(self) -> str:
        if self._s3 is None or self.plan.cold != "s3":
            return str(self.folder / "node" / "data" / "cold")
        return f"s3://{self._s3.bucket}/{self.folder.name}-{self.plan.seed}-{id(self)}"

    async def _prepare(self, cluster: Cluster, subs: Sequence[str]) -> None:
        async with Reader(cluster.direct, self.pen(RUNNER)) as reader:
            await reader.prepare(QUEUES, list(subs))

    @contextmanager
    def _clients(self, cluster: Cluster) -> Iterator[list[subprocess.Popen[bytes]]]:
        clients = []
        with (self.folder / "clients.log").open("wb") as log:
            for n, workers in enumerate(_workers(self.plan.clients)):
                order = {"address": cluster.address, "folder": str(self._history), "name": f"client{n}",
                         "seed": self.plan.seed, "workers": workers}  # fmt: skip
                command = [sys.executable, "-m", "tests.faults.clients", orjson.dumps(order).decode()]
                clients.append(
                    subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT)
                )
        try:
            for n in range(len(clients)):
                path = self._history / f"client{n}{SUFFIX}"
                wait_until(partial(_grown, path), f"{path} grows", 120)
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
        begun = self.now_ns()
        notes: dict[str, Any] = {}
        if period.kind == QUIET:
            _PAUSE.wait(period.seconds)
        else:
            nemesis = NEMESES[period.kind]
            harm = self._harm(cluster, period.dice)
            nemesis.begin(harm)
            _PAUSE.wait(period.seconds if cluster.nodes[0].is_alive() else period.seconds / 4)
            nemesis.end(harm)
            cluster.ensure_up()
            notes = harm.notes
        fault = {"kind": period.kind, "begun": begun, "ended": self.now_ns(), **notes}
        with (self.folder / "faults.jsonl").open("ab") as file:
            file.write(orjson.dumps(fault, option=orjson.OPT_APPEND_NEWLINE))

    def _harm(self, cluster: Cluster, dice: int) -> Harm:
        return Harm(
            cluster, SeededChance(dice), self.pen(TWIN), self.folder / "twins", list(QUEUES), self.now_ns
        )

    async def _revive(self, cluster: Cluster) -> bool:
        """Nothing is wrong any more, and nothing was restarted for it: every queue takes a push."""
        pen = self.pen(RUNNER + 10)
        pen.note("alive", next(iter(QUEUES)))
        async with Reader(cluster.direct, pen) as reader:
            return all([await reader.push(queue, seconds=15.0) for queue in QUEUES])

    def _restart(self, cluster: Cluster) -> None:
        if self.plan.undo:
            cut(self._harm(cluster, self.plan.seed))
        for node in cluster.nodes:
            node.kill()
            node.start()

    async def _finish(self, cluster: Cluster, subs: Sequence[str]) -> None:
        """The last reading, and every subscriber to its end."""
        async with Reader(cluster.direct, self.pen(FINAL)) as reader:
            for queue in QUEUES:
                await reader.whole("final", queue)
            for sub in [*subs, *(f"{queue}/fresh" for queue in QUEUES)]:
                if sub.endswith("/fresh"):
                    await reader.subscribe(sub)
                await reader.drain(sub)

    def _verify(self) -> list[str]:
        """`jjq verify` of what is in the cold store."""
        s3 = self._s3.settings() if self._s3 is not None and self.plan.cold == "s3" else None
        objects = open_objects(self._cold_url, s3=s3, clock=self._clock, chance=SeededChance(0))
        cold = ColdStore(objects, self._clock, SeededChance(1))
        return [
            f"verify: {defect}" for queue in cold.list_queues() for defect in cold.verify(queue.name).defects
        ]
