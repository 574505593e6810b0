"""`jjq pop`, `peek`, `tail` and `replay`: elements out of queues."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from coldstore.shared.limits import OBJECT_CHUNK_BYTES
from jjq.cli.connection import HERE, Connection, JsonLines, QueueName, Start, SubscriberId
from jjq.cli.output import progress
from jjq.cli.queues.elements import choose_form, print_elements

Values = Annotated[
    bool,
    Parameter(
        name="--values",
        negative=(),
        help="Print values only, one per line. This is the default if the output is not a terminal.",
    ),
]
Max = Annotated[int, Parameter(name=["--max", "-n"], help="The most elements to return.")]
Wait = Annotated[float, Parameter(help="Seconds to wait for the first, if there is none.")]


def pop(
    subscriber: SubscriberId,
    /,
    *,
    max: Max = 1,
    wait: Wait = 0.0,
    json: JsonLines = False,
    values: Values = False,
    at: Connection = HERE,
) -> None:
    """Take the next elements of a subscriber and move it past them.

    ```
    jjq pop orders/billing --max 100 --wait 5
    jjq pop orders/billing --json | jq .value
    ```
    """
    form = choose_form(json, values)
    with at.open() as client:
        print_elements(client.pop_batch(subscriber, max, wait), form)


def peek(
    subscriber: SubscriberId,
    /,
    *,
    max: Max = 1,
    wait: Wait = 0.0,
    json: JsonLines = False,
    values: Values = False,
    at: Connection = HERE,
) -> None:
    """Look at the next elements of a subscriber, which stays where it is.

    ```
    jjq peek orders/billing --max 5
    ```
    """
    form = choose_form(json, values)
    with at.open() as client:
        print_elements(client.peek_batch(subscriber, max, wait), form)


def tail(
    queue: QueueName,
    /,
    *,
    subscriber: str | None = None,
    lines: Annotated[int, Parameter(name=["--lines", "-n"])] = 10,
    follow: Annotated[bool, Parameter(name=["--follow", "-f"], negative=())] = False,
    json: JsonLines = False,
    values: Values = False,
    at: Connection = HERE,
) -> None:
    """Print the last elements of a queue. With --follow, go on as elements come. No subscriber is moved.

    ```
    jjq tail orders
    jjq tail orders --follow --json
    jjq tail orders --subscriber billing
    ```

    Parameters
    ----------
    subscriber
        Print what this subscriber has not popped yet, instead of the last elements.
    lines
        How many elements to begin with.
    follow
        Go on as elements come, until Ctrl-C.
    """
    form = choose_form(json, values)
    start = f"last:{lines}" if subscriber is None else f"subscriber:{subscriber.removeprefix(f'{queue}/')}"
    with at.open() as client:
        for batch in client.replay(queue, start, follow=follow):
            print_elements(batch, form)


def get(
    queue: QueueName,
    offset: int,
    /,
    *,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    at: Connection = HERE,
) -> None:
    """Write the large object of an element to a file or to standard output. If it has none, write its value.

    ```
    jjq get images 17 -o cat.png
    jjq get models 3 | tar -x
    ```

    A file gets its name only when it is complete and its checksum is right.

    Parameters
    ----------
    offset
        The element.
    output
        The file to write. By default standard output.
    """
    with at.open() as client:
        found = client.replay(queue, f"offset:{offset}", f"offset:{offset + 1}").elements()
        element = next(found)  # an offset that the queue does not have was refused
        if output is not None:
            element.save(output)
            return
        with element.open() as file:
            while data := file.read(OBJECT_CHUNK_BYTES):
                sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def replay(
    queue: QueueName,
    /,
    *,
    start: Start = "beginning",
    end: str | None = None,
    json: JsonLines = False,
    values: Values = False,
    at: Connection = HERE,
) -> None:
    """Print a range of a queue. No subscriber is needed, and none is moved.

    ```
    jjq replay orders --start ago:1h
    jjq replay orders --start time:2026-01-01T00:00:00Z --end time:2026-02-01T00:00:00Z --json > january.jsonl
    jjq replay orders --json | jjq push copy --jsonl
    ```

    Parameters
    ----------
    end
        Where to stop, not included: also a starting point. Default: the present end of the queue.
    """
    form = choose_form(json, values)
    with at.open() as client:
        if sys.stdout.isatty():
            for batch in client.replay(queue, start, end):
                print_elements(batch, form)
            return
        first = client.create_subscriber(queue, start=start, dry_run=True).offset
        last = client.create_subscriber(queue, start=end or "end", dry_run=True).offset
        done = 0
        with progress(f"replay {queue}", max(0, last - first)) as bar:
            for batch in client.replay(queue, f"offset:{first}", f"offset:{last}"):
                print_elements(batch, form)
                done += batch.num_rows
                bar(done)
