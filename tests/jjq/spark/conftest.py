"""One local Spark session per test process; every test here is marked, and all are in one xdist group."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.jjq.spark.serving import serving
from tests.servers.jjq_server import QUICK_JAVA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["serving", "spark"]

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # xdist looks at the groups in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spark's tests carry the marker, and share a worker: only one JVM starts in a run."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with two cores, where a task may fail once, in which `format("jjq")` is known."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    import jjq.spark

    scratch = tmp_path_factory.mktemp("spark")
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = (
        SparkSession.builder.master("local[2, 2]")
        .appName("jjq tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "768m")
        .config("spark.local.dir", str(scratch / "local"))
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
        .config("spark.sql.session.timeZone", "UTC")
        .config(
            "spark.driver.extraJavaOptions",
            f"-Dderby.system.home={scratch} {QUICK_JAVA}",
        )
    )
    try:
        session = builder.getOrCreate()
    except PySparkRuntimeError:  # the JVM died before it was there: seen once, cause unknown
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    jjq.spark.register(session)
    yield session
    session.stop()
