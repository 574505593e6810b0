"""Replays: ranges as Arrow, without a subscriber."""

from __future__ import annotations

import asyncio

import pytest

from coldstore.shared.batch import schema
from coldstore.shared.errors import InvalidInput, NotFound
from jjq.client.client import AsyncClient


async def prepared(client: AsyncClient, count: int = 5) -> None:
    await client.create_queue("orders", content="text")
    for n in range(count):
        await client.push("orders", [str(n)])


async def test_a_replay_gives_a_range_as_record_batches(client: AsyncClient) -> None:
    await prepared(client)
    values = []
    async for batch in client.replay("orders", start="offset:1", end="last:1"):
        values += batch.column("value").to_pylist()
    assert values == ["1", "2", "3"]


async def test_a_replay_becomes_a_table_and_a_data_frame(client: AsyncClient) -> None:
    await prepared(client)
    table = await client.replay("orders").to_table()
    assert table.schema.equals(schema("text"))
    assert table.column("offset").to_pylist() == [0, 1, 2, 3, 4]
    frame = await client.replay("orders", start="last:2").to_pandas()
    assert list(frame["value"]) == ["3", "4"]


async def test_an_empty_replay_has_columns_all_the_same(client: AsyncClient) -> None:
    await prepared(client, 0)
    table = await client.replay("orders").to_table()
    assert (table.num_rows, table.schema) == (0, schema("text"))
    assert await client.replay("orders").next() is None


async def test_a_replay_that_follows_sees_what_is_pushed_meanwhile(client: AsyncClient) -> None:
    await prepared(client, 1)
    replay = client.replay("orders", follow=True)
    async with asyncio.timeout(20):
        assert (await anext(replay)).num_rows == 1
        waiting = asyncio.create_task(replay.next())
        await client.push("orders", ["more"])
        batch = await waiting
    assert batch is not None
    assert batch.column("value").to_pylist() == ["more"]
    await replay.close()
    with pytest.raises(InvalidInput, match="never ends"):
        await client.replay("orders", follow=True).to_table()


async def test_a_replay_may_be_left_in_the_middle(client: AsyncClient) -> None:
    await prepared(client)
    replay = client.replay("orders")
    assert (await anext(replay)).column("offset")[0].as_py() == 0
    await replay.close()
    await replay.close()
    assert await replay.next() is None, "it is at its end"
    follows = client.replay("orders", start="last:1", follow=True)
    assert (await anext(follows)).column("value").to_pylist() == ["4"]
    await follows.close()
    async with asyncio.timeout(20):
        assert await follows.next() is None, "it waits for nothing any more"
    assert (await client.replay("orders").to_table()).num_rows == 5, "others are not concerned"


async def test_a_replay_of_nothing_known_says_so(client: AsyncClient) -> None:
    with pytest.raises(NotFound, match="nope"):
        await client.replay("nope").next()
    await prepared(client)
    with pytest.raises(InvalidInput, match="after its end"):
        await client.replay("orders", start="end", end="beginning").next()
