"""64 workers in one process, a server in another: each worker takes one task, acknowledges it, and takes the next."""

from __future__ import annotations

import asyncio
import math
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.groups.peers import PEERS, JjqGroup, WorkPeer
from bench.row import Row, at_least

WORKERS = 64
_NAME = "over the network, 64 workers, one task each: take + ack"
_VALUE = b"x" * 100


def network_rows(tasks: int, rounds: int, peers: tuple[type[WorkPeer], ...] = PEERS) -> list[Row]:
    """jjq, and each peer that is here; the best of so many rounds, by turns."""
    missing = {peer: reason for peer in peers if (reason := peer.missing())}
    here = [peer for peer in peers if peer not in missing]
    rates = {peer: max(found) for peer, found in network_rates(tasks, rounds, here).items()}
    rows = [at_least(f"{_NAME}: jjq", rates[JjqGroup], "/s", 8_000)]
    for peer in here[1:]:
        rows.append(Row(f"… {peer.title}", rates[peer], "/s"))
        times = rates[JjqGroup] / rates[peer]
        name = f"… jjq against {peer.title}"
        rows.append(at_least(name, times, "×", 1.0) if peer.must_beat else Row(name, times, "×"))
    return rows + [Row(f"… {peer.title}: {reason}", math.nan, "") for peer, reason in missing.items()]


def network_rates(
    tasks: int, rounds: int, peers: Sequence[type[WorkPeer]]
) -> dict[type[WorkPeer], list[float]]:
    """Tasks a second of each peer, in so many rounds by turns."""
    rates: dict[type[WorkPeer], list[float]] = {peer: [] for peer in peers}
    for _ in range(rounds):
        for peer in peers:
            with tempfile.TemporaryDirectory(prefix="jjq-bench-") as folder:
                rates[peer].append(asyncio.run(_rate(peer(Path(folder)), tasks)))
    return rates


async def _rate(peer: WorkPeer, tasks: int) -> float:
    """Tasks a second."""
    server = await peer.start()
    try:
        await peer.fill([_VALUE] * tasks, WORKERS)
        left = tasks

        async def work(number: int) -> None:
            nonlocal left
            while left > 0:
                left -= 1
                await peer.step(number)

        started = time.perf_counter()
        await asyncio.gather(*(work(number) for number in range(WORKERS)))
        rate = tasks / (time.perf_counter() - started)
        await peer.close()
        return rate
    finally:
        await server.stop()
