"""Quotas of keys, and the audit queue."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import orjson
import pytest
from websockets.exceptions import ConnectionClosed

import jjq
from coldstore.shared.clock import ManualClock
from hotstore.groups.values import GroupSettings
from jjq import aio
from jjq.access.audit import AUDIT_QUEUE
from jjq.access.quotas import KeyUsage, Quota, TokenBucket
from jjq.v1 import jjq_pb2 as pb
from tests.jjq.access.keyed import Keyed, keyed
from tests.jjq.http.priority_socket.wireclient import client_of
from tests.jjq.serving import numbers, until


@pytest.fixture
async def doors(tmp_path: Path) -> AsyncIterator[Keyed]:
    async with keyed(tmp_path) as made:
        await made.store.create_queue("orders")
        yield made


def test_a_bucket_gives_its_rate_and_no_more() -> None:
    clock = ManualClock()
    bucket = TokenBucket(100.0, clock)
    assert bucket.seconds() == 0.0
    bucket.spend(150.0)
    assert bucket.seconds() == pytest.approx(0.5)
    clock.advance(0.25)
    assert bucket.seconds() == pytest.approx(0.25)
    clock.advance(60.0)
    bucket.spend(100.0)
    assert bucket.seconds() == 0.0, "a rest saves up one second, and no more"
    bucket.spend(1.0)
    assert bucket.seconds() > 0.0
    assert TokenBucket(0.0, clock).seconds() == 0.0
    with pytest.raises(jjq.InvalidInput):
        Quota(elements_per_second=-1)


def test_the_slower_of_two_limits_counts_and_says_how_long() -> None:
    usage = KeyUsage("k", Quota(10.0, 1_000.0), ManualClock())
    usage.spend(1, 3_000)
    with pytest.raises(jjq.Exhausted, match="used up its quota") as refused:
        usage.check()
    assert refused.value.retry_after == pytest.approx(2.0)


async def test_a_push_beyond_the_quota_is_refused_at_both_doors(doors: Keyed) -> None:
    await doors.make("admin")
    made = await doors.ring.create("", ["push"], Quota(elements_per_second=0.01))
    shown = {"Authorization": f"Bearer {made.text}"}
    first = await doors.ask("POST", "/v1/queues/orders/elements", b"a", Content_Type="text/plain", **shown)
    late = await doors.ask("POST", "/v1/queues/orders/elements", b"b", Content_Type="text/plain", **shown)
    assert (first.status, late.status, late.json["code"]) == (200, 429, "RESOURCE_EXHAUSTED")
    assert int(late.headers["retry-after"]) > 1
    push = pb.PushRequest(queue="orders", elements=pb.Elements(elements=[pb.Element(value=b"c")]))
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await doors.channel.unary_unary("/jjq.v1.Jjq/Push")(
            push.SerializeToString(), metadata=doors.metadata(made.text)
        )
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert (await doors.store.get_queue("orders")).next_offset == 1


async def test_what_is_pushed_with_an_ack_counts_too(doors: Keyed) -> None:
    await doors.store.create_group("orders", "g", GroupSettings())
    await doors.store.push("orders", numbers(0, 3))
    await doors.make("admin")
    made = await doors.ring.create("", ["push", "work"], Quota(elements_per_second=0.01))
    shown = {"Authorization": f"Bearer {made.text}"}
    await doors.send("POST", "/v1/queues/orders/groups/g/take", {"max": 3}, **shown)

    async def complete(task: int) -> int:
        pushes = [{"queue": "orders", "elements": [{"value": "next"}]}]
        order = {"tasks": [{"id": task, "attempt": 1}], "pushes": pushes}
        return (await doors.send("POST", "/v1/queues/orders/groups/g/complete", order, **shown)).status

    assert [await complete(0), await complete(1)] == [200, 429]
    ack = pb.ChangeTasksRequest(group="orders/g", verb=pb.TASK_VERB_ACK, ids=[2], attempts=[1])
    push = pb.PushRequest(queue="orders", elements=pb.Elements(elements=[pb.Element(value=b"c")]))
    raw = pb.CompleteTasksRequest(change=ack, pushes=[push]).SerializeToString()
    other = await doors.ring.create("", ["push", "work"], Quota(elements_per_second=0.01))
    call = doors.channel.unary_unary("/jjq.v1.Jjq/CompleteTasks")
    await call(raw, metadata=doors.metadata(other.text))
    with pytest.raises(grpc.aio.AioRpcError, match="used up its quota"):
        await call(raw, metadata=doors.metadata(other.text))
    assert (await doors.store.get_queue("orders")).next_offset == 5


async def test_a_stream_of_pushes_is_slowed_down_and_loses_nothing(doors: Keyed) -> None:
    await doors.make("admin")
    made = await doors.ring.create("", ["push"], Quota(elements_per_second=200.0))
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with aio.connect(doors.server.address, key=made.text) as client:
        for _ in range(8):
            async with client.producer("orders") as producer:
                for _ in range(50):
                    await producer.push(b"x")
    assert (await doors.store.get_queue("orders")).next_offset == 400
    assert loop.time() - began > 0.2, (
        "400 elements at 200 a second: one second was saved up, and the limit holds one message later"
    )


async def test_open_streams_are_counted(doors: Keyed) -> None:
    await doors.make("admin")
    made = await doors.ring.create("", ["read"], Quota(streams=1))
    ask = pb.ReadRequest(queue="orders", follow=True).SerializeToString()
    read = doors.channel.unary_stream("/jjq.v1.Jjq/Read")
    first = read(ask, metadata=doors.metadata(made.text))
    await first.read()
    second = read(ask, metadata=doors.metadata(made.text))
    assert await second.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    said = await doors.ask("GET", "/v1/queues/orders/elements", Authorization=f"Bearer {made.text}")
    assert said.status == 429
    for path in ("/v1/queues/orders/elements", "/v1/live"):
        said = await doors.ask("GET", path, Authorization=f"Bearer {made.text}", Accept="text/event-stream")
        assert said.status == 429, path
    with pytest.raises(ConnectionClosed, match="open streams, its limit") as closed:
        async with client_of(doors.port, Authorization=f"Bearer {made.text}"):
            pass
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1013
    first.cancel()
    usage = doors.ring.usage(made.key)
    assert usage is not None
    await until(lambda: usage._streams == 0)
    async with client_of(doors.port, Authorization=f"Bearer {made.text}"):
        assert (await doors.ask("GET", "/v1/live", Authorization=f"Bearer {made.text}")).status == 429
    await until(lambda: usage._streams == 0)


async def test_acts_of_administrators_are_in_the_audit_queue(doors: Keyed) -> None:
    admin = await doors.make("admin")
    shown = {"Authorization": f"Bearer {admin}"}
    named = {"name": "more"}
    assert (await doors.send("POST", "/v1/queues", named, X_Request_Id="r-1", **shown)).status == 201
    await doors.send("GET", "/v1/queues/more", **shown)
    assert (await doors.send("DELETE", "/v1/queues/nothing", **shown)).status == 404
    await doors.channel.unary_unary("/jjq.v1.Jjq/SealQueue")(
        pb.SealQueueRequest(queue="orders").SerializeToString(), metadata=doors.metadata(admin)
    )
    await doors.server.shared()["audit"].close()
    acts = []
    async for batch in doors.store.read(AUDIT_QUEUE):
        acts += [orjson.loads(value) for value in batch.column("value").to_pylist()]
    number = admin.split("_")[1]
    told = [(act["key"], act["door"], act["act"], act["queue"], act["request"]) for act in acts]
    assert told == [
        (number, "http", "create_queue", "more", "r-1"),
        (number, "grpc", "SealQueue", "orders", ""),
    ]


async def test_acts_are_told_in_their_order_also_while_the_audit_queue_is_made(doors: Keyed) -> None:
    admin = await doors.make("admin")
    audit = doors.server.shared()["audit"]
    for n in range(20):
        audit.record(admin, "http", "put_queue", f"q{n}")
    await audit.close()
    told = [
        orjson.loads(v)["queue"]
        async for b in doors.store.read(AUDIT_QUEUE)
        for v in b.column("value").to_pylist()
    ]
    assert told == [f"q{n}" for n in range(20)]


async def test_a_key_may_have_so_many_queues_and_no_more_over_all_doors(doors: Keyed) -> None:
    await doors.make("admin")
    made = await doors.ring.create("", ["admin:team-*"], Quota(queues=2))
    shown = {"Authorization": f"Bearer {made.text}"}
    assert (await doors.ask("PUT", "/v1/queues/team-1", **shown)).status == 200
    async with aio.connect(doors.server.address, key=made.text) as client:
        await client.create_queue("team-2")
        await client.create_queue("team-2")  # none more
        with pytest.raises(jjq.Exhausted, match="may have 2 queues, and there are 2"):
            await client.create_queue("team-3")
        late = await doors.ask("PUT", "/v1/queues/team-3", **shown)
        assert (late.status, late.json["code"]) == (429, "RESOURCE_EXHAUSTED")
        await client.delete_queue("team-1")
        await client.create_queue("team-3")
        refused = await doors.ask("POST", "/v1/queues/team-1/undelete", **shown)
        assert refused.status == 429
    async with client_of(doors.port, Authorization=f"Bearer {made.text}") as socket:
        await socket.ask("create", queue="team-4", label=1)
        assert "may have 2 queues" in (await socket.reply())["key"]
    several = await doors.ring.create("", ["admin"], Quota(queues=3))
    at_once = await asyncio.gather(
        *(
            doors.send("POST", "/queues", {"name": f"sqew-{n}"}, Authorization=f"Bearer {several.text}")
            for n in range(3)
        )
    )
    assert [said.status for said in at_once] == [429] * 3, "orders, team-2 and team-3 are three"


async def test_a_queue_limits_the_size_of_pushes_over_all_doors(doors: Keyed) -> None:
    path = "/v1/queues/orders"
    assert (await doors.send("PUT", f"{path}/limit", {"request_bytes": 2000})).json == {
        "queue": "orders", "request_bytes": 2000,
    }  # fmt: skip
    for body, status in ((b"x" * 2000, 200), (b"x" * 2001, 413)):
        assert (await doors.ask("POST", f"{path}/elements", body, Content_Type="text/plain")).status == status
    async with aio.connect(doors.server.address) as client:
        await client.push("orders", [b"x"])
        with pytest.raises(jjq.InvalidInput, match="at most 2000 bytes"):
            await client.push("orders", [b"x" * 2001])
    big = [{"id": 0, "attempt": 1}], [{"queue": "orders", "elements": [{"value": "x" * 2001}]}]
    order = {"tasks": big[0], "pushes": big[1]}
    assert "at most 2000" in (await doors.send("POST", f"{path}/groups/g/complete", order)).json["detail"]
    async with client_of(doors.port) as socket:
        await socket.ask("post", queue="orders", message="x" * 2001, label=1)
        assert "at most 2000 bytes" in (await socket.reply())["key"]
    assert (await doors.ask("GET", f"{path}/limit")).json["request_bytes"] == 2000
    assert (await doors.ask("DELETE", f"{path}/limit")).status == 204
    assert (await doors.ask("POST", f"{path}/elements", b"x" * 2001, Content_Type="text/plain")).status == 200
    assert (await doors.store.get_queue("orders")).next_offset == 3


async def test_a_limit_replaces_the_one_of_sqew(doors: Keyed) -> None:
    await doors.send("POST", "/queues", {"name": "mails"})
    for most, status in ((50, 413), (900_000, 201)):
        await doors.send("PUT", "/v1/queues/mails/limit", {"request_bytes": most})
        payload = "x" * (60 if most == 50 else 800_000)
        said = await doors.send("POST", "/queues/mails/messages", {"payload": payload})
        assert said.status == status, said.body
