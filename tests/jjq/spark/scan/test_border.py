"""One query sees everything up to now, each element once, also while blocks are sealed under its eyes."""

from __future__ import annotations

import asyncio
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jjq.spark
from coldstore.shared import batch
from jjq.spark.options import Options
from jjq.spark.scan.plan import View
from tests.jjq.spark.making import offsets
from tests.jjq.spark.sealed import Sealed, sealed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WANTED = batch.schema("bytes")


def view_of(queue: Sealed, **more: str) -> View:
    return View(Options.parse(queue.options(**more)))


async def test_what_is_sealed_between_plan_and_read_comes_once(tmp_path: Path) -> None:
    async with sealed(tmp_path) as queue:
        for _ in range(3):
            await queue.push(20)
            await queue.seal()
        await queue.push(7)
        plan = await asyncio.to_thread(planned, queue)
        await queue.push(5)
        assert await queue.seal() == 72
        found = await asyncio.to_thread(read, plan)
        assert found == list(range(67))
        assert [part.tail for part in plan if part.tail] == [(60, 67)]
        assert await asyncio.to_thread(read, await asyncio.to_thread(planned, queue)) == list(range(72))


def planned(queue: Sealed, **more: str) -> list[Any]:
    with closing(view_of(queue, **more)) as view:
        return view.partitions(view.span(), WANTED)


def read(parts: list[Any]) -> list[int]:
    return [n for part in parts for found in part.batches() for n in found.column("offset").to_pylist()]


async def test_starting_points_are_the_servers(tmp_path: Path) -> None:
    async with sealed(tmp_path) as queue:
        await queue.push(20)
        await queue.seal()
        await queue.push(10)
        await queue.store.create_subscriber("orders", "billing", "offset:17")
        for start, expected in (
            ("subscriber:billing", range(17, 30)),
            ("last:4", range(26, 30)),
            ("ago:1h", range(30)),
            ("time:2099-01-01T00:00:00Z", range(0)),
        ):
            assert await asyncio.to_thread(
                read, await asyncio.to_thread(planned, queue, start=start)
            ) == list(expected), start


async def test_queries_beside_a_loop_that_seals(spark: SparkSession, tmp_path: Path) -> None:
    async with sealed(tmp_path) as queue:
        await queue.push(50)
        done = asyncio.Event()
        sealing = asyncio.create_task(seal_until(done, queue))
        try:
            borders = set()
            for _ in range(3):
                least = queue.pushed
                found = await asyncio.to_thread(lambda: offsets(load(spark, queue)))
                assert found == list(range(len(found)))
                assert least <= len(found) <= queue.pushed
                frame = await asyncio.to_thread(
                    lambda: jjq.spark.read(spark, queue.root, "orders", server=queue.address)
                )
                found = await asyncio.to_thread(offsets, frame)
                assert found == list(range(len(found)))
                assert least <= len(found) <= queue.pushed
                borders.add((await queue.store.get_queue("orders")).cold_offset)
        finally:
            done.set()
            await sealing
        assert len(borders) == 3  # it did seal between them


def load(spark: SparkSession, queue: Sealed) -> Any:
    return spark.read.format("jjq").options(**queue.options()).load()


async def seal_until(done: asyncio.Event, queue: Sealed) -> None:
    while not done.is_set():
        await queue.push(50)
        await queue.seal()
        await queue.push(25)
        with suppress(TimeoutError):  # a pace at which Spark still gets something done
            await asyncio.wait_for(done.wait(), 0.05)


async def test_a_server_alone_is_enough(spark: SparkSession, tmp_path: Path) -> None:
    async with sealed(tmp_path) as queue:
        await queue.push(20)
        await queue.seal()
        await queue.push(10)
        options = {"server": queue.address, "queue": "orders", "start": "offset:3"}
        found = await asyncio.to_thread(
            lambda: (
                spark.read.format("jjq")
                .options(**options)
                .load()
                .selectExpr("offset", "cast(value as string)")
            ).collect()
        )
        assert sorted((row.offset, row.value) for row in found) == [(n, f"value {n}") for n in range(3, 30)]
