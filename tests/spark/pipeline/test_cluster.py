"""Jobs on two workers against a real S3 server, submitted as users do, with tasks that are killed half-way."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from coldstore.chance import SystemChance
from coldstore.clock import SystemClock
from coldstore.store import ColdStore
from tests.servers.jjq_server import clean_environment
from tests.servers.s3 import S3Server
from tests.spark.pipeline.clustered import ROWS
from tests.spark.pipeline.stores import fill, told, values

ROOT = Path(__file__).parents[3]
CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.log.level": "OFF",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    # Every Python worker dies when it has put the data of its second block, and Spark starts another one.
    "spark.executorEnv.JJQ_FAILPOINTS": "merge.data_put:2:kill",
}


@pytest.mark.timeout(300)
def test_all_jobs_run_on_two_workers_with_s3_though_tasks_are_killed(
    seaweed: S3Server, tmp_path: Path
) -> None:
    prefix = f"t-{SystemChance().token()}"
    store = ColdStore(seaweed.objects(prefix), SystemClock(), SystemChance())
    fill(store, "orders", finals=1, young=8, length=800)
    environment = clean_environment(
        PYSPARK_PYTHON=sys.executable,
        SPARK_LOCAL_IP="127.0.0.1",
        SPARK_LOCAL_DIRS=str(tmp_path),
        SPARK_WORKER_DIR=str(tmp_path / "work"),
        JJQ_S3_ACCESS_KEY=seaweed.access_key,
        JJQ_S3_SECRET_KEY=seaweed.secret_key,
        JJQ_S3_REGION=seaweed.region,
        PYTHONPATH=str(ROOT),
    )
    settings = [part for key, value in CONF.items() for part in ("--conf", f"{key}={value}")]
    submit = Path(pyspark.__file__).with_name("bin") / "spark-submit"
    url = f"s3://{seaweed.bucket}/{prefix}"
    command = [
        str(submit), "--master", "local-cluster[2,1,512]", *settings, str(Path(__file__).with_name("clustered.py")),
        url, seaweed.endpoint, f"{url}-export",
    ]  # fmt: skip
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # spark-submit joins the two outputs of a program, so there may be warnings among the lines.
    lines = [line for line in done.stdout.splitlines() if line.startswith(("{", "["))]
    imported, compacted, ended, sound, exported, hours, cluster = map(json.loads, lines)
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
