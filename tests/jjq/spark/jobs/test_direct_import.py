"""Small imports of Parquet: what one task does with Arrow is what Spark does, and Spark does the rest."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coldstore.objects.settings import S3Settings
from coldstore.shared import batch
from coldstore.shared.chance import SystemChance
from coldstore.shared.errors import Conflict, InvalidInput
from jjq.spark import cold
from jjq.spark.jobs import bulk_import, direct_import, tasks
from jjq.spark.jobs.direct_import import DirectPlan, files_of_frame, plan_direct, read_direct
from jjq.spark.jobs.import_columns import Shape
from jjq.spark.jobs.tasks import silent
from tests.architecture.tree import ROOT
from tests.jjq.spark.jobs.stores import opened
from tests.servers.jjq_server import clean_environment
from tests.servers.s3 import S3Server

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 300
S3 = S3Settings()
NUMBERS = [n * 71 % ROWS for n in range(ROWS)]
INSTANT = pa.timestamp("us", "UTC")
TABLE = pa.table(
    {
        "n": pa.array([n // 3 for n in NUMBERS], pa.int32()),
        "real": [math.nan if n % 10 == 0 else -0.0 if n % 10 == 1 else (n - 150) / 7 for n in NUMBERS],
        "name": [f"{'Zaé😀'[n % 4]}{n % 13}" for n in NUMBERS],
        "raw": pa.array([bytes([n % 256, n % 3]) for n in NUMBERS], pa.binary()),
        "flag": [n % 2 == 0 for n in NUMBERS],
        "at": pa.array([1_767_225_600_000_000 + n * 1_001 for n in NUMBERS], INSTANT),
        "ms": pa.array([-5 + n for n in NUMBERS], pa.int64()),
        "who": [None if n % 3 else f"user {n % 7}" for n in NUMBERS],
        "body": [f"body {n % 50}" for n in NUMBERS],
        "texts": pa.array([None if n % 4 == 0 else [("a", f"{n}"), ("b", "")][: n % 3] for n in NUMBERS],
                          pa.map_(pa.string(), pa.string())),
        "bytes": pa.array([[("h", bytes([n % 256]))] for n in NUMBERS], pa.map_(pa.string(), pa.binary())),
        "local": pa.array([n * 1_000 for n in NUMBERS], pa.timestamp("us")),
        "day": pa.array(list(range(ROWS)), pa.date32()),
        "spoken": ["2026-01-01T00:00:00Z"] * ROWS,
    }
)  # fmt: skip


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("direct")
    for at in range(0, ROWS, 100):
        pq.write_table(TABLE.slice(at, 100), folder / f"{at}.parquet", row_group_size=40)
    (folder / "_SUCCESS").touch()
    return folder


def shape(*order: str, **columns: Any) -> Shape:
    return Shape(order=order or ("n",), **{"value": "body", **columns})


def plan(source: Path, wanted: Shape, content: Any = "bytes") -> DirectPlan | None:
    return plan_direct([str(source)], wanted, content, 7, S3)


def elements(spark: SparkSession, source: Path, root: Path, wanted: Shape, content: Any) -> list[Any]:
    bulk_import.import_files(
        spark, [str(source)], "parquet", str(root), "q", wanted, idle=False, s3=S3, progress=lambda _: silent,
        content=content,
    )  # fmt: skip
    store = opened(root)
    assert store.verify("q").ok
    queue = store.open_queue("q")
    return [e for at in range(len(queue.list_blocks())) for e in batch.elements(queue.read_block(at))]


@pytest.mark.parametrize(
    ("wanted", "content"),
    [
        (shape("n", "flag", time="at", key="who"), "bytes"),
        (shape("real", "name", time="ms", time_unit="ms", headers="texts"), "text"),
        (shape("raw", "at", key="raw", value="raw", headers="bytes"), "bytes"),
    ],
    ids=["ties", "text", "bytes"],
)
def test_it_gives_the_rows_that_spark_gives(
    spark: SparkSession,
    source: Path,
    tmp_path: Path,
    wanted: Shape,
    content: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bulk_import, "read", None)  # not asked
    direct = elements(spark, source, tmp_path / "direct", wanted, content)
    monkeypatch.undo()
    monkeypatch.setattr(bulk_import, "plan_direct", lambda *_: None)
    by_spark = elements(spark, source, tmp_path / "spark", wanted, content)

    def said(found: list[Any]) -> list[Any]:
        times = [e.timestamp for e in found] if wanted.time is not None else []
        return [(e.offset, e.key, e.value, e.headers) for e in found] + times

    assert len(direct) == ROWS
    assert said(direct) == said(by_spark)


def test_on_a_cluster_an_executor_does_the_same(
    spark: SparkSession, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = shape("n", "flag", time="at", key="who", headers="texts")
    jobs: list[str] = []
    run = tasks.run

    def counted(spark: Any, what: str, items: Any, work: Any) -> Any:
        jobs.append(what)
        return run(spark, what, items, work)

    monkeypatch.setattr(tasks, "run", counted)
    here = elements(spark, source, tmp_path / "here", wanted, "bytes")
    assert jobs == []
    monkeypatch.setattr(tasks, "_IS_LOCAL", re.compile("no master"))
    assert elements(spark, source, tmp_path / "there", wanted, "bytes") == here
    assert jobs == ["import", "import"]  # to stage, and to publish


def test_a_frame_that_is_nothing_but_files_is_read_as_files(
    spark: SparkSession, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = spark.read.parquet(str(source))
    found = files_of_frame(frame)
    assert found is not None
    assert sorted(found.names) == sorted(map(str, source.glob("*.parquet")))

    def imported(frame: DataFrame, name: str) -> list[Any]:
        bulk_import.import_history(
            frame,
            str(tmp_path),
            name,
            order=["n", "flag"],
            value="body",
            time="at",
            key="who",
            headers="texts",
        )
        queue = opened(tmp_path).open_queue(name)
        return [e for at in range(len(queue.list_blocks())) for e in batch.elements(queue.read_block(at))]

    by_spark = imported(frame.select("*"), "spark")
    monkeypatch.setattr(Shape, "frame", None)  # not asked
    assert imported(frame, "direct") == by_spark
    assert len(by_spark) == ROWS


def test_a_frame_that_is_more_than_its_files_is_left_to_spark(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    reader, place = spark.read, str(source)
    frame = reader.parquet(place)
    frame.write.partitionBy("flag").parquet(str(tmp_path / "parts"))
    frame.write.json(str(tmp_path / "lines"))
    for other in (
        frame.select("*"),
        frame.where("n > 1"),
        frame.limit(ROWS),
        frame.union(frame),
        frame.withColumnRenamed("n", "m"),
        spark.createDataFrame([(1, "a")], "n int, body string"),
        spark.read.option("mergeSchema", True).parquet(place),
        spark.read.option("pathGlobFilter", "0*").parquet(place),
        spark.read.parquet(str(tmp_path / "parts")),
        spark.read.json(str(tmp_path / "lines")),
    ):
        assert files_of_frame(other) is None
    for kinds, same in (("n int, body string", True), ("n bigint, body string", False), ("n int", False)):
        found = files_of_frame(spark.read.schema(kinds).parquet(place))
        assert found is not None
        planned = plan_direct(found.names, shape(), "bytes", 7, S3, found.kinds)
        assert (planned is not None) is same, kinds


def test_a_file_of_a_frame_that_is_gone_is_not_passed_over(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "50% of ü, ?"
    folder.mkdir()
    for name in "ab":
        pq.write_table(TABLE, folder / f"{name}%20.parquet")
    found = files_of_frame(spark.read.parquet(str(folder)))
    assert found is not None
    assert plan_direct(found.names, shape(), "bytes", 7, S3, found.kinds) is not None
    (folder / "b%20.parquet").unlink()
    assert plan_direct(found.names, shape(), "bytes", 7, S3, found.kinds) is None


@pytest.mark.parametrize(
    "wanted",
    [
        shape(value="*"),
        shape(value="ms"),
        shape(time="spoken"),
        shape(time="local"),
        shape(time="day"),
        shape(time="at", time_unit="s"),
        shape(key="n"),
        shape(headers="body"),
        shape("day"),
        shape("texts"),
        shape("missing"),
    ],
    ids=str,
)
def test_what_spark_may_read_in_another_way_is_left_to_spark(source: Path, wanted: Shape) -> None:
    assert plan(source, shape()) is not None
    assert plan(source, wanted) is None


def test_what_is_large_nested_or_of_several_shapes_is_left_to_spark(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert plan_direct([f"{source}/*.parquet"], shape(), "bytes", 7, S3) is None
    assert plan_direct(["hdfs://there"], shape(), "bytes", 7, S3) is None
    assert plan(source, shape(value="raw"), "text") is None
    (tmp_path / "day=1").mkdir()
    pq.write_table(TABLE, tmp_path / "day=1" / "a.parquet")
    assert plan(tmp_path, shape()) is None
    other = tmp_path / "other"
    other.mkdir()
    pq.write_table(TABLE, other / "a.parquet")
    pq.write_table(TABLE.set_column(0, "n", TABLE["n"].cast(pa.int64())), other / "b.parquet")
    assert plan(other, shape()) is None
    (other / "b.parquet").write_bytes(b"PAR1 no more")
    assert plan(other, shape()) is None
    pq.write_table(
        TABLE.set_column(5, "at", TABLE["at"].cast(pa.timestamp("ns", "UTC"))), other / "b.parquet"
    )
    (other / "a.parquet").unlink()
    assert plan(other, shape(time="at")) is None
    known = plan(source, shape())
    assert known is not None
    monkeypatch.setattr(direct_import, "DIRECT_TABLE_BYTES_MAX", 1_000)
    assert read_direct(known) is None
    monkeypatch.setattr(direct_import, "DIRECT_BYTES_MAX", 1_000)
    assert plan(source, shape()) is None


def nulled(name: str) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        at = table.column_names.index(name)
        kind = table.schema.field(name).type
        values = pa.chunked_array([pa.array([None, *table.column(name).to_pylist()[1:]], kind)])
        return table.set_column(at, name, values)

    return change


@pytest.mark.parametrize(
    ("change", "wanted", "why"),
    [
        (nulled("n"), shape(), "column n is null in 1 rows: they have no place"),
        (nulled("body"), shape(), "column body is null in 1 rows: an element has a value"),
        (nulled("at"), shape(time="at"), "column at is null, or no time, in 1 rows"),
        (
            lambda table: table.set_column(6, "ms", pa.array([2**62] * ROWS)),
            shape(time="ms", time_unit="ms"),
            "column ms is null, or no time, in 300 rows",
        ),
        (lambda table: table.slice(0, 0), shape(), "there is nothing to import"),
    ],
    ids=["order", "value", "time", "far time", "nothing"],
)
def test_rows_that_cannot_be_imported_are_refused_as_by_spark(
    tmp_path: Path, change: Callable[[pa.Table], pa.Table], wanted: Shape, why: str
) -> None:
    pq.write_table(change(TABLE), tmp_path / "a.parquet")
    known = plan(tmp_path, wanted)
    assert known is not None
    with pytest.raises(InvalidInput, match=why):
        read_direct(known)


LEAN = """
import sys
from coldstore.objects.settings import S3Settings
from jjq.spark.jobs import bulk_import
from jjq.spark.jobs.direct_import import plan_direct
from jjq.spark.jobs.import_columns import Shape

source, root = sys.argv[1:]
for columns in (
    {"time": "at", "key": "who"}, {"time": "ms", "time_unit": "ms"}, {}, {"headers": "texts"}, {"headers": "bytes"},
):
    plan = plan_direct([source], Shape(order=("n",), value="body", **columns), "bytes", 7, S3Settings())
    store = bulk_import.store_or_new(root, S3Settings())
    ticket = store.begin_import("q-" + "-".join(columns), content="bytes")
    staged = bulk_import._stage_rows(root, S3Settings(), ticket, plan)
    assert "pandas" not in sys.modules, columns
    bulk_import._publish_run(root, S3Settings(), ticket, bulk_import._chain(ticket, staged, plan.rows))
    assert "pandas" not in sys.modules, columns
print("done")
"""


def test_a_task_does_without_pandas(source: Path, tmp_path: Path) -> None:
    """A first import waits for the start of its worker, and pandas would be most of that."""
    assert find_spec("pandas") is not None
    done = subprocess.run(
        [sys.executable, "-c", LEAN, str(source), str(tmp_path)],
        env=clean_environment(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.stdout == "done\n", done.stderr


def test_a_source_that_changes_meanwhile_is_said(
    spark: SparkSession, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = plan(source, shape())
    assert known is not None
    monkeypatch.setattr(bulk_import, "plan_direct", lambda *_: known._replace(rows=ROWS + 1))
    with pytest.raises(Conflict, match="the source changed"):
        elements(spark, source, tmp_path, shape(), None)
    assert opened(tmp_path).queue_names() == []


def test_files_on_s3_are_read_where_they_are(seaweed: S3Server, source: Path) -> None:
    s3, folder = seaweed.settings(), SystemChance().token()
    objects = cold.objects(f"s3://{seaweed.bucket}/{folder}", s3)
    for file in source.glob("*.parquet"):
        objects.put(f"here/{file.name}", file.read_bytes())
    objects.put("here/deeper/a.parquet", (source / "0.parquet").read_bytes())
    place = f"s3://{seaweed.bucket}/{folder}/here"
    assert plan_direct([place], shape(), "bytes", 7, s3) is None  # with a folder in it
    names = [f"{place}/{at}.parquet" for at in range(0, ROWS, 100)]
    known, same = plan_direct(names, shape(), "bytes", 7, s3), plan(source, shape())
    assert known is not None
    assert same is not None
    there, here = read_direct(known), read_direct(same)
    assert there is not None
    assert here is not None
    assert there.counted.rows == ROWS
    assert there == here
