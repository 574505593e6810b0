"""`jjq text work FILE -- COMMAND`: run a command for each queued message."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from coldstore.shared.errors import InvalidInput, NotFound
from jjq.cli.output import note
from jjq.cli.text import files, transfer
from jjq.cli.text.files import Strict, open_text

if TYPE_CHECKING:
    from jjq.textqueue.item import TextItem

_NOT_NOW = 75  # EX_TEMPFAIL of sysexits.h


def work(
    file: Path,
    /,
    *command: Annotated[str, Parameter(allow_leading_hyphen=True)],
    follow: Annotated[bool, Parameter(name=["--follow", "-f"], negative=())] = False,
    max: Annotated[int | None, Parameter(name=["--max", "-n"])] = None,
    strict: Strict = False,
) -> int:
    """Run a command for each queued message, with the message as its standard input.

    ```
    jjq text work jobs.tq -- ./handle.sh
    jjq text work jobs.tq --follow -- sh -c 'mail -s job anna@example.org'
    ```

    The message is marked done if the command ends with 0. If it ends with 75, the message stays queued for a later
    run. If it ends with anything else, the message is marked as having a critical error. The command finds
    JJQ_TEXT_FILE, JJQ_TEXT_OFFSET and its variables as JJQ_TEXT_0, JJQ_TEXT_1 and so on in its environment.

    Several workers may share a file if its messages have a mutex variable (`jjq text append --mutex`). If they have
    none, a second worker is refused.

    Parameters
    ----------
    file
        The text queue.
    command
        The command and its arguments, after `--`.
    follow
        Wait for more messages, until Ctrl-C.
    max
        End after this many messages.
    """
    if not command:
        raise InvalidInput("give a command after `--`, for instance: jjq text work jobs.tq -- cat")
    if max is not None and max < 1:
        raise InvalidInput(f"--max is {max}: give a number from 1 on")
    errors = handled = 0
    with open_text(file, strict=strict) as queue:
        for item in queue.follow(claim=True, until=None if follow else lambda: True):
            errors += not handle(item, command)
            handled += 1
            if handled == max:
                break
    note(f"jjq: {handled} handled, {errors} of them with an error")
    return 0


def handle(item: TextItem, command: Sequence[str]) -> bool:
    """Run the command for one message, and mark it; False if it has an error."""
    variables = {f"JJQ_TEXT_{index}": text.rstrip() for index, text in enumerate(item.variables)}
    about = {"JJQ_TEXT_FILE": item.path, "JJQ_TEXT_OFFSET": str(item.offset)}
    try:
        ended = subprocess.run(
            list(command),
            input=item.value.encode(),
            env={**os.environ, **about, **variables},
            check=False,
        )
    except (OSError, ValueError) as error:
        _give_back(item)
        raise InvalidInput(f"cannot run {command[0]!r}: {error}; the message stays queued") from None
    except KeyboardInterrupt:
        _give_back(item)
        raise
    try:
        return _mark(item, ended.returncode)
    except NotFound as gone:  # a person may remove a message that is being handled; the others go on
        note(f"jjq: the command ended with {ended.returncode}, but {gone}")
        return ended.returncode in (0, _NOT_NOW)


def _mark(item: TextItem, code: int) -> bool:
    if code == _NOT_NOW:
        _give_back(item)
        return True
    if code:
        note(f"jjq: byte {item.offset}: the command ended with {code}; marked as a critical error")
        item.mark_error()
        return False
    item.mark_done()
    return True


def _give_back(item: TextItem) -> None:
    from jjq.textqueue.mutex import find_mutex

    if find_mutex(item.variables) is not None:
        item.release()


app = App(name="text", help="Queues that are text files, which people can read and edit.")
app.command(files.list_, name="list")
app.command(files.append)
app.command(files.done)
app.command(files.error)
app.command(files.set_, name="set")
app.command(work)
app.command(transfer.import_, name="import")
app.command(transfer.export)
