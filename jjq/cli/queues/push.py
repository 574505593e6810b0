"""`jjq push`: elements into a queue, from arguments, lines or a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

from cyclopts import Parameter

from coldstore.shared.errors import InvalidInput
from jjq.cli.connection import Json, PushConnection, QueueName
from jjq.cli.output import Bar, note, print_json, progress, time_text
from jjq.cli.queues.elements import from_json

if TYPE_CHECKING:
    from hotstore.port import Receipt
    from jjq.blocking import Producer
    from jjq.client.push_future import PushFuture

_BAR_EVERY = 1_000
_HERE = PushConnection()

Headers = dict[str, bytes | str] | None
Item = tuple[bytes | str, bytes | str | None, Headers]


def push(
    queue: QueueName,
    /,
    *values: Annotated[str, Parameter(allow_leading_hyphen=True)],
    file: Annotated[Path | None, Parameter(name=["--file", "-f"])] = None,
    jsonl: Annotated[bool, Parameter(negative=())] = False,
    key: str | None = None,
    header: Annotated[list[str], Parameter(negative=())] | None = None,
    delay: float | None = None,
    ttl: float | None = None,
    ttr: float | None = None,
    priority: int | None = None,
    json: Json = False,
    at: PushConnection = _HERE,
) -> None:
    """Push elements: the arguments, or the lines of a file or of standard input.

    ```
    jjq push orders one two three
    jjq push orders --key customer-7 --header source=shop '{"id": 1}'
    seq 1 1000000 | jjq push numbers
    jjq push orders --jsonl --file january.jsonl
    jjq push orders --delay 60 --priority -1 '{"id": 2}'
    ```

    All of them are durable when the command ends with 0. Lines are pushed as they come, each exactly
    once, also if the server restarts meanwhile.

    Parameters
    ----------
    values
        One element each. Default: the lines of standard input.
    file
        Push the lines of this file.
    jsonl
        Each line is a JSON object with value and, optionally, key and headers, as --json prints them.
    key
        Key for all these elements.
    header
        NAME=VALUE for all these elements; may be repeated.
    delay
        For worker groups: seconds before these tasks are ready.
    ttl
        For worker groups: seconds that these tasks live.
    ttr
        For worker groups: seconds that a worker may hold one of them.
    priority
        For worker groups: a smaller number is taken first.
    json
        Print the receipt as JSON.
    """
    shared = _headers(header or [])
    options = {"delay": delay, "ttl": ttl, "ttr": ttr, "priority": priority}
    if any(option is not None for option in options.values()):
        from jjq.client.groups.push_options import option_headers

        shared = {**(shared or {}), **option_headers(options)}
    if values and (file is not None or jsonl):
        raise InvalidInput("give values, or lines with --file or --jsonl, not both")
    with at.open() as client, client.producer(queue, deadline=max(at.timeout, 1.0)) as producer:
        if values:
            receipts = _push(producer, iter([(value, key, shared) for value in values]))
        else:
            with _lines(file) as source, progress(f"push {queue}", _size(file), unit="bytes") as bar:
                receipts = _push(producer, _items(source, jsonl, key, shared, bar))
    _report(*receipts, json=json)


def push_file(
    queue: QueueName,
    /,
    *files: Annotated[str, Parameter(allow_leading_hyphen=True)],
    media_type: str | None = None,
    key: str | None = None,
    header: Annotated[list[str], Parameter(negative=())] | None = None,
    json: Json = False,
    at: PushConnection = _HERE,
) -> None:
    """Push files of any kind and size, each as one element.

    ```
    jjq push-file images cat.png dog.png
    jjq push-file models --key v7 --media-type application/octet-stream model.bin
    ```

    The bytes are stored as a large object, once, before the element is acknowledged. `jjq get` writes them to a file.

    Parameters
    ----------
    files
        Paths of files; one element each.
    media_type
        Media type of these files, such as image/png. Default: what the name of each says.
    key
        Key for all these elements.
    header
        NAME=VALUE for all these elements; may be repeated.
    json
        Print the receipt as JSON.
    """
    if not files:
        raise InvalidInput("give the paths of files: jjq push-file images cat.png")
    shared = _headers(header or [])
    with at.open() as client:
        found = [
            client.push_file(queue, path, key=key, headers=shared, media_type=media_type) for path in files
        ]
    _report(found[0], found[-1], len(found), json=json)


def _push(producer: Producer, items: Iterator[Item]) -> tuple[Receipt | None, Receipt | None, int]:
    """Push all items; the first and the last receipt, and how many there are."""
    first: PushFuture | None = None
    last: PushFuture | None = None
    count = 0
    for value, key, headers in items:
        last = producer.push(value, key, headers)
        first = first or last
        count += 1
    try:
        producer.flush()
    except InvalidInput as error:
        if error.position is None or count == 1:
            raise
        raise InvalidInput(
            f"{error.message}; all that is right was pushed: push again only what is wrong"
        ) from None
    if first is None or last is None:
        return None, None, 0
    return first.result(), last.result(), count


def _items(source: BinaryIO, jsonl: bool, key: str | None, shared: Headers, bar: Bar) -> Iterator[Item]:
    done = 0
    for number, line in enumerate(source, 1):
        done += len(line)
        if number % _BAR_EVERY == 0:
            bar(done)
        text = line[:-1] if line.endswith(b"\n") else line
        if not jsonl:
            yield text, key, shared
        elif text.strip():
            value, own_key, headers = from_json(text, number)
            yield value, key if own_key is None else own_key, {**(shared or {}), **(headers or {})} or None


def _lines(file: Path | None) -> BinaryIO:
    if file is None:
        if sys.stdin.isatty():
            note("type one element per line; Ctrl-D ends, Ctrl-C cancels")
        return os.fdopen(os.dup(sys.stdin.fileno()), "rb")
    try:
        return file.open("rb")
    except OSError as error:
        raise InvalidInput(f"cannot read {file}: {error.strerror}; correct its path") from None


def _size(file: Path | None) -> int | None:
    return file.stat().st_size if file is not None and file.is_file() else None


def _headers(given: list[str]) -> Headers:
    headers: dict[str, bytes | str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InvalidInput(
                f"--header {text!r} is not NAME=VALUE; write for instance --header source=shop"
            )
        headers[name] = value
    return headers or None


def _report(first: Receipt | None, last: Receipt | None, count: int, *, json: bool) -> None:
    if first is None or last is None:
        if json:
            print_json({"count": 0})
        else:
            print("nothing to push")
        return
    if json:
        print_json(
            {
                "first_offset": first.first_offset,
                "last_offset": last.first_offset,
                "count": count,
                "stage": last.stage,
                "timestamp": last.timestamp,
            }
        )
        return
    offsets = f"offset {first.first_offset}"
    if count > 1:
        offsets = f"offsets {first.first_offset} to {last.first_offset}"
    elements = "1 element" if count == 1 else f"{count:,} elements"
    print(f"pushed {elements}, {offsets}, {last.stage} at {time_text(last.timestamp)}")
