"""jjq for ordinary programs: the verbs of client.py, called on an event loop in the background.

Not a second implementation: every verb below is the asynchronous one, run by the portal, with the
same arguments and the same documentation. Any number of threads may use one client. The first attempt of a push, a pop
or a peek is made in the calling thread, where a server has WebSockets (jjq/remote/thread).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, cast

import pyarrow as pa

from coldstore.objects.settings import S3Settings
from coldstore.shared.batch import Element, elements
from coldstore.shared.chance import SystemChance
from coldstore.shared.errors import JjqError, Unavailable
from coldstore.shared.push import Push
from hotstore.port import Popped, Receipt, Stage
from hotstore.settings import HotSettings
from jjq import aio
from jjq.arguments import number, subscriber_id, whole
from jjq.client import client
from jjq.client.batcher import Headers as ElementHeaders
from jjq.client.batcher import Value
from jjq.client.blocking_results import Replay, SqlResult, Worker
from jjq.client.client import Sub
from jjq.client.groups.push_options import Priority, Seconds, with_options
from jjq.client.loop_thread import Portal, portal
from jjq.client.payload import Headers, Keys, make_push, to_payload
from jjq.client.producer import AsyncProducer
from jjq.client.push_future import PushFuture
from jjq.client.subscription import AsyncSubscription
from jjq.limits import CALL_SECONDS, PORT

if TYPE_CHECKING:
    from jjq.client.resumable_pop import PopAttempt
    from jjq.remote.settings import ClientTls
    from jjq.remote.thread.quick_calls import QuickCalls

__all__ = ["Client", "Producer", "Replay", "SqlResult", "Subscription", "Worker", "connect", "open"]

P = ParamSpec("P")
T = TypeVar("T")
W = TypeVar("W")
F = TypeVar("F", bound=Callable[..., Any])


class Producer:
    """Pushes to one queue; any number of threads may use it. Close it, or use it as a context manager."""

    def __init__(self, inner: AsyncProducer, runs_on: Portal) -> None:
        self._inner = inner
        self._portal = runs_on
        self._batcher = inner.batcher

    def push(
        self, value: Value, key: Value | None = None, headers: ElementHeaders | None = None
    ) -> PushFuture:
        """Take one element; blocks only while too many bytes are under way. The future has its receipt."""
        gather = self._batcher
        place = gather.add(value, key, headers)
        batch, index = place if place is not None else gather.add_waiting(value, key, headers)
        return PushFuture(gather, batch, index)

    def flush(self) -> None:
        """Send what was pushed and wait until it is decided; raises the first error since the last flush."""
        self._portal.run(self._inner.flush())

    def close(self) -> None:
        """Flush, and take no more. Closing again does nothing."""
        self._portal.run(self._inner.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except JjqError:
            if error is None:
                raise


class Subscription:
    """Iterate over it for elements, or over `batches()` for Arrow. For one thread at a time."""

    def __init__(self, inner: AsyncSubscription, runs_on: Portal) -> None:
        self._inner = inner
        self._portal = runs_on
        self._cursor = inner.cursor
        self._open = True

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Element:
        while (element := self._cursor.give()) is None:
            self._portal.run(self._inner.turn())
        return element

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Arrow record batches; one counts as handled when the next is asked for."""
        while True:
            yield self.next_batch()

    def next_batch(self) -> pa.RecordBatch:
        """The rest of the present batch, or the next one."""
        return self._portal.run(self._inner.next_batch())

    def confirm(self) -> None:
        """All elements given so far were handled: returns when that is durable."""
        self._portal.run(self._inner.confirm())

    def close(self) -> None:
        """End. The element given last is not confirmed by that; `confirm` first if it was handled."""
        self._open = False
        self._portal.run(self._inner.close())

    def __del__(self) -> None:
        # A `for` loop was left by `break` and dropped this subscription: handled elements must not come again.
        if self._open:
            with suppress(Exception):
                self._portal.submit(self._inner.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _blocking(
    verb: Callable[Concatenate[client.AsyncClient, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Client, P], T]:
    """`verb`, called from any thread."""

    @wraps(verb)
    def call(self: Client, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._portal.run(verb(self._client, *args, **kwargs))

    return cast("Any", call)  # type: ignore[no-any-return]


def _wrapping(
    verb: Callable[Concatenate[client.AsyncClient, P], T], wrap: Callable[[T, Portal], W]
) -> Callable[Concatenate[Client, P], W]:
    """`verb`, whose result lives on the event loop, with a blocking face around the result."""

    @wraps(verb)
    def call(self: Client, *args: P.args, **kwargs: P.kwargs) -> W:
        async def make() -> T:
            return verb(self._client, *args, **kwargs)

        return wrap(self._portal.run(make()), self._portal)

    return cast("Any", call)  # type: ignore[no-any-return]


def _documented_as(verb: Callable[..., Any]) -> Callable[[F], F]:
    """For a verb with a part of its own."""

    def document(call: F) -> F:
        call.__doc__ = verb.__doc__
        return call

    return document


async def _append(inner: client.AsyncClient, push: Push) -> Receipt:
    return await inner._store.append(push)


async def _pop(inner: client.AsyncClient, subscriber: str, rows: int, wait: float) -> Popped:
    return await inner._pops.pop(subscriber, rows, wait)


async def _resume_pop(inner: client.AsyncClient, attempt: PopAttempt, rows: int, wait: float) -> Popped:
    return await inner._pops.resume(attempt, rows, wait)


async def _peek(inner: client.AsyncClient, subscriber: str, rows: int, wait: float) -> Popped:
    return await inner._store.peek(subscriber, rows, wait)


class Client:
    """The verbs of jjq. Close it, or use it as a context manager; at the latest it closes at exit."""

    def __init__(self, inner: client.AsyncClient, runs_on: Portal, quick: QuickCalls | None = None) -> None:
        self._client = inner
        self._portal = runs_on
        inner._use_blocking(runs_on)
        self._quick_calls = quick
        runs_on.on_exit(self, self.close)

    create_queue = _blocking(client.AsyncClient.create_queue)
    get_queue = _blocking(client.AsyncClient.get_queue)
    list_queues = _blocking(client.AsyncClient.list_queues)
    list_blocks = _blocking(client.AsyncClient.list_blocks)
    accept_loss = _blocking(client.AsyncClient.accept_loss)
    seal = _blocking(client.AsyncClient.seal)
    update_queue = _blocking(client.AsyncClient.update_queue)
    delete_queue = _blocking(client.AsyncClient.delete_queue)
    undelete_queue = _blocking(client.AsyncClient.undelete_queue)
    status = _blocking(client.AsyncClient.status)
    create_subscriber = _blocking(client.AsyncClient.create_subscriber)
    get_subscriber = _blocking(client.AsyncClient.get_subscriber)
    list_subscribers = _blocking(client.AsyncClient.list_subscribers)
    delete_subscriber = _blocking(client.AsyncClient.delete_subscriber)
    seek = _blocking(client.AsyncClient.seek)
    sleep = _blocking(client.AsyncClient.sleep)
    wakeup = _blocking(client.AsyncClient.wakeup)
    _append = _blocking(_append)
    _pop = _blocking(_pop)
    _resume_pop = _blocking(_resume_pop)
    _peek = _blocking(_peek)
    _move_large_values = _blocking(client.AsyncClient._with_large_values_moved)
    push_file = _blocking(client.AsyncClient.push_file)
    push_reference = _blocking(client.AsyncClient.push_reference)
    create_group = _blocking(client.AsyncClient.create_group)
    get_group = _blocking(client.AsyncClient.get_group)
    list_groups = _blocking(client.AsyncClient.list_groups)
    update_group = _blocking(client.AsyncClient.update_group)
    delete_group = _blocking(client.AsyncClient.delete_group)
    pause = _blocking(client.AsyncClient.pause)
    resume = _blocking(client.AsyncClient.resume)
    seek_group = _blocking(client.AsyncClient.seek_group)
    take = _blocking(client.AsyncClient.take)
    ack = _blocking(client.AsyncClient.ack)
    nack = _blocking(client.AsyncClient.nack)
    release = _blocking(client.AsyncClient.release)
    touch = _blocking(client.AsyncClient.touch)
    bury = _blocking(client.AsyncClient.bury)
    kick = _blocking(client.AsyncClient.kick)
    delete_tasks = _blocking(client.AsyncClient.delete_tasks)
    purge = _blocking(client.AsyncClient.purge)
    release_all = _blocking(client.AsyncClient.release_all)
    complete = _blocking(client.AsyncClient.complete)
    peek_task = _blocking(client.AsyncClient.peek_task)
    tasks = _blocking(client.AsyncClient.tasks)
    statistics = _blocking(client.AsyncClient.statistics)
    tasks_at = _blocking(client.AsyncClient.tasks_at)
    session = _blocking(client.AsyncClient.session)

    # Lists become Arrow, and Arrow elements, on the caller's thread: the loop has better things to do.

    @_documented_as(client.AsyncClient.push)
    def push(
        self,
        queue: str,
        values: Any,
        *,
        keys: Keys | None = None,
        headers: Headers | None = None,
        producer: str | None = None,
        sequence: int | None = None,
        expected_offset: int | None = None,
        stage: Stage = "synced",
        delay: Seconds = None,
        ttl: Seconds = None,
        ttr: Seconds = None,
        priority: Priority = None,
        timeout: float = 0.0,
    ) -> Receipt:
        options = {"delay": delay, "ttl": ttl, "ttr": ttr, "priority": priority}
        payload = with_options(to_payload(values, keys, headers), options)
        push = make_push(queue, payload, producer, sequence, expected_offset, stage, timeout)
        if isinstance(values, list | tuple) and self._client._has_large_values(push):
            return self._append(self._move_large_values(push))
        quick = self._quick
        receipt = None if quick is None else quick.push(push)
        return self._append(push) if receipt is None else receipt

    @_documented_as(client.AsyncClient.pop)
    def pop(self, subscriber: Sub, max: int = 1, wait: float = 0.0) -> list[Element]:
        return list(elements(self.pop_batch(subscriber, max, wait), self._client._objects_of(subscriber)))

    @_documented_as(client.AsyncClient.peek)
    def peek(self, subscriber: Sub, max: int = 1, wait: float = 0.0) -> list[Element]:
        return list(elements(self.peek_batch(subscriber, max, wait), self._client._objects_of(subscriber)))

    @_documented_as(client.AsyncClient.pop_batch)
    def pop_batch(self, subscriber: Sub, max: int = 1_000, wait: float = 0.0) -> pa.RecordBatch:
        name, rows, seconds = subscriber_id(subscriber), whole("max", max), number("wait", wait)
        quick, pops = self._quick, self._client._pops
        attempt = None if quick is None else pops.begin(name)
        if quick is None or attempt is None:
            return self._pop(name, rows, seconds).batch
        try:
            popped = quick.pop(name, rows, seconds)
        except Unavailable:
            attempt.place.unsure = True  # the next attempt asks for the same elements
            popped = None
        except BaseException as error:
            pops.failed(attempt, error)
            raise
        if popped is None:
            return self._resume_pop(attempt, rows, seconds).batch
        pops.done(attempt, popped)
        return popped.batch

    @_documented_as(client.AsyncClient.peek_batch)
    def peek_batch(self, subscriber: Sub, max: int = 1_000, wait: float = 0.0) -> pa.RecordBatch:
        name, rows, seconds = subscriber_id(subscriber), whole("max", max), number("wait", wait)
        quick = self._quick
        peeked = None if quick is None else quick.peek(name, rows, seconds)
        return (self._peek(name, rows, seconds) if peeked is None else peeked).batch

    @property
    def _quick(self) -> QuickCalls | None:
        """The way to call from this thread, unless it is the event loop's."""
        return None if self._portal.is_mine else self._quick_calls

    producer = _wrapping(client.AsyncClient.producer, Producer)
    subscribe = _wrapping(client.AsyncClient.subscribe, Subscription)
    replay = _wrapping(client.AsyncClient.replay, Replay)
    sql = _wrapping(client.AsyncClient.sql, SqlResult)
    changes = _wrapping(client.AsyncClient.changes, Replay)
    work = _wrapping(client.AsyncClient.work, Worker)

    def close(self) -> None:
        """Flush producers, end subscriptions, close the store. Closing again does nothing."""
        self._portal.forget(self)
        if self._quick_calls is not None:
            self._quick_calls.close()
        self._portal.run(self._client.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


async def _open_client(opening: aio.Opening) -> client.AsyncClient:
    return await opening


def open(
    path: str | os.PathLike[str],
    cold: str | None = None,
    *,
    s3: S3Settings | None = None,
    settings: HotSettings | None = None,
    object_bytes_min: int | str | None = None,
) -> Client:
    """A store in this process, in the directory `path`, which no other process may have open.

    History goes to `cold`: a folder (by default `cold` in `path`) or s3://BUCKET/PREFIX.
    A value of more than `object_bytes_min` (1 MiB by default) is stored as a large object; see docs/objects.md.
    """
    runs_on = portal()
    return Client(
        runs_on.run(
            _open_client(aio.open(path, cold, s3=s3, settings=settings, object_bytes_min=object_bytes_min))
        ),
        runs_on,
    )


def connect(
    servers: str = f"127.0.0.1:{PORT}",
    *,
    timeout: float = CALL_SECONDS,
    tls: ClientTls | None = None,
    key: str | None = None,
    transport: str | None = None,
    object_bytes_min: int | str | None = None,
) -> Client:
    """A client of the servers `HOST:PORT`, or several with commas between; any of them will do.

    `timeout` is the time, in seconds, that one call may take with all its attempts. It is used up where a server
    that was reached before restarts; if none was reached yet and all refuse, the first call says so at once.
    `key` is shown to servers that want one: jjq_<id>_<secret>, as `jjq key create` printed it.
    `transport` is for single calls and subscriptions: `auto` (WebSocket where the server has it, else gRPC),
    `websocket` or `grpc`; without it JJQ_TRANSPORT says, or it is `auto`.
    A value of more than `object_bytes_min` (1 MiB by default) is stored as a large object; see docs/objects.md.
    """
    runs_on = portal()
    opening = aio.connect(
        servers, timeout=timeout, tls=tls, key=key, transport=transport, object_bytes_min=object_bytes_min
    )
    inner = runs_on.run(_open_client(opening))
    from jjq.remote.thread.quick_calls import quick_calls

    return Client(inner, runs_on, quick_calls(inner._store, runs_on.later, SystemChance()))
