"""Keys: made, shown once, revoked on running streams, and never in a log."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
import structlog

import jjq
from coldstore.layout.paths import ACCESS
from coldstore.objects.memory import MemoryObjects
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from jjq import aio
from jjq.access import keyring
from jjq.access.keyring import Keyring
from jjq.access.keys import KeyScope
from jjq.v1 import jjq_pb2 as pb
from tests.jjq.access.keyed import Keyed, keyed
from tests.jjq.serving import until


@pytest.fixture
async def doors(tmp_path: Path) -> AsyncIterator[Keyed]:
    async with keyed(tmp_path) as made:
        await made.store.create_queue("orders")
        await made.store.create_subscriber("orders", "s", "beginning")
        yield made


async def end_of(call: Any) -> grpc.StatusCode:
    """How a stream ends, once all that it said was read."""
    with suppress(grpc.aio.AioRpcError):
        while await call.read() is not grpc.aio.EOF:
            pass
    return await call.code()


async def test_the_first_key_must_rule_and_the_last_that_does_stays(doors: Keyed) -> None:
    with pytest.raises(jjq.Conflict, match="first key must have the scope admin"):
        await doors.make("push")
    assert not doors.ring.closed
    first = (await doors.ring.create("", ["admin"])).key
    second = (await doors.ring.create("", ["push:a", "admin:b"])).key
    with pytest.raises(jjq.Conflict, match="last one with the scope admin"):
        await doors.ring.revoke(first.id)
    await doors.ring.revoke(second.id)
    with pytest.raises(jjq.NotFound):
        await doors.ring.revoke(second.id)
    many = [f"pop:q{n}" for n in range(17)]
    for scopes in ([], ["write"], ["push:a/b"], ["push", "pop:x y"], many):
        with pytest.raises(jjq.InvalidInput):
            await doors.ring.create("", scopes)


async def test_clients_of_python_show_their_key(doors: Keyed) -> None:
    admin = await doors.make("admin")
    pushes = await doors.make("push:orders")
    async with aio.connect(doors.server.address, key=pushes) as client:
        await client.push("orders", [b"a"])
        async with client.producer("orders") as producer:
            await producer.push(b"b")
        with pytest.raises(jjq.Denied, match="has no right to pop"):
            await client.pop("orders/s")
    async with aio.connect(doors.server.address) as client:
        with pytest.raises(jjq.Denied, match="wants a key"):
            await client.pop("orders/s")
    async with aio.connect(doors.server.address, key=admin) as client:
        assert len(await client.pop("orders/s", max=2)) == 2
    with pytest.raises(jjq.InvalidInput, match="jjq key create"):
        await aio.connect(doors.server.address, key="two words")


async def test_a_revocation_ends_what_waits_and_what_runs(doors: Keyed) -> None:
    await doors.make("admin")
    made = await doors.ring.create("", ["pop:orders", "read:orders"])
    shown = doors.metadata(made.text)
    stream = doors.channel.stream_stream("/jjq.v1.Jjq/Subscribe")(metadata=shown)
    start = pb.SubscribeStart(subscriber="orders/s", credit=pb.Credit(elements=10))
    await stream.write(pb.SubscribeRequest(start=start).SerializeToString())
    follow = doors.channel.unary_stream("/jjq.v1.Jjq/Read")(
        pb.ReadRequest(queue="orders", follow=True).SerializeToString(), metadata=shown
    )
    await follow.read()
    waiting = asyncio.ensure_future(
        doors.channel.unary_unary("/jjq.v1.Jjq/Pop")(
            pb.PopRequest(subscriber="orders/s", wait_seconds=600).SerializeToString(), metadata=shown
        )
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", doors.port)
    writer.write(
        f"GET /v1/queues/orders/elements HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n"
        f"Authorization: Bearer {made.text}\r\n\r\n".encode()
    )
    await reader.readuntil(b"retry")
    long_poll = asyncio.create_task(
        doors.send(
            "POST",
            "/v1/queues/orders/subscribers/s/pop",
            {"wait_seconds": 600},
            Authorization=f"Bearer {made.text}",
        )
    )
    await until(lambda: len(doors.ring._watched) >= 5)
    await doors.ring.revoke(made.key.id)
    async with asyncio.timeout(5):
        for call in (stream, follow):
            assert await end_of(call) is grpc.StatusCode.PERMISSION_DENIED
        with pytest.raises(grpc.aio.AioRpcError):
            await waiting
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(100_000)
        assert (await long_poll).status == 401
    writer.transport.abort()
    assert doors.ring._watched == set()


async def test_the_first_key_ends_streams_without_one(doors: Keyed) -> None:
    follow = doors.channel.unary_stream("/jjq.v1.Jjq/Read")(
        pb.ReadRequest(queue="orders", follow=True).SerializeToString()
    )
    await follow.read()
    await doors.make("admin")
    assert await follow.code() is grpc.StatusCode.PERMISSION_DENIED


async def test_the_first_key_ends_streams_that_are_just_being_answered(doors: Keyed) -> None:
    """A write that was broken off left a call without an end: its client waited for ever."""
    request = pb.ReadRequest(queue="orders", follow=True).SerializeToString()
    streams = [doors.channel.unary_stream("/jjq.v1.Jjq/Read")(request) for _ in range(100)]
    first = [asyncio.ensure_future(stream.read()) for stream in streams]
    await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
    await doors.make("admin")
    assert {await stream.code() for stream in streams} == {grpc.StatusCode.PERMISSION_DENIED}
    await asyncio.gather(*first, return_exceptions=True)


async def test_another_node_learns_of_a_change_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyring, "KEYS_SECONDS", 0.01)
    objects, clock, chance = MemoryObjects(), SystemClock(), SystemChance()
    one, two = Keyring(objects, clock, chance), Keyring(objects, clock, chance)
    await one.open(cluster=True)
    await two.open(cluster=True)
    try:
        assert one.peer == two.peer != ""
        await one.create("", ["admin"])
        made = await one.create("", ["push:orders-*"])
        await until(lambda: len(two.every()) == 2)
        two.require(made.text, "push", "orders-eu")
        await one.revoke(made.key.id)
        await until(lambda: len(two.every()) == 1)
        with pytest.raises(jjq.Denied, match="revoked"):
            two.require(made.text, "push", "orders-eu")
    finally:
        await one.close()
        await two.close()


async def test_no_secret_is_stored_logged_or_told(tmp_path: Path) -> None:
    written = io.StringIO()
    log = structlog.wrap_logger(
        structlog.PrintLogger(written),
        processors=[structlog.processors.format_exc_info, structlog.dev.ConsoleRenderer(colors=False)],
    )
    async with keyed(tmp_path, log=log) as doors:
        await doors.store.create_queue("orders")
        admin = await doors.make("admin")
        reader = await doors.make("read:orders")
        shown = f"Bearer {reader}"
        said = [
            await doors.ask("GET", path, Authorization=shown)
            for path in ("/v1/queues/orders", "/v1/keys", "/metrics")
        ]
        said.append(await doors.ask("GET", f"/v1/queues/{admin}"))
        said.append(await doors.ask("GET", "/v1/keys", Authorization=f"Bearer {admin}"))
        with pytest.raises(grpc.aio.AioRpcError) as denied:
            await doors.channel.unary_unary("/jjq.v1.Jjq/SealQueue")(
                pb.SealQueueRequest(queue="orders").SerializeToString(), metadata=doors.metadata(reader)
            )
        await doors.ring.revoke(reader.split("_")[1])
        stored = doors.objects.get(ACCESS).data.decode()
    told = written.getvalue() + stored + str(denied.value) + "".join(each.body.decode() for each in said)
    assert "key created" in told
    assert reader.split("_")[1] in told, "a key is named by its id"
    for secret in (admin.split("_")[2], reader.split("_")[2]):
        assert secret not in told


def test_patterns_match_names_as_people_expect() -> None:
    scope = KeyScope.parse("push:orders-*")
    assert scope.covers("orders-eu")
    assert not scope.covers("orders")
    assert not scope.covers("Orders-eu")
    assert not scope.covers(None)
    assert KeyScope.parse("admin").covers(None)
    assert str(KeyScope.parse("admin:*")) == "admin"
