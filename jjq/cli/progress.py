"""A progress bar with rate and time left: on standard error, if that is a terminal; elsewhere lines, if asked for."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from coldstore.shared.clock import Clock, SystemClock
from jjq.cli.output import note

LINE_SECONDS: Final = 5.0  # between two lines; what is over sooner says nothing


class Bar(Protocol):
    """Tell it how far the work is."""

    def __call__(self, done: int, total: int | None = None) -> None: ...


_CLOCK: Final = SystemClock()


class _Lines:
    """Says now and then how far the work is."""

    def __init__(self, what: str, unit: str, clock: Clock) -> None:
        self._what = what
        self._unit = unit
        self._clock = clock
        self._began = self._said = clock.monotonic()

    def __call__(self, done: int, total: int | None = None) -> None:
        now = self._clock.monotonic()
        if now - self._said < LINE_SECONDS:
            return
        self._said = now
        seconds = now - self._began
        far = f"{done:,}" + (f" of {total:,}" if total else "") + f" {self._unit}, " if done or total else ""
        rate = f", {done / seconds:,.0f} {self._unit}/s" if done else ""
        note(f"jjq: {self._what}: {far}{seconds:.0f} s{rate}")


@contextmanager
def progress(
    what: str,
    total: int | None,
    *,
    unit: str = "elements",
    lines: bool = False,
    clock: Clock = _CLOCK,
) -> Iterator[Bar]:
    """Around long work; calls of the bar are cheap enough for every batch. `unit` may be bytes.

    Where standard error is no terminal nothing is shown, or with `lines` a line every few seconds.
    """
    if not sys.stderr.isatty():
        yield _Lines(what, unit, clock) if lines else lambda done, total=None: None
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
