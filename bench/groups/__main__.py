"""Work queues as a chart: `python -m bench.groups [--tasks N] [--rounds N] [--results DIR]`.

Writes work.json, with every round, and work.png. The bar is the median of the rounds.
"""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from bench.groups.network import WORKERS, network_rates
from bench.groups.peers import PEERS, WorkPeer
from bench.peers.compare import results
from bench.peers.plot import draw

_HEADING = f"{WORKERS} workers over the network\ntake + ack of one task, tasks/s"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.groups", description=__doc__)
    parser.add_argument("--tasks", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--results", type=Path, default=results("full"), help="where the chart goes")
    asked = parser.parse_args(arguments)
    here = [peer for peer in PEERS if not peer.missing()]
    found = report(asked.tasks, network_rates(asked.tasks, asked.rounds, here))
    asked.results.mkdir(parents=True, exist_ok=True)
    (asked.results / "work.json").write_text(json.dumps(found, indent=2) + "\n")
    chart(found, asked.results / "work.png")
    for name, rates in found["rates"].items():
        print(f"{name}: {median(rates):,.0f}/s of {', '.join(f'{rate:,.0f}' for rate in rates)}")
    return 0


def report(tasks: int, rates: dict[type[WorkPeer], list[float]]) -> dict[str, Any]:
    """What is kept of a measurement."""
    return {
        "format": 1,
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "workers": WORKERS,
        "tasks": tasks,
        "rates": {peer.title: found for peer, found in rates.items()},
    }


def chart(found: dict[str, Any], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    cells = {name: {"median": median(rates)} for name, rates in found["rates"].items()}
    systems = {name: {"title": name, "missing": "", "weaker": ""} for name in cells}
    draw("Work queues: longer bars are better", {_HEADING: {"systems": cells}}, systems, path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
