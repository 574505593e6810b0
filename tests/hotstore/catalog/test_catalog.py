"""The catalog as a database: what goes in comes out, and other tools can ask it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from coldstore.shared import failpoint
from coldstore.shared.errors import InvalidInput, NotFound, Unavailable
from hotstore.catalog import probe as catalogprobe
from hotstore.catalog.catalog import SUBSCRIBERS, Catalog
from hotstore.catalog.probe import Verdict
from tests.hotstore.catalog.catalogs import CREATED_US, catalog, queues, subscribers

NOBODY = subscribers("orders", [])


@pytest.fixture
def written(tmp_path: Path) -> Catalog:
    """`orders` with subscribers a, b and c at 95, 195 and 295, and `audit` with z at 0."""
    made = catalog(tmp_path)
    rows = [subscribers("orders", [name], offset) for name, offset in (("a", 95), ("b", 195), ("c", 295))]
    everyone = pa.concat_tables([*rows, subscribers("audit", ["z"])])
    assert made.write(queues("orders", "audit"), everyone, sequence=7, everything=True).stored
    return made


def offsets(of: Catalog) -> dict[str, int]:
    table = of.read().subscribers
    return dict(zip(table["id"].to_pylist(), table["offset"].to_pylist(), strict=True))


def test_what_was_written_is_read_back_after_a_restart(tmp_path: Path) -> None:
    rows = queues("audit", "orders"), subscribers("orders", ["a", "b", "ü-ß", "c"], offset=98)
    catalog(tmp_path).write(*rows, sequence=42, everything=True)
    read = catalog(tmp_path).read()
    assert read.queues.equals(rows[0])
    assert read.subscribers.equals(rows[1].sort_by("id"))
    assert (read.sequence, read.written_us) == (42, CREATED_US + 5)


def test_only_changed_rows_need_be_written_and_the_others_stay(written: Catalog) -> None:
    assert not written.behind
    outcome = written.write(
        queues("orders", next_offset=2_000), subscribers("orders", ["b"], 700), sequence=8
    )
    assert (outcome.stored, outcome.events) == (True, ())
    assert offsets(written) == {"audit/z": 0, "orders/a": 95, "orders/b": 700, "orders/c": 295}
    read = written.read()
    assert read.queues["next_offset"].to_pylist() == [1_000, 2_000]
    assert read.sequence == 8


def test_a_write_without_rows_moves_only_the_checkpoint(written: Catalog) -> None:
    before = offsets(written)
    assert written.write(queues(), NOBODY, sequence=9).stored
    assert (offsets(written), written.read().sequence) == (before, 9)


def test_deleted_subscribers_are_gone_and_a_queue_takes_its_subscribers_with_it(written: Catalog) -> None:
    assert written.write(queues(), NOBODY, sequence=8, gone=["orders/a", "id-audit", "never/was"]).stored
    assert offsets(written) == {"orders/b": 195, "orders/c": 295}
    assert written.read().queues["name"].to_pylist() == ["orders"]


def test_a_subscriber_deleted_and_created_again_between_two_writes_is_the_new_one(written: Catalog) -> None:
    again = subscribers("orders", ["a"], 500)
    assert written.write(queues(), again, sequence=8, gone=["orders/a"]).stored
    assert offsets(written)["orders/a"] == 500


def test_writing_everything_deletes_the_rest_even_when_a_name_has_a_new_id(written: Catalog) -> None:
    orders = queues("orders")
    reborn = orders.set_column(0, orders.schema.field("id"), [["id-other"]])
    moved = subscribers("orders", ["b"], 1).set_column(2, SUBSCRIBERS.field("queue_id"), [["id-other"]])
    assert written.write(reborn, moved, sequence=1, everything=True).stored
    assert offsets(written) == {"orders/b": 1}
    assert written.read().queues["id"].to_pylist() == ["id-other"]


def test_the_first_write_of_a_process_must_carry_everything(tmp_path: Path, written: Catalog) -> None:
    restarted = catalog(tmp_path)
    outcome = restarted.write(queues("orders"), NOBODY, sequence=8)
    assert restarted.behind
    assert (outcome.stored, [event.kind for event in outcome.events]) == (False, ["behind"])
    assert restarted.read().sequence == 7
    assert restarted.behind, "reading does not make an incremental write safe"


def test_lag_is_told_farthest_first_and_for_one_queue(written: Catalog) -> None:
    assert written.lag("orders").to_pylist() == [
        {"subscriber": f"orders/{name}", "queue": "orders", "offset": at, "next_offset": 1_000, "lag": 1_000 - at}
        for name, at in (("a", 95), ("b", 195), ("c", 295))
    ]  # fmt: skip


def test_blocks_know_their_subscribers_and_follow_them(written: Catalog) -> None:
    assert written.blocks_with_subscribers("orders") == {0: 1, 100: 1, 200: 1}
    written.write(queues(), subscribers("orders", ["c", "a"], 150), sequence=8)
    assert written.blocks_with_subscribers("orders") == {100: 3}
    assert written.subscribers_in("orders", 100) == ["a", "b", "c"]
    assert written.subscribers_in("orders", 0) == []


@pytest.mark.parametrize("queue", ["nobody", "", "orders' OR '1'='1", "orders'; DROP TABLE queues; --"])
def test_a_queue_that_does_not_exist_has_no_answers_whatever_its_name(written: Catalog, queue: str) -> None:
    assert written.lag(queue).num_rows == 0
    assert written.blocks_with_subscribers(queue) == {}
    assert written.subscribers_in(queue, 100) == []


def test_another_process_reads_the_views_between_two_writes(tmp_path: Path, written: Catalog) -> None:
    script = """if True:
        import duckdb, json, sys
        tool = duckdb.connect(sys.argv[1], read_only=True)
        print(json.dumps(tool.execute("SELECT * FROM subscribers_by_block ORDER BY ALL").fetchall()))"""
    command = [sys.executable, "-c", script, str(tmp_path / "catalog.duckdb")]
    seen = subprocess.run(command, capture_output=True, check=True)
    assert json.loads(seen.stdout) == [
        ["audit", 0, 1, ["z"]], ["orders", 0, 1, ["a"]], ["orders", 100, 1, ["b"]], ["orders", 200, 1, ["c"]],
    ]  # fmt: skip
    assert [path.name for path in tmp_path.iterdir()] == ["catalog.duckdb"], "no WAL is left behind"
    assert written.write(queues(), subscribers("orders", ["a"], 96), sequence=8).stored


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        (subscribers("nowhere", ["x"]), "nowhere/x belongs to a queue"),
        (subscribers("orders", ["twice", "twice"]), "contradict each other"),
        (subscribers("orders", ["x"]).drop_columns(["asleep"]), "must have the schemas"),
    ],
)
def test_wrong_rows_are_refused_and_change_nothing(written: Catalog, rows: pa.Table, complaint: str) -> None:
    before = offsets(written)
    with pytest.raises(InvalidInput, match=complaint):
        written.write(queues("new"), rows, sequence=8, gone=["orders/a"])
    assert offsets(written) == before
    assert written.read().queues["name"].to_pylist() == ["audit", "orders"]


def test_a_failure_after_the_commit_leaves_the_new_state_and_asks_for_everything(written: Catalog) -> None:
    failpoint.arm("catalog.written")
    with pytest.raises(Unavailable):
        written.write(queues(), subscribers("orders", ["a"], 600), sequence=8)
    assert written.behind
    assert offsets(written)["orders/a"] == 600
    rows = queues("orders"), subscribers("orders", ["a"], 601)
    assert written.write(*rows, sequence=9, everything=True).stored
    assert offsets(written) == {"orders/a": 601}


def test_a_missing_catalog_is_not_found_until_one_is_begun(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        catalog(tmp_path).read()
    outcome = catalog(tmp_path).write(queues(), NOBODY, sequence=0, everything=True)
    assert (outcome.stored, [event.kind for event in outcome.events]) == (True, ["created"])
    assert catalog(tmp_path).read().subscribers.num_rows == 0


def test_the_child_is_asked_once_at_the_start_and_again_only_when_others_wrote(tmp_path: Path) -> None:
    asked: list[Path] = []

    def probe(path: Path) -> Verdict:
        asked.append(path)
        return catalogprobe.probe(path)

    rows = queues("orders"), subscribers("orders", ["a"])
    catalog(tmp_path, probe=probe).write(*rows, sequence=1, everything=True)
    assert asked == [], "there was no file to ask about"
    made = catalog(tmp_path, probe=probe)
    for sequence in range(2, 5):
        assert made.write(*rows, sequence=sequence, everything=made.behind).stored
        made.read()
    assert len(asked) == 1
    with duckdb.connect(str(tmp_path / "catalog.duckdb")) as tool:
        tool.execute("UPDATE subscribers SET previous = 5; CHECKPOINT")
    assert made.behind
    assert made.write(*rows, sequence=5, everything=True).stored
    assert len(asked) == 2
    assert made.read().subscribers["previous"].to_pylist() == [0]


def test_threads_write_and_read_at_the_same_time(written: Catalog) -> None:
    failures: list[BaseException] = []

    def work(name: str) -> None:
        try:
            for offset in range(100, 105):
                assert written.write(queues(), subscribers("orders", [name], offset), sequence=offset).stored
                assert offsets(written)[f"orders/{name}"] == offset
        except BaseException as error:  # noqa: BLE001 - handed to the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert offsets(written) == {"audit/z": 0, "orders/a": 104, "orders/b": 104, "orders/c": 104}


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_text('{other}')",
        "COPY (SELECT 1) TO '{other}'",
        "ATTACH '{other}.duckdb' AS other",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET threads = 8",
        "SELECT * FROM visible",
    ],
)
def test_the_database_reaches_nothing_but_its_own_file(tmp_path: Path, statement: str) -> None:
    visible = pa.table({"secret": [1]})
    other = tmp_path / "other"
    other.write_text("kept")
    with catalogprobe.connect(tmp_path / "catalog.duckdb", read_only=False) as connection:
        with pytest.raises(duckdb.Error):
            connection.execute(statement.format(other=other))
        assert connection.execute("SELECT current_setting('threads')").fetchall() == [(1,)]
    assert other.read_text() == "kept"
    assert visible.num_rows == 1
