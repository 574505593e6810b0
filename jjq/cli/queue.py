"""`jjq queue …` and `jjq blocks`: what there is, and where."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

from cyclopts import App

from jjq.cli.connection import HERE, AsJson, Connection
from jjq.cli.output import bytes_text, print_fields, print_json, print_table
from jjq.cli.sizes import size

if TYPE_CHECKING:
    from hotstore.port import BlockInfo, QueueInfo

app = App(name="queue", help="Create queues and look at them.")


@app.command
def create(
    name: str,
    /,
    *,
    content: Literal["bytes", "text", "json"] = "bytes",
    block_bytes: str | None = None,
    block_seconds: float | None = None,
    json: AsJson = False,
    at: Connection = HERE,
) -> None:
    """Create a queue; the same command again changes nothing.

    ```
    jjq queue create orders
    jjq queue create events --content json --block-bytes 16MiB --block-seconds 60
    ```

    Parameters
    ----------
    name
        Letters, digits, `.`, `_` and `-`.
    content
        What its values are; text and json are checked when they are pushed.
    block_bytes
        A block goes to the cold store when it has so many bytes, for instance 64MiB …
    block_seconds
        … or when it is so old.
    """
    with at.open() as client:
        found = client.create_queue(
            name, content=content, block_bytes=size(block_bytes, "--block-bytes"), block_seconds=block_seconds
        )
    _show(found, json)


@app.command(name="list")
def list_(*, json: AsJson = False, at: Connection = HERE) -> None:
    """List all queues.

    ```
    jjq queue list
    jjq queue list --json | jq '.[].name'
    ```
    """
    with at.open() as client:
        found = client.list_queues()
    if json:
        print_json([queue_json(queue) for queue in found])
        return
    columns = ("QUEUE", "CONTENT", "ELEMENTS", "NEXT OFFSET", "NOT YET COLD", "SUBSCRIBERS", "CREATED")
    rows = [
        (q.name, q.content, q.next_offset - q.first_offset, q.next_offset, q.next_offset - q.cold_offset,
         q.subscribers, q.created)
        for q in found
    ]  # fmt: skip
    print_table(columns, rows)


@app.command
def show(queue: str, /, *, json: AsJson = False, at: Connection = HERE) -> None:
    """Show one queue.

    ```
    jjq queue show orders
    ```

    Parameters
    ----------
    queue
        Its name, or the id of one of its subscribers.
    """
    with at.open() as client:
        _show(client.get_queue(queue), json)


def blocks(queue: str, /, *, json: AsJson = False, at: Connection = HERE) -> None:
    """List the blocks of a queue, oldest first: in memory, and as Parquet files in the cold store.

    ```
    jjq blocks orders
    jjq blocks orders --json | jq '.[].key'
    ```

    Parameters
    ----------
    queue
        Name of the queue.
    """
    with at.open() as client:
        found = client.list_blocks(queue)
    if json:
        print_json([_block_json(block) for block in found])
        return
    columns = ("BLOCK", "KIND", "ELEMENTS", "LAST", "SIZE", "STORED", "LOADED", "SUBSCRIBERS", "FROM", "FILE")
    rows = [
        (b.id, b.kind, b.count, b.last_offset, bytes_text(b.raw_bytes), bytes_text(b.stored_bytes), b.loaded,
         b.subscribers, b.min_timestamp if b.count else None, b.key)
        for b in found
    ]  # fmt: skip
    print_table(columns, rows)


def queue_json(queue: QueueInfo) -> dict[str, Any]:
    fields = asdict(queue)
    del fields["created_us"]
    return fields | {"created": queue.created}


def _block_json(block: BlockInfo) -> dict[str, Any]:
    fields = asdict(block)
    del fields["min_timestamp_us"], fields["max_timestamp_us"]
    times = {"min_timestamp": block.min_timestamp, "max_timestamp": block.max_timestamp}
    return fields | (times if block.count else dict.fromkeys(times))


def _show(queue: QueueInfo, json: bool) -> None:
    if json:
        print_json(queue_json(queue))
        return
    print_fields(
        {
            "queue": queue.name,
            "content": queue.content,
            "elements": queue.next_offset - queue.first_offset,
            "first offset": queue.first_offset,
            "next offset": queue.next_offset,
            "in the cold store": f"before offset {queue.cold_offset}",
            "blocks": f"{bytes_text(queue.block_bytes)} or {queue.block_seconds:g} s",
            "subscribers": queue.subscribers,
            "created": queue.created,
            "id": queue.id,
        }
    )
