"""Workers run the driver's Python, though it is not the one on the PATH."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jjq.spark.interpreter import use_this_python
from tests.architecture.tree import ROOT
from tests.jjq.spark.making import make
from tests.servers.jjq_server import QUICK_JAVA, clean_environment

PROGRAM = """
import sys
from pyspark.sql import SparkSession
import jjq.spark

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
jjq.spark.register(spark)
frame = spark.read.format("jjq").options(root=sys.argv[1], queue="orders").load()
print("found", frame.where("offset < 7").count(), frame.count())
spark.stop()
"""


@pytest.mark.timeout(240)
def test_a_program_runs_by_a_python_that_is_not_on_the_path(tmp_path: Path) -> None:
    make(tmp_path / "store", [10])
    # As bare as that of many machines: it has none of the packages that are installed here.
    bare = tmp_path / "bin/python3"
    bare.parent.mkdir()
    bare.write_text(f'#!/bin/sh\nexec "{Path(sys.executable).resolve()}" -S "$@"\n')
    bare.chmod(0o755)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    environment = clean_environment(
        PATH=f"{bare.parent}:/usr/bin:/bin",
        SPARK_LOCAL_IP="127.0.0.1",
        SPARK_LOCAL_DIRS=str(tmp_path),
        JDK_JAVA_OPTIONS=QUICK_JAVA,
    )
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "VIRTUAL_ENV"):
        environment.pop(name, None)
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path / "store")],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=230,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "found 7 10" in done.stdout


def session(master: str, **settings: str) -> Any:
    """As much of a session as is looked at."""
    context = SimpleNamespace(pythonExec="python3", master=master, getConf=lambda: settings)
    return SimpleNamespace(sparkContext=context)


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nobody said which Python to use, and there is none on the PATH."""
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))


def chosen(spark: Any) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        use_this_python(spark)
    return str(spark.sparkContext.pythonExec)


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2, 2]", "local-cluster[2,1,512]"])
def test_workers_of_this_machine_run_what_the_driver_runs(master: str) -> None:
    assert chosen(session(master)) == sys.executable


@pytest.mark.parametrize("master", ["spark://here:7077", "yarn", "k8s://https://here"])
def test_a_cluster_is_told_of_in_one_line(master: str) -> None:
    spark = session(master)
    with pytest.warns(RuntimeWarning, match="set PYSPARK_PYTHON") as told:
        use_this_python(spark)
    assert spark.sparkContext.pythonExec == "python3"
    assert "\n" not in str(told[0].message)


def test_what_the_user_said_is_heeded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen(session("yarn", **{"spark.pyspark.python": "env/bin/python"})) == "env/bin/python"
    spark = session("local[2]")
    spark.sparkContext.pythonExec = "/opt/python"
    assert chosen(spark) == "/opt/python"
    monkeypatch.setenv("PYSPARK_PYTHON", "python3")
    assert chosen(session("yarn")) == "python3"


def test_the_one_on_the_path_is_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.pathsep.join(["/nowhere", str(Path(sys.executable).parent)]))
    assert chosen(session("yarn")) == "python3"


def test_spark_connect_has_no_context() -> None:
    from pyspark.errors import PySparkNotImplementedError

    class Remote:
        @property
        def sparkContext(self) -> Any:  # noqa: N802 - Spark's name
            raise PySparkNotImplementedError(
                errorClass="JVM_ATTRIBUTE_NOT_SUPPORTED", messageParameters={"attr_name": "sparkContext"}
            )

    remote: Any = Remote()
    use_this_python(remote)
