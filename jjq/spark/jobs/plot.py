"""The statistics of queues as a picture: elements, bytes and sizes by the hour."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from coldstore.shared.errors import InvalidInput
from jjq.spark.jobs.stats import Hour


def check() -> None:
    """Say before hours of work that there can be no picture after it."""
    try:
        importlib.import_module("matplotlib")
    except ImportError:
        raise InvalidInput(
            "a plot needs matplotlib, which is not installed: pip install 'jjq[spark]'"
        ) from None


def plot(hours: Sequence[Hour], path: Path) -> None:
    """Write a PNG."""
    check()
    figures: Any = importlib.import_module("matplotlib.figure")
    figure = figures.Figure(figsize=(11, 9), layout="constrained")
    counts, volumes, sizes = figure.subplots(3, 1, sharex=True)
    for queue in dict.fromkeys(hour.queue for hour in hours):
        rows = [hour for hour in hours if hour.queue == queue]
        times = [row.hour for row in rows]
        counts.plot(times, [row.elements for row in rows], marker=".", label=queue)
        line = volumes.plot(times, [row.bytes / 1e6 for row in rows], marker=".", label=queue)[0]
        volumes.plot(times, [row.stored_bytes / 1e6 for row in rows], linestyle=":", color=line.get_color())
        sizes.plot(times, [row.size_p50 for row in rows], marker=".", color=line.get_color(), label=queue)
        sizes.plot(times, [row.size_p99 for row in rows], linestyle=":", color=line.get_color())
    counts.set_ylabel("elements in an hour")
    volumes.set_ylabel("MB in an hour (dotted: stored)")
    sizes.set_ylabel("bytes of an element, middle\n(dotted: 99th percentile)")
    for axes in (counts, volumes, sizes):
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
    if hours:
        counts.legend(loc="best")
    try:
        figure.savefig(path, format="png", dpi=120)
    except OSError as error:
        raise InvalidInput(
            f"cannot write the plot to {path}: {error.strerror}; choose another place"
        ) from None
