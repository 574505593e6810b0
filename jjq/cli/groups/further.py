"""Further commands of `jjq group` and `jjq task`: on all tasks at once, with pushes elsewhere, and as tasks change."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from coldstore.shared.errors import InvalidInput
from jjq.cli.connection import HERE, AsJson, Connection, Flag
from jjq.cli.groups.group import app as group_app
from jjq.cli.groups.task import Session, receipts_of, session_client
from jjq.cli.groups.task import app as task_app
from jjq.cli.output import agreed, print_json
from jjq.cli.queues.elements import choose_form, print_elements

__all__ = ["group_app", "task_app"]


@group_app.command
def purge(group: str, /, *, yes: Flag = False, at: Connection = HERE) -> None:
    """Every task that is not done becomes done, taken ones too. The queue's elements stay.

    ```
    jjq group purge orders/billing --yes
    ```

    Parameters
    ----------
    group
        Id of the group: QUEUE/NAME.
    yes
        Do not ask.
    """
    with at.open() as client:
        left = client.get_group(group).tasks["total"]
        if not yes and not (sys.stdin.isatty() and agreed(f"Purge {left} tasks of group {group}?")):
            raise InvalidInput(f"nothing of group {group} was purged: say --yes")
        print(f"purged {client.purge(group)}")


@group_app.command(name="release-all")
def release_all(group: str, /, *, at: Connection = HERE) -> None:
    """Every taken task becomes ready, whoever holds it.

    ```
    jjq group release-all orders/billing
    ```

    Parameters
    ----------
    group
        Id of the group: QUEUE/NAME.
    """
    with at.open() as client:
        print(f"released {client.release_all(group)}")


@group_app.command
def changes(group: str, /, *, start: str = "end", json: AsJson = False, at: Connection = HERE) -> None:
    """Print what happens to the tasks of a group, as it happens, until it is interrupted.

    ```
    jjq group changes orders/billing
    jjq group changes orders/billing --start ago:1h
    ```

    Parameters
    ----------
    group
        Id of the group: QUEUE/NAME.
    start
        beginning, end, offset:N, time:ISO, ago:7d or last:N, in the group's ledger.
    json
        Also offset and time of each row.
    """
    form = choose_form(json, not json)
    with at.open() as client:
        for batch in client.changes(group, start):
            print_elements(batch, form)


@task_app.command
def complete(
    group: str,
    /,
    *tasks: str,
    push: Annotated[list[str], Parameter(negative=())],
    session: Session = "cli",
    json: AsJson = False,
    at: Connection = HERE,
) -> None:
    """Ack tasks and push values to other queues of the same node, in one step: all of it or nothing.

    ```
    jjq task complete orders/billing 17:1 --push invoices="invoice of order 17"
    ```

    Parameters
    ----------
    group
        Id of the group: QUEUE/NAME.
    tasks
        ID:ATTEMPT each, as `jjq task take` printed them.
    push
        QUEUE=VALUE; may be repeated.
    """
    values: dict[str, list[bytes]] = {}
    for given in push:
        queue, sign, value = given.partition("=")
        if not sign:
            raise InvalidInput(f"--push {given!r:.60} is not QUEUE=VALUE: write for instance invoices=17")
        values.setdefault(queue, []).append(value.encode())
    with session_client(at, session) as client:
        receipts = client.complete(group, receipts_of(tasks), values)
    offsets = {queue: receipt.first_offset for queue, receipt in receipts.items()}
    if json:
        print_json(offsets)
        return
    for queue, offset in offsets.items():
        print(f"{queue}: {len(values[queue])} from offset {offset} on")
