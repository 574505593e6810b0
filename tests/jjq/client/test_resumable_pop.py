"""A pop whose reply is lost: nothing is skipped, nothing comes twice."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from coldstore.shared.errors import Conflict, NotFound, Unavailable
from jjq.client.client import AsyncClient
from tests.jjq.client.faulty import FaultyStore, lost, until


@pytest.fixture
async def client(faulty: FaultyStore) -> AsyncClient:
    made = AsyncClient(faulty, retry_seconds=10.0)
    await made.push("orders", [b"%d" % n for n in range(10)])
    await made.create_subscriber("orders", "s", "beginning")
    return made


async def popped(client: AsyncClient, most: int = 3) -> list[bytes | str]:
    return [e.value for e in await client.pop("orders/s", max=most)]


@pytest.mark.parametrize(
    "faults",
    [["after"], ["before"], ["after", "after"], ["before", "after", "before", "after"]],
    ids=["reply lost", "request lost", "two replies lost", "many lost"],
)
async def test_a_pop_that_was_lost_is_repeated_without_skipping(
    client: AsyncClient, faulty: FaultyStore, faults: Sequence[str]
) -> None:
    assert await popped(client) == [b"0", b"1", b"2"]
    faulty.fail("pop", *(lost("after" if mode == "after" else "before") for mode in faults))
    assert await popped(client) == [b"3", b"4", b"5"]
    assert await popped(client) == [b"6", b"7", b"8"]


async def test_the_very_first_pop_may_be_lost_as_well(client: AsyncClient, faulty: FaultyStore) -> None:
    faulty.fail("pop", lost("after"))
    assert await popped(client) == [b"0", b"1", b"2"]


async def test_a_pop_after_a_cancelled_one_gives_what_that_had_taken(
    client: AsyncClient, faulty: FaultyStore
) -> None:
    assert await popped(client) == [b"0", b"1", b"2"]
    faulty.gates["pop"] = asyncio.Event()  # the store has popped, the reply is under way
    breaking = asyncio.create_task(popped(client))
    await until(lambda: faulty.inner.queues["orders"].subscribers["s"].offset == 6)
    breaking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await breaking
    faulty.gates.clear()
    assert await popped(client) == [b"3", b"4", b"5"]


async def test_two_clients_that_share_a_subscriber_share_its_elements(
    client: AsyncClient, faulty: FaultyStore
) -> None:
    other = AsyncClient(faulty, retry_seconds=10.0)
    assert await popped(client) == [b"0", b"1", b"2"]
    assert await popped(other) == [b"3", b"4", b"5"]
    assert await popped(client) == [b"6", b"7", b"8"]


async def test_a_lost_pop_beside_another_is_reported_and_not_guessed(
    client: AsyncClient, faulty: FaultyStore
) -> None:
    gate = faulty.gates["pop"] = asyncio.Event()
    faulty.fail("pop", lost("after"), None)
    one, other = (asyncio.create_task(popped(client)) for _ in range(2))
    await until(lambda: faulty.calls.get("pop", 0) == 2)
    gate.set()
    with pytest.raises(Unavailable):
        await one
    assert await other == [b"3", b"4", b"5"]
    assert await popped(client) == [b"6", b"7", b"8"]


async def test_when_someone_else_moved_the_subscriber_meanwhile_the_caller_decides(
    client: AsyncClient, faulty: FaultyStore
) -> None:
    assert await popped(client) == [b"0", b"1", b"2"]
    moving = AsyncClient(faulty)

    def judge(number: int) -> None:
        faulty.judges.clear()
        faulty.inner.queues["orders"].subscribers["s"] = faulty.inner._place(
            faulty.inner.queues["orders"], faulty.inner.queues["orders"].subscribers["s"], 8, 8
        )
        raise Unavailable("lost while someone seeks")

    faulty.judges["pop"] = judge
    with pytest.raises(Conflict):
        await popped(client)
    assert await popped(client) == [b"8", b"9"]
    assert (await moving.get_subscriber("orders/s")).offset == 10


async def test_a_seek_of_our_own_is_remembered(client: AsyncClient, faulty: FaultyStore) -> None:
    assert await popped(client) == [b"0", b"1", b"2"]
    await client.seek("orders/s", "offset:5")
    faulty.fail("pop", lost("after"))
    assert await popped(client) == [b"5", b"6", b"7"]


async def test_a_client_in_process_does_not_repeat_a_pop(faulty: FaultyStore) -> None:
    client = AsyncClient(faulty)
    await client.create_subscriber("orders", "s")
    faulty.fail("pop", lost("before"))
    with pytest.raises(Unavailable):
        await client.pop("orders/s")
    assert faulty.calls["pop"] == 1


async def test_a_pop_that_stays_lost_fails_when_the_time_is_over(faulty: FaultyStore) -> None:
    client = AsyncClient(faulty, retry_seconds=0.2)
    await client.create_subscriber("orders", "s")
    faulty.fail("pop", *[lost("before")] * 100)
    with pytest.raises(Unavailable):
        await client.pop("orders/s")
    assert faulty.calls["pop"] > 1


async def test_a_subscriber_that_is_not_there_is_said_at_once(client: AsyncClient) -> None:
    with pytest.raises(NotFound):
        await client.pop("orders/nobody")
