"""The pushes of a task against a real server: attempts fail anywhere, run again and run side by side."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import jjq
from coldstore.shared.batch import payload
from coldstore.shared.errors import Conflict, InvalidInput
from coldstore.shared.limits import PRODUCER_RECEIPTS_MAX
from jjq.spark.server import ServerConnection
from jjq.spark.write.pushes import Pushes, PushTask
from tests.jjq.spark.serving import Serving
from tests.servers.jjq_server import JjqServer

COUNT = PRODUCER_RECEIPTS_MAX + 6  # pushes of a task, so that it needs a second producer


@pytest.fixture
def server(serving: Serving) -> Iterator[ServerConnection]:
    with ServerConnection(serving.address) as made:
        yield made


def parts(count: int = COUNT) -> list[pa.RecordBatch]:
    return [payload("bytes", [b"%d-%d" % (n, i) for i in range(3)]) for n in range(count)]


def values(batches: list[pa.RecordBatch]) -> list[bytes]:
    return [value for batch in batches for value in batch.column("value").to_pylist()]


def pushes(server: ServerConnection, queue: str, name: str = "task") -> Pushes:
    return Pushes(server, PushTask(queue, name, "synced"))


class Failed(Exception):
    """What makes a task fail."""


def broken(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
    raise Failed


def test_a_task_pushes_its_rows_in_order(serving: Serving, server: ServerConnection) -> None:
    queue = serving.new_queue()
    task = pushes(server, queue)
    task.run(parts())
    assert (task.pushed, task.found) == (3 * COUNT, 0)
    assert serving.values(queue) == values(parts())


def test_a_task_without_rows_pushes_nothing(serving: Serving, server: ServerConnection) -> None:
    queue = serving.new_queue()
    pushes(server, queue).run([])
    assert serving.client.get_queue(queue).next_offset == 0


@pytest.mark.parametrize("done", [1, 2, 9, PRODUCER_RECEIPTS_MAX, PRODUCER_RECEIPTS_MAX + 1, COUNT])
def test_an_attempt_after_a_failed_one_adds_only_what_is_missing(
    serving: Serving, server: ServerConnection, done: int
) -> None:
    queue = serving.new_queue()
    with pytest.raises(Failed):
        pushes(server, queue).run(broken(parts(done)))
    before = serving.client.get_queue(queue).next_offset
    again = pushes(server, queue)
    again.run(parts())
    assert (again.found, again.pushed) == (before, 3 * COUNT - before)
    assert serving.values(queue) == values(parts())
    once_more = pushes(server, queue)
    once_more.run(parts())
    assert (once_more.found, once_more.pushed) == (3 * COUNT, 0)
    assert len(serving.values(queue)) == 3 * COUNT


def test_an_attempt_whose_rows_come_in_another_order_adds_only_what_is_missing(
    serving: Serving, server: ServerConnection
) -> None:
    queue = serving.new_queue()
    with pytest.raises(Failed):
        pushes(server, queue).run(broken(parts(20)))
    again = pushes(server, queue)
    again.run(parts()[::-1])
    assert again.found > 0
    assert sorted(serving.values(queue)) == sorted(values(parts()))


@pytest.mark.parametrize("rows", [[b"other"], [b"0-0", b"0-1", b"other"], [b"0-0"]])
def test_an_attempt_with_other_rows_fails_and_says_so(
    serving: Serving, server: ServerConnection, rows: list[bytes]
) -> None:
    queue = serving.new_queue()
    pushes(server, queue).run(parts(2))
    with pytest.raises(Conflict, match="differ from attempt to attempt"):
        pushes(server, queue).run([payload("bytes", rows)])
    assert set(values(parts(2))) <= set(serving.values(queue))


def test_attempts_side_by_side_write_each_row_once(serving: Serving, server: ServerConnection) -> None:
    queue = serving.new_queue()
    inner = pushes(server, queue)

    def overtaken() -> Iterator[pa.RecordBatch]:
        """The rows; half-way another attempt runs from beginning to end."""
        yield from parts()[:20]
        inner.run(parts())
        yield from parts()[20:]

    outer = pushes(server, queue)
    outer.run(overtaken())
    assert serving.values(queue) == values(parts())
    assert outer.found > 0
    assert outer.pushed + inner.pushed == 3 * COUNT


def test_a_server_that_is_killed_meanwhile_gets_each_row_once(tmp_path: Path) -> None:
    with JjqServer(tmp_path) as process, jjq.connect(process.address) as client:
        client.create_queue("orders")

        def rows() -> Iterator[pa.RecordBatch]:
            for n, part in enumerate(parts()):
                if n == 20:
                    process.restart()
                yield part

        with ServerConnection(process.address) as server:
            pushes(server, "orders").run(rows())
        assert client.replay("orders").to_table().column("value").to_pylist() == values(parts())


def test_tasks_do_not_know_each_other(serving: Serving, server: ServerConnection) -> None:
    queue = serving.new_queue()
    for name in ("one", "two"):
        pushes(server, queue, name).run(parts(2))
    assert serving.values(queue) == values(parts(2)) * 2


def test_an_element_that_the_queue_refuses_is_named(serving: Serving, server: ServerConnection) -> None:
    queue = serving.new_queue(content="json")
    with pytest.raises(InvalidInput, match="is not JSON"):
        pushes(server, queue).run([payload("json", ["1"]), payload("json", ["{"])])


def test_a_question_about_earlier_attempts_is_never_written(
    serving: Serving, server: ServerConnection
) -> None:
    queue = serving.new_queue(content="json")
    rows = [payload("json", ["1", "2"])]
    for _ in range(2):
        pushes(server, queue).run(rows)
    assert serving.values(queue) == ["1", "2"]
