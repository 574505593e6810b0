"""`jjq work GROUP -- COMMAND`: each task to the standard input of a command, whose exit code decides.

The command gets the value of a task on its standard input, and its numbers and key in the environment. What it prints
is passed on. It runs in no shell: write `-- sh -c '…'` if it needs one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from coldstore.shared.errors import InvalidInput
from jjq.cli.connection import HERE, Connection, GroupId
from jjq.cli.output import note

if TYPE_CHECKING:
    from jjq.client.groups.task import Task


class CommandFailed(Exception):
    """The reason of a nack."""


def work(
    group: GroupId,
    /,
    *command: Annotated[str, Parameter(allow_leading_hyphen=True)],
    concurrency: Annotated[int, Parameter(name=["--concurrency", "-c"])] = 1,
    ttr: float | None = None,
    at: Connection = HERE,
) -> None:
    """Run a command for each task of a group, until it is asked to stop.

    ```
    jjq work orders/billing -- ./bill
    jjq work orders/billing --concurrency 8 -- sh -c 'jq .id && sleep 1'
    ```

    The value of a task is the command's standard input; JJQ_TASK, JJQ_ATTEMPT, JJQ_KEY and JJQ_GROUP are in its
    environment. If the command ends with 0, the task is acked. Otherwise it is nacked, with the last line of the
    command's standard error as the reason. On SIGTERM, no further task is taken, and running commands may end.

    Parameters
    ----------
    command
        The command and its arguments, after two hyphens.
    concurrency
        How many tasks are handled at a time.
    ttr
        Seconds after which the task of a dead worker goes to another one. Default: the ttr of the group.
    """
    if not command:
        raise InvalidInput("name the command that handles a task: jjq work GROUP -- COMMAND")

    def handle(task: Task) -> None:
        run_command(group, list(command), task)

    with at.open() as client:
        worker = client.work(group, handle, concurrency, ttr)
        worker.run()
        note(f"jjq: {worker.handled} tasks done, {worker.failed} failed, {worker.lost} lost")


def run_command(group: str, command: list[str], task: Task) -> None:
    """Let the command handle a task; raise why it could not."""
    numbers = {"JJQ_GROUP": group, "JJQ_TASK": str(task.id), "JJQ_ATTEMPT": str(task.attempt)}
    key = "" if task.key is None else task.key.decode("utf-8", "replace").replace("\0", "")
    value = task.value.encode() if isinstance(task.value, str) else task.value
    try:
        ran = subprocess.run(
            command,
            input=value,
            env={**os.environ, **numbers, "JJQ_KEY": key},
            stderr=subprocess.PIPE,
            check=False,
        )
    except OSError as error:
        raise CommandFailed(f"cannot run {command[0]}: {error.strerror}") from None
    errors = ran.stderr.decode("utf-8", "replace")
    sys.stderr.write(errors)
    if ran.returncode:
        said = errors.strip().splitlines()
        raise CommandFailed(f"exit code {ran.returncode}" + (f": {said[-1]}" if said else ""))
