"""kill -9 of Spark in the middle of a stream: what it reads and what it writes is there once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from coldstore.shared.limits import BLOCK_BYTES_MIN
from tests.jjq.spark.serving import Serving
from tests.jjq.spark.stream.driver import copy as go_on
from tests.servers.jjq_server import clean_environment
from tests.servers.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = 6_000


@contextmanager
def driver(
    source: dict[str, str], sink: dict[str, str], checkpoint: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """Spark in a session of its own; whatever is left of it in the end is killed."""
    arguments = [json.dumps(source), json.dumps(sink), str(checkpoint)]
    with checkpoint.with_name("driver.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.jjq.spark.stream.driver", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=clean_environment(),
            start_new_session=True,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.timeout(300)
def test_a_killed_stream_from_queue_to_queue_leaves_nothing_out_and_nothing_double(
    spark: SparkSession, serving: Serving, tmp_path: Path
) -> None:
    source = serving.new_queue(block_bytes=BLOCK_BYTES_MIN)
    copy = serving.new_queue()
    values = [b"%0100d" % n for n in range(COUNT)]
    serving.client.push(source, values[: COUNT // 2])  # sealed: this half is cold
    serving.client.push(source, values[COUNT // 2 :])
    options = serving.options(source, root=serving.root)

    sink, checkpoint = serving.options(copy), tmp_path / "checkpoint"
    with driver(options | {"maxOffsetsPerTrigger": "500"}, sink, checkpoint) as killed:
        wait_until(
            lambda: serving.client.get_queue(copy).next_offset >= 1_000 or killed.poll() is not None,
            "some batches were copied",
            120,
        )
        assert killed.poll() is None, (tmp_path / "driver.log").read_text()[-2_000:]
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait()
    copied = serving.client.get_queue(copy).next_offset
    assert copied < COUNT  # or this would prove nothing

    # Another Spark goes on, by the checkpoint alone
    go_on(spark, options | {"maxOffsetsPerTrigger": "3000"}, sink, str(checkpoint))
    assert sorted(serving.values(copy)) == values
