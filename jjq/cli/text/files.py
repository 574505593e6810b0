"""`jjq text list`, `append`, `done`, `error` and `set`: look at a text queue and change it, without a server."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from coldstore.shared.errors import InvalidInput
from jjq.cli.connection import AsJson, Flag, TextFile
from jjq.cli.output import note, print_json, print_table, write

if TYPE_CHECKING:
    from jjq.textqueue.item import TextItem
    from jjq.textqueue.queue import TextQueue

_SHOWN_CHARS = 80  # of a value in the table

Strict = Annotated[
    bool, Parameter(negative=(), help="Refuse lines with control characters that this version does not know.")
]


def open_text(*files: Path, strict: bool = False) -> TextQueue:
    """Open files as one queue; report skipped lines once, on standard error."""
    from jjq.textqueue.queue import TextQueue

    return TextQueue(*files, strict=strict, report=lambda text: note(f"jjq: {text}"))


def list_(
    *files: Path,
    done: Flag = False,
    error: Flag = False,
    comments: Flag = False,
    all: Annotated[bool, Parameter(name=["--all", "-a"], negative=())] = False,
    values: Flag = False,
    json: AsJson = False,
    strict: Strict = False,
) -> None:
    """List the queued messages of files, in order.

    ```
    jjq text list jobs.tq
    jjq text list --all jobs.tq
    jjq text list --json jobs.tq | jq .value
    ```

    Parameters
    ----------
    files
        One or several text queues, read as one.
    done
        Messages that are done, too.
    error
        Messages with a critical error, too.
    comments
        Comments, too.
    all
        All of these.
    values
        Print values only. One with several lines takes several lines.
    """
    if not files:
        raise InvalidInput("give one or several files")
    with open_text(*files, strict=strict) as queue:
        items = queue.items(done=done or all, critical=error or all, comments=comments or all)
        if json:
            for item in items:
                print_json(item_json(item))
        elif values:
            for item in items:
                write(item.value.encode() + b"\n")
        else:
            several = len(files) > 1
            columns = (*(("FILE",) if several else ()), "OFFSET", "STATUS", "VALUE", "VARIABLES")
            print_table(columns, [_row(item, several) for item in items])


def item_json(item: TextItem) -> dict[str, object]:
    """An item as JSON."""
    return {
        "file": item.path,
        "offset": item.offset,
        "status": item.status.value,
        "value": item.value,
        "variables": list(item.variables),
    }


def _row(item: TextItem, several: bool) -> tuple[object, ...]:
    value = item.value.replace("\n", "⏎")
    shown = value if len(value) <= _SHOWN_CHARS else f"{value[: _SHOWN_CHARS - 1]}…"
    variables = ", ".join(variable.rstrip() for variable in item.variables)
    return (*((item.path,) if several else ()), item.offset, item.status.value, shown, variables)


def append(
    file: TextFile,
    /,
    *values: Annotated[str, Parameter(allow_leading_hyphen=True)],
    variable: Annotated[list[str], Parameter(name=["--variable", "-v"], negative=())] | None = None,
    mutex: Flag = False,
    sync: Flag = False,
    json: AsJson = False,
) -> None:
    """Append messages to a file: the arguments, or the lines of standard input. The file is created if it is missing.

    ```
    jjq text append jobs.tq 'send the report'
    jjq text append jobs.tq 'send the report' --variable 'retries=0  ' --mutex
    ls *.csv | jjq text append jobs.tq
    ```

    Parameters
    ----------
    values
        One message each; it may have several lines. Default: each line of standard input is a message.
    variable
        A variable of each message, with trailing spaces as room to grow; may be repeated.
    mutex
        Give each message a mutex variable, so that several workers can share the file.
    sync
        Return when the messages are on the disk.
    """
    from jjq.textqueue.format import MUTEX
    from jjq.textqueue.queue import TextQueue

    variables = [*(variable or []), *([MUTEX] if mutex else [])]
    given = values or (line.removesuffix("\n") for line in sys.stdin)
    count = 0
    with TextQueue(file, sync=sync) as queue:
        for value in given:
            item = queue.append(value, variables)
            count += 1
            if json:
                print_json(item_json(item))
    if not json:
        print(f"appended {count} message{'' if count == 1 else 's'}")


Offsets = Annotated[int, Parameter(help="Where messages begin in the file, as `jjq text list` shows.")]


def done(file: TextFile, /, *offsets: Offsets) -> None:
    """Mark messages as done.

    ```
    jjq text done jobs.tq 0 35
    ```
    """
    with open_text(file) as queue:
        for item in [queue.find(offset) for offset in _some(offsets)]:
            item.mark_done()


def error(file: TextFile, /, *offsets: Offsets) -> None:
    """Mark messages as having a critical error: they are not handled again.

    ```
    jjq text error jobs.tq 35
    ```
    """
    with open_text(file) as queue:
        for item in [queue.find(offset) for offset in _some(offsets)]:
            item.mark_error()


def _some(offsets: tuple[int, ...]) -> tuple[int, ...]:
    if not offsets:
        raise InvalidInput("give the offsets of messages, as `jjq text list` shows them")
    return offsets


def set_(
    file: TextFile, offset: int, index: int, value: Annotated[str, Parameter(allow_leading_hyphen=True)], /
) -> None:
    """Write a variable of a message or comment, in place.

    ```
    jjq text set jobs.tq 35 0 retries=1
    ```

    Parameters
    ----------
    offset
        Where the message begins in the file, as `jjq text list` shows.
    index
        Which of its variables, from 0.
    value
        What to write. It may be as long as the variable is now, in bytes.
    """
    with open_text(file) as queue:
        queue.find(offset).set_variable(index, value)
