"""Processes that serve a store, and die where they are told to.

    python -m tests.hotstore.victim

reads orders, one JSON object a line, and carries each out in a process of its own (forked, so that
nothing is imported twice): `{"do": "work"|"audit", "path": ..., "run": N, "arm": "name:nth:kill,…", "node": ...}`.
With a node's name it is a node of a cluster, with its journal on object storage; at an audit it takes over first what
another node left.
What the process says is written to `path`/said, each line with one system call, before anything else
happens: what it was promised is known even if it is killed in the next instant. The answer to an
order is how the process ended.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from coldstore.layout import paths
from coldstore.objects.local import LocalObjects
from coldstore.objects.port import ObjectStore
from coldstore.shared import failpoint, limits
from coldstore.shared.batch import payload
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.store import ColdStore
from hotstore.engine import Engine
from hotstore.groups.values import GroupSettings, Take, TaskChange
from hotstore.opening import open_engine
from jjq.cli.lean import without_pandas
from sharding.documents import tenure
from sharding.node import MemberSettings, open_member
from sharding.takeover.watch import TenureSettings
from tests.hotstore.kit import BLOCK_BYTES, fat, read_all, settings

COUNTED = 10**9  # armed for so many times, a point never strikes, and tells how often it was reached


class AheadClock(SystemClock):
    """Runs ahead of the files' times when it is told to, so that blocks are old enough to be swept."""

    ahead = 0.0

    def now_us(self) -> int:
        return super().now_us() + round(self.ahead * 1_000_000)

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead


def digest(value: bytes | str) -> str:
    return hashlib.sha256(value if isinstance(value, bytes) else value.encode()).hexdigest()[:16]


class Victim:
    """One life of a store."""

    def __init__(self, path: Path, run: int, node: str) -> None:
        self._run = run
        self._node = node
        self._path = path
        self._clock = AheadClock()
        self._said = os.open(path / "said", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def say(self, *what: Any) -> None:
        os.write(self._said, json.dumps(what).encode() + b"\n")

    async def open(self) -> Engine:
        cold = ColdStore(LocalObjects(self._path / "cold"), self._clock, SystemChance())
        # Nothing happens on its own: the same steps reach the same points each time.
        hot = settings(maintain_seconds=1e9, journal_bytes_max=64 * limits.MIB, disk_free_bytes_min=0)
        if not self._node:
            return await open_engine(
                self._path / "data", cold, settings=hot, clock=self._clock, chance=SystemChance()
            )
        member_settings = MemberSettings(self._node, "s3", hot, TenureSettings(1e9, 1e9, 1e10))
        directory = self._path / self._node
        directory.mkdir(exist_ok=True)
        self._member = await open_member(directory, cold, member_settings, self._clock, SystemChance())
        await self._take_over(cold.objects)
        return self._member.engine

    async def _take_over(self, objects: ObjectStore) -> None:
        """From nodes that died: nobody but this one runs."""
        names = (paths.tenure_node(info.key) for info in objects.list(paths.TENURES))
        for name in [name for name in names if name is not None and name != self._node]:
            found = tenure.read(objects, name)
            assert found is not None
            tenure.end(objects, found, self._node)
            taken = await self._member.ownership.take_over(name)
            for queue in taken.moved:
                await self._member.engine.store.get_queue(queue)

    async def work(self) -> None:
        engine = await self.open()
        store = engine.store
        for queue in ("q", "r"):
            await store.create_queue(queue, block_bytes=BLOCK_BYTES)
            await store.create_subscriber(queue, "s", "beginning")
            self.say("created", queue)
        await store.create_group("r", "g", GroupSettings())
        for n in range(14):
            await self._push(engine, "q", [fat(f"q{self._run}-{n}")])
            await self._push(engine, "r", [fat(f"r{self._run}-{n}.{i}", 3_000) for i in range(2)], n)
            for queue in ("q", "r"):
                popped = await store.pop(f"{queue}/s", 3)
                self.say("popped", queue, popped.position, popped.next)
            await self._work_on_tasks(engine)
            if n % 4 == 2:
                await store.seal("r~g")
                await store.seal("r")
                self.say("sealed", "r", (await store.get_queue("r")).cold_offset)
            if n in (7, 13):
                await engine.checkpointer.write()
                self._clock.ahead += 2 * 86_400
                await engine.maintenance.once()
        await (self._member.close() if self._node else engine.close())

    async def _push(
        self, engine: Engine, queue: str, values: list[bytes], sequence: int | None = None
    ) -> None:
        names = [digest(value) for value in values]
        self.say("pushing", queue, names)
        producer = None if sequence is None else f"p{self._run}"
        batch = payload("bytes", values)
        receipt = await engine.store.push(queue, batch, producer=producer, sequence=sequence)
        self.say("pushed", queue, receipt.first_offset, names, receipt.timestamp_us, producer, sequence)

    async def _work_on_tasks(self, engine: Engine) -> None:
        taken = await engine.store.take(Take("r/g", 2, session="victim"))
        self.say("taken", "r", taken.ids)
        await engine.store.change_tasks(TaskChange("r/g", "ack", taken.ids, taken.attempts, "victim"))
        self.say("acked", "r", taken.ids)

    async def audit(self) -> None:
        """Say everything that is there, and leave without a word to the journal."""
        engine = await self.open()
        assert not engine.journal.damage or {d.kind for d in engine.journal.damage} == {"torn"}
        for queue in ("q", "r"):
            if queue not in engine.registry.queues:
                continue
            log = await read_all(engine.store, queue)
            assert [e.offset for e in log] == [*range(len(log))]
            self.say("log", queue, [digest(e.value) for e in log], [e.timestamp_us for e in log])
            for info in await engine.store.list_subscribers(queue):
                self.say("position", queue, info.previous, info.offset)
            producers = engine.registry.queues[queue].producers
            self.say("producers", queue, [producers.row(name) for name in producers.names()])
            report = ColdStore(LocalObjects(self._path / "cold"), SystemClock(), SystemChance()).verify(queue)
            self.say("verified", queue, [str(defect) for defect in report.defects])
        if "r~g" in engine.registry.queues:
            tasks = (
                await engine.store.list_tasks("r/g", limit=1_000) if await engine.store.list_groups() else []
            )
            self.say("open", "r", [task.id for task in tasks])


def live(order: dict[str, Any]) -> None:
    """In the process of its own: carry out an order."""
    limits.ROLLUP_BLOCKS = 2  # type: ignore[misc]
    count = order["arm"] == "count"
    points = (*failpoint.NAMES, "journal.boundary") if order["node"] else failpoint.NAMES
    if count:
        for name in points:
            failpoint.arm(name, COUNTED)
    else:
        failpoint.arm_from({"JJQ_FAILPOINTS": order["arm"]})
    victim = Victim(Path(order["path"]), order["run"], order["node"])
    asyncio.run(victim.work() if order["do"] == "work" else victim.audit())
    if count:
        left = failpoint.armed()
        victim.say("reached", {name: COUNTED - left[name] for name in points})


def main() -> None:
    without_pandas()  # Arrow would import it in each process
    importlib.import_module("duckdb")  # checkpoints do so when they are first used: once for all
    payload("bytes", [b""])
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.dup2(
                    os.open(Path(order["path"]) / "errors", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 2
                )
                live(order)
                status = 0
            except BaseException:  # noqa: BLE001 - the child must never go on with the parent's loop
                sys.excepthook(*sys.exc_info())
            finally:
                sys.stderr.flush()
                os._exit(status)
        _, ended = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(ended), flush=True)


if __name__ == "__main__":
    main()
