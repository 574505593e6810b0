"""`sqew queue …`"""

from __future__ import annotations

import sys
from http import HTTPStatus
from typing import Annotated

import orjson
from cyclopts import App, Parameter

from jjq.cli.sqew.client import SqewConnection, SqewRefusal, place
from jjq.limits import SQEW_MAX_ATTEMPTS

app = App(name="queue", help="Queues: list, add, rm, show, purge, peek, compact.")

Name = Annotated[str, Parameter(name="--name", help="Name of the queue.")]
_HERE = SqewConnection()


@app.command(name="list")
def list_(*, connection: SqewConnection = _HERE) -> None:
    """List available queues."""
    with connection.open() as client:
        queues = client.ask("GET", "/queues")
    if not queues:
        print("No queues found")
        return
    print(f"{'ID':<5} {'NAME':<20} {'MAX_ATTEMPTS':<12}")
    for queue in queues:
        print(f"{queue['id']:<5} {queue['name']:<20} {queue['max_attempts']:<12}")


@app.command
def add(
    name: Name,
    *,
    max_attempts: Annotated[
        int, Parameter(help="Failures after which a message is dropped.")
    ] = SQEW_MAX_ATTEMPTS,
    visibility_ms: Annotated[int | None, Parameter(help="How long a poll leases a message [30000].")] = None,
    dlq: Annotated[bool, Parameter(help="Keep what failed too often, to be requeued.")] = False,
    connection: SqewConnection = _HERE,
) -> None:
    """Add a queue."""
    fields = {"name": name, "max_attempts": max_attempts, "visibility_ms": visibility_ms, "dlq": dlq or None}
    sent = {field: value for field, value in fields.items() if value is not None}
    with connection.open() as client:
        made = client.ask("POST", "/queues", orjson.dumps(sent))
    print(f"Created queue '{made['name']}' with ID {made['id']}")


@app.command(name=["rm", "remove"])
def remove(name: Name, *, connection: SqewConnection = _HERE) -> int:
    """Delete a queue and its messages."""
    with connection.open() as client:
        try:
            client.ask("DELETE", place(name))
        except SqewRefusal as refusal:
            if refusal.status != HTTPStatus.NOT_FOUND:
                raise
            print(f"Queue '{name}' not found", file=sys.stderr)
            return 1
    print(f"Removed queue '{name}'")
    return 0


@app.command
def show(name: Name, *, connection: SqewConnection = _HERE) -> None:
    """Show a queue and its statistics."""
    with connection.open() as client:
        queue, stats = client.ask("GET", place(name)), client.ask("GET", place(name, "stats"))
    print(f"Queue '{queue['name']}' (ID={queue['id']})")
    print(f"  max_attempts: {queue['max_attempts']}")
    print(f"Stats: ready={stats['ready']}")


@app.command
def purge(name: Name, *, connection: SqewConnection = _HERE) -> None:
    """Delete all messages of a queue."""
    with connection.open() as client:
        deleted = client.ask("DELETE", place(name, "messages"))["deleted"]
    print(f"Purged {deleted} messages from queue '{name}'")


@app.command
def peek(
    name: Name,
    *,
    limit: Annotated[int, Parameter(help="How many messages.")] = 1,
    connection: SqewConnection = _HERE,
) -> None:
    """Show the next messages, without leasing them."""
    with connection.open() as client:
        for message in client.ask("GET", place(name, f"messages?limit={limit}")):
            print(f"[{message['id']}] {message['payload']}")


@app.command
def compact(name: Name, *, connection: SqewConnection = _HERE) -> None:
    """Write the messages of a queue to the object store now."""
    with connection.open() as client:
        client.ask("POST", place(name, "compact"))
    print("Compacted database (VACUUM)")
