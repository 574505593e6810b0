"""`jjq bench`: what this machine, or a server, can do; in a few seconds."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from jjq.cli.connection import Json
from jjq.cli.output import note, print_json, print_table

if TYPE_CHECKING:
    from jjq.blocking import Client

_BATCH = 1_000


def bench(
    *,
    server: str | None = None,
    elements: Annotated[int, Parameter(name=["--elements", "-n"])] = 1_000_000,
    size: int = 100,
    json: Json = False,
) -> None:
    """Push, pop and replay, and print the rates: in process, or against a server.

    ```
    jjq bench
    jjq bench --server 127.0.0.1:7575 --elements 200000 --size 1000
    ```

    In process it uses a temporary folder; on a server the queue `jjq-bench` stays behind.

    Parameters
    ----------
    server
        HOST:PORT of a server; none: in process.
    elements
        How many elements to push in batches; a fifth of that one by one.
    size
        Bytes of each element.
    json
        Print the rates as JSON.
    """
    batches = max(1, elements // _BATCH)
    with _client(server) as client:
        rows = _measure(client, batches, bytes(size))
    if json:
        print_json([{"measure": what, "elements_per_second": round(rate)} for what, rate in rows])
        return
    print_table(
        ("MEASURE", "ELEMENTS/S", "MB/S"),
        [(what, f"{rate:,.0f}", f"{rate * size / 1e6:,.0f}") for what, rate in rows],
    )


@contextmanager
def _client(server: str | None) -> Iterator[Client]:
    from jjq.blocking import connect, open

    if server is not None:
        note("pushing to the queue jjq-bench, which stays behind")
        with connect(server) as client:
            yield client
        return
    with tempfile.TemporaryDirectory(prefix="jjq-bench-") as folder, open(folder) as client:
        yield client


def _measure(client: Client, batches: int, value: bytes) -> list[tuple[str, float]]:
    from coldstore.shared.clock import SystemClock

    now = SystemClock().monotonic
    queue = client.create_queue("jjq-bench").name
    start = f"offset:{client.get_queue(queue).next_offset}"
    subscriber = client.create_subscriber(queue, start=start)
    singles = max(1, batches * _BATCH // 5)

    def rate(work: Callable[[], int]) -> float:
        began = now()
        return work() / (now() - began)

    rows = [
        ("push, 1,000 at a time, 4 callers", rate(lambda: _push(client, queue, value, batches))),
        ("producer, one at a time", rate(lambda: _produce(client, queue, value, singles))),
        ("pop, 1,000 at a time, as Arrow", rate(lambda: _pop(client, subscriber.id))),
        ("replay, as Arrow", rate(lambda: sum(batch.num_rows for batch in client.replay(queue, start)))),
    ]
    client.delete_subscriber(subscriber)
    return rows


def _push(client: Client, queue: str, value: bytes, batches: int) -> int:
    callers = 4
    values = [value] * _BATCH

    def work() -> None:
        for _ in range(max(1, batches // callers)):
            client.push(queue, values)

    threads = [threading.Thread(target=work) for _ in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return callers * max(1, batches // callers) * _BATCH


def _produce(client: Client, queue: str, value: bytes, count: int) -> int:
    with client.producer(queue) as producer:
        for _ in range(count):
            producer.push(value)
    return count


def _pop(client: Client, subscriber: str) -> int:
    count = 0
    while rows := client.pop_batch(subscriber, _BATCH).num_rows:
        count += rows
    return count
