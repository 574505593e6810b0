"""What jobs cannot do is said in one line, with an exit code that scripts can trust."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from coldstore.shared.chance import SystemChance
from coldstore.shared.errors import Denied, Unavailable
from jjq.spark.jobs import session, tasks
from jjq.spark.jobs.compact import compact
from jjq.spark.jobs.verify import verify_store
from tests.jjq.cli.command import Command
from tests.jjq.spark.jobs.conftest import SparkStarted
from tests.jjq.spark.jobs.stores import fill, opened
from tests.servers.jjq_server import clean_environment
from tests.servers.s3 import S3Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOBS = (
    ["compact", "nope"],
    ["verify", "nope"],
    ["stats", "nope"],
    ["export", "nope", "out"],
)


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job[0])
def test_an_unknown_queue_ends_with_3_before_spark_starts(
    unstarted: Command, tmp_path: Path, job: list[str]
) -> None:
    fill(opened(tmp_path / "cold"), "orders", finals=1)
    ran = unstarted("pipeline", *job, "--cold", "cold")
    assert (ran.code, ran.errors) == (3, "jjq: no queue nope: create it, or correct the name\n")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("job", [*JOBS, ["import", "nope", "f", "--order", "n"]], ids=lambda job: job[0])
def test_a_root_that_is_no_store_ends_with_3_before_spark_starts(
    unstarted: Command, tmp_path: Path, job: list[str]
) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.png").write_bytes(b"")
    ran = unstarted("pipeline", *job, "--cold", "photos")
    assert ran.code == 3, ran.errors
    assert "is not a jjq store" in ran.errors
    assert ran.errors.count("\n") == 1


def test_wrong_options_end_with_2_before_spark_starts(unstarted: Command, tmp_path: Path) -> None:
    fill(opened(tmp_path / "cold"), "orders", finals=1)
    for arguments, said in (
        (["compact"], "--cold"),
        (["compact", "--cold", "memory:"], "cannot see memory"),
        (["compact", "--cold", "cold", "--conf", "novalue"], "write KEY=VALUE"),
        (["stats", "--cold", "cold", "--start", "offset:9", "--end", "offset:2"], "after end"),
        (
            ["stats", "orders", "--cold", "cold", "--start", "tomorrow"],
            "starting point 'tomorrow' is not known",
        ),
        (["export", "orders", "out", "--cold", "cold", "--end", "offset:51"], "offset 51 is outside 0..50"),
        (["import", "q", "--cold", "cold", "--order", "n"], "give the files"),
        (["import", "q", "nofile", "--cold", "cold", "--order", "n"], "Spark cannot read the source"),
    ):
        ran = unstarted("pipeline", *arguments)
        assert ran.code == 2, ran
        assert said in ran.errors
        assert ran.errors.count("\n") == 1, ran.errors


def test_a_place_of_an_export_that_is_taken_ends_with_5_before_spark_starts(
    unstarted: Command, tmp_path: Path
) -> None:
    fill(opened(tmp_path / "cold"), "orders", finals=1)
    export = ["pipeline", "export", "orders", "out", "--cold", "cold"]
    with pytest.raises(SparkStarted):
        unstarted(*export)
    assert not (tmp_path / "out").exists(), "nothing is written before Spark has started"
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "letter").write_bytes(b"x")
    ran = unstarted(*export)
    assert (ran.code, "out is not empty: export to a new folder" in ran.errors) == (5, True)


def test_missing_rights_on_s3_are_said_in_the_driver(spark: SparkSession, seaweed: S3Server) -> None:
    wrong = seaweed.settings(secret_key="not the one")
    for job in (compact, verify_store):
        with pytest.raises(Denied) as denied:
            job(spark, f"s3://{seaweed.bucket}/{SystemChance().token()}", s3=wrong)
        assert "\n" not in str(denied.value)


def test_rights_that_executors_lack_are_said_in_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    """Whatever a task raises of ours comes back as the same kind."""

    def refuses(item: int) -> int:
        if item == 3:
            raise Denied("no right to read item 3")
        return item

    with pytest.raises(Denied, match="no right to read item 3"):
        tasks.raise_failures(tasks.run(spark, "test", list(range(6)), refuses))

    def breaks(item: int) -> int:
        return item // (item - 3)

    with pytest.raises(Unavailable) as given_up:
        tasks.run(spark, "test", list(range(6)), breaks)
    assert "ZeroDivisionError" in str(given_up.value)
    assert "\n" not in str(given_up.value)


def test_work_that_is_not_shared_out_is_refused_alike_here_and_on_an_executor(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = os.getpid()

    def where(item: int) -> bool:
        if item == 3:
            raise Denied("no right to read item 3")
        return bool(item // (item - 4)) or os.getpid() == here

    for local in (True, False):
        if not local:
            monkeypatch.setattr(tasks, "_IS_LOCAL", re.compile("no master"))
        assert tasks.run_one(spark, "test", 0, where) is local
        with pytest.raises(Denied, match="no right to read item 3"):
            tasks.run_one(spark, "test", 3, where)
        with pytest.raises(Unavailable, match=r"(?s)\Atest: .*by zero.*; run it again[^\n]*\Z"):
            tasks.run_one(spark, "test", 4, where)


@pytest.mark.parametrize(
    ("master", "local"),
    [
        ("local", True),
        ("local[2]", True),
        ("local[*,4]", True),
        ("local-cluster[2,1,512]", False),
        ("yarn", False),
    ],
)
def test_which_masters_are_this_process(master: str, local: bool) -> None:
    assert (tasks._IS_LOCAL.fullmatch(master) is not None) is local


def test_without_java_or_pyspark_there_is_advice(tmp_path: Path) -> None:
    fill(opened(tmp_path / "cold"), "orders", finals=1)
    command = [sys.executable, "-m", "jjq", "pipeline", "verify", "--cold", str(tmp_path / "cold")]

    def ran(**environment: str) -> tuple[int, str]:
        done = subprocess.run(
            command,
            env=clean_environment(**environment),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return done.returncode, done.stderr

    code, said = ran(PATH=str(tmp_path), JAVA_HOME="")
    assert (code, said.count("\n")) == (2, 1), said
    assert "Spark needs a Java runtime: no java on the PATH" in said
    code, said = ran(JAVA_HOME=str(tmp_path / "nowhere"))
    assert (code, "where there is none" in said) == (2, True)
    (tmp_path / "hidden" / "pyspark").mkdir(parents=True)
    (tmp_path / "hidden" / "pyspark" / "__init__.py").write_text("raise ImportError")
    code, said = ran(PYTHONPATH=os.pathsep.join([str(tmp_path / "hidden"), str(Path.cwd())]))
    assert (code, said) == (2, "jjq: this needs Spark, which is not installed: pip install 'jjq[spark]'\n")


def test_settings_of_spark_are_read() -> None:
    assert session.parse_conf(("a=b", "c=d=e", "f=")) == {"a": "b", "c": "d=e", "f": ""}
