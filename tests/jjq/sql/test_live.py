"""SQL over a live queue says what the log says, while blocks seal and merge, and the server is killed.

The oracle is the list of values that were pushed, in order. Whatever a query sees is a prefix of it, each element once,
at least as long as what was acknowledged before the query began.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import jjq
from coldstore.objects.local import LocalObjects
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.shared.limits import BLOCK_BYTES_MIN, MIB
from coldstore.store import ColdStore
from tests.servers.jjq_server import JjqServer
from tests.servers.waiting import wait_until

SMALL = jjq.HotSettings(segment_bytes=32 * MIB, journal_bytes_max=256 * MIB)
PAD = "x" * 200


def values(first: int, count: int) -> list[str]:
    return [f"{n}:{PAD}" for n in range(first, first + count)]


# One row: elements, different offsets, the last offset, and elements that are not what the log says.
QUERY = f"""
    SELECT count(*) AS n, count(DISTINCT offset) AS different, coalesce(max(offset), -1) AS last,
           count(*) FILTER (WHERE value <> offset::VARCHAR || ':{PAD}') AS wrong
    FROM q
"""


def judge(rows: list[dict[str, Any]], least: int) -> int:
    """What a query saw is a prefix of the log; how long it is."""
    (row,) = rows
    count: int = row["n"]
    assert row == {"n": count, "different": count, "last": count - 1, "wrong": 0}
    assert count >= least, f"{least} elements were acknowledged, and {count} are seen"
    return count


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("push"), st.integers(1, 400)),
        st.tuples(
            st.sampled_from(["seal", "merge", "sweep", "restart", "query", "slice"]), st.integers(0, 3_000)
        ),
    ),
    min_size=4,
    max_size=14,
)


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_a_query_sees_the_log(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]) -> None:
    folder = tmp_path_factory.mktemp("live")
    client = jjq.open(folder, settings=SMALL)
    client.create_queue("q", content="text", block_bytes=BLOCK_BYTES_MIN)
    pushed = 0
    try:
        for step, number in [*steps, ("query", 0)]:
            if step == "push":
                client.push("q", values(pushed, number))
                pushed += number
            elif step == "seal":
                client.seal("q")
            elif step in {"merge", "sweep"}:
                queue = ColdStore(LocalObjects(folder / "cold"), SystemClock(), SystemChance()).open_queue(
                    "q"
                )
                queue.merge(everything=True)
                if step == "sweep":
                    queue.sweep(grace_seconds=-1)
            elif step == "restart":
                client.close()
                client = jjq.open(folder, settings=SMALL)
            elif step == "slice":
                found = client.sql(
                    "SELECT value FROM q WHERE offset >= $1 AND offset < $1 + 50 ORDER BY offset", [number]
                )
                assert [row["value"] for row in found.to_pylist()] == values(number, 50)[
                    : max(0, pushed - number)
                ]
            else:
                assert judge(client.sql(QUERY).to_pylist(), pushed) == pushed
                assert client.sql("SELECT count(*) AS n FROM q").to_pylist() == [{"n": pushed}]
    finally:
        client.close()


class _Pusher:
    """Pushes numbered values, each batch again until it is acknowledged; `acked` counts."""

    def __init__(self, address: str) -> None:
        self.acked = 0
        self._client = jjq.connect(address, timeout=5.0)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        sequence = 0
        while not self._stop.wait(0.005):
            try:
                self._client.push("q", values(self.acked, 100), producer="p", sequence=sequence)
            except jjq.Unavailable:
                continue
            sequence += 1
            self.acked += 100

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive()
        self._client.close()


def again(ask: Callable[[], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """What `ask` says, asked again while the server restarts."""
    found: list[list[dict[str, Any]]] = []

    def try_once() -> bool:
        try:
            found.append(ask())
        except jjq.Unavailable:
            return False
        return True

    wait_until(try_once, "the query is answered", 60)
    return found[0]


def test_a_query_sees_the_log_while_the_server_is_killed(tmp_path: Path) -> None:
    with JjqServer(tmp_path) as server, jjq.connect(server.address, timeout=10.0) as client:
        client.create_queue("q", content="text", block_bytes=BLOCK_BYTES_MIN, block_seconds=1.0)
        cold = str(server.data / "cold")
        pusher = _Pusher(server.address)
        try:
            seen = 0
            for turn in range(3):
                wait_until(lambda least=seen + 500: pusher.acked >= least, "more was pushed", 60)  # type: ignore[misc]
                for where in (cold, None, cold):
                    least = pusher.acked
                    rows = again(lambda place=where: client.sql(QUERY, cold=place).to_pylist())  # type: ignore[misc]
                    seen = max(judge(rows, least), seen)
                if turn < 2:
                    server.restart()
        finally:
            pusher.stop()
        assert judge(client.sql(QUERY, cold=cold).to_pylist(), pusher.acked) == pusher.acked
        blocks = client.sql("SELECT kind, count(*) AS n FROM jjq.blocks GROUP BY kind", cold=cold).to_pylist()
        assert sum(row["n"] for row in blocks if row["kind"] in {"final", "young"}) > 1
