"""Executors in processes of their own read S3 by themselves: nothing goes through the driver, no jar is added."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from tests.architecture.tree import ROOT
from tests.servers.s3 import S3Server
from tests.spark.making import make_at


def home_in(folder: Path) -> Path:
    """Spark as it is installed, in a place where a cluster may leave its files: it writes into its home."""
    home = folder / "home"
    home.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():
        (home / part.name).symlink_to(part)
    return home


@pytest.mark.timeout(300)
def test_two_executors_read_s3_by_themselves(seaweed: S3Server, tmp_path: Path) -> None:
    objects = seaweed.objects("cluster")
    made = make_at(objects, f"s3://{seaweed.bucket}/cluster", young=[50])
    for _ in range(6):
        made.add(1_000, noise=200)
    made.add(50, final=False)
    options = made.options(
        s3_endpoint=seaweed.endpoint,
        s3_region=seaweed.region,
        s3_access_key=seaweed.access_key,
        s3_secret_key=seaweed.secret_key,
        partition_bytes=65_536,
    )
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.clustered", json.dumps(options)],
        cwd=ROOT,
        env=os.environ | {"SPARK_HOME": str(home_in(tmp_path)), "SPARK_LOCAL_DIRS": str(tmp_path / "local")},
        capture_output=True,
        text=True,
        timeout=270,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(done.stdout.splitlines()[-1])
    executors = {executor for executor, elements, _ in told["read"] if elements}
    assert sum(elements for _, elements, _ in told["read"]) == 6_100
    assert len(executors) == 2
    assert told["here"] not in executors
    assert told["s3a"] is None  # Spark itself could not have read it
