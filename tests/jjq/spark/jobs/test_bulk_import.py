"""`import`: dense offsets in the given order, all or nothing; whatever does not fit is said in one line."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coldstore.queue import bulk_import
from coldstore.shared import batch, limits
from coldstore.shared.errors import Conflict, InvalidInput, Unavailable
from jjq.spark.jobs import bulk_import as history
from jjq.spark.jobs import tasks
from jjq.spark.jobs.bulk_import import import_history
from jjq.spark.jobs.import_columns import Shape
from tests.jjq.cli.command import Command
from tests.jjq.spark.jobs.stores import fill, opened, values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 6_000
START = 1_767_225_600


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows in no order: n (0, 5, 10 … each twice), at, who, body."""
    numbers = [n * 3_571 % ROWS for n in range(ROWS)]
    table = pa.table(
        {
            "n": pa.array([n // 2 * 5 for n in numbers], pa.int64()),
            "at": pa.array([(START + n) * 1_000_000 for n in numbers], pa.timestamp("us", "UTC")),
            "who": [None if n % 3 else f"user {n % 7}" for n in numbers],
            "body": [f"{n:06d} " + "x" * 80 for n in numbers],
        }
    )
    folder = tmp_path_factory.mktemp("source")
    for at in range(0, ROWS, 2_000):
        pq.write_table(table.slice(at, 2_000), folder / f"{at}.parquet")
    return folder


@pytest.fixture(params=["files", "rows"])
def frame(spark: SparkSession, source: Path, request: pytest.FixtureRequest) -> DataFrame:
    """Nothing but files, which Arrow may read; and the same rows after a step, which only Spark can do."""
    files = spark.read.parquet(str(source))
    return files if request.param == "files" else files.select("*")


BODIES = [f"{n:06d} " + "x" * 80 for n in range(ROWS)]


def test_parquet_becomes_blocks_in_order_with_times_and_keys(
    pipeline: Command, source: Path, tmp_path: Path
) -> None:
    done = pipeline.ok(
        "pipeline", "import", "orders", str(source), "--cold", "cold", "--order", "n", "--value", "body",
        "--time", "at", "--key", "who", "--content", "text", "--block-bytes", "64KiB", "--json",
    ).json  # fmt: skip
    assert (done["queue"], done["first"], done["next"]) == ("orders", 0, ROWS)
    store = opened(tmp_path / "cold")
    assert values(store, "orders") == BODIES  # rows with equal n in the order of their times
    queue = store.open_queue("orders")
    blocks = queue.list_blocks()
    assert len(blocks) == done["blocks"] > 6
    assert blocks[-1].chain == done["chain"]
    sizes = [block.raw_bytes for block in blocks]
    assert all(limits.BLOCK_BYTES_MIN / 2 < size < 2 * limits.BLOCK_BYTES_MIN for size in sizes), sizes
    first = next(iter(batch.elements(queue.read_block(0))))
    assert (first.key, first.timestamp) == (b"user 0", datetime(2026, 1, 1, tzinfo=UTC))
    assert store.verify("orders").ok
    assert not list((tmp_path / "cold" / "queues" / "orders" / "young").iterdir())


def test_json_lines_and_csv_are_read_as_they_are_meant(pipeline: Command, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"n": 10, "v": {"a": 1}}\n{"n": 9, "v": {"a": 2}}\n')
    (tmp_path / "in.csv").write_text("n,at,v\n10,2026-01-01T00:00:01Z,007\n9,2026-01-01T00:00:00Z,008\n")
    arguments = ["--cold", "cold", "--order", "n"]
    pipeline.ok(
        "pipeline", "import", "lines", "in.jsonl", "--format", "jsonl", "--value", "*", "--content", "json", *arguments
    )  # fmt: skip
    pipeline.ok(
        "pipeline", "import", "table", "in.csv", "--format", "csv", "--value", "v", "--time", "at", *arguments
    )
    store = opened(tmp_path / "cold")
    assert values(store, "lines") == ['{"n":9,"v":{"a":2}}', '{"n":10,"v":{"a":1}}']
    assert values(store, "table") == [b"008", b"007"]
    block = store.open_queue("table").list_blocks()[0]
    assert (block.min_timestamp_us, block.max_timestamp_us) == (START * 1_000_000, (START + 1) * 1_000_000)


def test_an_idle_queue_goes_on_after_its_end(frame: DataFrame, tmp_path: Path) -> None:
    store = opened(tmp_path)
    fill(store, "orders", finals=2, length=10)
    with pytest.raises(Conflict, match="queue orders exists"):
        import_history(frame, str(tmp_path), "orders", order="n", value="body")
    done = import_history(frame, str(tmp_path), "orders", order=["n", "at"], value="body", idle=True)
    assert (done.first, done.next) == (20, 20 + ROWS)
    assert values(store, "orders")[19:22] == [b"orders 19", BODIES[0].encode(), BODIES[1].encode()]
    assert store.verify("orders").ok


Change = Callable[["DataFrame"], "DataFrame"]


def same(frame: DataFrame) -> DataFrame:
    return frame


def with_null(name: str) -> Change:
    def change(frame: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        return frame.withColumn(name, f.when(frame["n"] != 5, frame[name]))

    return change


BAD: list[tuple[Change, dict[str, Any], str]] = [
    (same, {"value": "nope"}, "there is no column nope: the source has n, at, who, body"),
    (same, {"order": "nope"}, "there is no column nope"),
    (same, {"order": ()}, "say by which column"),
    (same, {"value": "n"}, "column n is bigint; a value is text or bytes"),
    (same, {"key": "at"}, "column at is timestamp; a key is text or bytes"),
    (same, {"time": "n"}, "column n is bigint; times are timestamps"),
    (same, {"headers": "who"}, "column who is string; headers are"),
    (same, {"time": "who"}, "column who is null, or no time, in 6000 rows"),
    (same, {"value": "*"}, "only a json queue can hold whole rows"),
    (same, {"content": "json"}, "is not JSON"),
    (with_null("body"), {}, "column body is null in 2 rows"),
    (with_null("n"), {}, "column n is null in 2 rows"),
    (lambda frame: frame.where("n < 0"), {}, "the source has no rows"),
    (
        lambda frame: frame.selectExpr("n", "body", "map('jjq-a', body) as labels"),
        {"headers": "labels"},
        "its header 'jjq-a' is reserved",
    ),
]


@pytest.mark.parametrize(("change", "options", "said"), BAD, ids=[text[:30] for _, _, text in BAD])
def test_a_source_that_does_not_fit_is_refused_and_leaves_nothing(
    frame: DataFrame, tmp_path: Path, change: Change, options: dict[str, Any], said: str
) -> None:
    store = opened(tmp_path)
    fill(store, "other")
    before = sorted(tmp_path.rglob("*.json"))
    with pytest.raises(InvalidInput) as error:
        import_history(
            change(frame),
            str(tmp_path),
            "orders",
            **{"order": "n", "value": "body", "content": "text"} | options,
        )
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert sorted(tmp_path.rglob("*.json")) == before
    assert not list(tmp_path.rglob("*.parquet"))


def test_a_crash_of_the_driver_leaves_nothing_visible_and_a_rerun_ends_it(
    frame: DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(tmp_path)
    fill(store, "other")
    monkeypatch.setattr(history, "PUBLISH_BLOCKS", 3)
    publish = history._publish_run
    published: list[int] = []

    def dies(*args: Any) -> None:
        published.append(1)
        if len(published) == 3:
            raise Unavailable("the driver is gone")
        publish(*args)

    def here(_spark: Any, _what: str, items: list[Any], work: Callable[[Any], Any], *_: Any) -> list[Any]:
        return [work(item) for item in items]

    options: dict[str, Any] = {"order": "n", "value": "body", "block_bytes": limits.BLOCK_BYTES_MIN}
    with monkeypatch.context() as patched:
        patched.setattr(history, "_publish_run", dies)
        patched.setattr(tasks, "run", here)
        patched.setattr(bulk_import, "abandon", lambda *_: None)  # a process that dies does not clean up
        with pytest.raises(Unavailable, match="the driver is gone"):
            import_history(frame, str(tmp_path), "orders", **options)
    data = list((tmp_path / "queues" / "orders" / "data").iterdir())
    assert len(data) == 6
    assert store.queue_names() == ["other"]
    with pytest.raises(Conflict, match="is being imported"):
        store.open_queue("orders")
    import_history(frame, str(tmp_path), "orders", **options)
    assert values(store, "orders") == [body.encode() for body in BODIES]
    assert store.verify("orders").ok


TIMES = {
    "2026-01-01T00:00:00Z": START,
    "2026-01-01 00:00:00+00": START,
    "2026-01-01 00:00:00.25 +0100": START - 3600 + 0.25,
    "2026-01-01T02:30:00+02:30": START,
    "2026-01-01 00:00:00-05": START + 5 * 3600,
    " 2026-01-01 ": START,
    "2026-01": START,
    "soon": None,
    "1767225600": None,
}


def test_times_are_read_in_their_usual_spellings(spark: SparkSession) -> None:
    texts = spark.createDataFrame([(text,) for text in TIMES], "at string")
    shape = Shape(order=("at",), value="at", time="at")
    found = texts.select("at", shape.microseconds(texts).alias("us")).collect()
    assert {row["at"]: row["us"] for row in found} == {
        text: None if seconds is None else int(seconds * 1_000_000) for text, seconds in TIMES.items()
    }
    numbers = spark.createDataFrame(
        [(START, START + 0.5, f"{START}.5")], "whole long, part double, text string"
    )
    for column, unit, expected in (
        ("whole", "s", START * 1_000_000),
        ("whole", "ms", START * 1_000),
        ("whole", "us", START),
        ("part", "s", START * 1_000_000 + 500_000),
        ("text", "ms", START * 1_000 + 500),
    ):
        counted = Shape(order=("whole",), time=column, time_unit=unit).microseconds(numbers)  # type: ignore[arg-type]
        row = numbers.select(counted.alias("us")).first()
        assert row is not None
        assert row["us"] == expected, (column, unit)


def test_a_time_that_is_none_is_shown_with_the_forms_that_are(pipeline: Command, tmp_path: Path) -> None:
    lines = [f"{n},2026-01-01 00:00:0{n}+00,a" for n in range(5)]
    (tmp_path / "in.csv").write_text("\n".join(["n,at,v", *lines, "9,next week,b\n"]))
    words = ["--format", "csv", "--cold", "cold", "--order", "n", "--value", "v", "--time", "at"]
    ran = pipeline("pipeline", "import", "times", "in.csv", *words)
    assert (ran.code, ran.errors.count("\n")) == (2, 1), ran
    assert (
        "no time, in 1 rows, for instance 'next week': times are timestamps, dates, text such as"
        in ran.errors
    )
    (tmp_path / "in.csv").write_text("\n".join(["n,at,v", *lines]))
    pipeline.ok("pipeline", "import", "times", "in.csv", *words)
    block = opened(tmp_path / "cold").open_queue("times").list_blocks()[0]
    assert (block.min_timestamp_us, block.max_timestamp_us) == (START * 1_000_000, (START + 4) * 1_000_000)
