"""`jjq subscriber …`: named positions, and moving them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cyclopts import App

from jjq.cli.connection import (
    HERE,
    AsJson,
    Clamp,
    Connection,
    QueueFilter,
    QueueName,
    Start,
    StartOnly,
    SubscriberId,
)
from jjq.cli.output import print_fields, print_json, print_table, time_text

if TYPE_CHECKING:
    from hotstore.port import SubscriberInfo

app = App(name="subscriber", help="Create subscribers, look at them, and move them.")


@app.command
def create(
    queue: QueueName,
    name: str | None = None,
    /,
    *,
    start: Start = "end",
    clamp: Clamp = False,
    dry_run: StartOnly = False,
    json: AsJson = False,
    at: Connection = HERE,
) -> None:
    """Create a subscriber at a starting point; the same command again changes nothing.

    ```
    jjq subscriber create orders billing --start beginning
    jjq subscriber create orders audit --start ago:7d
    jjq subscriber create orders --start time:2026-01-31T12:00:00Z --dry-run
    ```

    Parameters
    ----------
    name
        Name of the subscriber. Default: a random name.
    """
    with at.open() as client:
        found = client.create_subscriber(queue, name, start, clamp=clamp, dry_run=dry_run)
    _show(found, json)


@app.command(name="list")
def list_(queue: QueueFilter = None, /, *, json: AsJson = False, at: Connection = HERE) -> None:
    """List the subscribers of a queue, or of all queues.

    ```
    jjq subscriber list
    jjq subscriber list orders --json
    ```
    """
    with at.open() as client:
        found = client.list_subscribers(queue)
    if json:
        print_json([subscriber_json(subscriber) for subscriber in found])
        return
    columns = ("SUBSCRIBER", "OFFSET", "LAG", "BLOCK", "ASLEEP", "START", "CREATED")
    print_table(columns, [(s.id, s.offset, s.lag, s.block, s.asleep, s.start, s.created) for s in found])


@app.command
def show(subscriber: SubscriberId, /, *, json: AsJson = False, at: Connection = HERE) -> None:
    """Show where a subscriber is.

    ```
    jjq subscriber show orders/billing
    ```
    """
    with at.open() as client:
        _show(client.get_subscriber(subscriber), json)


@app.command
def seek(
    subscriber: SubscriberId,
    start: Start,
    /,
    *,
    clamp: Clamp = False,
    dry_run: StartOnly = False,
    json: AsJson = False,
    at: Connection = HERE,
) -> None:
    """Move a subscriber to a starting point, also while it is being read.

    ```
    jjq subscriber seek orders/billing ago:1h
    jjq subscriber seek orders/billing offset:1000 --dry-run
    ```
    """
    with at.open() as client:
        _show(client.seek(subscriber, start, clamp=clamp, dry_run=dry_run), json)


@app.command
def sleep(subscriber: SubscriberId, /, *, json: AsJson = False, at: Connection = HERE) -> None:
    """Unload a subscriber; its position stays, and a pop wakes it.

    ```
    jjq subscriber sleep orders/billing
    ```
    """
    with at.open() as client:
        _show(client.sleep(subscriber), json)


@app.command
def wakeup(subscriber: SubscriberId, /, *, json: AsJson = False, at: Connection = HERE) -> None:
    """Load a subscriber's block before its first pop.

    ```
    jjq subscriber wakeup orders/billing
    ```
    """
    with at.open() as client:
        _show(client.wakeup(subscriber), json)


@app.command
def delete(subscriber: SubscriberId, /, *, at: Connection = HERE) -> None:
    """Delete a subscriber. The elements stay.

    ```
    jjq subscriber delete orders/billing
    ```
    """
    with at.open() as client:
        client.delete_subscriber(subscriber)


def subscriber_json(subscriber: SubscriberInfo) -> dict[str, Any]:
    fields = asdict(subscriber)
    del fields["created_us"]
    if subscriber.resolved is not None:
        del fields["resolved"]["timestamp_us"]
        fields["resolved"]["timestamp"] = subscriber.resolved.timestamp
    return fields | {"created": subscriber.created}


def _show(subscriber: SubscriberInfo, json: bool) -> None:
    if json:
        print_json(subscriber_json(subscriber))
        return
    fields: dict[str, object] = {
        "subscriber": subscriber.id,
        "offset": subscriber.offset,
        "lag": subscriber.lag,
        "block": subscriber.block,
        "asleep": subscriber.asleep,
        "start": subscriber.start,
        "created": subscriber.created,
    }
    if subscriber.resolved is not None:
        at = time_text(subscriber.resolved.timestamp) or "no element there yet"
        fields["resolved"] = f"offset {subscriber.resolved.offset} ({subscriber.resolved.rule}), {at}"
    print_fields(fields)
