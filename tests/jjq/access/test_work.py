"""Keys and worker groups: who may take, who may push what a task leads to, and who may read a ledger."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import jjq
from coldstore.shared.errors import Denied
from jjq.client.client import AsyncClient
from jjq.remote.groups.group_store import RemoteWorkStore
from jjq.remote.settings import RemoteSettings
from tests.jjq.access.keyed import Keyed, keyed
from tests.jjq.serving import numbers


@asynccontextmanager
async def client_with(doors: Keyed, *scopes: str) -> AsyncIterator[AsyncClient]:
    settings = RemoteSettings(timeout_seconds=20.0, key=await doors.make(*scopes))
    async with RemoteWorkStore(doors.server.address, settings) as store, AsyncClient(store) as client:
        yield client


@pytest.fixture
async def doors(tmp_path: Path) -> AsyncIterator[Keyed]:
    async with keyed(tmp_path) as made:
        for queue in ("orders", "invoices", "other"):
            await made.store.create_queue(queue)
        await made.store.push("orders", numbers(0, 10))
        async with RemoteWorkStore(made.server.address) as store, AsyncClient(store) as client:
            await client.create_group("orders", "g")
            await client.create_group("other", "g")
        await made.make("admin")
        yield made


async def test_a_worker_takes_and_acks_with_the_right_to_work_and_no_other(doors: Keyed) -> None:
    async with client_with(doors, "work:orders") as client:
        tasks = await client.take("orders/g", 3)
        await client.ack("orders/g", tasks[0])
        await client.nack("orders/g", tasks[1], reason="no")
        await client.bury("orders/g", tasks[2])
        assert await client.kick("orders/g", 1) == 1
        assert (await client.get_group("orders/g")).tasks["done"] == 1
        for refused in (
            client.take("other/g"),
            client.push("orders", [b"x"]),
            client.delete_group("orders/g"),
            client.purge("orders/g"),
            client.create_group("orders", "mine"),
        ):
            with pytest.raises(Denied):
                await refused
        assert len(await client.take("orders/g", 1)) == 1  # a refusal on the stream does not end the session


async def test_one_refused_request_on_a_stream_is_answered_alone(doors: Keyed) -> None:
    async with client_with(doors, "work:orders") as client:
        await client.take("orders/g")
        wanted = [
            client.take("other/g"),
            *(client.take("orders/g") for _ in range(5)),
            client.ack("other/g", []),
        ]
        found = await asyncio.gather(*wanted, return_exceptions=True)
        assert [type(each) is Denied for each in found] == [True, *[False] * 6]
        assert [len(each) for each in found[1:6]] == [1] * 5  # type: ignore[arg-type]


async def test_a_hand_over_needs_the_right_to_push_where_it_leads(doors: Keyed) -> None:
    async with client_with(doors, "work:orders") as client:
        (task,) = await client.take("orders/g")
        with pytest.raises(Denied, match="push"):
            await client.complete("orders/g", task, push={"invoices": [b"x"]})
        assert (await client.peek_task("orders/g", task.id)).state == "taken"
    async with client_with(doors, "work:orders", "push:invoices") as client:
        (task,) = await client.take("orders/g")
        await client.complete("orders/g", task, push={"invoices": [b"x"]})


async def test_a_ledger_is_read_by_those_who_may_read_its_queue(doors: Keyed) -> None:
    async with client_with(doors, "read:orders") as client:
        table = await client.replay("orders~g").to_table()
        assert table.column("value")[0].as_py()["event"] == "create"
        with pytest.raises(jjq.Denied):
            await client.replay("other~g").to_table()
        with pytest.raises(jjq.Denied):
            await client.take("orders/g")
