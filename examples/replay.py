"""Look at the past hour, without a subscriber: python examples/replay.py [HOST:PORT]

A replay comes as Arrow record batches, so a million elements cost no Python work per element.
"""

from __future__ import annotations

import sys

import pyarrow.compute as pc

import jjq

server = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:7575"

with jjq.connect(server) as client:
    events = total_bytes = 0
    for batch in client.replay("clicks", start="ago:1h"):
        events += batch.num_rows
        total_bytes += pc.sum(pc.binary_length(batch.column("value"))).as_py()
    print(f"{events} events of {total_bytes} bytes in the past hour")

    table = client.replay("clicks", start="last:1000").to_table()  # all of it in memory
    users = pc.value_counts(table.column("key"))
    print(f"the last 1,000 are from {len(users)} users")
