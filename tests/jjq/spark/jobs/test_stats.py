"""`stats`: exact counts, near-exact middles, per queue and hour."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from coldstore.layout import paths
from coldstore.shared import batch
from coldstore.shared.errors import DataLoss
from jjq.spark.jobs.stats import stats
from tests.jjq.cli.command import Command
from tests.jjq.spark.jobs.stores import damage
from tests.jjq.spark.making import elements, make

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_every_hour_of_every_queue_is_summed_up(pipeline: Command, tmp_path: Path) -> None:
    made = make(tmp_path / "cold", [2_000, 2_000], [1_000])
    make(tmp_path / "cold", [10], name="few")
    rows = pipeline.ok("pipeline", "stats", "--cold", "cold", "--json").json
    assert [(row["queue"], row["hour"], row["elements"]) for row in rows] == [
        ("few", "2026-01-01T00:00:00Z", 10),
        ("orders", "2026-01-01T00:00:00Z", 3_600),
        ("orders", "2026-01-01T01:00:00Z", 1_400),
    ]
    sizes = sorted(batch.element_bytes(elements(0, 3_600).combine_chunks().to_batches()[0]).tolist())
    hour = rows[1]
    assert (hour["bytes"], hour["size_min"], hour["size_max"]) == (sum(sizes), sizes[0], sizes[-1])
    assert hour["size_avg"] == pytest.approx(sum(sizes) / 3_600)
    assert abs(hour["size_p50"] - sizes[1_800]) <= 1
    assert abs(hour["size_p99"] - sizes[3_564]) <= 1
    assert hour["keyed"] == 1_200
    assert hour["keys"] == pytest.approx(1_200, rel=0.1)
    stored = sum(block.stored_bytes for block in made.queue.list_blocks())
    assert rows[1]["stored_bytes"] + rows[2]["stored_bytes"] == pytest.approx(stored, abs=2)
    table = pipeline.ok("pipeline", "stats", "orders", "--cold", "cold", "--start", "offset:3600").lines
    assert table[0].split()[:4] == ["QUEUE", "HOUR", "ELEMENTS", "BYTES"]
    assert table[1].split()[:3] == ["orders", "2026-01-01T01", "1400"]
    assert len(table) == 2


def test_a_damaged_block_is_named(spark: SparkSession, tmp_path: Path) -> None:
    made = make(tmp_path, [100, 100, 100])
    damage(made.store.objects, paths.data("orders", 100))
    with pytest.raises(DataLoss) as loss:
        stats(spark, str(tmp_path))
    assert loss.value.block == 100
    assert stats(spark, str(tmp_path), end="offset:100")[0].elements == 100


def test_an_empty_store_has_no_hours(pipeline: Command, tmp_path: Path) -> None:
    make(tmp_path / "cold")
    assert pipeline.ok("pipeline", "stats", "--cold", "cold", "--json").json == []


def test_the_plot_is_a_picture(pipeline: Command, tmp_path: Path) -> None:
    make(tmp_path / "cold", [5_000])
    pipeline.ok("pipeline", "stats", "--cold", "cold", "--plot", "out.png")
    assert (tmp_path / "out.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    ran = pipeline("pipeline", "stats", "--cold", "cold", "--plot", "nowhere/out.png")
    assert (ran.code, "cannot write the plot" in ran.errors) == (2, True)


def test_without_matplotlib_there_is_advice(
    pipeline: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "cold", [5])
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    ran = pipeline("pipeline", "stats", "--cold", "cold", "--plot", "out.png")
    assert (ran.code, ran.output, ran.errors) == (
        2,
        b"",
        "jjq: a plot needs matplotlib, which is not installed: pip install 'jjq[spark]'\n",
    )
