"""Clients and nodes over gRPC: forwarded, then direct, and through moves without loss."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pyarrow as pa
import pytest

from coldstore.shared.errors import Conflict, Fenced, InvalidInput, Unavailable
from hotstore.port import Receipt
from jjq.client.client import AsyncClient
from jjq.remote.store import RemoteStore
from jjq.server.unary import Transports
from jjq.v1 import jjq_pb2 as pb
from jjq.wire import arrow_ipc
from jjq.wire.arrow_field import Span
from jjq.wire.services import PEER
from jjq.wire.status import error_in
from sharding.routing.router import Router
from tests.jjq.cluster.serving import Cluster, cluster, wired
from tests.jjq.serving import numbers, said, until, values
from tests.servers.waiting import free_ports


@pytest.fixture
async def nodes() -> AsyncIterator[Cluster]:
    """Nodes a, b, c; queue q with ten elements and subscriber s at b."""
    async with cluster() as made:
        await made.world.store.create_queue("q")
        made.world.own("q", "b")
        await made.world.store.push("q", numbers(0, 10))
        await made.world.store.create_subscriber("q", "s", "beginning")
        yield made


def target(client: RemoteStore) -> str:
    return client._link.target("q")


async def read(client: RemoteStore, start: str = "beginning", end: str | None = None) -> list[bytes]:
    return [value async for batch in client.read("q", start, end) for value in said(batch)]


async def test_a_client_is_served_by_any_node_and_then_goes_direct(nodes: Cluster) -> None:
    client = await nodes.client("a")
    assert (await client.push("q", values(b"x"))).first_offset == 10
    await until(lambda: target(client) == nodes.address("b"))
    assert (await client.push("q", values(b"y"))).first_offset == 11
    assert (await client.pop("q/s", 2)).next == 2
    assert (nodes.calls("a", "Push"), nodes.calls("b", "Push")) == (1, 2)
    assert (nodes.calls("a", "Pop"), nodes.calls("b", "Pop")) == (0, 1)


async def test_forwarded_pushes_go_over_a_websocket_once_it_stands(nodes: Cluster) -> None:
    """By streams, which relay them as they are, and as calls; plain, or with an identity and in order."""
    client = await nodes.client("a", direct=False)
    for n in range(2):
        await client.push("q", numbers(n, 1))
    await wired(nodes.world.nodes["a"].router)
    before = nodes.forwarded("b")
    await client.push("q", numbers(2, 1))
    await client.push("q", numbers(3, 1), expected_offset=13)
    pushes = [client.push("q", numbers(n, 1), producer="p", sequence=n) for n in range(4, 104)]
    assert [r.first_offset for r in await asyncio.gather(*pushes)] == list(range(14, 114))
    assert nodes.forwarded("b") - before == 102
    assert await read(client, "offset:10") == [b"%d" % n for n in range(104)]


async def test_what_is_wrong_with_a_forwarded_push_its_owner_says(nodes: Cluster) -> None:
    client = await nodes.client("a", direct=False)
    for n in range(2):
        await client.push("q", numbers(n, 1))
    await wired(nodes.world.nodes["a"].router)
    lane = client._link.lane()
    call = lane.both_streams("PushStream")()
    for message in (
        pb.PushRequest(queue="q", arrow=pb.ArrowBatch(ipc=b"rubbish")),
        pb.PushRequest(queue="q"),
    ):
        await call.write(message.SerializeToString())
        response = pb.PushStreamResponse.FromString(await call.read())  # type: ignore[arg-type]
        assert isinstance(error_in(response.results[0].error), InvalidInput)
    call.cancel()
    assert (await client.push("q", numbers(2, 1))).first_offset == 12, "the connection is as good as before"


async def test_a_single_call_is_passed_on_unread_too(nodes: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its owner alone decodes it. One that waits for room is decoded here: it has a time of its own."""
    client = await nodes.client("a", direct=False)
    await client.push("q", numbers(0, 1))
    await wired(nodes.world.nodes["a"].router)
    decode, decoded = arrow_ipc.decode, []

    def count(span: Span) -> tuple[pa.RecordBatch, pa.Buffer | None]:
        decoded.append(span.size)
        return decode(span)

    monkeypatch.setattr(arrow_ipc, "decode", count)
    assert (await client.push("q", numbers(1, 1), expected_offset=11)).first_offset == 11
    assert len(decoded) == 1
    assert (await client.push("q", numbers(2, 1), timeout=5.0)).first_offset == 12
    assert len(decoded) == 3
    with pytest.raises(Conflict):
        await client.push("q", numbers(3, 1), expected_offset=11)
    nodes.world.own("q", "c")
    assert (await client.push("q", numbers(3, 1), expected_offset=13)).first_offset == 13, "b says where"
    assert await read(client, "offset:10") == [b"%d" % n for n in range(4)]


async def test_a_large_push_and_more_than_a_connection_takes_keep_their_order(
    nodes: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other nodes are held back where clients would be refused; a large push goes in several frames."""
    monkeypatch.setattr("jjq.http.websocket.calls.WEBSOCKET_CALLS_MAX", 3)
    client = await nodes.client("a", direct=False)
    await client.push("q", numbers(0, 1))
    await wired(nodes.world.nodes["a"].router)
    before, large = nodes.forwarded("b"), values(bytes(3_000_000))
    pushes = [
        client.push("q", large if n == 20 else numbers(n, 1), producer="p", sequence=n) for n in range(60)
    ]
    assert [r.first_offset for r in await asyncio.gather(*pushes)] == list(range(11, 71))
    assert nodes.forwarded("b") - before == 62, "two more for the large one"


async def test_other_verbs_go_over_it_too(nodes: Cluster) -> None:
    client = await nodes.client("a", direct=False)
    await client.get_queue("q")
    await wired(nodes.world.nodes["a"].router)
    before = nodes.forwarded("b")
    assert (await client.peek("q/s", 2)).batch.num_rows == 2
    assert (await client.pop("q/s", 2)).next == 2
    await client.confirm("q/s", 2)
    assert nodes.forwarded("b") - before >= 3


async def test_where_no_websocket_can_be_had_pushes_go_over_grpc() -> None:
    async with cluster("ab") as nodes:
        nodes.servers["b"].transports = Transports(free_ports(1)[0], "x")
        await nodes.world.store.create_queue("q")
        nodes.world.own("q", "b")
        client = await nodes.client("a", direct=False)
        for n in range(3):
            assert (await client.push("q", numbers(n, 1))).first_offset == n
        pushes = [client.push("q", numbers(n, 1), producer="p", sequence=n) for n in range(3, 50)]
        assert [r.first_offset for r in await asyncio.gather(*pushes)] == list(range(3, 50))
        assert nodes.forwarded("b") == 0


async def test_verbs_without_elements_carry_the_hint_too(nodes: Cluster) -> None:
    client = await nodes.client("c")
    await client.get_subscriber("q/s")
    await until(lambda: target(client) == nodes.address("b"))
    assert [queue.name for queue in await client.list_queues()] == ["q"]
    assert [found.id for found in await client.list_subscribers()] == ["q/s"]


async def test_a_hint_that_cannot_be_reached_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Router, "hint", lambda self, queue, offset=None: "127.0.0.1:1")
    async with cluster("ab") as nodes:
        await nodes.world.store.create_queue("q")
        nodes.world.own("q", "b")
        client = await nodes.client("a")
        for n in range(5):
            assert (await client.push("q", values(b"x"))).first_offset == n
        receipts = await asyncio.gather(
            *(client.push("q", values(b"x"), producer="p", sequence=n) for n in range(5))
        )
        assert [receipt.first_offset for receipt in receipts] == [5, 6, 7, 8, 9]
        assert len(await read(client)) == 10
        assert target(client) == nodes.address("a")


async def test_a_client_falls_back_when_the_node_it_went_to_is_gone(nodes: Cluster) -> None:
    client = await nodes.client("a")
    await client.get_queue("q")
    await until(lambda: target(client) == nodes.address("b"))
    nodes.world.move("q", "c")
    await nodes.servers["b"].stop(0)
    assert (await client.get_queue("q")).next_offset == 10
    await until(lambda: target(client) == nodes.address("c"))


async def test_where_a_node_cannot_reach_the_owner_its_clients_can() -> None:
    async with cluster("a") as nodes:
        await nodes.add("b", advertise="127.0.0.1:1")
        await nodes.world.store.create_queue("q")
        nodes.world.own("q", "b")
        alone, knows_both = await nodes.client("a"), await nodes.client("a", "b")
        with pytest.raises(Unavailable):
            await alone.push("q", values(b"x"))
        assert (await knows_both.get_queue("q")).next_offset == 0
        receipts = await asyncio.gather(
            *(knows_both.push("q", values(b"x"), producer="p", sequence=n) for n in range(5))
        )
        assert [receipt.first_offset for receipt in receipts] == list(range(5))


async def test_between_nodes_nothing_is_forwarded(nodes: Cluster) -> None:
    client = await nodes.client("c", service=PEER, direct=False)
    with pytest.raises(Fenced) as refused:
        await client.push("q", values(b"x"))
    assert refused.value.owner == "b"  # a name: the nodes know the address


async def test_a_queue_created_anywhere_is_served_everywhere(nodes: Cluster) -> None:
    clients = [await nodes.client(name) for name in "abc"]
    for n, client in enumerate(clients):
        await client.create_queue(f"new{n}")
    for client in clients:
        for n in range(3):
            await client.push(f"new{n}", values(b"x"))
    assert [queue.next_offset for queue in await clients[0].list_queues(after="m", limit=3)] == [3, 3, 3]


async def test_a_stream_of_pushes_goes_direct_and_survives_moves(nodes: Cluster) -> None:
    client = await nodes.client("a")
    owners = iter("cabcab")
    receipts: list[Receipt] = []

    async def push(n: int) -> None:
        receipts.append(await client.push("q", numbers(n, 1), producer="p", sequence=n))

    for first in range(0, 120, 20):
        await asyncio.gather(*(push(first + n) for n in range(20)), return_exceptions=False)
        nodes.world.move("q", next(owners))
    assert sorted(receipt.first_offset for receipt in receipts) == list(range(10, 130))
    assert await read(client, "offset:10") == [b"%d" % n for n in range(120)]


async def test_pushes_in_flight_survive_a_move_in_order(nodes: Cluster) -> None:
    client = await nodes.client("a", direct=False)
    pushes = [
        asyncio.create_task(client.push("q", numbers(n, 1), producer="p", sequence=n)) for n in range(300)
    ]
    for owner in "cab":
        await until(lambda: nodes.world.store.queues["q"].next_offset % 50 > 10)
        nodes.world.move("q", owner)
    await asyncio.gather(*pushes)
    assert await read(client, "offset:10") == [b"%d" % n for n in range(300)]


async def test_a_subscription_goes_direct_and_survives_moves(nodes: Cluster) -> None:
    store = await nodes.client("a")
    client = AsyncClient(store)
    found: list[bytes] = []

    async def consume() -> None:
        async for batch in client.subscribe("q/s").batches():
            found.extend(said(batch))

    consumer = asyncio.create_task(consume())
    await until(lambda: len(found) == 10)
    for n, owner in enumerate("cab"):
        nodes.world.move("q", owner)
        await store.push("q", numbers(10 + n, 1))
        await until(lambda n=n: len(found) == 11 + n)  # type: ignore[misc]
    assert found == [b"%d" % n for n in range(13)]
    consumer.cancel()
    await asyncio.gather(consumer, return_exceptions=True)


async def test_a_replay_goes_to_the_nodes_of_the_ranges_and_is_in_order(nodes: Cluster) -> None:
    nodes.world.split("q", (0, 3, "c"), (3, 6, "a"))
    client = await nodes.client("b")
    for _ in range(3):  # the first goes through b, later ones find the connections ready
        assert await read(client) == [b"%d" % n for n in range(10)]
    # More than three times each, if a connection is ready in the midst of a range: the rest is asked there.
    histories = [set(node.ownership.histories) for node in nodes.world.nodes.values()]
    assert histories == [{(3, 6)}, set(), {(0, 3)}]
    assert set(client._link._lanes) == {nodes.address(name) for name in "abc"}


async def test_a_read_that_follows_goes_on_through_a_move(nodes: Cluster) -> None:
    client = await nodes.client("a")
    found: list[bytes] = []

    async def follow() -> None:
        async for batch in client.read("q", "offset:8", follow=True):
            found.extend(said(batch))

    reader = asyncio.create_task(follow())
    await until(lambda: found == [b"8", b"9"])
    nodes.world.move("q", "c")
    await client.push("q", values(b"x"))
    await client.push("q", values(b"y"))
    await until(lambda: found == [b"8", b"9", b"x", b"y"])
    reader.cancel()
    await asyncio.gather(reader, return_exceptions=True)
