"""Mistakes in an import are said in one line before Spark starts."""

from __future__ import annotations

import gzip
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coldstore.objects.settings import S3Settings
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import ManualClock, SystemClock
from coldstore.shared.errors import InvalidInput, Unavailable
from jjq.cli import output as shown
from jjq.cli.output import progress
from jjq.spark import cold
from jjq.spark.jobs import session
from jjq.spark.jobs.import_columns import Shape
from jjq.spark.jobs.import_source import check_source
from tests.jjq.cli.command import Command
from tests.jjq.spark.jobs.conftest import SparkStarted
from tests.jjq.spark.jobs.stores import fill, opened
from tests.servers.s3 import S3Server


@pytest.fixture
def unstarted(unstarted: Command, tmp_path: Path) -> Command:
    """With files to import."""
    write_sources(tmp_path)
    return unstarted


def write_sources(folder: Path) -> None:
    rows = {
        "n": pa.array([2, 1], pa.int64()),
        "at": ["2026-11-01 00:00:00+00", "2026-11-01T00:00:01Z"],
        "who": ["ann", None],
        "v": ["a", "b"],
        "list": [[1], [2]],
    }
    pq.write_table(pa.table(rows), folder / "in.parquet")
    (folder / "in.csv").write_text("n,at,v\n2,1767225600,a\n1,1767225601,b\n")
    (folder / "in.jsonl").write_text('{"n": 2, "at": "2026-11-01", "v": "a"}\n\n{"n": 1, "v": "b"}\n')
    (folder / "in.jsonl.gz").write_bytes(gzip.compress(b'{"n": 1, "v": "x"}\n'))
    (folder / "long.jsonl").write_text('{"n": 2, "v": "a"}\n' * 1_500)
    (folder / "noise.bin").write_bytes(b"\x00\x01\x02\x03\x04")
    (folder / "cut.parquet").write_bytes((folder / "in.parquet").read_bytes()[:-20])
    (folder / "none").mkdir()
    (folder / "parts" / "day=1").mkdir(parents=True)
    pq.write_table(pa.table({"n": [1], "v": ["a"]}), folder / "parts" / "day=1" / "a.parquet")
    (folder / "parts" / "_SUCCESS").write_bytes(b"")


WRONG = [
    (["in.csv"], "in.csv is no Parquet: it seems to be CSV, its first line is 'n,at,v'; say --format csv"),
    (["in.jsonl"], "it seems to be JSON lines; say --format jsonl"),
    (["in.jsonl.gz"], "it is compressed text, it seems; say --format csv or --format jsonl"),
    (["noise.bin"], "say with --format what it is: parquet, jsonl or csv"),
    (["cut.parquet"], "cut.parquet cannot be read as parquet"),
    (["in.parquet", "--format", "csv"], "in.parquet is Parquet, and not csv: say --format parquet"),
    (["in.jsonl", "--format", "csv"], "seems to be JSON lines, and not CSV: say --format jsonl"),
    (["in.csv", "--format", "jsonl"], "line 1 is 'n,at,v', and not an object"),
    (["nofile"], "there is no file"),
    (["none"], "no folder with files"),
    (["*.nothing"], "there is no file"),
    (["in.parquet", "nofile"], "there is no file"),
    (["in.parquet", "--value", "body"], "there is no column body: the source has n, at, who, v, list"),
    (["in.csv", "--format", "csv", "--value", "V"], "there is no column V: the source has n, at, v"),
    (["in.jsonl", "--format", "jsonl", "--key", "x"], "there is no column x: the source has n, at, v"),
    (["in.jsonl.gz", "--format", "jsonl", "--key", "x"], "there is no column x: the source has n, v"),
    (["parts", "--key", "x"], "there is no column x: the source has n, v, day"),
    (["in.parquet", "--value", "n"], "column n is int64; a value is text or bytes"),
    (["in.parquet", "--headers", "v"], "column v is string; headers are a map"),
    (["in.parquet", "--order", "list"], "by which nothing can be ordered"),
    (["in.parquet", "--time", "who"], "column who is no time, for instance 'ann': times are timestamps, dates, text"),
    (["in.parquet", "--time", "n"], "column n has numbers: say with --time-unit s, ms or us"),
    (["in.csv", "--format", "csv", "--time", "at"], "column at has numbers, for instance 1767225600: say with"),
    (["in.parquet", "--block-bytes", "1"], "block_bytes"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "said"), WRONG, ids=[" ".join(words) for words, _ in WRONG])
def test_a_wrong_source_ends_with_2_before_spark_starts(
    unstarted: Command, tmp_path: Path, words: list[str], said: str
) -> None:
    defaults = [] if "--value" in words else ["--value", "v"]
    defaults += [] if "--order" in words else ["--order", "n"]
    ran = unstarted("pipeline", "import", "q", *words, *defaults, "--cold", "cold")
    assert (ran.code, ran.errors.count("\n")) == (2, 1), ran
    assert said in ran.errors
    assert not (tmp_path / "cold").exists()


RIGHT = [
    ["in.parquet", "--time", "at", "--key", "who"],
    ["in.parquet", "--time", "n", "--time-unit", "s"],
    ["in.csv", "--format", "csv", "--time", "at", "--time-unit", "s"],
    ["in.jsonl", "--format", "jsonl", "--time", "at"],
    ["in.jsonl.gz", "--format", "jsonl"],
    ["long.jsonl", "--format", "jsonl", "--key", "perhaps_later"],
    ["*.parquet", "hdfs://host/more"],
    ["parts", "--order", "day"],
    ["in.{parquet,orc}"],
]


@pytest.mark.parametrize("words", RIGHT, ids=" ".join)
def test_what_may_be_right_goes_on_to_spark(unstarted: Command, words: list[str]) -> None:
    with pytest.raises(SparkStarted):
        unstarted("pipeline", "import", "q", *words, "--order", "n", "--value", "v", "--cold", "cold")


def test_a_queue_that_exists_ends_with_5_before_spark_starts(unstarted: Command, tmp_path: Path) -> None:
    queue = fill(opened(tmp_path / "cold"), "orders", finals=1)
    before = sorted(tmp_path.rglob("*"))
    words = ["in.parquet", "--order", "n", "--value", "v", "--cold", "cold"]
    ran = unstarted("pipeline", "import", "orders", *words)
    assert (ran.code, ran.errors.count("\n")) == (5, 1)
    assert "queue orders exists: choose another name" in ran.errors
    ran = unstarted("pipeline", "import", "orders", *words, "--idle", "--content", "json")
    assert (ran.code, "exists with content=bytes" in ran.errors) == (5, True)
    with pytest.raises(SparkStarted):
        unstarted("pipeline", "import", "orders", *words, "--idle")
    assert [path for path in sorted(tmp_path.rglob("*")) if path.name != ".stdin"] == [
        path for path in before if path.name != ".stdin"
    ]
    assert queue.next_offset == 50


def test_sources_on_s3_are_looked_at_in_ranges(seaweed: S3Server, tmp_path: Path) -> None:
    write_sources(tmp_path)
    s3, folder = seaweed.settings(), SystemChance().token()
    objects = cold.objects(f"s3://{seaweed.bucket}/{folder}", s3)
    objects.put("all/a.parquet", (tmp_path / "in.parquet").read_bytes())
    objects.put("in.csv", (tmp_path / "in.csv").read_bytes())
    place = f"s3://{seaweed.bucket}/{folder}"

    def said(source: str, **columns: Any) -> str:
        with pytest.raises(InvalidInput) as error:
            check_source([source], "parquet", Shape(order=("n",), **columns), s3)
        return str(error.value)

    check_source([f"{place}/all", f"{place}/all/a.parquet"], "parquet", Shape(order=("n",), value="v"), s3)
    assert "there is no column body" in said(f"{place}/all", value="body")
    assert "it seems to be CSV" in said(f"{place}/in.csv", value="v")
    assert "there is no file" in said(f"{place}/al", value="v")


def test_without_sources_nothing_is_imported() -> None:
    with pytest.raises(InvalidInput, match="give the files"):
        check_source([], "parquet", Shape(order=("n",)), S3Settings())


def test_lines_tell_how_far_it_is_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    clock = ManualClock()
    with progress("import: stage", None, lines=True, clock=clock) as bar:
        for done in range(0, 1_300_000, 100_000):
            bar(done, 1_200_000)
            clock.advance(1)
    assert capsys.readouterr().err.splitlines() == [
        "jjq: import: stage: 500,000 of 1,200,000 elements, 5 s, 100,000 elements/s",
        "jjq: import: stage: 1,000,000 of 1,200,000 elements, 10 s, 100,000 elements/s",
    ]
    with progress("import: check", None, lines=True, clock=clock) as bar:
        clock.advance(shown.LINE_SECONDS)
        bar(0, 0)
    assert capsys.readouterr().err == "jjq: import: check: 5 s\n"
    with progress("backup", None, clock=SystemClock()) as bar:
        bar(1, 2)
    assert capsys.readouterr().err == ""


def test_what_java_says_is_kept_away_and_told_only_if_spark_does_not_start(
    capfd: pytest.CaptureFixture[str],
) -> None:
    from pyspark.errors import PySparkRuntimeError

    class Builder:
        def getOrCreate(self) -> None:  # noqa: N802 as Spark names it
            subprocess.run(
                ["sh", "-c", "echo noise >&2; echo 'java.net.BindException: in use' >&2"], check=True
            )
            raise PySparkRuntimeError("Java gateway process exited")

    with pytest.raises(Unavailable, match=r"Java says: java.net.BindException: in use.*--verbose shows more"):
        session._start(Builder(), quiet=True)
    assert capfd.readouterr().err == ""
    with pytest.raises(Unavailable, match="Java gateway process exited"):
        session._start(Builder(), quiet=False)
    assert "noise" in capfd.readouterr().err
