"""`verify` on Spark finds what `jjq verify` finds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from coldstore.layout import paths, sealed_json
from jjq.spark.jobs.verify import verify_store
from tests.jjq.cli.command import Command
from tests.jjq.spark.jobs.stores import damage, fill, opened

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def cold(tmp_path: Path) -> Path:
    store = opened(tmp_path / "cold")
    fill(store, "orders", finals=7, young=2)
    fill(store, "events", finals=2)
    store.create_queue("empty")
    return tmp_path / "cold"


def test_a_sound_store_gives_the_reports_of_a_verifier_in_one_process(
    spark: SparkSession, cold: Path
) -> None:
    store = opened(cold)
    seen: list[tuple[int, int]] = []
    reports = verify_store(
        spark, str(cold), section_blocks=2, progress=lambda done, total: seen.append((done, total))
    )
    assert reports == [store.verify(name) for name in ("empty", "events", "orders")]
    assert all(report.ok for report in reports)
    assert seen[-1] == (7, 7)  # 4 + 1 sections of orders, one each of the others
    table = verify_store(spark, str(cold), ["orders"])
    assert table == [store.verify("orders")]


def test_every_defect_is_in_the_report_and_the_command_ends_with_4(pipeline: Command, cold: Path) -> None:
    store = opened(cold)
    damage(store.objects, paths.data("orders", 100))
    store.objects.delete(paths.meta("orders", 200, "final"))
    store.objects.put(paths.queue("events"), b"damaged")
    ran = pipeline("pipeline", "verify", "--cold", "cold", "--json")
    assert ran.code == 4
    found = {report["queue"]: [(d["kind"], d["block"]) for d in report["defects"]] for report in ran.json}
    assert found == {
        "empty": [],
        "events": [("metadata damaged", None)],
        "orders": [("data damaged", 100), ("metadata missing", 200)],
    }
    table = pipeline("pipeline", "verify", "--cold", "cold")
    assert table.code == 4
    assert "data damaged" in table.text
    assert "Traceback" not in table.errors


def test_a_missing_queue_document_is_a_defect_and_a_cut_tail_ends_with_8(
    pipeline: Command, cold: Path
) -> None:
    store = opened(cold)
    store.objects.delete(paths.data("orders", 300))
    ran = pipeline("pipeline", "verify", "--cold", "cold", "--json")
    assert ran.code == 8
    assert [(r["queue"], r["verdict"], r["cut_off_at"]) for r in ran.json] == [
        ("empty", "ok", None),
        ("events", "ok", None),
        ("orders", "cut off", 300),
    ]
    store.objects.delete(paths.queue("events"))
    ran = pipeline("pipeline", "verify", "--cold", "cold", "--json")
    assert ran.code == 4
    (defect,) = ran.json[1]["defects"]
    assert (defect["kind"], defect["key"]) == ("queue document missing", "queues/events/queue.json")


def test_a_store_of_a_newer_format_is_refused(pipeline: Command, cold: Path) -> None:
    store = opened(cold)
    store.objects.put(paths.meta("orders", 50, "final"), sealed_json.seal({"novelty": 1}, 2))
    ran = pipeline("pipeline", "verify", "orders", "--cold", "cold")
    assert ran.code == 2
    assert "upgrade jjq" in ran.errors
    store.objects.put(paths.STORE, sealed_json.seal({"store": "s"}, 2))
    for job in (
        ["compact"],
        ["verify"],
        ["stats"],
        ["export", "orders", "out"],
        ["import", "x", "f", "--order", "n"],
    ):
        ran = pipeline("pipeline", *job, "--cold", "cold")
        assert (ran.code, ran.errors.count("\n")) == (2, 1), ran
        assert "jjq.json has format 2" in ran.errors
