"""`jjq queue …` and `jjq blocks`: what there is, and where."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from coldstore.shared.errors import InvalidInput
from jjq.cli import exits
from jjq.cli.connection import HERE, AsJson, Connection, Flag, QueueName
from jjq.cli.output import (
    agreed,
    bytes_text,
    note,
    parse_size,
    print_fields,
    print_json,
    print_table,
    time_text,
)

if TYPE_CHECKING:
    from hotstore.port import BlockInfo, Deletion, QueueInfo

app = App(name="queue", help="Create queues, look at them, change and delete them.")


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
        Kind of values. Text and JSON are checked when they are pushed.
    block_bytes
        A block goes to the cold store when it has so many bytes, for instance 64MiB …
    block_seconds
        … or when it is so old.
    """
    with at.open() as client:
        found = client.create_queue(
            name,
            content=content,
            block_bytes=parse_size(block_bytes, "--block-bytes"),
            block_seconds=block_seconds,
        )
    _show(found, json)


@app.command(name="list")
def list_(*, ledgers: Flag = False, json: AsJson = False, at: Connection = HERE) -> None:
    """List all queues.

    ```
    jjq queue list
    jjq queue list --json | jq '.[].name'
    ```

    Parameters
    ----------
    ledgers
        Also the ledgers of worker groups, `QUEUE~GROUP`.
    """
    with at.open() as client:
        found = client.list_queues(ledgers=ledgers)
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


@app.command
def accept_loss(
    queue: QueueName,
    /,
    *,
    next_offset: int | None = None,
    yes: bool = False,
    dry_run: bool = False,
    json: AsJson = False,
    at: Connection = HERE,
) -> None:
    """After DATA_LOSS: show what a queue has lost. With --yes, accept the loss, so that the queue takes pushes again.

    Lost elements become placeholders with the header jjq-lost: offsets stay as they are, and everything that is
    sound stays readable. This cannot be undone. First put back what may still be somewhere: the files of the
    journal, the folder, the disk.

    ```
    jjq queue accept-loss orders
    jjq queue accept-loss orders --yes
    jjq queue accept-loss orders --next-offset 12000 --yes
    ```

    Parameters
    ----------
    next_offset
        Offset at which the queue continues, if producers or readers know of more elements than the server does.
    yes
        Accept the loss that is shown.
    dry_run
        Only show the loss, also with --yes.
    """
    telling = dry_run or not yes
    with at.open() as client:
        lost = client.accept_loss(queue, next_offset=next_offset, dry_run=telling)
    if json:
        print_json(asdict(lost) | {"count": lost.count, "accepted": not telling})
        return
    nothing = not lost.ranges and not lost.in_doubt
    print_fields(
        {
            "queue": lost.queue,
            "lost": ", ".join(f"{first}..{end - 1}" for first, end in lost.ranges) or "nothing that is known",
            "elements": lost.count,
            "perhaps more": f"from offset {lost.next_offset} on: {lost.cause}" if lost.in_doubt else "no",
            "goes on at offset": lost.next_offset,
            "accepted": "nothing to accept" if nothing else "no; add --yes" if telling else "yes",
        }
    )


@app.command(name="set")
def set_(
    queue: QueueName,
    /,
    *,
    block_bytes: str | None = None,
    block_seconds: float | None = None,
    json: AsJson = False,
    at: Connection = HERE,
) -> None:
    """Change settings of a queue. They apply to blocks that are sealed from now on.

    ```
    jjq queue set orders --block-bytes 16MiB --block-seconds 60
    ```

    Parameters
    ----------
    block_bytes
        A block goes to the cold store when it has so many bytes, for instance 64MiB …
    block_seconds
        … or when it is so old.
    """
    with at.open() as client:
        found = client.update_queue(
            queue, block_bytes=parse_size(block_bytes, "--block-bytes"), block_seconds=block_seconds
        )
    _show(found, json)


@app.command
def seal(queue: QueueName, /, *, json: AsJson = False, at: Connection = HERE) -> None:
    """Seal the open block of a queue now: write it to the cold store, whatever its size and age.

    ```
    jjq queue seal orders
    ```
    """
    with at.open() as client:
        _show(client.seal(queue), json)


@app.command
def delete(
    queue: QueueName,
    /,
    *,
    grace_days: float | None = None,
    dry_run: Flag = False,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"], negative=())] = False,
    json: AsJson = False,
    at: Connection = HERE,
) -> int:
    """Delete a queue. It is kept for a while, and `jjq queue undelete` brings it back.

    ```
    jjq queue delete orders --dry-run
    jjq queue delete orders --grace-days 30 --yes
    ```

    After that its files are removed, within an hour or so, and about an hour later its name is free.

    Parameters
    ----------
    grace_days
        How long the deleted queue is kept. Default: 7 days.
    dry_run
        Only show what would be deleted.
    yes
        Do not ask. Needed if there is no terminal.
    """
    grace = None if grace_days is None else grace_days * 86_400
    with at.open() as client:
        planned = client.delete_queue(queue, grace_seconds=grace, dry_run=True)
        if dry_run:
            _show_deletion(planned, client.get_queue(queue), json)
            return exits.OK
        if not yes:
            _show_deletion(planned, client.get_queue(queue), False)
            if not sys.stdin.isatty():
                raise InvalidInput(
                    f"queue {queue} was not deleted: nobody can confirm it here, so give --yes"
                )
            if not agreed(f"Delete queue {queue}?"):
                note("nothing was deleted")
                return exits.OK
        done = client.delete_queue(queue, grace_seconds=grace)
    if json:
        print_json(_deletion_json(done))
    else:
        print(
            f"deleted queue {queue}; until {time_text(done.until)} `jjq queue undelete {queue}` brings it back"
        )
    return exits.OK


@app.command
def undelete(queue: QueueName, /, *, json: AsJson = False, at: Connection = HERE) -> None:
    """Bring a deleted queue back, with its elements, and with its subscribers at their old positions.

    ```
    jjq queue undelete orders
    ```
    """
    with at.open() as client:
        _show(client.undelete_queue(queue), json)


def blocks(queue: QueueName, /, *, json: AsJson = False, at: Connection = HERE) -> None:
    """List the blocks of a queue, oldest first: in memory, and as Parquet files in the cold store.

    ```
    jjq blocks orders
    jjq blocks orders --json | jq '.[].key'
    ```
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


def _deletion_json(deletion: Deletion) -> dict[str, Any]:
    return {
        "queue": deletion.queue,
        "id": deletion.id,
        "deleted": deletion.deleted,
        "until": deletion.until,
    }


def _show_deletion(deletion: Deletion, queue: QueueInfo, json: bool) -> None:
    """What a deletion would take away, and until when it would be kept."""
    elements = queue.next_offset - queue.first_offset
    if json:
        counted = {"elements": elements, "subscribers": queue.subscribers}
        print_json(_deletion_json(deletion) | {"deleted": None} | counted)
        return
    print_fields(
        {
            "queue": queue.name,
            "elements": elements,
            "subscribers": queue.subscribers,
            "would be kept until": deletion.until,
            "id": queue.id,
        }
    )


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
