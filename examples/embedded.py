"""The log in your own process, without a server, as SQLite is to a database: python examples/embedded.py [FOLDER]

The folder holds everything: the journal, and the history as Parquet files that DuckDB reads as they are.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import duckdb

import jjq

folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp())

with jjq.open(folder) as client:
    client.create_queue("measurements", content="json", block_bytes=64 * 1024)
    alarms = client.create_subscriber("measurements", name="alarms", start="beginning")

    client.push("measurements", [f'{{"sensor": {n % 5}, "value": {n % 101}}}' for n in range(5_000)])

    loud = [e for e in client.pop(alarms, max=5_000) if '"value": 100}' in e.value]
    print(f"{len(loud)} alarms, the first at offset {loud[0].offset}")

    client.seal("measurements")  # do not wait for the block to fill up

query = """
    SELECT value ->> 'sensor' AS sensor, count(*) AS measurements, max((value ->> 'value')::int) AS most
    FROM read_parquet(?) GROUP BY ALL ORDER BY ALL
"""
blocks = str(folder / "cold/queues/measurements/data/*.parquet")
print(duckdb.execute(query, [blocks]).fetchall())
