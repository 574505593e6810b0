"""One push and one cold pop pass the rooms that docs/architecture.md promises, and no others.

Every call of a function of the product is noted, in all threads of the server, while one request runs. The client is
generated code alone, so that what is noted is the server's. A push enters its rooms in one order; a cold pop reads in
worker threads, so its order is not compared.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from coldstore.objects.memory import MemoryObjects
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.shared.limits import KIB
from coldstore.store import ColdStore
from hotstore.opening import open_store
from hotstore.settings import HotSettings
from jjq.v1 import jjq_pb2 as pb
from tests.architecture.tree import PACKAGES, ROOT
from tests.jjq.serving import Served, served

QUIET = HotSettings(maintain_seconds=3600.0)  # nothing happens on its own meanwhile
BACKGROUND = "journal-spares"  # but that the journal prepares its next file, for no request


class Trace:
    """The rooms that were entered, each once, in the order of the first call."""

    def __init__(self) -> None:
        self.rooms: dict[str, None] = {}
        self._on = False

    @contextmanager
    def noted(self) -> Iterator[None]:
        self.rooms.clear()
        self._on = True
        try:
            yield
        finally:
            self._on = False

    def call(self, frame: FrameType, event: str, _: Any) -> None:
        if self._on and event == "call" and not threading.current_thread().name.startswith(BACKGROUND):
            room = _room(frame.f_code.co_filename)
            if room:
                self.rooms.setdefault(room)


def _room(file: str) -> str:
    """The folder of a product file. What is not in a room is a port or a face of its package; `shared` holds
    the vocabulary that all rooms use, and v1 is generated."""
    path = Path(file)
    if not path.is_relative_to(ROOT):
        return ""
    parts = path.relative_to(ROOT).parts
    if parts[0] not in PACKAGES or len(parts) < 3 or parts[1] in {"shared", "v1"}:
        return ""
    return "/".join(parts[:2])


@pytest.fixture
def trace() -> Iterator[Trace]:
    found = Trace()
    threading.setprofile(found.call)  # for threads that begin from now on
    sys.setprofile(found.call)
    yield found
    sys.setprofile(None)
    threading.setprofile(None)


@pytest.fixture
async def traced(trace: Trace, tmp_path: Path) -> AsyncIterator[Served]:
    clock, chance = SystemClock(), SystemChance()
    cold = ColdStore(MemoryObjects(), clock, chance)
    store = await open_store(tmp_path, cold, settings=QUIET, clock=clock, chance=chance)
    try:
        async with served(store) as jjq:
            request = pb.CreateQueueRequest(name="orders", block_bytes=64 * KIB)
            await jjq.stub.CreateQueue(request)
            await jjq.stub.Push(_push(b"warm"))
            yield jjq
    finally:
        await store.close()


def _push(value: bytes) -> pb.PushRequest:
    return pb.PushRequest(queue="orders", elements=pb.Elements(elements=[pb.Element(value=value)]))


def promised(section: str) -> list[str]:
    """The rooms that docs/architecture.md names, in order: `1. **server** (`jjq/server/`): …`."""
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    text = page.split(f"## {section}\n")[1].split("\n## ")[0]
    return re.findall(r"^\d+\. \*\*\w+\*\* \(`([\w/]+)/`\)", text, re.MULTILINE)


async def test_a_push_passes_the_five_rooms_that_are_promised(traced: Served, trace: Trace) -> None:
    with trace.noted():
        reply = await traced.stub.Push(_push(b"a"))
    assert reply.receipt.first_offset == 1
    assert list(trace.rooms) == promised("The life of a push")
    assert len(trace.rooms) == 5


async def test_a_cold_pop_passes_the_rooms_that_are_promised(traced: Served, trace: Trace) -> None:
    await traced.store.seal("orders")
    # Only now is there somebody to read it: a block that subscribers are in stays in memory.
    request = pb.CreateSubscriberRequest(queue="orders", name="billing", start="beginning")
    await traced.stub.CreateSubscriber(request)
    with trace.noted():
        reply = await traced.stub.Pop(pb.PopRequest(subscriber="orders/billing", max=1))
    assert len(reply.elements.elements) == 1
    assert set(trace.rooms) == set(promised("The life of a pop"))
