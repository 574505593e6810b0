"""Time runs out while the last answer was a certain refusal: that refusal is the error, with its reason."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

import jjq
from coldstore.shared.batch import payload
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.shared.deadline import within
from coldstore.shared.errors import Exhausted, Unavailable
from coldstore.shared.push import Push
from jjq.client.client import AsyncClient
from jjq.remote.settings import RemoteSettings
from jjq.remote.store import RemoteStore
from tests.jjq.fakestore import FakeStore
from tests.jjq.serving import Served, numbers, served, until, values

WHY = "the journal's disk has 0 bytes free"
HASTY = RemoteSettings(timeout_seconds=1.5)


class Full(FakeStore):
    """A store that refuses every verb while it is full, for longer than its clients have time."""

    def __init__(self) -> None:
        super().__init__()
        self.full = False
        self.retry_after = 60.0
        self.pushes = 0
        self.silent = False  # pushes are not answered

    def refuse(self) -> None:
        if self.full:
            raise Exhausted(WHY, retry_after=self.retry_after)

    async def append(self, push: Push) -> jjq.Receipt:
        self.pushes += 1
        self.refuse()
        if self.silent:
            await asyncio.Event().wait()
        return await super().append(push)


def refusing(verb: str) -> Any:
    async def call(self: Full, *args: Any, **fields: Any) -> Any:
        self.refuse()
        return await getattr(FakeStore, verb)(self, *args, **fields)

    return call


VERBS: dict[str, Callable[[RemoteStore], Awaitable[Any]]] = {
    "create_queue": lambda r: r.create_queue("other"),
    "get_queue": lambda r: r.get_queue("orders"),
    "list_queues": lambda r: r.list_queues(),
    "create_subscriber": lambda r: r.create_subscriber("orders"),
    "get_subscriber": lambda r: r.get_subscriber("orders/x"),
    "delete_subscriber": lambda r: r.delete_subscriber("orders/x"),
    "seek": lambda r: r.seek("orders/x", "end"),
    "sleep": lambda r: r.sleep("orders/x"),
    "peek": lambda r: r.peek("orders/x"),
    "pop": lambda r: r.pop("orders/x"),
    "confirm": lambda r: r.confirm("orders/x", 0),
}
for name in VERBS:
    setattr(Full, name, refusing(name))

PUSHES: dict[str, Callable[[RemoteStore], Awaitable[Any]]] = {
    "plain": lambda r: r.push("orders", values(b"a")),
    "cold": lambda r: r.push("orders", values(b"a"), stage="cold"),
    "expected": lambda r: r.push("orders", values(b"a"), expected_offset=0),
    "in order": lambda r: r.push("orders", values(b"a"), producer="p", sequence=0),
}


@pytest.fixture
async def full() -> AsyncIterator[Served]:
    async with served(Full(), remote=HASTY) as all_of_it:
        async with RemoteStore(
            all_of_it.server.address
        ) as patient:  # the first call of a process takes longest
            await patient.create_queue("orders")
            await patient.create_subscriber("orders", "x", "beginning")
        yield all_of_it


@pytest.mark.parametrize("verb", [*VERBS, *PUSHES])
async def test_a_full_disk_is_the_error_of_every_verb(full: Served, verb: str) -> None:
    full.store.full = True
    with pytest.raises(Exhausted, match=WHY) as caught:
        await (VERBS | PUSHES)[verb](full.remote)
    assert caught.value.retry_after == 60.0


@pytest.mark.parametrize("verb", PUSHES)
async def test_what_was_refused_is_not_written_later(full: Served, verb: str) -> None:
    full.store.full = True
    full.store.retry_after = 0.3  # tried again, and refused again
    with pytest.raises(Exhausted):
        await PUSHES[verb](full.remote)
    full.store.full = False
    pushes = full.store.pushes
    assert (await full.remote.push("orders", values(b"b"), producer="q", sequence=0)).first_offset == 0
    assert full.store.pushes == pushes + 1


async def test_those_behind_a_refused_push_are_refused_with_it(full: Served) -> None:
    full.store.full = True
    pushes = [full.remote.push("orders", numbers(n, 1), producer="p", sequence=n) for n in range(5)]
    outcomes = await asyncio.gather(*pushes, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [Exhausted] * 5
    # And when there is room again the same sequences go through, in order
    full.store.full = False
    again = [full.remote.push("orders", numbers(n, 1), producer="p", sequence=n) for n in range(5)]
    assert [r.first_offset for r in await asyncio.gather(*again)] == [0, 1, 2, 3, 4]


async def test_a_push_that_waits_for_room_hears_why_there_is_none(full: Served) -> None:
    narrow = RemoteSettings(timeout_seconds=30.0, in_flight_bytes_max=1)
    async with RemoteStore(full.server.address, narrow) as remote:
        full.store.full = True
        first = asyncio.ensure_future(
            remote.push("orders", payload("bytes", [b"x" * 100]), producer="p", sequence=0)
        )
        await until(lambda: full.store.pushes)
        with pytest.raises(Exhausted, match=WHY):
            async with within(0.5, "silence"):
                await remote.push("orders", values(b"b"), producer="q", sequence=0)
        first.cancel()
        assert isinstance((await asyncio.gather(first, return_exceptions=True))[0], asyncio.CancelledError)


async def test_a_push_without_an_answer_stays_of_unknown_outcome_though_it_was_refused_before(
    full: Served,
) -> None:
    """It was sent again after the refusal, so it may have been written."""
    full.store.full, full.store.retry_after = True, 0.1
    push = asyncio.ensure_future(full.remote.push("orders", values(b"a"), producer="p", sequence=0))
    await until(lambda: full.store.pushes)
    full.store.full, full.store.silent = False, True
    with pytest.raises(Unavailable, match="unknown") as caught:
        await push
    assert caught.value.sent
    assert full.store.pushes == 2


@pytest.mark.parametrize("deadline", [0.5, 30.0])
async def test_a_producer_tells_the_refusal_whichever_time_runs_out_first(
    full: Served, deadline: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jjq.client.producer._ATTEMPT_SECONDS", 0.5)
    remote = RemoteSettings(timeout_seconds=30.0 if deadline < 1 else 0.5)
    async with RemoteStore(full.server.address, remote) as store:
        client = AsyncClient(store, clock=SystemClock(), chance=SystemChance())
        full.store.full = True
        producer = client.producer("orders", deadline=deadline)
        pushed = await producer.push(b"a")
        with pytest.raises(Exhausted, match=WHY):
            await producer.flush()
        with pytest.raises(Exhausted):
            await pushed
