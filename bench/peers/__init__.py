"""jjq beside its peers: the same work, the same durability, each through its usual Python client."""

from __future__ import annotations

from rich.console import Console

from bench.row import Row


def run(quick: bool) -> list[Row]:
    """Compare with all peers, print the table, write bench/results/; gives what the machine can do."""
    from bench.peers.compare import compared, limit_rows, results
    from bench.peers.report import terminal, write
    from bench.peers.systems.registry import SYSTEMS

    console = Console()
    found = compared(SYSTEMS, "quick" if quick else "full", console.log)
    write(found, results(found["size"]))
    console.print(terminal(found))
    return limit_rows(found)
