"""Messages on their way in: a connection that sends much waits, and nobody waits for it."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import grpc
import pytest

from coldstore.shared.errors import InvalidInput
from jjq.limits import INCOMING_BYTES_MAX, LARGE_BYTES, RECEIVES_FIRST, RECEIVES_MAX
from jjq.server.incoming import Incoming
from jjq.server.loop_steps import Pace, Turns
from tests.jjq.serving import Served, until


class Client:
    """A connection. Its messages come when `send` says so."""

    def __init__(self, incoming: Incoming, name: str) -> None:
        self._incoming = incoming
        self._name = name
        self._asked: list[asyncio.Future[object]] = []
        self.calls: list[asyncio.Task[bytes]] = []

    def peer(self) -> str:
        return self._name

    async def read(self) -> object:
        message: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._asked.append(message)
        return await message

    def asked(self) -> int:
        """Messages that the server wants now."""
        return len(self._asked)

    async def call(self, count: int = 1) -> None:
        for _ in range(count):
            self.calls.append(asyncio.create_task(self._incoming.receive(cast("Any", self))))
        await turn()

    async def send(self, message: object) -> None:
        self._asked.pop(0).set_result(message)
        await turn()


async def turn() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_small_messages_are_soon_received_many_at_a_time() -> None:
    client = Client(Incoming(Turns()), "a")
    await client.call(3 * RECEIVES_MAX)
    assert client.asked() == RECEIVES_FIRST
    most = 0
    while client.asked():
        await client.send(b"small")
        most = max(most, client.asked())
    assert most == RECEIVES_MAX
    assert [await call for call in client.calls] == [b"small"] * 3 * RECEIVES_MAX


async def test_after_a_large_message_few_are_received_at_a_time_and_others_do_not_wait() -> None:
    incoming = Incoming(Turns())
    greedy, healthy = Client(incoming, "greedy"), Client(incoming, "healthy")
    for client in (greedy, healthy):
        await client.call(RECEIVES_MAX)
        while client.asked():
            await client.send(b"small")
        await client.call(RECEIVES_MAX)
        assert client.asked() == RECEIVES_MAX
    await greedy.call(10)
    for _ in range(RECEIVES_MAX):
        await greedy.send(bytes(LARGE_BYTES))
    assert greedy.asked() == RECEIVES_FIRST
    assert healthy.asked() == RECEIVES_MAX


async def test_a_call_that_is_cancelled_gives_its_place_to_the_next() -> None:
    client = Client(Incoming(Turns()), "a")
    await client.call(RECEIVES_FIRST + 3)
    client.calls[RECEIVES_FIRST].cancel()  # waits for its turn
    client.calls[0].cancel()  # waits for its message
    await turn()
    assert client.asked() == RECEIVES_FIRST + 1  # one of which nobody waits for any more
    client._asked.pop(0)
    while client.asked():
        await client.send(b"x")
    outcomes = await asyncio.gather(*client.calls, return_exceptions=True)
    assert sum(outcome == b"x" for outcome in outcomes) == RECEIVES_FIRST + 1
    await client.call()
    assert client.asked() == 1


async def test_who_sent_much_waits_while_much_waits_to_be_decoded() -> None:
    turns = Turns()
    incoming = Incoming(turns)
    greedy, healthy = Client(incoming, "greedy"), Client(incoming, "healthy")
    await greedy.call()
    await greedy.send(bytes(LARGE_BYTES))
    stream = incoming.sender(cast("Any", greedy))
    async with turns.holding(INCOMING_BYTES_MAX):
        waiting = asyncio.create_task(incoming.stream_turn(stream))
        await greedy.call(2)
        await healthy.call()
        assert (greedy.asked(), healthy.asked(), waiting.done()) == (0, 1, False)
        await asyncio.wait_for(incoming.stream_turn(incoming.sender(cast("Any", healthy))), 1)
    await turn()
    assert (greedy.asked(), waiting.done()) == (RECEIVES_FIRST, True)
    assert turns.bytes == 0


async def test_small_messages_after_a_large_one_make_a_connection_light_again() -> None:
    turns = Turns()
    client = Client(Incoming(turns), "a")
    for message in (bytes(LARGE_BYTES), *[b"small"] * RECEIVES_MAX):
        await client.call()
        await client.send(message)
    async with turns.holding(INCOMING_BYTES_MAX):
        await client.call()
        assert client.asked() == 1


async def test_a_call_without_a_request_is_refused(fake: Served) -> None:
    client = Client(Incoming(Turns()), "a")
    await client.call()
    await client.send(grpc.aio.EOF)
    with pytest.raises(InvalidInput, match="no request"):
        await client.calls[0]
    for method in ("Push", "GetQueue", "Read"):
        call: Any = fake.channel.stream_stream(f"/jjq.v1.Jjq/{method}")()
        await call.done_writing()
        with pytest.raises(grpc.aio.AioRpcError, match="no request") as caught:
            await call.read()
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_of_many_that_are_ready_one_goes_on_in_each_round() -> None:
    pace, rounds = Pace(), 0
    went: list[int] = []

    async def count() -> None:
        nonlocal rounds
        while True:
            await asyncio.sleep(0)
            rounds += 1

    async def work() -> None:
        for _ in range(3):
            await pace.turn()
            went.append(rounds)

    counting = asyncio.create_task(count())
    tasks = [asyncio.create_task(work()) for _ in range(20)]
    gone = asyncio.create_task(work())
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.gather(*tasks)
    counting.cancel()
    assert len(went) >= 60
    assert len(set(went)) == len(went)
    await until(lambda: not pace._taken)
    with pytest.raises(StopIteration):
        pace.turn().send(None)  # a lone one goes on at once
