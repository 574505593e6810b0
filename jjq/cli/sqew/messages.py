"""`sqew message …`"""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import orjson
from cyclopts import App, Parameter

from jjq.cli.sqew.client import SqewConnection, SqewRefusal, place

app = App(name="message", help="Messages: enqueue, poll, ack, nack, get, peek, remove.")

Queue = Annotated[str, Parameter(name="--queue", help="Name of the queue.")]
Ids = Annotated[str, Parameter(help="Ids with commas, as in 1,2,3.")]
_HERE: Final = SqewConnection()


@app.command
def enqueue(
    queue: Queue,
    *,
    payload: Annotated[str | None, Parameter(help="A message: any JSON.")] = None,
    file: Annotated[Path | None, Parameter(help="Messages: a JSON array, or JSON on each line.")] = None,
    delay_ms: Annotated[int, Parameter(help="Milliseconds before they can be polled.")] = 0,
    priority: Annotated[int, Parameter(help="A larger number is polled first.")] = 0,
    idempotency_key: Annotated[str | None, Parameter(help="The same key is enqueued once.")] = None,
    connection: SqewConnection = _HERE,
) -> None:
    """Enqueue messages. Nothing is sent if one of them is no JSON."""
    found = [] if file is None else list(_read(file))
    if payload is not None:
        found.append(_checked(payload.encode(), "Invalid JSON payload"))
    if not found:
        raise SqewRefusal(0, "Provide --payload or --file")
    if idempotency_key is not None and len(found) > 1:
        raise SqewRefusal(0, "--idempotency-key is for one message: leave it out, or enqueue one by one")
    rest = b',"delay_ms":%d,"priority":%d}' % (delay_ms, priority)
    headers = {} if idempotency_key is None else {"Idempotency_Key": idempotency_key}
    sent = 0
    with connection.open() as client:
        try:
            for text in found:
                client.ask("POST", place(queue, "messages"), b'{"payload":' + text + rest, **headers)
                sent += 1
        except SqewRefusal as refusal:
            if sent:
                raise SqewRefusal(
                    refusal.status, f"{refusal}; {sent} of {len(found)} messages were enqueued before"
                ) from None
            raise
    print(f"Enqueued {sent} message(s) into '{queue}'")


def _read(file: Path) -> Iterator[bytes]:
    """The messages of a file, each as it is written there."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise SqewRefusal(0, f"Failed to read file: {file}: {error.strerror}") from None
    try:
        array = msgspec.json.decode(data, type=list[msgspec.Raw])
    except msgspec.DecodeError:
        for number, line in enumerate(data.splitlines(), 1):
            if line.strip():
                yield _checked(line, f"Invalid JSON at line {number}")
        return
    yield from map(bytes, array)


def _checked(text: bytes, wrong: str) -> bytes:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SqewRefusal(0, f"{wrong}: {error}") from None
    return text


@app.command
def poll(
    queue: Queue,
    *,
    batch: Annotated[int, Parameter(help="How many messages at most.")] = 1,
    visibility_ms: Annotated[
        int | None, Parameter(help="How long they are leased [as the queue says].")
    ] = None,
    wait_ms: Annotated[int, Parameter(help="How long to wait for a message.")] = 0,
    connection: SqewConnection = _HERE,
) -> None:
    """Lease messages: nobody else gets them until the lease is over."""
    lease = "" if visibility_ms is None else f"&visibility_ms={visibility_ms}"
    with connection.open() as client:
        found = client.ask("POST", place(queue, f"poll?batch={batch}&wait_ms={wait_ms}{lease}"))["messages"]
    _print_all(queue, found)


@app.command
def ack(queue: Queue, ids: Ids, *, connection: SqewConnection = _HERE) -> None:
    """Delete messages that are done."""
    with connection.open() as client:
        acked = client.ask("POST", place(queue, "ack"), orjson.dumps({"ids": _numbers(ids)}))["acked"]
    print(f"Acked {acked} message(s)")


@app.command
def nack(
    queue: Queue,
    ids: Ids,
    *,
    delay_ms: Annotated[int | None, Parameter(help="When to try again [by the backoff].")] = None,
    connection: SqewConnection = _HERE,
) -> None:
    """Give back leased messages that failed: they come again later, or are dropped after the last attempt."""
    order: dict[str, Any] = {"ids": _numbers(ids)}
    if delay_ms is not None:
        order["delay_ms"] = delay_ms
    with connection.open() as client:
        done = client.ask("POST", place(queue, "nack"), orjson.dumps(order))
    print(f"Nacked: requeued={done['requeued']} dropped={done['dropped']}")


@app.command
def get(
    queue: Queue,
    *,
    batch: Annotated[int, Parameter(help="How many messages.")] = 1,
    connection: SqewConnection = _HERE,
) -> None:
    """Show the next messages, without leasing them."""
    with connection.open() as client:
        _print_all(queue, client.ask("GET", place(queue, f"messages?limit={batch}")))


@app.command
def peek(
    queue: Queue,
    *,
    id: Annotated[int | None, Parameter(help="The message with this id.")] = None,
    limit: Annotated[int, Parameter(help="How many messages, if no id is given.")] = 1,
    connection: SqewConnection = _HERE,
) -> None:
    """Show a message by its id, or the next messages."""
    with connection.open() as client:
        if id is not None:
            _print_all(queue, [client.ask("GET", place(queue, "messages", str(id)))])
        else:
            _print_all(queue, client.ask("GET", place(queue, f"messages?limit={limit}")))


@app.command(name=["remove", "rm"])
def remove(
    queue: Queue,
    id: Annotated[int, Parameter(help="Id of the message.")],
    *,
    connection: SqewConnection = _HERE,
) -> None:
    """Delete a message by its id."""
    with connection.open() as client:
        try:
            client.ask("DELETE", place(queue, "messages", str(id)))
        except SqewRefusal as refusal:
            if refusal.status != HTTPStatus.NOT_FOUND or not str(refusal).startswith("Message"):
                raise
            print(f"Message {id} not found")
            return
    print(f"Removed message {id}")


def _print_all(queue: str, messages: list[dict[str, Any]]) -> None:
    if not messages:
        print(f"No messages available in '{queue}'")
    for message in messages:
        print(
            f"[id={message['id']}] attempts={message['attempts']} available_at={message['available_at']} "
            f"payload={message['payload']}"
        )


def _numbers(ids: str) -> list[int]:
    try:
        return [int(text) for text in ids.split(",") if text.strip()]
    except ValueError:
        raise SqewRefusal(0, f"--ids is {ids[:60]!r}: write whole numbers with commas, as in 1,2,3") from None
