"""What commands print: tables for people, JSON for programs. Errors and progress go to standard error.

The progress bar shows rate and time left. Where standard error is not a terminal, long jobs print a line now and then.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final, Protocol

import orjson

from coldstore.shared.clock import Clock, SystemClock

LINE_SECONDS: Final = 5.0  # between two lines of progress; work that is over sooner prints none
_CLOCK: Final = SystemClock()

_WIDE = 10_000  # a table that is not on a terminal is never wrapped


def print_json(value: Any) -> None:
    """One line of JSON; times become text."""
    write(orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_UTC_Z))


def write(data: bytes) -> None:
    """All of `data` to standard output, at once. Unbuffered (python -u) a pipe takes only as much as fits."""
    out = sys.stdout.buffer
    left = memoryview(data)
    while left:
        left = left[out.write(left) :]
    out.flush()


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None) -> None:
    """A table; numbers to the right."""
    _print(table_of(columns, rows, title))


def table_of(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None) -> Any:
    """The same table, for the caller to print."""
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    shown = [[_shown(cell) for cell in row] for row in rows]
    for index, column in enumerate(columns):
        numeric = bool(shown) and all(_is_number(row[index]) for row in shown)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in shown:
        table.add_row(*row)
    return table


def agreed(question: str) -> bool:
    """Whether the person at the terminal says yes."""
    note(f"{question} [y/N]")
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def print_fields(fields: Mapping[str, object]) -> None:
    """One thing, a line for each of its fields."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in fields.items():
        table.add_row(name, _shown(value))
    _print(table)


def note(text: str) -> None:
    """Print a line for people that is not a result."""
    print(text, file=sys.stderr)


def time_text(time: datetime | None) -> str:
    """A time as text that sorts, to the millisecond."""
    return "" if time is None else time.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def bytes_text(count: int | None) -> str:
    """A size that a person can compare."""
    if count is None:
        return ""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def parse_size(text: str | None, what: str) -> int | None:
    """Bytes of a size as people write it: 65536, 64KiB, 1.5GiB. None where nothing was given."""
    from jjq import arguments  # it loads Arrow, which most commands can do without

    return None if text is None else arguments.size(what, text)


class Bar(Protocol):
    """Tell it how far the work is."""

    def __call__(self, done: int, total: int | None = None) -> None: ...


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


def _print(table: Any) -> None:
    from rich.console import Console

    console = Console(file=sys.stdout, highlight=False)
    if console.is_terminal:
        console.print(table)
        return
    wide = Console(width=_WIDE, highlight=False, color_system=None)
    with wide.capture() as captured:
        wide.print(table)
    sys.stdout.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def _shown(cell: object) -> str:
    from rich.markup import escape

    if isinstance(cell, datetime):
        return time_text(cell)
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return "" if cell is None else escape(str(cell))


def _is_number(text: str) -> bool:
    return text.replace(",", "").replace(".", "").isdigit()
