"""`jjq verify`: without a server, it proves a store sound or names every defect."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import jjq as client_of
from tests.jjq.cli.command import Command


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two queues, one of them with several blocks."""
    folder = tmp_path_factory.mktemp("data")
    with client_of.open(folder) as client:
        for name, blocks in (("orders", 3), ("events", 1)):
            client.create_queue(name, block_bytes=128 * 1024)
            for n in range(blocks):
                client.push(name, [b"%d-%d" % (n, i) * 20 for i in range(1_000)])
                client.seal(name)
    return folder / "cold"


def damaged(data: Path, folder: Path) -> Path:
    """A copy with one byte of one block turned."""
    shutil.copytree(data, folder / "damaged")
    block = min((folder / "damaged").rglob("*.parquet"))
    block.write_bytes(bytes([block.read_bytes()[0] ^ 1]) + block.read_bytes()[1:])
    return folder / "damaged"


def test_a_sound_store_ends_with_0_and_a_verdict_for_each_queue(alone: Command, data: Path) -> None:
    rows = [line.split()[:2] for line in alone.ok("verify", "--cold", str(data)).lines]
    assert rows == [["QUEUE", "VERDICT"], ["events", "ok"], ["orders", "ok"]]
    (report,) = alone.ok("verify", "orders", "--cold", f"file://{data}", "--json").json
    assert (report["queue"], report["ok"], report["elements"], report["defects"]) == (
        "orders",
        True,
        3_000,
        [],
    )
    assert report["blocks"] >= 3


def test_damage_ends_with_4_and_is_named(alone: Command, data: Path, tmp_path: Path) -> None:
    cold = damaged(data, tmp_path)
    ran = alone("verify", "--cold", str(cold))
    assert ran.code == 4
    assert "data damaged" in ran.text
    reports = alone("verify", "--cold", str(cold), "--json").json
    assert [(r["queue"], r["ok"]) for r in reports] == [("events", False), ("orders", True)]
    assert reports[0]["defects"][0]["key"].endswith(".parquet")


def test_an_unknown_queue_or_a_place_without_a_store_ends_with_3(
    alone: Command, data: Path, tmp_path: Path
) -> None:
    assert alone("verify", "nope", "--cold", str(data)).code == 3
    ran = alone("verify", "--cold", str(tmp_path / "nothing"))
    assert (ran.code, ran.output) == (3, b"")
    assert "correct --cold" in ran.errors
    assert alone("verify").code == 2


def test_a_missing_queue_document_ends_with_4_and_names_the_queue(
    alone: Command, data: Path, tmp_path: Path
) -> None:
    cold = tmp_path / "cold"
    shutil.copytree(data, cold)
    (cold / "queues" / "orders" / "queue.json").unlink()
    ran = alone("verify", "--cold", str(cold))
    assert ran.code == 4
    assert "queue document missing" in ran.text
    assert "queues/orders/queue.json" in ran.text
    assert alone("verify", "orders", "--cold", str(cold)).code == 4


def test_a_tail_that_is_cut_off_ends_with_8_and_says_where(
    alone: Command, data: Path, tmp_path: Path
) -> None:
    cold = tmp_path / "cold"
    shutil.copytree(data, cold)
    meta = sorted((cold / "queues" / "orders" / "meta").iterdir())
    data_of_last = json.loads(meta[-1].read_bytes())["path"]
    (cold / "queues" / "orders" / data_of_last).unlink()
    ran = alone("verify", "--cold", str(cold))
    assert ran.code == 8
    assert "cut off at 2000" in ran.text
    reports = alone("verify", "--cold", str(cold), "--json").json
    assert [(r["verdict"], r["cut_off_at"]) for r in reports] == [("ok", None), ("cut off", 2_000)]
    (cold / "queues" / "events" / "queue.json").unlink()
    assert alone("verify", "--cold", str(cold)).code == 4
