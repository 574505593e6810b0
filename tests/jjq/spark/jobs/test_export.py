"""`export`: a range as files that any engine reads; broken off, it goes on where it was."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.dataset as ds
import pytest

from coldstore.layout import paths
from coldstore.shared.errors import Conflict, DataLoss, InvalidInput, OutOfRange
from jjq.spark.jobs.export import export
from jjq.spark.scan import plan
from tests.jjq.cli.command import Command
from tests.jjq.spark.jobs.stores import damage
from tests.jjq.spark.making import make

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Element n has the timestamp 2026-01-01T00:00:00Z and n seconds.


def test_a_range_becomes_parquet_by_date_and_hour(pipeline: Command, tmp_path: Path) -> None:
    make(tmp_path / "cold", [3_000, 3_000], [2_000], content="text")
    done = pipeline.ok(
        "pipeline", "export", "orders", "out", "--cold", "cold",
        "--start", "offset:100", "--end", "offset:7500", "--json",
    ).json  # fmt: skip
    assert (done["start"], done["end"], done["elements"]) == (100, 7_500, 7_400)
    folders = sorted(path.name for path in (tmp_path / "out" / "date=2026-01-01").iterdir())
    assert folders == ["hour=00", "hour=01", "hour=02"]
    table = ds.dataset(tmp_path / "out", format="parquet", partitioning="hive").to_table().sort_by("offset")
    assert table["offset"].to_pylist() == list(range(100, 7_500))
    assert table["value"][0].as_py() == "value 100"
    assert [n for n, hour in enumerate(table["hour"].to_pylist(), 100) if hour == 1] == list(
        range(3_600, 7_200)
    )
    assert len(list((tmp_path / "out").rglob("*.parquet"))) == done["files"]
    again = pipeline(
        "pipeline",
        "export",
        "orders",
        "out",
        "--cold",
        "cold",
        "--start",
        "offset:100",
        "--end",
        "offset:7500",
    )
    assert (again.code, "has a complete export" in again.errors) == (5, True)


def test_json_lines_are_those_of_replay(spark: SparkSession, tmp_path: Path) -> None:
    make(tmp_path / "cold", [5], [2])
    to = tmp_path / "out"
    done = export(spark, str(tmp_path / "cold"), "orders", str(to), format="jsonl", by="none")
    files = [gzip.decompress(path.read_bytes()) for path in sorted(to.glob("*.gz"))]
    lines = [json.loads(line) for file in files for line in file.splitlines()]
    assert [line["offset"] for line in lines] == list(range(7))
    assert lines[0] == {
        "offset": 0,
        "timestamp": "2026-01-01T00:00:00Z",
        "key": "k0",
        "value": "value 0",
        "headers": {"n": "0"},
    }
    assert done.elements == 7


def test_a_damaged_block_stops_it_with_its_name_and_a_rerun_goes_on_without_doubles(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "PARTITION_BYTES_MIN", 1_000)  # so that small blocks are a piece each
    made = make(tmp_path / "cold", [1_000] * 8)
    key = paths.data("orders", 4_000)
    whole = made.store.objects.get(key).data
    damage(made.store.objects, key)
    out = tmp_path / "out"
    with pytest.raises(DataLoss) as loss:
        export(spark, str(tmp_path / "cold"), "orders", str(out), by="date")
    assert (loss.value.block, loss.value.key) == (4_000, key)
    assert not (out / "_SUCCESS").exists()
    done = {path.name: path.stat().st_mtime_ns for path in out.rglob("part-*") if path.suffix == ".parquet"}
    assert done
    made.store.objects.put(key, whole)
    made.add(100)  # the range was resolved by the first run
    with pytest.raises(Conflict, match="another export"):
        export(spark, str(tmp_path / "cold"), "orders", str(out), by="hour")
    exported = export(spark, str(tmp_path / "cold"), "orders", str(out), by="date")
    assert (exported.elements, exported.end) == (8_000, 8_000)
    table = ds.dataset(out, format="parquet").to_table(columns=["offset"])
    assert sorted(table["offset"].to_pylist()) == list(range(8_000))
    after = {path.name: path.stat().st_mtime_ns for path in out.rglob("part-*") if path.suffix == ".parquet"}
    assert {name: after[name] for name in done} == done, "what was complete is not written again"


def test_bad_ranges_and_places_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    make(tmp_path / "cold", [10])
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    cold = str(tmp_path / "cold")
    with pytest.raises(Conflict, match="is not empty"):
        export(spark, cold, "orders", str(tmp_path / "full"))
    with pytest.raises(InvalidInput, match="after end"):
        export(spark, cold, "orders", str(tmp_path / "a"), start="offset:5", end="offset:2")
    with pytest.raises(OutOfRange, match=r"outside 0\.\.10"):
        export(spark, cold, "orders", str(tmp_path / "a"), start="offset:50")
    assert not (tmp_path / "a").exists()
