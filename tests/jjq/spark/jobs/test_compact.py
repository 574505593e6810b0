"""`compact`: young blocks of many queues become final ones, whoever else writes, wherever it dies."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from coldstore.objects.settings import S3Settings
from coldstore.shared import failpoint, limits
from jjq.spark.jobs import tasks
from jjq.spark.jobs.compact import Compacted, compact, compact_queue
from jjq.spark.jobs.tasks import Failure
from tests.coldstore.making import elements
from tests.coldstore.queue.test_prefix import Reader
from tests.jjq.cli.command import Command
from tests.jjq.spark.jobs.stores import damage, fill, opened, told, values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

S3 = S3Settings()


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    failpoint.disarm()


def test_many_queues_are_compacted_and_a_damaged_one_stops_no_other(
    pipeline: Command, spark: SparkSession, tmp_path: Path
) -> None:
    store = opened(tmp_path / "cold")
    for name in ("a", "b", "c"):
        fill(store, name, finals=1, young=limits.YOUNG_BLOCKS_MAX, length=5)
    fill(store, "fresh", young=2)
    young = store.open_queue("b").list_blocks()[1]
    damage(store.objects, "queues/b/" + young.path)
    ran = pipeline("pipeline", "compact", "--cold", "cold", "--json")
    assert ran.code == 1
    found = {row["queue"]: row for row in ran.json}
    assert [(found[q]["young"], found[q]["left"], found[q]["blocks"]) for q in ("a", "c", "fresh")] == [
        (64, 0, 1),
        (64, 0, 1),
        (2, 2, 0),
    ]
    assert young.id in found["b"]["error"]
    assert "Traceback" not in ran.errors
    assert values(store, "a") == told("a", 5 * 65)
    assert all(store.verify(name).ok for name in ("a", "c", "fresh"))
    everything = pipeline.ok("pipeline", "compact", "fresh", "--cold", "cold", "--all")
    assert everything.lines[1].split()[:5] == ["fresh", "2", "0", "1", "100"]


@pytest.mark.parametrize("point", ["merge.data_put", "merge.metadata_put", "rollup.put"])
def test_a_task_that_fails_anywhere_is_finished_by_the_next_run(
    tmp_path: Path, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ROLLUP_BLOCKS", 2)
    store = opened(tmp_path)
    fill(store, "q", finals=1, young=8, length=1_000)
    failpoint.arm(point)
    failed = tasks.run_guarded(lambda name: compact_queue(str(tmp_path), S3, True, name), "q")
    assert failpoint.armed() == {}, "the point was reached"
    assert isinstance(failed, Failure) or point == "rollup.put"  # without roll-ups a queue is as good
    assert values(store, "q") == told("q", 9_000)
    compact_queue(str(tmp_path), S3, True, "q")
    assert not store.open_queue("q").list_blocks().young
    assert values(store, "q") == told("q", 9_000)
    assert store.verify("q").ok


def test_a_task_holds_about_one_block_at_a_time(tmp_path: Path) -> None:
    store = opened(tmp_path)
    queue = fill(store, "q", young=40, length=300)
    most = max(block.raw_bytes for block in queue.list_blocks())
    done = compact_queue(str(tmp_path), S3, False, "q")
    assert done.blocks > 3
    finals = [block for block in store.open_queue("q").list_blocks() if block.kind == "final"]
    assert all(block.raw_bytes <= limits.BLOCK_BYTES_MIN + most for block in finals)


class Server(threading.Thread):
    """Does with a queue what a server does: seals blocks of all kinds, and merges, as it likes."""

    def __init__(self, folder: Path, name: str, stop: threading.Event) -> None:
        super().__init__(name=name)
        self._queue = fill(opened(folder), name)
        self._name, self._stop_asked = name, stop
        self.wrong: list[str] = []
        self.written = 0

    def run(self) -> None:
        try:
            step = 0
            while not self._stop_asked.is_set() or step < 20:
                step += 1
                count = 1_200 if step % 7 == 0 else 40
                table = elements(self.written, count, said=self._name)
                self._queue.write_block(table, final=step % 7 == 0)
                self.written += count
                if step % 3 == 0:
                    self._stop_asked.wait(0.2)  # now and then the job is the quicker one
                    self._queue.merge(everything=step % 2 == 0)
        except Exception as error:  # noqa: BLE001 whatever it is, the test must hear of it
            self.wrong.append(repr(error))


def test_beside_servers_that_write_and_merge_the_same_blocks_nothing_is_lost_or_doubled(
    spark: SparkSession, tmp_path: Path
) -> None:
    stop = threading.Event()
    servers = [Server(tmp_path, name, stop) for name in ("a", "b")]
    reader = Values(tmp_path / "queues" / "a" / "data")
    done: list[Compacted] = []
    for thread in (*servers, reader):
        thread.start()
    try:
        rounds = 0
        while rounds < 4 or (rounds < 20 and not any(each.blocks for each in done)):
            rounds += 1  # the servers may be quicker each time
            done += compact(spark, str(tmp_path), everything=True)
    finally:
        stop.set()
        for server in servers:
            server.join()
        reader.stop()
    assert [server.wrong for server in servers] == [[], []]
    assert reader.wrong == []
    assert reader.seen > 0
    assert {each.error for each in done} == {None}
    assert sum(each.blocks for each in done) > 0, "the job had something to do"
    store = opened(tmp_path)
    for server in servers:
        assert values(store, server.name) == told(server.name, server.written)
        report = store.verify(server.name)
        assert report.ok, report.defects


class Values(Reader):
    """A plain reader of `data/` that looks at offsets only."""

    def _read(self) -> None:
        import pyarrow.dataset as ds

        if not self._folder.exists() or not any(self._folder.iterdir()):
            return
        found = ds.dataset(self._folder, format="parquet").to_table(columns=["offset"])
        offsets = found["offset"].to_pylist()
        if offsets != list(range(len(offsets))):
            self.wrong.append("a gap or a double")
        self.seen = max(self.seen, len(offsets))


def test_an_unknown_queue_is_said_before_anything_is_done(pipeline: Command, tmp_path: Path) -> None:
    fill(opened(tmp_path / "cold"), "q", young=2)
    ran = pipeline("pipeline", "compact", "nope", "q", "--all", "--cold", "cold")
    assert (ran.code, ran.errors) == (3, "jjq: no queue nope: create it, or correct the name\n")
    assert len(opened(tmp_path / "cold").open_queue("q").list_blocks().young) == 2
