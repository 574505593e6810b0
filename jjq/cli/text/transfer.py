"""`jjq text import` and `export`: between a text queue and a queue of a server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from coldstore.shared.clock import SystemClock
from jjq.cli.connection import HERE, AsJson, Connection
from jjq.cli.output import note, print_json, progress

_FOLLOW_SECONDS = 0.5  # how often an export looks for more

Group = Annotated[str | None, Parameter(name=["--group", "-g"])]


def import_(
    file: Path,
    queue: str,
    /,
    *,
    source: str | None = None,
    group: Group = None,
    json: AsJson = False,
    at: Connection = HERE,
) -> None:
    """Push the messages of a text queue to a queue of a server. The queue is created if it is missing.

    ```
    jjq text import jobs.tq jobs
    jjq text import jobs.tq jobs --group mail
    ```

    The value of a message becomes the value of an element, its variables become headers. Comments and empty lines are
    kept in headers, so that `jjq text export` writes the same file again, byte for byte. The same command again pushes
    only what was appended since.

    Parameters
    ----------
    file
        The text queue.
    queue
        Name of the queue.
    source
        A name for this file, by which it is known when it is imported again. Default: the name of the file.
    group
        A worker group, which is created if it is missing. Messages that are done in the file become done tasks, and
        critical ones become buried tasks, also if they were imported before.
    """
    from jjq.textqueue.bridge import import_text

    with at.open() as client, progress(f"import {file.name}", None, unit="bytes") as bar:
        report = import_text(client, file, queue, source=source or file.name, group=group, progress=bar)
    if json:
        print_json(report._asdict())
        return
    messages = "1 message" if report.pushed == 1 else f"{report.pushed:,} messages"
    earlier = f"; {report.before:,} bytes were imported before" if report.before else ""
    tasks = f"; {report.states:,} tasks are done or buried now" if report.states else ""
    print(f"pushed {messages}{earlier}{tasks}")


def export(
    queue: str,
    file: Path,
    /,
    *,
    group: Group = None,
    follow: Annotated[bool, Parameter(name=["--follow", "-f"], negative=())] = False,
    json: AsJson = False,
    at: Connection = HERE,
) -> None:
    """Write the elements of a queue to a text queue.

    ```
    jjq text export jobs jobs.tq
    jjq text export jobs jobs.tq --group mail --follow
    ```

    The same command again appends only what is new. A file with other content is refused and stays as it is.

    Parameters
    ----------
    queue
        Name of the queue.
    file
        The text queue; it is created if it is missing.
    group
        A worker group: messages whose tasks are done or buried are marked done or critical, also in a file that exists
        already.
    follow
        Go on as elements come, until Ctrl-C.
    """
    from jjq.textqueue.bridge import TextExport

    clock = SystemClock()
    with at.open() as client:
        export = TextExport(client, queue, file, group=group)
        try:
            report = export.run()
            while follow:
                clock.sleep(_FOLLOW_SECONDS)
                report = export.run()
        finally:
            export.close()
    if report.left_out:
        note(
            f"jjq: keys or headers of {report.left_out:,} elements were left out: a text queue has no place for them"
        )
    if json:
        print_json(report._asdict())
    else:
        marked = f", marked {report.marked:,} messages" if report.marked else ""
        print(f"wrote {report.written:,} bytes{marked}")
