"""Reading a queue that is being written: `data/` is an exact prefix at any moment, whoever reads it."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.architecture.tree import ROOT
from tests.jjq.spark.making import offsets, said
from tests.servers.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Writer:
    """The process that writes, and the offset up to which it has committed everything."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "tests.jjq.spark.writer", str(folder)]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.committed = 0
        self._listening = threading.Thread(target=self._listen)
        self._listening.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.committed = int(line)

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(60) == 0
        self._listening.join()
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def writing(folder: Path) -> Iterator[Writer]:
    writer = Writer(folder)
    try:
        wait_until(lambda: writer.committed > 1_000 or writer.process.poll() is not None, "it writes", 60)
        yield writer
    finally:
        writer.stop()


def test_reads_in_a_loop_beside_a_loaded_writer(spark: SparkSession, tmp_path: Path) -> None:
    data = str(tmp_path / "queues/orders/data")
    with writing(tmp_path) as writer:
        lengths = [0]
        for _ in range(4):
            direct = offsets(spark.read.parquet(data))
            assert direct == list(range(len(direct)))
            before = writer.committed
            frame = spark.read.format("jjq").options(root=str(tmp_path), queue="orders").load()
            found = frame.selectExpr("offset", "trim(cast(value as string)) as value").collect()
            assert sorted((row.offset, row.value) for row in found) == [
                (n, said(n)) for n in range(len(found))
            ]
            assert before <= len(found)
            assert lengths[-1] < len(found)
            lengths.append(len(found))
    everything = offsets(spark.read.parquet(data))
    assert everything == list(range(len(everything)))
    assert lengths[-1] <= writer.committed
