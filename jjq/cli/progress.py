"""A progress bar with rate and time left: on standard error, and only if that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Bar(Protocol):
    """Tell it how far the work is."""

    def __call__(self, done: int, total: int | None = None) -> None: ...


@contextmanager
def progress(what: str, total: int | None, *, unit: str = "elements") -> Iterator[Bar]:
    """Around long work; calls of the bar are cheap enough for every batch. `unit` may be bytes."""
    if not sys.stderr.isatty():
        yield lambda done, total=None: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text(f"{speed:,.0f} {unit}/s" if speed else "")

    in_bytes = unit == "bytes"
    columns = (DownloadColumn(), TransferSpeedColumn()) if in_bytes else (MofNCompleteColumn(), Rate())
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        *columns,
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as shown:
        task = shown.add_task(what, total=total)

        def bar(done: int, total: int | None = None) -> None:
            shown.update(task, completed=done, total=total)  # no total: it stays

        yield bar
