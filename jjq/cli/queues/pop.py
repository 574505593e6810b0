"""`jjq pop`, `peek`, `tail` and `replay`: elements out of queues."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from jjq.cli.connection import HERE, Connection, Json
from jjq.cli.output import progress
from jjq.cli.queues.elements import choose_form, print_elements

Values = Annotated[bool, Parameter(name="--values", negative=())]
Max = Annotated[int, Parameter(name=["--max", "-n"])]


def pop(
    subscriber: str,
    /,
    *,
    max: Max = 1,
    wait: float = 0.0,
    json: Json = False,
    values: Values = False,
    at: Connection = HERE,
) -> None:
    """Take the next elements of a subscriber and move it past them.

    ```
    jjq pop orders/billing --max 100 --wait 5
    jjq pop orders/billing --json | jq .value
    ```

    Parameters
    ----------
    subscriber
        Its id, QUEUE/NAME.
    max
        At most so many.
    wait
        Seconds to wait for the first, if there is none.
    json
        One JSON object a line.
    values
        Values only, one a line; the default if the output is no terminal.
    """
    form = choose_form(json, values)
    with at.open() as client:
        print_elements(client.pop_batch(subscriber, max, wait), form)


def peek(
    subscriber: str,
    /,
    *,
    max: Max = 1,
    wait: float = 0.0,
    json: Json = False,
    values: Values = False,
    at: Connection = HERE,
) -> None:
    """Look at the next elements of a subscriber, which stays where it is.

    ```
    jjq peek orders/billing --max 5
    ```

    Parameters
    ----------
    subscriber
        Its id, QUEUE/NAME.
    max
        At most so many.
    wait
        Seconds to wait for the first, if there is none.
    json
        One JSON object a line.
    values
        Values only, one a line; the default if the output is no terminal.
    """
    form = choose_form(json, values)
    with at.open() as client:
        print_elements(client.peek_batch(subscriber, max, wait), form)


def tail(
    queue: str,
    /,
    *,
    subscriber: str | None = None,
    lines: Annotated[int, Parameter(name=["--lines", "-n"])] = 10,
    follow: Annotated[bool, Parameter(name=["--follow", "-f"], negative=())] = False,
    json: Json = False,
    values: Values = False,
    at: Connection = HERE,
) -> None:
    """Print the last elements of a queue, and with --follow those to come. No subscriber is moved.

    ```
    jjq tail orders
    jjq tail orders --follow --json
    jjq tail orders --subscriber billing
    ```

    Parameters
    ----------
    queue
        Name of the queue.
    subscriber
        What this subscriber has not popped yet, from where it is, instead of the last elements.
    lines
        How many of the last elements.
    follow
        Go on as elements come, until Ctrl-C.
    json
        One JSON object a line.
    values
        Values only, one a line; the default if the output is no terminal.
    """
    form = choose_form(json, values)
    start = f"last:{lines}" if subscriber is None else f"subscriber:{subscriber.removeprefix(f'{queue}/')}"
    with at.open() as client:
        for batch in client.replay(queue, start, follow=follow):
            print_elements(batch, form)


def replay(
    queue: str,
    /,
    *,
    start: str = "beginning",
    end: str | None = None,
    json: Json = False,
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
    queue
        Name of the queue.
    start
        beginning, end, offset:N, time:ISO, ago:7d, last:N or subscriber:NAME.
    end
        A starting point too: where to stop, not included. By default the end of the queue now.
    json
        One JSON object a line.
    values
        Values only, one a line; the default if the output is no terminal.
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
