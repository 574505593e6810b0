"""Hints: followed once a connection stands, forgotten when it breaks, harmless where none can be made."""

from __future__ import annotations

import asyncio

import pytest

from coldstore.shared.clock import ManualClock
from coldstore.shared.errors import Unavailable
from jjq.limits import HINT_SECONDS
from jjq.remote.channels import Hints
from tests.jjq.serving import until


class Network:
    """Connects when told so."""

    def __init__(self) -> None:
        self.tried: list[str] = []
        self.open = asyncio.Event()
        self.broken = False

    async def connect(self, address: str) -> None:
        self.tried.append(address)
        await self.open.wait()
        if self.broken:
            raise Unavailable("no way")


@pytest.fixture
def network() -> Network:
    return Network()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


async def test_a_hint_counts_when_the_connection_stands(network: Network, clock: ManualClock) -> None:
    hints = Hints(network.connect, clock)
    hints.learn("q", "b:1")
    hints.learn("r", "b:1")
    hints.learn("q", "b:1")
    assert hints.owner("q") is None
    network.open.set()
    await until(lambda: hints.owner("q") == hints.owner("r") == "b:1")
    assert network.tried == ["b:1"]
    hints.learn("s", "b:1")
    assert hints.owner("s") == "b:1"  # at once: it is reached


async def test_the_last_word_counts(network: Network, clock: ManualClock) -> None:
    hints = Hints(network.connect, clock)
    hints.learn("q", "b:1")
    hints.learn("q", "c:1")
    network.open.set()
    await until(lambda: hints.owner("q") == "c:1")
    hints.learn("q", "b:1")
    assert hints.owner("q") == "b:1"


async def test_what_cannot_be_reached_is_left_alone_for_a_while(network: Network, clock: ManualClock) -> None:
    hints = Hints(network.connect, clock)
    network.broken = True
    network.open.set()
    hints.learn("q", "b:1")
    await until(lambda: not hints.reach("b:1") and not hints._trying)
    for _ in range(5):
        hints.learn("q", "b:1")
    assert (network.tried, hints.owner("q")) == (["b:1"], None)
    clock.advance(HINT_SECONDS)
    network.broken = False
    hints.learn("q", "b:1")
    await until(lambda: hints.owner("q") == "b:1")


async def test_a_server_that_fails_is_forgotten_with_all_its_queues(
    network: Network, clock: ManualClock
) -> None:
    hints = Hints(network.connect, clock)
    network.open.set()
    for queue, owner in [("q", "b:1"), ("r", "b:1"), ("s", "c:1")]:
        hints.learn(queue, owner)
    await until(lambda: all(hints.owner(queue) for queue in "qrs"))
    hints.failed("b:1")
    assert [hints.owner(queue) for queue in "qrs"] == [None, None, "c:1"]


async def test_a_client_remembers_so_many(
    network: Network, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jjq.remote.channels.HINTS_MAX", 2)
    hints = Hints(network.connect, clock)
    network.open.set()
    hints.learn("q", "b:1")
    await until(lambda: hints.owner("q") == "b:1")
    hints.learn("r", "b:1")
    hints.learn("s", "b:1")
    assert [hints.owner(queue) for queue in "qrs"] == [None, "b:1", "b:1"]


async def test_closing_ends_what_is_being_tried(network: Network, clock: ManualClock) -> None:
    hints = Hints(network.connect, clock)
    hints.learn("q", "b:1")
    await until(lambda: bool(network.tried))
    await hints.close()
    assert hints.owner("q") is None
