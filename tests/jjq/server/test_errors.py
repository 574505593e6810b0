"""What a store raises is what a client catches: every kind, through a real connection."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from coldstore.shared.errors import Exhausted, JjqError, Unavailable
from hotstore.port import Push, QueueInfo, Receipt
from jjq.remote.settings import RemoteSettings
from tests.jjq.fakestore import FakeStore
from tests.jjq.serving import served, values
from tests.jjq.wire.test_status import EXAMPLES

ONCE = RemoteSettings(patient=False, direct=False)  # what is refused for now is not tried again
HASTY = RemoteSettings(timeout_seconds=2.0)


class Raising(FakeStore):
    """Answers everything with one error."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error
        self.asked = 0

    async def get_queue(self, name: str) -> QueueInfo:
        self.asked += 1
        raise self.error

    async def append(self, push: Push) -> Receipt:
        self.asked += 1
        raise self.error

    async def read(self, *args: Any, **fields: Any) -> AsyncIterator[Any]:
        for error in [self.error]:
            raise error
        yield


@pytest.mark.parametrize("error", EXAMPLES, ids=repr)
async def test_an_error_crosses_the_wire_unchanged(error: JjqError) -> None:
    async with served(Raising(error), remote=ONCE) as jjq:
        with pytest.raises(type(error)) as caught:
            await jjq.remote.get_queue("orders")
        assert type(caught.value) is type(error)
        assert vars(caught.value) == vars(error)


@pytest.mark.parametrize(
    "error", [e for e in EXAMPLES if not isinstance(e, Exhausted | Unavailable)], ids=repr
)
async def test_an_error_of_a_streamed_push_arrives_unchanged(error: JjqError) -> None:
    async with served(Raising(error), remote=ONCE) as jjq:
        with pytest.raises(type(error)) as caught:
            await jjq.remote.push("orders", values(b"a"), producer="p", sequence=0)
        assert vars(caught.value) == vars(error)


@pytest.mark.parametrize(
    "error", [e for e in EXAMPLES if not isinstance(e, Exhausted | Unavailable)], ids=repr
)
async def test_an_error_in_a_stream_arrives_unchanged(error: JjqError) -> None:
    store = Raising(error)
    await store.create_queue("orders")
    async with served(store, remote=ONCE) as jjq:
        with pytest.raises(type(error)) as caught:
            async for _ in jjq.remote.read("orders"):
                pass
        assert vars(caught.value) == vars(error)


async def test_a_mistake_in_the_server_is_of_unknown_outcome_to_the_client() -> None:
    store = Raising(ZeroDivisionError())
    async with served(store, remote=HASTY) as jjq:
        with pytest.raises(Unavailable, match="unknown"):
            await jjq.remote.push("orders", values(b"a"))
        assert store.asked == 1  # a plain push is not repeated when it may have been written
        with pytest.raises(Unavailable, match="did not foresee"):
            await jjq.remote.get_queue("orders")
        assert store.asked > 2  # a question is


async def test_exhausted_is_retried_after_the_delay_it_names() -> None:
    class Filling(FakeStore):
        """Full for the first three pushes."""

        refused = 0

        async def append(self, push: Push) -> Receipt:
            if self.refused < 3:
                self.refused += 1
                raise Exhausted("full", retry_after=0.01)
            return await super().append(push)

    async with served(Filling()) as jjq:
        await jjq.remote.create_queue("orders")
        assert (await jjq.remote.push("orders", values(b"a"))).first_offset == 0
