"""A server that is killed while tasks are taken, and a store that is closed and opened again."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

import pytest

import jjq
from tests.faults.work.judge import judge_ledger
from tests.jjq.client.conftest import SMALL
from tests.servers.jjq_server import JjqServer
from tests.servers.waiting import wait_until


def test_kill_nine_with_taken_tasks_loses_no_ack_and_hands_out_the_rest_again(tmp_path: Path) -> None:
    with JjqServer(tmp_path) as server, jjq.connect(server.address, timeout=60.0) as client:
        client.create_queue("orders")
        group = client.create_group("orders", "g")
        client.push("orders", [b"%d" % n for n in range(10)])
        with jjq.connect(server.address) as gone:
            gone.session("short", ttr=0.01)
            gone.take(group, 3, stage="synced")
            client.session("stays", ttr=60.0)
            mine = client.take(group, 3, stage="synced")
            client.ack(group, mine[0])
            server.restart()
            client.ack(group, mine[1])  # the session came back in time, and still holds it
        wait_until(lambda: client.get_group(group).tasks["taken"] == 1, "the dead session's tasks come back")
        found = client.get_group(group).tasks
        assert (found["done"], found["ready"]) == (2, 7)
        rest = client.take(group, 10)
        assert [task.id for task in rest] == [0, 1, 2, 6, 7, 8, 9]
        client.ack(group, [*rest, mine[2]])
        assert client.statistics(group).tasks["done"] == 10


@pytest.mark.timeout(300)
def test_workers_that_live_through_restarts_do_every_task(tmp_path: Path) -> None:
    done: Counter[int] = Counter()
    with JjqServer(tmp_path) as server, jjq.connect(server.address, timeout=60.0) as client:
        client.create_queue("orders")
        group = client.create_group("orders", "g", ttr=2.0)
        client.push("orders", [b"%d" % n for n in range(600)])
        lock = threading.Lock()

        def handle(task: jjq.Task) -> None:
            with lock:
                done[task.id] += 1

        with client.work(group, handle, concurrency=8):
            for part in (150, 350):
                wait_until(lambda part=part: sum(done.values()) >= part, "some are done", 60)  # type: ignore[misc]
                server.restart()
            wait_until(lambda: client.get_group(group).tasks["total"] == 0, "all are done", 120)
        rows = client.replay(group.ledger).to_table().column("value").to_pylist()
    assert judge_ledger(rows, 600) == []
    assert set(done) == set(range(600))


def test_what_is_closed_with_taken_tasks_has_them_ready_when_it_opens(tmp_path: Path) -> None:
    with jjq.open(tmp_path, settings=SMALL) as client:
        client.create_queue("orders")
        group = client.create_group("orders", "g", max_attempts=7)
        client.push("orders", [b"a", b"b", b"c"])
        assert len(client.take(group, 3)) == 3
    with jjq.open(tmp_path, settings=SMALL) as client:
        found = client.get_group(group)
        assert (found.settings.max_attempts, found.tasks["ready"]) == (7, 3)
        (task,) = client.take(group)
        assert (task.id, task.attempt) == (0, 2)
