"""`jjq subscriber …`: named positions, and moving them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cyclopts import App

from jjq.cli.connection import HERE, AsJson, Connection, Flag
from jjq.cli.output import print_fields, print_json, print_table, time_text

if TYPE_CHECKING:
    from hotstore.port import SubscriberInfo

app = App(name="subscriber", help="Create subscribers, look at them, and move them.")


@app.command
def create(
    queue: str,
    name: str | None = None,
    /,
    *,
    start: str = "end",
    clamp: Flag = False,
    dry_run: Flag = False,
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
    queue
        Name of the queue.
    name
        Name of the subscriber; one is made up if you give none.
    start
        beginning, end, offset:N, time:ISO, ago:7d, last:N or subscriber:NAME.
    clamp
        Take the nearest offset there is instead of failing.
    dry_run
        Only say where the starting point leads.
    """
    with at.open() as client:
        found = client.create_subscriber(queue, name, start, clamp=clamp, dry_run=dry_run)
    _show(found, json)


@app.command(name="list")
def list_(queue: str | None = None, /, *, json: AsJson = False, at: Connection = HERE) -> None:
    """List the subscribers of a queue, or of all queues.

    ```
    jjq subscriber list
    jjq subscriber list orders --json
    ```

    Parameters
    ----------
    queue
        Name of a queue; none: all queues.
    """
    with at.open() as client:
        found = client.list_subscribers(queue)
    if json:
        print_json([subscriber_json(subscriber) for subscriber in found])
        return
    columns = ("SUBSCRIBER", "OFFSET", "LAG", "BLOCK", "ASLEEP", "START", "CREATED")
    print_table(columns, [(s.id, s.offset, s.lag, s.block, s.asleep, s.start, s.created) for s in found])


@app.command
def show(subscriber: str, /, *, json: AsJson = False, at: Connection = HERE) -> None:
    """Show where a subscriber is.

    ```
    jjq subscriber show orders/billing
    ```

    Parameters
    ----------
    subscriber
        Its id, QUEUE/NAME.
    """
    with at.open() as client:
        _show(client.get_subscriber(subscriber), json)


@app.command
def seek(
    subscriber: str,
    start: str,
    /,
    *,
    clamp: Flag = False,
    dry_run: Flag = False,
    json: AsJson = False,
    at: Connection = HERE,
) -> None:
    """Move a subscriber to a starting point, also while it is being read.

    ```
    jjq subscriber seek orders/billing ago:1h
    jjq subscriber seek orders/billing offset:1000 --dry-run
    ```

    Parameters
    ----------
    subscriber
        Its id, QUEUE/NAME.
    start
        beginning, end, offset:N, time:ISO, ago:7d, last:N or subscriber:NAME.
    clamp
        Take the nearest offset there is instead of failing.
    dry_run
        Only say where the starting point leads.
    """
    with at.open() as client:
        _show(client.seek(subscriber, start, clamp=clamp, dry_run=dry_run), json)


@app.command
def sleep(subscriber: str, /, *, json: AsJson = False, at: Connection = HERE) -> None:
    """Unload a subscriber; its position stays, and a pop wakes it.

    ```
    jjq subscriber sleep orders/billing
    ```

    Parameters
    ----------
    subscriber
        Its id, QUEUE/NAME.
    """
    with at.open() as client:
        _show(client.sleep(subscriber), json)


@app.command
def wakeup(subscriber: str, /, *, json: AsJson = False, at: Connection = HERE) -> None:
    """Load a subscriber's block ahead of its first pop.

    ```
    jjq subscriber wakeup orders/billing
    ```

    Parameters
    ----------
    subscriber
        Its id, QUEUE/NAME.
    """
    with at.open() as client:
        _show(client.wakeup(subscriber), json)


@app.command
def delete(subscriber: str, /, *, at: Connection = HERE) -> None:
    """Forget a subscriber; elements are not touched.

    ```
    jjq subscriber delete orders/billing
    ```

    Parameters
    ----------
    subscriber
        Its id, QUEUE/NAME.
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
