"""Worker groups in a cluster, through clients: any node answers, and sessions live on through moves."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import jjq
from jjq.client.client import AsyncClient
from jjq.remote.groups.group_store import RemoteWorkStore
from jjq.remote.settings import RemoteSettings
from tests.jjq.cluster.members import RealCluster, real_cluster
from tests.jjq.groups.conftest import eventually


async def client_at(made: RealCluster, name: str, *, direct: bool = True) -> AsyncClient:
    store = RemoteWorkStore(made.address(name), RemoteSettings(timeout_seconds=30.0, direct=direct))
    await made.stack.enter_async_context(store)
    return await made.stack.enter_async_context(AsyncClient(store))


async def states(client: AsyncClient, group: str) -> dict[str, int]:
    found = (await client.get_group(group)).tasks
    return {state: found[state] for state in ("ready", "taken", "done")}


async def group_at_b(made: RealCluster) -> AsyncClient:
    """A client of node b, whose queue `orders` has ten tasks."""
    client = await client_at(made, "b")
    await client.create_queue("orders")
    if (await made.owners())["orders"] != "b":
        await made.operator("a").move("orders", "b")
    await client.create_group("orders", "g")
    await client.push("orders", [b"%d" % n for n in range(10)])
    return client


async def test_every_verb_is_answered_by_any_node(tmp_path: Path) -> None:
    async with real_cluster(tmp_path, "s3", "a", "b") as made:
        await group_at_b(made)
        for direct in (False, True):
            client = await client_at(made, "a", direct=direct)
            tasks = await client.take("orders/g", 3)
            assert len(tasks) == 3
            await client.ack("orders/g", tasks[0])
            await client.nack("orders/g", tasks[1], delay=1_000.0, reason="no")
            await client.touch("orders/g", tasks[2], 5.0)
            await client.release("orders/g", tasks[2])
            await client.bury("orders/g", tasks[2])
            assert await client.kick("orders/g", 1) == 1
            assert [group.id for group in await client.list_groups()] == ["orders/g"]
            assert (await client.peek_task("orders/g", tasks[1].id)).reason == "no"
            assert await client.tasks("orders/g", "delayed")
            assert (await client.statistics("orders/g")).calls["ack"] >= 1
            assert (await client.update_group("orders/g", ttr=50.0)).settings.ttr == 50.0
            assert (await client.pause("orders/g")).paused
            assert not (await client.resume("orders/g")).paused
            now = (await client.push("orders", [b"more"])).timestamp
            assert (await client.tasks_at("orders/g", now)).num_rows >= 10
            batch = await anext(client.changes("orders/g", "beginning"))
            assert batch.column("value")[0].as_py()["event"] == "create"
            assert await client.release_all("orders/g") == 0


async def test_a_waiting_take_at_another_node_is_served_and_ends_with_its_client(tmp_path: Path) -> None:
    async with real_cluster(tmp_path, "s3", "a", "b") as made:
        owner = await group_at_b(made)
        await owner.purge("orders/g")
        client = await client_at(made, "a", direct=False)
        waiting = asyncio.create_task(client.take("orders/g", wait=60.0))
        await eventually(lambda: _waiting(owner, 1))
        await owner.push("orders", [b"x"])
        assert [task.id for task in await waiting] == [10]
        gone = asyncio.create_task(client.take("orders/g", wait=60.0))
        await eventually(lambda: _waiting(owner, 1))
        gone.cancel()
        await eventually(lambda: _waiting(owner, 0))
        await owner.push("orders", [b"y"])
        assert (await states(owner, "orders/g"))["ready"] == 1


async def _waiting(client: AsyncClient, count: int) -> bool:
    return (await client.get_group("orders/g")).waiting == count


async def test_a_client_that_goes_releases_its_tasks_at_every_node(tmp_path: Path) -> None:
    async with real_cluster(tmp_path, "s3", "a", "b") as made:
        owner = await group_at_b(made)
        client = await client_at(made, "a", direct=False)
        assert len(await client.take("orders/g", 4)) == 4
        await client.close()

        async def released() -> bool:
            return await states(owner, "orders/g") == {"ready": 10, "taken": 0, "done": 0}

        await eventually(released)


async def test_a_session_goes_on_when_its_queue_moves(tmp_path: Path) -> None:
    async with real_cluster(tmp_path, "s3", "a", "b") as made:
        await group_at_b(made)
        client = await client_at(made, "a")
        tasks = await client.take("orders/g", 4, stage="synced")
        await made.operator("a").move("orders", "a")
        await client.ack("orders/g", tasks[:2])
        assert await states(client, "orders/g") == {"ready": 6, "taken": 2, "done": 2}
        await made.operator("a").move("orders", "b")
        await client.ack("orders/g", tasks[2:])
        assert (await states(client, "orders/g"))["done"] == 4


async def test_a_hand_over_to_a_queue_of_another_node_says_how_to_do_it(tmp_path: Path) -> None:
    async with real_cluster(tmp_path, "s3", "a", "b") as made:
        client = await group_at_b(made)
        await client.create_queue("invoices")
        if (await made.owners())["invoices"] != "a":
            await made.operator("a").move("invoices", "a")
        (task,) = await client.take("orders/g")
        with pytest.raises(jjq.Conflict, match="producer with a sequence"):
            await client.complete("orders/g", task, push={"invoices": [b"x"]})
        assert (await client.get_queue("invoices")).next_offset == 0
        assert (await client.peek_task("orders/g", task.id)).state == "taken"
