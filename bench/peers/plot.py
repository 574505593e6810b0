"""The comparison as pictures that are read at a glance: a small panel for each work, a bar for each system.

Lengths can be compared inside a panel only. The bar of jjq is dark, and that of a system with weaker durability is
hatched. Each bar has its figure at the end, so nobody has to measure.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from bench.peers.figures import BASE

OURS: Final = "#1f4e79"
OURS_TOO: Final = "#6f9bc8"  # jjq inside the process of its user
PEER: Final = "#c9ced6"
COLUMNS: Final = 3

# File, title, and the works of its panels with what stands above them.
CHARTS: Final = {
    "throughput.png": (
        "Throughput: longer bars are better",
        {
            "push.each.100": "push, batched by the client\nelements/s",
            "push.list.100": "push, lists of 1,000\nelements/s",
            "push.64.100": "push, 64 in flight\nelements/s",
            "tail": "consume, Python objects\nelements/s",
            "fan.100": "fan-out to 100 subscribers\ndeliveries/s",
            "replay": "replay the history, Python objects\nMB/s",
        },
    ),
    "latency.png": (
        "Latency, start and size: shorter bars are better",
        {
            "latency.p50": "push to subscriber, p50\nms",
            "latency.p99": "push to subscriber, p99\nms",
            "single": "one push after the other, p50\nms",
            "restart": "restart with the history\ns",
            "memory.restarted": "memory with the history\nMB",
            "stored": "bytes on disk for 100 B\nbytes",
        },
    ),
}


def plot(found: dict[str, Any], folder: Path) -> bool:
    """Whether the charts were drawn: without matplotlib they are not."""
    if find_spec("matplotlib") is None:
        return False
    import matplotlib as mpl

    mpl.use("Agg")
    rows = {row["work"]: row for row in found["table"]}
    growth = [work for work in rows if work.startswith("growth.")]
    if growth:
        rows["single"] = rows[growth[-1]]  # with the longest history
    for name, (title, panels) in CHARTS.items():
        shown = {heading: rows[work] for work, heading in panels.items() if work in rows}
        if shown:
            draw(title, shown, found["systems"], folder / name)
    return True


def draw(title: str, panels: dict[str, Any], systems: dict[str, Any], path: Path) -> None:
    """A chart: for each heading a row of figures, `{"systems": {name: {"median": …}}}`."""
    from matplotlib import pyplot as plt

    present = [name for name, system in systems.items() if not system["missing"]]
    columns = min(COLUMNS, len(panels))
    lines = -(-len(panels) // columns)
    figure, grid = plt.subplots(
        lines,
        columns,
        figsize=(12, lines * (0.28 * len(present) + 1.1)),
        layout="constrained",
        squeeze=False,
    )
    places = [axes for line in grid for axes in line]
    for axes, (heading, row) in zip(places, panels.items(), strict=False):
        _panel(axes, heading, row["systems"], {name: systems[name] for name in present})
    for axes in places[len(panels) :]:
        axes.set_visible(False)
    figure.suptitle(title, fontsize=13, x=0.01, ha="left")
    figure.savefig(path, dpi=100)
    plt.close(figure)


def _panel(axes: Any, heading: str, cells: dict[str, Any], systems: dict[str, Any]) -> None:
    from bench.peers.report import number

    names = list(systems)[::-1]  # the first one on top
    values = [cells[name].get("median", 0.0) for name in names]
    bars = axes.barh(range(len(names)), values, color=[_colour(name) for name in names], height=0.72)
    for place, (name, bar) in enumerate(zip(names, bars, strict=True)):
        if systems[name]["weaker"]:
            bar.set(hatch="///", edgecolor="white")
        text = number(values[place]) if "median" in cells[name] else "—"
        axes.annotate(
            text, (values[place], place), (4, 0), textcoords="offset points", va="center", fontsize=8
        )
    titles = [systems[name]["title"] + ("*" if systems[name]["weaker"] else "") for name in names]
    axes.set_yticks(range(len(names)), titles, fontsize=8)
    axes.set_xticks([])
    axes.set_xlim(0, max(values) * 1.25 or 1)
    axes.set_title(heading, fontsize=9, loc="left")
    axes.spines[["top", "right", "bottom"]].set_visible(False)


def _colour(name: str) -> str:
    if name == BASE:
        return OURS
    return OURS_TOO if name == "embedded" else PEER
