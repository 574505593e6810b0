"""Messages on their way in: a connection that sends much waits, and nobody waits for it."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import grpc
import pyarrow as pa
import pytest

from coldstore.shared.errors import InvalidInput
from hotstore.port import Push, Receipt
from jjq.limits import INCOMING_BYTES_MAX, LARGE_BYTES, RECEIVES_FIRST, RECEIVES_MAX
from jjq.server import incoming as module
from jjq.server.incoming import Incoming, LargeMessages, LargePlace
from jjq.server.loop_steps import Pace
from tests.jjq.server import greedy
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
    client = Client(Incoming(), "a")
    await client.call(3 * RECEIVES_MAX)
    assert client.asked() == RECEIVES_FIRST
    most = 0
    while client.asked():
        await client.send(b"small")
        most = max(most, client.asked())
    assert most == RECEIVES_MAX
    assert [await call for call in client.calls] == [b"small"] * 3 * RECEIVES_MAX


async def test_after_a_large_message_few_are_received_at_a_time_and_others_do_not_wait() -> None:
    incoming = Incoming()
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
    client = Client(Incoming(), "a")
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


async def heavy(incoming: Incoming, name: str, size: int = LARGE_BYTES) -> Client:
    """A connection that has just sent a message of so many bytes."""
    client = Client(incoming, name)
    await client.call()
    await client.send(bytes(size))
    return client


async def test_who_sent_much_waits_while_much_is_worked_on() -> None:
    incoming = Incoming()
    greedy, healthy = await heavy(incoming, "greedy"), Client(incoming, "healthy")
    place = incoming.large.hold(INCOMING_BYTES_MAX)
    await greedy.call(2)
    await healthy.call()
    assert (greedy.asked(), healthy.asked()) == (0, 1)
    place.leave()
    await turn()
    assert greedy.asked() == RECEIVES_FIRST
    await greedy.send(b"small")
    await greedy.send(b"small")
    assert incoming.large.bytes == 0


async def test_streams_of_who_sent_much_wait_for_the_same() -> None:
    incoming = Incoming()
    client = await heavy(incoming, "greedy")
    sender = incoming.sender(cast("Any", client))
    place = incoming.large.hold(INCOMING_BYTES_MAX)
    reading = asyncio.ensure_future(incoming.reading(sender, cast("Any", client)))
    await turn()
    assert client.asked() == 0
    place.leave()
    await turn()
    await client.send(b"next")
    assert await reading == b"next"


async def test_large_messages_of_all_connections_share_one_budget_and_take_turns() -> None:
    incoming = Incoming()
    size = INCOMING_BYTES_MAX // 3
    clients = [await heavy(incoming, f"{n}", size) for n in range(8)]
    assert incoming.large.bytes == 0  # what came is counted by whoever works on it
    served: list[Client] = []
    places: list[LargePlace] = []

    async def handle(client: Client) -> None:
        places.append(incoming.large.hold(len(await incoming.receive(cast("Any", client)))))

    handling = [asyncio.create_task(handle(client)) for client in clients]
    await turn()
    while len(served) < len(clients):
        asked = [client for client in clients if client.asked()]
        assert len(asked) + len(places) == min(3, len(clients) - len(served))
        assert incoming.large.bytes <= INCOMING_BYTES_MAX
        served.append(asked[0])
        await asked[0].send(bytes(size))
        assert incoming.large.bytes <= INCOMING_BYTES_MAX
        places.pop().leave()
        await turn()
    await asyncio.gather(*handling)
    assert served == clients
    assert incoming.large.bytes == 0


async def test_many_messages_of_one_connection_do_not_hold_up_one_of_another() -> None:
    large = LargeMessages()
    first = large.hold(INCOMING_BYTES_MAX)
    order: list[str] = []

    async def enter(who: str) -> None:
        place = await large.enter(who, INCOMING_BYTES_MAX)
        order.append(who)
        place.leave()

    tasks = [asyncio.create_task(enter(who)) for who in ("many", "many", "many", "one")]
    await turn()
    tasks[1].cancel()
    first.leave()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert order == ["many", "one", "many"]
    assert large.bytes == 0


async def test_a_place_that_nobody_uses_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client stalls in the middle of a message, or a push waits for others: nobody else waits for that."""
    monkeypatch.setattr(module, "RECEIVE_SECONDS", 0.01)
    monkeypatch.setattr(module, "HOLD_SECONDS", 0.01)
    large = LargeMessages()
    stalled = await large.enter("stalled", INCOMING_BYTES_MAX)
    waits = large.hold(INCOMING_BYTES_MAX)
    place = await asyncio.wait_for(large.enter("other", INCOMING_BYTES_MAX), 60)
    for each in (stalled, waits, place, place):
        each.leave()
    assert large.bytes == 0


async def test_who_is_let_in_and_cancelled_at_the_same_moment_leaves_its_place() -> None:
    large = LargeMessages()
    first = large.hold(INCOMING_BYTES_MAX)
    waiting = asyncio.create_task(large.enter("a", INCOMING_BYTES_MAX))
    await turn()
    first.leave()
    large._admit_waiting()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert waiting.cancelled()
    assert large.bytes == 0


async def test_small_messages_after_a_large_one_make_a_connection_light_again() -> None:
    incoming = Incoming()
    client = await heavy(incoming, "a")
    for _ in range(RECEIVES_MAX):
        await client.call()
        await client.send(b"small")
    incoming.large.hold(INCOMING_BYTES_MAX)
    await client.call()
    assert client.asked() == 1


async def test_a_large_request_has_a_place_while_it_is_worked_on(fake: Served) -> None:
    """Also one that is refused, over gRPC, and one of a stream."""
    large = fake.server._incoming.large
    held: list[int] = []

    async def append(push: Push) -> Receipt:
        held.append(large.bytes)
        return Receipt(0, push.payload.num_rows, 0, "synced")

    fake.store.append = append
    await fake.remote.create_queue("orders")
    raw = greedy.arrow(pa.RecordBatch.from_arrays([pa.array([bytes(LARGE_BYTES)])], ["value"]), "orders")
    await fake.raw("Push")(raw)
    assert held == [len(raw)]
    with pytest.raises(grpc.aio.AioRpcError):
        await fake.raw("GetQueue")(raw)
    await until(lambda: large.bytes == 0)
    call: Any = fake.channel.stream_stream("/jjq.v1.Jjq/PushStream")()
    await call.write(raw)
    await call.read()
    assert held == [len(raw)] * 2
    call.cancel()
    await until(lambda: large.bytes == 0)


async def test_a_call_without_a_request_is_refused(fake: Served) -> None:
    client = Client(Incoming(), "a")
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
