"""Two executors in processes of their own against a real S3 server, submitted as users do.

One cluster does it all, since most of what it takes is to start it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest

from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.store import ColdStore
from tests.architecture.tree import ROOT
from tests.jjq.spark.clustered import ROWS
from tests.jjq.spark.jobs.stores import fill, told, values
from tests.jjq.spark.making import make_at
from tests.servers.jjq_server import QUICK_JAVA, clean_environment
from tests.servers.s3 import S3Server

CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": QUICK_JAVA,
    "spark.ui.enabled": "false",
    "spark.log.level": "OFF",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": QUICK_JAVA,
    "spark.sql.shuffle.partitions": "2",
    # Both executors, or the first to come would read it all.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
    # Every Python worker dies when it has put the data of its second block, and Spark starts another one.
    "spark.executorEnv.JJQ_FAILPOINTS": "merge.data_put:2:kill",
}


class Clustered:
    """A store with queue `orders` for the jobs, one with elements to read, and what clustered.py said of them."""

    def __init__(self, seaweed: S3Server, folder: Path) -> None:
        prefix = f"t-{SystemChance().token()}"
        self.store = ColdStore(seaweed.objects(prefix), SystemClock(), SystemChance())
        fill(self.store, "orders", finals=1, young=8, length=800)
        url = f"s3://{seaweed.bucket}/{prefix}"
        options = self._to_read(seaweed, f"{prefix}-read")
        self._lines = self._submit(
            seaweed, folder, json.dumps(options), url, seaweed.endpoint, f"{url}-export"
        )

    @property
    def read(self) -> dict[str, Any]:
        return self._lines[0]

    @property
    def jobs(self) -> list[Any]:
        return self._lines[1:]

    def _to_read(self, seaweed: S3Server, prefix: str) -> dict[str, str]:
        made = make_at(seaweed.objects(prefix), f"s3://{seaweed.bucket}/{prefix}", young=[50])
        for _ in range(6):
            made.add(1_000, noise=200)
        made.add(50, final=False)
        return made.options(
            s3_endpoint=seaweed.endpoint,
            s3_region=seaweed.region,
            s3_access_key=seaweed.access_key,
            s3_secret_key=seaweed.secret_key,
            partition_bytes=65_536,
        )

    def _submit(self, seaweed: S3Server, folder: Path, *arguments: str) -> list[Any]:
        environment = clean_environment(
            PYSPARK_PYTHON=sys.executable,
            SPARK_LAUNCHER_OPTS=QUICK_JAVA,
            SPARK_LOCAL_IP="127.0.0.1",
            SPARK_LOCAL_DIRS=str(folder),
            SPARK_WORKER_DIR=str(folder / "work"),
            JJQ_S3_ACCESS_KEY=seaweed.access_key,
            JJQ_S3_SECRET_KEY=seaweed.secret_key,
            JJQ_S3_REGION=seaweed.region,
            PYTHONPATH=str(ROOT),
        )
        settings = [part for key, value in CONF.items() for part in ("--conf", f"{key}={value}")]
        submit = Path(pyspark.__file__).with_name("bin") / "spark-submit"
        program = Path(__file__).with_name("clustered.py")
        done = subprocess.run(
            [str(submit), "--master", "local-cluster[2,1,512]", *settings, str(program), *arguments],
            env=environment,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        # spark-submit joins the two outputs of a program, so there may be warnings among the lines.
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith(("{", "["))]


@pytest.fixture(scope="module")
def clustered(seaweed: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Clustered:
    return Clustered(seaweed, tmp_path_factory.mktemp("clustered"))


@pytest.mark.timeout(300)
def test_two_executors_read_s3_by_themselves(clustered: Clustered) -> None:
    """Nothing goes through the driver, no jar is added."""
    read = clustered.read
    executors = {executor for executor, elements, _ in read["read"] if elements}
    assert sum(elements for _, elements, _ in read["read"]) == 6_100
    assert len(executors) == 2
    assert read["here"] not in executors
    assert read["s3a"] is None  # Spark itself could not have read it


@pytest.mark.timeout(300)
def test_all_jobs_run_on_two_workers_with_s3_though_tasks_are_killed(clustered: Clustered) -> None:
    imported, compacted, ended, sound, exported, hours, cluster = clustered.jobs
    store = clustered.store
    assert (imported["next"], imported["blocks"] > 1) == (ROWS, True)
    (orders,) = [row for row in compacted if row["queue"] == "orders"]
    assert (orders["left"], orders["error"], ended) == (0, None, {"ended": 0})
    assert orders["young"] < 8, "the task that ended it went on where one that was killed had been"
    assert sound == [True, True]
    assert exported["elements"] == ROWS
    assert sum(hours) == ROWS + 9 * 800
    assert cluster == {"workers": 2}
    assert values(store, "orders") == told("orders", 9 * 800)
    assert not store.open_queue("orders").list_blocks().young
    assert values(store, "history") == [b"row %d" % n for n in range(ROWS)]
