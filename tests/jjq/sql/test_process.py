"""Queries on a server: in a process of their own, limited, and gone when nobody wants their rows."""

from __future__ import annotations

import asyncio
import re
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest

import jjq
from coldstore.shared.batch import payload
from coldstore.shared.errors import Exhausted, InvalidInput, NotFound, OutOfRange, Unavailable
from coldstore.shared.limits import BLOCK_BYTES_MIN, MIB
from hotstore.port import Store
from jjq.sql import frames, process, worker
from jjq.sql.process import ProcessQueries
from jjq.sql.query import QueryLimits, make_query
from tests.jjq.serving import hot_store, until
from tests.jjq.sql.hostile import REFUSED, STOPPED
from tests.servers.jjq_server import JjqServer

LIMITS = QueryLimits(60.0, 256 * MIB, 2, 1)
ENDLESS = "SELECT sum(hash(x)) FROM range(1000000000000) t(x)"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JjqServer]:
    flags = ("--sql-bytes-max", "256MiB", "--sql-queries-max", "2")
    with JjqServer(tmp_path_factory.mktemp("server"), *flags) as made:
        with jjq.connect(made.address) as client:
            client.create_queue("orders", content="json", block_bytes=BLOCK_BYTES_MIN)
            for first in range(0, 2_000, 500):
                client.push(
                    "orders", [f'{{"n": {n}, "pad": "{"x" * 60}"}}' for n in range(first, first + 500)]
                )
            client.seal("orders")
            client.push("orders", ['{"n": 2000}'])
        yield made


@pytest.fixture(scope="module")
def client(server: JjqServer) -> Iterator[jjq.Client]:
    with jjq.connect(server.address) as made:
        yield made


def workers(server: JjqServer) -> list[psutil.Process]:
    return psutil.Process(server.process.pid).children()


def test_rows_errors_and_parameters_pass_through_the_process(client: jjq.Client, server: JjqServer) -> None:
    query = "SELECT count(*) AS n, sum((value->>'n')::INT)::BIGINT AS s FROM orders WHERE offset >= $1"
    assert client.sql(query, [1_999]).to_pylist() == [{"n": 2, "s": 3_999}]
    assert client.sql("SELECT 1 AS a WHERE false").to_table().schema.names == ["a"]
    rows = client.sql("SELECT * FROM orders, range(20)").to_table()
    assert rows.num_rows == 2_001 * 20
    assert client.sql("SELECT name FROM jjq.queues").to_pylist() == [{"name": "orders"}]
    with pytest.raises(NotFound, match="nearest: orders"):
        client.sql("SELECT * FROM ordres").to_table()
    with pytest.raises(InvalidInput, match="vlaue"):
        client.sql("SELECT vlaue FROM orders").to_table()
    with pytest.raises(InvalidInput, match="is refused"):
        client.sql("COPY orders TO '/tmp/x'").to_table()
    with pytest.raises(InvalidInput, match="row of the result"):
        client.sql("SELECT repeat('x', 40000000)").to_table()
    until_gone(server)


def until_gone(server: JjqServer) -> None:
    from tests.servers.waiting import wait_until

    wait_until(lambda: not workers(server), "no process of a query is left", 20)


def test_in_the_callers_process_with_the_tail_from_the_server(client: jjq.Client, server: JjqServer) -> None:
    cold = str(server.data / "cold")
    query = "SELECT count(*) AS n, max((value->>'n')::INT) AS m FROM orders"
    assert client.sql(query, cold=cold).to_pylist() == [{"n": 2_001, "m": 2_000}]
    assert client.sql("SELECT alive FROM jjq.nodes", cold=cold).to_pylist() == [{"alive": True}]
    assert client.sql("SELECT queue FROM jjq.shards", cold=cold).to_pylist() == [{"queue": "orders"}]
    assert not workers(server)
    with pytest.raises(InvalidInput, match="nothing was ever written"):
        client.sql(query, cold=str(server.folder / "elsewhere")).to_table()
    with pytest.raises(InvalidInput, match="give cold"):
        client.sql(query, s3=jjq.S3Settings())


def test_a_query_ends_with_its_caller(client: jjq.Client, server: JjqServer) -> None:
    with client.sql("SELECT * FROM range(1000000000000)") as rows:
        assert next(rows).num_rows
        assert workers(server)
        assert workers(server)[0].nice() >= 10
    until_gone(server)
    with pytest.raises(InvalidInput, match=r"stopped after 1\.5 s"):
        client.sql(ENDLESS, timeout=1.5).to_table()
    until_gone(server)


def test_a_client_that_is_killed_leaves_no_query_behind(server: JjqServer) -> None:
    import subprocess
    import sys

    from tests.servers.waiting import wait_until

    code = f"import jjq; jjq.connect({server.address!r}).sql({ENDLESS!r}).to_table()"
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL) as asking:
        wait_until(lambda: bool(workers(server)), "the query runs", 30)
        asking.kill()
    until_gone(server)


def test_a_server_that_is_killed_leaves_no_query_behind(tmp_path: Path) -> None:
    from threading import Thread

    from tests.servers.waiting import wait_until

    with JjqServer(tmp_path) as made, jjq.connect(made.address, timeout=1.0) as client:

        def ask() -> None:
            with pytest.raises(Unavailable):
                client.sql(ENDLESS).to_table()

        asking = Thread(target=ask)
        asking.start()
        wait_until(lambda: bool(workers(made)), "the query runs", 30)
        (running,) = workers(made)
        made.kill()
        wait_until(lambda: not running.is_running(), "the process of the query is gone", 20)
        asking.join(30)
        assert not asking.is_alive()


def test_too_many_at_once_are_told_to_wait(client: jjq.Client, server: JjqServer) -> None:
    endless = "SELECT * FROM range(1000000000000)"
    with jjq.connect(server.address, timeout=0.5) as impatient:
        with client.sql(endless) as one, client.sql(endless) as two:
            next(one)
            next(two)
            with pytest.raises(Exhausted, match="2 queries already"):
                impatient.sql("SELECT 1").to_table()
        until_gone(server)
    assert client.sql("SELECT 1 AS one").to_pylist() == [{"one": 1}]


def test_a_server_may_answer_no_queries(tmp_path: Path) -> None:
    with (
        JjqServer(tmp_path, "--sql-queries-max", "0") as made,
        jjq.connect(made.address) as client,
        pytest.raises(InvalidInput, match="answers no queries"),
    ):
        client.sql("SELECT 1").to_table()


# The process by itself ------------------------------------------------------------------------------------


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with hot_store(tmp_path) as made:
        await made.create_queue("orders", content="text")
        await made.push("orders", payload("text", ["a", "b"]))
        yield made


def queries_of(store: Store, tmp_path: Path, limits: QueryLimits = LIMITS) -> ProcessQueries:
    return ProcessQueries(store, None, str(tmp_path / "cold"), None, limits)


async def rows_of(queries: ProcessQueries, query: str, seconds: float | None = None) -> list[dict[str, Any]]:
    async with aclosing(queries.run(make_query(query, seconds=seconds))) as rows:  # type: ignore[type-var]
        return pa.Table.from_batches([batch async for batch in rows]).to_pylist()


async def test_hostile_queries_are_stopped(store: Store, tmp_path: Path) -> None:
    """Some at a time: most of them end only when their time is over."""
    queries = queries_of(store, tmp_path, QueryLimits(60.0, 256 * MIB, 4, 1))
    for some in (STOPPED[:4], STOPPED[4:]):
        outcomes = await asyncio.gather(
            *(rows_of(queries, query, seconds=4.0) for query in some), return_exceptions=True
        )
        for query, outcome in zip(some, outcomes, strict=True):
            assert isinstance(outcome, InvalidInput), (query, outcome)
            assert re.search(r"was stopped|has died", str(outcome)), (query, outcome)


async def test_hostile_queries_are_refused(store: Store, tmp_path: Path) -> None:
    """The whole list is tried in the caller's process; here a few, as each starts a process."""
    queries = queries_of(store, tmp_path)
    for query in REFUSED[2::32]:
        if query.strip():
            with pytest.raises((InvalidInput, NotFound)):
                await rows_of(queries, query)


async def test_history_that_only_the_server_can_read(store: Store) -> None:
    await store.seal("orders")
    queries = ProcessQueries(store, None, "memory:", None, LIMITS)
    assert await rows_of(queries, "SELECT max(value) AS m FROM orders") == [{"m": "b"}]


async def test_the_environment_of_a_server_is_not_for_queries(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JJQ_S3_SECRET_KEY", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    assert not {"JJQ_S3_SECRET_KEY", "AWS_SECRET_ACCESS_KEY"} & set(
        queries_of(store, tmp_path)._environment()
    )
    cloud = ProcessQueries(store, None, "s3://bucket/x", None, LIMITS)
    assert "AWS_SECRET_ACCESS_KEY" in cloud._environment()


async def test_a_process_that_dies_is_noticed(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_START", "import os; os._exit(3)")
    with pytest.raises(InvalidInput, match="has died"):
        await rows_of(queries_of(store, tmp_path), "SELECT 1")
    monkeypatch.setattr(
        process, "_START", "import sys; sys.stdout.buffer.write(b'x' * 100); sys.stdout.flush()"
    )
    with pytest.raises(Unavailable, match="not a frame"):
        await rows_of(queries_of(store, tmp_path), "SELECT 1")


async def test_a_stopping_server_stops_queries(store: Store, tmp_path: Path) -> None:
    queries = queries_of(store, tmp_path)
    running = asyncio.create_task(rows_of(queries, ENDLESS))
    await until(lambda: bool(queries._running))
    await queries.close()
    with pytest.raises(Unavailable, match="stopping"):
        await running
    with pytest.raises(Unavailable, match="stopping"):
        await rows_of(queries, "SELECT 1")


def test_errors_keep_their_kind_between_processes() -> None:
    lost = OutOfRange("no", first=1, next=5)
    frame = frames.error_frame(lost)
    kind, size = frames.unpack(frame[: frames.HEADER.size])
    found = frames.error_in(frame[frames.HEADER.size :])
    assert (kind, size) == (frames.FAILED, len(frame) - frames.HEADER.size)
    assert isinstance(found, OutOfRange)
    assert (found.message, found.first, found.next) == ("no", 1, 5)
    assert isinstance(frames.error_in(frames.error_frame(Exhausted("x", retry_after=3))[5:]), Exhausted)
    for nonsense in (b"", b"[]", b"{}", b'{"code":"X","message":"","details":{}}'):
        assert isinstance(frames.error_in(nonsense), Unavailable)
    for wrong in (struct.pack(">BI", 99, 1), struct.pack(">BI", 1, 2**31)):
        with pytest.raises(Unavailable, match="not a frame"):
            frames.unpack(wrong)
    with pytest.raises(Unavailable, match="not an Arrow"):
        frames.from_stream(b"xx")
    assert worker.main.__doc__
