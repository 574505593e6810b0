"""Push events to a server, one by one, as fast as it takes them: python examples/producer.py [HOST:PORT]

The producer gathers single pushes into batches, keeps many in flight and repeats what got lost; each
event is written exactly once and in order, also if the server restarts meanwhile.
"""

from __future__ import annotations

import json
import sys

import jjq

server = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:7575"

with jjq.connect(server) as client:
    client.create_queue("clicks", content="json")
    with client.producer("clicks") as producer:
        pushed = []
        for n in range(100_000):
            event = {"click": n, "page": f"/page/{n % 7}"}
            pushed.append(
                producer.push(json.dumps(event), key=f"user-{n % 100}", headers={"source": b"example"})
            )
    # Leaving the block has waited for all of them. A future has the receipt of its push.
    print(f"pushed 100,000 events; the last one is at offset {pushed[-1].result().first_offset}")
