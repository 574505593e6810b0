"""A seek at the worst moment: elements of a Subscribe stream are about to be written while another write is slow."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pyarrow as pa

from coldstore.shared.clock import SystemClock
from coldstore.shared.limits import MIB
from jjq.server.cluster_port import no_hint
from jjq.server.loop_steps import StepScheduler
from jjq.server.meter import Meter
from jjq.server.open_streams import Streams
from jjq.server.outgoing import Outgoing
from jjq.server.shutdown import Drain
from jjq.server.streams.subscribe import Credit, SubscribeStream
from jjq.v1 import jjq_pb2 as pb
from tests.jjq.fakestore import FakeStore
from tests.jjq.serving import numbers, until

SUBSCRIBER = "orders/billing"


class SlowClient:
    """The server's side of a call, made by hand: what is written waits at a gate."""

    def __init__(self) -> None:
        self.meter = Meter("Subscribe")
        self.outgoing = Outgoing(64 * MIB, SystemClock())
        self.gate = asyncio.Event()
        self.gate.set()
        self.begun = 0
        self.got: list[pb.SubscribeResponse] = []
        self._said: asyncio.Queue[bytes | None] = asyncio.Queue()

    def say(self, request: pb.SubscribeRequest | None) -> None:
        self._said.put_nowait(None if request is None else request.SerializeToString())

    async def read(self) -> bytes | None:
        return await self._said.get()

    async def write(self, raw: bytes) -> None:
        self.begun += 1
        await self.gate.wait()
        self.got.append(pb.SubscribeResponse.FromString(raw))

    @property
    def offsets(self) -> list[tuple[int, int]]:
        """Generation and offset of every element that came."""
        return [(message.generation, e.offset) for message in self.got for e in message.elements.elements]


class CountedCuts(Credit):
    """Credit that tells how often elements were taken for sending."""

    count = 0

    def cut(self, batch: pa.RecordBatch, most: int) -> tuple[pa.RecordBatch, int]:
        self.count += 1
        return super().cut(batch, most)


async def test_elements_from_before_a_seek_are_not_sent_after_it_and_their_credit_is_given_back() -> None:
    # Given a stream that has sent one element, and whose next message is slow to leave
    store, client = FakeStore(), SlowClient()
    await store.create_queue("orders")
    await store.create_subscriber("orders", "billing", "beginning")
    await store.push("orders", numbers(0, 10))
    start = pb.SubscribeStart(
        subscriber=SUBSCRIBER, credit=pb.Credit(elements=1), form=pb.FORM_ELEMENTS, batch_elements=2
    )
    streams = Streams(store)
    stream = SubscribeStream(store, streams, Drain(), StepScheduler(), no_hint, cast("Any", client), start)
    cuts = stream._credit = CountedCuts(1, 0)
    serving = asyncio.create_task(stream.run())
    await until(lambda: client.offsets == [(0, 0)])
    client.gate.clear()
    begun = client.begun
    client.say(pb.SubscribeRequest(confirm=pb.Confirmation(offset=1, generation=0)))
    await until(lambda: client.begun > begun)
    # When more elements are allowed, so that they wait behind it, and the subscriber is moved meanwhile
    client.say(pb.SubscribeRequest(credit=pb.Credit(elements=2)))
    await until(lambda: cuts.count == 2)
    async with streams.moving(SUBSCRIBER, dry_run=False) as moved:
        moved((await store.seek(SUBSCRIBER, "offset:5")).offset)
    client.gate.set()
    # Then only what follows the seek comes, for the credit that was not used
    await until(lambda: len(client.offsets) == 3)
    assert client.offsets == [(0, 0), (1, 5), (1, 6)]
    client.say(None)
    await serving
    await streams.close()
