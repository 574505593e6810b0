"""The comparison as a picture: for each work, how many times as good as jjq each system is."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.peers.figures import BASE

COLOURS = {
    "embedded": "#1f4e79",
    "redis": "#c0392b",
    "nats": "#27ae60",
    "kafka": "#34495e",
    "rabbitmq": "#e67e22",
    "beanstalkd": "#8e44ad",
}


def plot(found: dict[str, Any], path: Path) -> bool:
    """Whether it was drawn: without matplotlib it is not."""
    if find_spec("matplotlib") is None:
        return False
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    rows = found["table"][::-1]
    figure, axes = plt.subplots(figsize=(10, 0.3 * len(rows) + 1.5), layout="constrained")
    for name, system in found["systems"].items():
        points = [
            (row["systems"][name]["ratio"], place)
            for place, row in enumerate(rows)
            if name != BASE and row["systems"][name].get("ratio")
        ]
        if points:
            mark = "x" if system["weaker"] else "o"
            label = system["title"] + (" (weaker durability)" if system["weaker"] else "")
            axes.scatter(*zip(*points, strict=True), marker=mark, color=COLOURS.get(name), label=label, s=30)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_yticks(range(len(rows)), [row["title"] for row in rows], fontsize=8)
    axes.grid(axis="x", alpha=0.3)
    axes.set_xlabel("times as good as jjq over gRPC (line at 1; to the right: better than jjq)")
    if axes.get_legend_handles_labels()[0]:
        figure.legend(loc="outside upper center", ncols=3, fontsize=8)
    figure.savefig(path, dpi=90)
    plt.close(figure)
    return True
