"""jjq for asyncio: `open` a directory in this process, or `connect` to servers; the same verbs.

async with jjq.aio.connect("127.0.0.1:7575") as client:
    await client.push("orders", [b"a", b"b"])
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from coldstore.objects.settings import S3Settings
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import SystemClock
from coldstore.shared.errors import InvalidInput
from coldstore.shared.limits import OBJECT_BYTES_MIN
from hotstore.settings import HotSettings
from jjq import arguments
from jjq.client.client import AsyncClient as Client
from jjq.client.groups.worker import AsyncWorker as Worker
from jjq.client.producer import AsyncProducer as Producer
from jjq.client.push_future import Pushed
from jjq.client.replay import AsyncReplay as Replay
from jjq.client.sql_result import AsyncSqlResult as SqlResult
from jjq.client.subscription import AsyncSubscription as Subscription
from jjq.limits import CALL_SECONDS, PORT

if TYPE_CHECKING:
    from jjq.remote.queries import QueryDesk
    from jjq.remote.settings import ClientTls
    from jjq.sql.local import LocalQueries
    from jjq.sql.query import Queries

__all__ = ["Client", "Producer", "Pushed", "Replay", "SqlResult", "Subscription", "Worker", "connect", "open"]


class Opening:
    """A client to be: `await` it, or enter it with `async with`, which closes it as well."""

    def __init__(self, make: Callable[[], Awaitable[Client]]) -> None:
        self._make = make
        self._client: Client | None = None

    def __await__(self) -> Generator[Any, None, Client]:
        return self._make().__await__()

    async def __aenter__(self) -> Client:
        self._client = await self._make()
        return self._client

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._client is not None:
            await self._client.close()


def open(
    path: str | os.PathLike[str],
    cold: str | None = None,
    *,
    s3: S3Settings | None = None,
    settings: HotSettings | None = None,
    object_bytes_min: int | str | None = None,
) -> Opening:
    """A store in this process, in the directory `path`, which no other process may have open.

    History goes to `cold`: a folder (by default `cold` in `path`) or s3://BUCKET/PREFIX.
    A value of more than `object_bytes_min` (1 MiB by default) is stored as a large object; see docs/objects.md.
    """

    least = _least(object_bytes_min)

    async def make() -> Client:
        from jjq.node.node import NodeSettings, open_node

        clock, chance = SystemClock(), SystemChance()
        place = arguments.path("path", path)
        url = None if cold is None else arguments.text("cold", cold)
        if s3 is not None:
            arguments.kind("s3", s3, S3Settings, "a jjq.S3Settings")
        if settings is not None:
            arguments.kind("settings", settings, HotSettings, "a jjq.HotSettings")
        node = NodeSettings(place, url, s3, settings or HotSettings())
        engine = await open_node(node, clock, chance)
        made: list[LocalQueries] = []  # when the first is asked for: it brings DuckDB

        def queries(other: str | None, s3: S3Settings | None) -> Queries:
            from jjq.sql.local import LocalQueries

            if other is not None:
                raise InvalidInput("cold= is for clients of a server: this store knows its own cold store")
            if not made:
                made.append(LocalQueries(lambda: engine.cold, engine.store))
            return made[0]

        async def close() -> None:
            for each in made:
                each.close()
            await engine.close()

        return Client(
            engine.store,
            clock=clock,
            chance=chance,
            on_close=close,
            queries=queries,
            object_bytes_min=least,
        )

    return Opening(make)


def connect(
    servers: str = f"127.0.0.1:{PORT}",
    *,
    timeout: float = CALL_SECONDS,
    tls: ClientTls | None = None,
    key: str | None = None,
    transport: str | None = None,
    object_bytes_min: int | str | None = None,
) -> Opening:
    """A client of the servers `HOST:PORT`, or several with commas between; any of them will do.

    `timeout` is the time, in seconds, that one call may take with all its attempts. It is used up where a server
    that was reached before restarts; if none was reached yet and all refuse, the first call says so at once.
    `key` is shown to servers that want one: jjq_<id>_<secret>, as `jjq key create` printed it.
    `transport` is for single calls and subscriptions: `auto` (WebSocket where the server has it, else gRPC),
    `websocket` or `grpc`; without it JJQ_TRANSPORT says, or it is `auto`.
    A value of more than `object_bytes_min` (1 MiB by default) is stored as a large object; see docs/objects.md.
    """
    chosen = transport if transport is not None else os.environ.get("JJQ_TRANSPORT") or "auto"

    least = _least(object_bytes_min)

    async def make() -> Client:
        from jjq.remote.groups.group_store import RemoteWorkStore
        from jjq.remote.settings import RemoteSettings

        clock, chance = SystemClock(), SystemChance()
        settings = RemoteSettings(timeout, tls, key=key, transport=chosen)
        store = RemoteWorkStore(servers, settings, clock=clock, chance=chance)
        made: list[QueryDesk] = []  # when the first is asked for, as above

        def queries(cold: str | None, s3: S3Settings | None) -> Queries:
            from jjq.remote.queries import QueryDesk

            if not made:
                made.append(QueryDesk(store, clock, chance))
            return made[0].choose(cold, s3)

        async def close() -> None:
            for each in made:
                each.close()
            await store.close()

        return Client(
            store,
            clock=clock,
            chance=chance,
            retry_seconds=timeout,
            on_close=close,
            queries=queries,
            object_bytes_min=least,
        )

    return Opening(make)


def _least(object_bytes_min: int | str | None) -> int:
    return (
        OBJECT_BYTES_MIN if object_bytes_min is None else arguments.size("object_bytes_min", object_bytes_min)
    )
