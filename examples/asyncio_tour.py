"""The same verbs for asyncio: python examples/asyncio_tour.py [HOST:PORT]"""

from __future__ import annotations

import asyncio
import sys

import jjq

server = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:7575"


async def produce(client: jjq.aio.Client, name: str) -> None:
    async with client.producer("chat") as producer:
        pushed = [await producer.push(f"{name} says {n}") for n in range(1_000)]  # waits only for room
    print(f"{name}: the last one is at offset {(await pushed[-1]).first_offset}")


async def listen(client: jjq.aio.Client, how_many: int) -> None:
    listener = await client.create_subscriber("chat", name="listener", start="beginning")
    heard = 0
    async with client.subscribe(listener) as subscription:
        async for batch in subscription.batches():  # Arrow; iterate over `subscription` for elements
            heard += batch.num_rows
            if heard >= how_many:
                await subscription.confirm()
                break
    print(f"heard {heard} messages")


async def main() -> None:
    async with jjq.aio.connect(server) as client:
        await client.create_queue("chat", content="text")
        await asyncio.gather(produce(client, "ann"), produce(client, "bob"), listen(client, 2_000))


asyncio.run(main())
