"""Worker groups as tables of Spark: their transitions, and one row for each task."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import jjq.spark
from tests.jjq.spark.serving import Serving

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def queue(serving: Serving) -> str:
    """A queue of five tasks: done, failed and delayed, buried, taken, ready."""
    client, name = serving.client, serving.new_queue()
    client.push(name, [b"%d" % n for n in range(5)], keys=[b"k"] * 5)
    group = client.create_group(name, "g")
    tasks = client.take(group, 2, stage="synced", worker="w1")
    client.ack(group, tasks[0])
    client.nack(group, tasks[1], delay=10_000.0, reason="no ink")
    client.bury(group, [2], reason="odd")
    client.take(group, 1, stage="synced", ttr=10_000.0)
    client.seal(name)
    client.seal(f"{name}~g")
    return name


def rows(frame: Any, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in frame.collect()]


@pytest.mark.parametrize("where", ["root", "both"])
def test_transitions_are_the_rows_of_the_ledger(
    spark: SparkSession, serving: Serving, queue: str, where: str
) -> None:
    server = serving.address if where == "both" else None
    frame = jjq.spark.transitions(spark, serving.root, queue, "g", server=server).where("state IS NOT NULL")
    assert rows(frame.orderBy("offset"), "task", "count", "event", "state", "attempt", "reason") == [
        (0, 2, "take", "taken", 1, None),
        (0, 1, "ack", "done", 1, None),
        (1, 1, "nack", "delayed", 1, "no ink"),
        (2, 1, "bury", "buried", 0, "odd"),
        (3, 1, "take", "taken", 1, None),
    ]


def test_tasks_have_their_element_and_what_became_of_them(
    spark: SparkSession, serving: Serving, queue: str
) -> None:
    frame = jjq.spark.tasks(spark, serving.root, queue, "g")
    assert rows(frame, "task", "state", "attempts", "last_error", "worker", "value", "key") == [
        (0, "done", 1, None, "w1", b"0", b"k"),
        (1, "delayed", 1, "no ink", "w1", b"1", b"k"),
        (2, "buried", 0, "odd", None, b"2", b"k"),
        (3, "taken", 1, None, None, b"3", b"k"),
        (4, "ready", 0, None, None, b"4", b"k"),
    ]
    first, second = frame.collect()[:2]
    assert first["run_seconds"] == (first["done"] - first["first_taken"]).total_seconds() > 0
    assert first["wait_seconds"] == (first["first_taken"] - first["pushed"]).total_seconds() > 0
    assert second["done"] is second["run_seconds"] is None


def test_tasks_as_they_were_and_as_a_server_has_them_now(
    spark: SparkSession, serving: Serving, queue: str
) -> None:
    client = serving.client
    ledger = jjq.spark.transitions(spark, serving.root, queue, "g")
    ((made,),) = rows(ledger.where("event = 'create'"), "time")
    frame = jjq.spark.tasks(spark, serving.root, queue, "g", at=made.astimezone(UTC))
    assert rows(frame, "state") == [("ready",)] * 5
    later = datetime.now(UTC) + timedelta(seconds=20_000)  # noqa: TID251 - the server's clock is this one
    frame = jjq.spark.tasks(spark, serving.root, queue, "g", at=later)
    assert rows(frame.where("task = 1"), "state") == [("ready",)]  # its delay is over by then
    client.create_group(queue, "new")
    client.delete_tasks(f"{queue}/new", [4])
    frame = jjq.spark.tasks(spark, serving.root, queue, "new", server=serving.address)
    assert rows(frame, "state") == [("ready",)] * 4 + [("done",)]
    client.seek_group(f"{queue}/new", 3)
    frame = jjq.spark.tasks(spark, serving.root, queue, "new", server=serving.address)
    assert rows(frame, "task", "state") == [(3, "ready"), (4, "ready")]
    client.delete_group(f"{queue}/new")
    assert jjq.spark.tasks(spark, serving.root, queue, "new", server=serving.address).count() == 0


def test_delays_of_pushes_are_known_where_the_driver_uses_them(spark: SparkSession, serving: Serving) -> None:
    client, name = serving.client, serving.new_queue()
    client.create_group(name, "g", driver="fifottl", delay=5_000.0)
    client.create_group(name, "plain")
    client.push(name, [b"0", b"1"], delay=[10_000.0, 0.0])
    client.push(name, [b"2"])
    frame = jjq.spark.tasks(spark, serving.root, name, "g", server=serving.address)
    assert rows(frame, "state") == [("delayed",), ("ready",), ("delayed",)]
    later = datetime.now(UTC) + timedelta(seconds=6_000)  # noqa: TID251 - the server's clock is this one
    frame = jjq.spark.tasks(spark, serving.root, name, "g", at=later, server=serving.address)
    assert rows(frame, "state") == [("delayed",), ("ready",), ("ready",)]
    frame = jjq.spark.tasks(spark, serving.root, name, "plain", server=serving.address)
    assert rows(frame, "state") == [("ready",)] * 3
    found = client.tasks_at(f"{name}/g", datetime.now(UTC))  # noqa: TID251 - as above
    assert found.column("state").to_pylist() == ["delayed", "ready", "delayed"]


def test_mistakes_are_told(spark: SparkSession, serving: Serving, queue: str) -> None:
    with pytest.raises(jjq.NotFound, match="has no group none"):
        jjq.spark.transitions(spark, serving.root, queue, "none")
    with pytest.raises(jjq.InvalidInput, match="at is"):
        jjq.spark.tasks(spark, serving.root, queue, "g", at="yesterday")  # type: ignore[arg-type]
    with pytest.raises(jjq.InvalidInput, match="zone"):
        jjq.spark.tasks(spark, serving.root, queue, "g", at=datetime(2026, 1, 1))  # noqa: DTZ001 - that is it
