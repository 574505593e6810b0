"""The limits of the door: sizes, compression, metadata, calls, ports."""

from __future__ import annotations

import asyncio
import gzip
import resource
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, cast

import grpc
import pytest

from coldstore.shared.batch import payload
from coldstore.shared.errors import InvalidInput
from coldstore.shared.limits import BATCH_BYTES_MAX, MESSAGE_BYTES_MAX, MIB
from jjq.server.server import serve
from jjq.server.settings import ServerSettings
from jjq.v1 import jjq_pb2 as pb
from tests.jjq.fakestore import FakeStore
from tests.jjq.serving import ANYWHERE, Served, served, until, values

ELEMENTS = pb.Elements(elements=[pb.Element(value=b"a")])


async def test_the_largest_batch_fits_and_comes_back(jjq: Served) -> None:
    await jjq.remote.create_queue("orders")
    await jjq.remote.create_subscriber("orders", "x", "beginning")
    big = payload("bytes", [b"x" * (BATCH_BYTES_MAX // 2 - 1_000)] * 2)
    await jjq.remote.push("orders", big)
    got = [
        len(v)
        for _ in range(2)
        for v in (await jjq.remote.pop("orders/x", 1)).batch.column("value").to_pylist()
    ]
    assert got == [BATCH_BYTES_MAX // 2 - 1_000] * 2


async def test_a_message_over_the_limit_is_refused_by_the_client_and_by_the_server(fake: Served) -> None:
    await fake.remote.create_queue("orders")
    with pytest.raises(InvalidInput, match="split it"):
        await fake.remote.push("orders", payload("bytes", [b"x" * (MESSAGE_BYTES_MAX // 3)] * 3))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await fake.raw("Push")(b"\x00" * (MESSAGE_BYTES_MAX + 1))
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    await fake.remote.push("orders", values(b"a"))


async def test_a_gzip_bomb_is_refused_without_being_inflated() -> None:
    async with served(FakeStore(), options=[("grpc.default_compression_algorithm", 2)]) as jjq:
        await jjq.remote.create_queue("orders")
        bomb = b"\x00" * (128 * MIB)
        assert len(gzip.compress(bomb, 1)) < MIB
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await jjq.raw("Push")(bomb)
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
        # One copy is the client's own; the server's would be another.
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024
        assert (await jjq.remote.push("orders", values(b"a"))).count == 1


async def test_metadata_over_the_limit_is_refused(fake: Served) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await fake.stub.ListQueues(pb.ListQueuesRequest(), metadata=[("x-much", "y" * 20_000)])
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert await fake.remote.list_queues() == []


def _arrived(jjq: Served, pop: Any, here: int) -> bool:
    return pop.done() or len(jjq.server._drain._waiting) > here


async def test_calls_beyond_the_servers_limit_are_refused_and_retried() -> None:
    settings = ServerSettings(listen="127.0.0.1:0", calls_max=2)
    async with served(FakeStore(), settings) as jjq:
        await jjq.remote.create_queue("orders")
        await jjq.remote.create_subscriber("orders", "x")
        waiting: list[Any] = []
        while len(jjq.server._drain._waiting) < 2:
            pop = asyncio.ensure_future(jjq.stub.Pop(pb.PopRequest(subscriber="orders/x", wait_seconds=30)))
            here = len(jjq.server._drain._waiting)
            await until(partial(_arrived, jjq, pop, here))
            waiting.append(pop)  # or refused, while the calls before are not quite over
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await jjq.stub.ListQueues(pb.ListQueuesRequest())
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        listing = asyncio.ensure_future(jjq.remote.list_queues())
        for pop in waiting:
            pop.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert [q.name for q in await listing] == ["orders"]


async def test_no_call_is_dropped_however_many_come_at_once(fake: Served) -> None:
    """From 1,000 on gRPC dropped some that waited, also of those who sent a single one: CANCELLED, without a reason."""
    await fake.remote.create_queue("orders")
    raw = pb.GetQueueRequest(name="orders").SerializeToString()
    async with AsyncExitStack() as open_:
        calls: list[Any] = []
        for _ in range(4):
            options = [("grpc.use_local_subchannel_pool", 1)]
            channel = await open_.enter_async_context(grpc.aio.insecure_channel(fake.server.address, options))
            await channel.channel_ready()
            get: Any = channel.unary_unary("/jjq.v1.Jjq/GetQueue")
            calls += [get(raw, timeout=60) for _ in range(800)]
        replies = await asyncio.gather(*calls)
    assert all(pb.GetQueueResponse.FromString(reply).queue.name == "orders" for reply in replies)


async def test_two_servers_cannot_share_a_port(fake: Served) -> None:
    with pytest.raises(InvalidInput, match="in use"):
        await serve(FakeStore(), ServerSettings(listen=fake.server.address))


@pytest.mark.parametrize("address", ["", "7575", ":7575", "host:", "host:http", "host:70000", "::1:80"])
def test_an_address_that_is_none_is_refused_with_an_example(address: str) -> None:
    with pytest.raises(InvalidInput, match=r"127\.0\.0\.1:7575"):
        ServerSettings(listen=address)


@pytest.mark.parametrize("wrong", [{"calls_max": 0}, {"streams_max": 0}, {"grace_seconds": -1}])
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        ServerSettings(**wrong)


async def test_an_ipv6_address_may_be_given() -> None:
    try:
        server = await serve(FakeStore(), ServerSettings(listen="[::1]:0"))
    except InvalidInput:
        pytest.skip("this machine has no IPv6")
    assert server.address.startswith("[::1]:")
    await server.stop(0)


async def test_reflection_is_off_unless_asked_for(fake: Served) -> None:
    from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

    def ask(channel: Any) -> Any:
        return cast("Any", reflection_pb2_grpc.ServerReflectionStub)(channel).ServerReflectionInfo()

    async def services(channel: Any) -> list[str]:
        call = ask(channel)
        await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
        reply = await call.read()
        call.cancel()
        return [s.name for s in reply.list_services_response.service]

    # Asked for nothing: a write might come after the refusal, and fail in a way of its own.
    assert await ask(fake.channel).code() is grpc.StatusCode.UNIMPLEMENTED
    async with served(FakeStore(), ServerSettings(listen="127.0.0.1:0", reflection=True)) as open_:
        assert "jjq.v1.Jjq" in await services(open_.channel)


def test_grpc_is_told_the_limits_by_their_real_names() -> None:
    options = dict(ANYWHERE.options())
    assert options["grpc.so_reuseport"] == 0
    assert options["grpc.max_concurrent_streams"] == 1_000
    assert options["grpc.http2.min_ping_interval_without_data_ms"] == 300_000
    assert options["grpc.server_handshake_timeout_ms"] == 10_000
    assert options["grpc.absolute_max_metadata_size"] == 16_384
