"""SQL for clients of servers: a server answers, or this process does, with the tails from a server.

A query that a server has begun to answer is not repeated: rows would come twice. One whose answer has not begun is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TypeVar

import grpc
import pyarrow as pa

from coldstore.objects.settings import S3Settings
from coldstore.shared.chance import Chance
from coldstore.shared.clock import Clock
from coldstore.shared.deadline import within
from coldstore.shared.errors import InvalidInput, Unavailable
from jjq.remote.channels import Lane, Link, ServerStream, read_message
from jjq.remote.operate.operator import RemoteOperator
from jjq.remote.retry import Caller
from jjq.remote.settings import RemoteSettings
from jjq.remote.store import RemoteStore
from jjq.sql.frames import from_stream
from jjq.sql.local import LocalQueries, open_history
from jjq.sql.query import Queries, Query
from jjq.v1 import jjq_pb2 as pb
from jjq.wire.batches import parse
from jjq.wire.services import OPERATOR
from jjq.wire.status import NoSuchMethod
from sharding.ports import NodeState, Shard

T = TypeVar("T")
Answer = grpc.aio.UnaryStreamCall[bytes, bytes]


class RemoteQueries:
    """Asks servers, as `RemoteStore` does."""

    def __init__(self, link: Link, chance: Chance, seconds: float) -> None:
        self._link = link
        self._caller = Caller(link, chance)
        self._seconds = seconds

    async def run(self, query: Query) -> AsyncIterator[pa.RecordBatch]:
        """See `Queries`."""
        request = pb.QueryRequest(query=query.text, params=query.params, timeout_seconds=query.seconds or 0.0)
        raw = request.SerializeToString()
        with ExitStack() as open_streams:

            async def begin(_: Lane, _limit: float) -> tuple[Answer, pa.RecordBatch]:
                lane = open_streams.enter_context(self._link.stream())
                return await self._begin(lane.server_stream("Query"), raw)

            try:
                call, first = await self._caller.insist(begin, self._seconds, writes=False)
            except NoSuchMethod:
                raise InvalidInput(
                    "the server answers no queries in SQL: it is an older one, or sql_queries_max is 0; "
                    "give its cold store (cold=URL, --cold) to ask in this process"
                ) from None
            try:
                yield first
                while (batch := await self._next(call)) is not None:
                    yield batch
            finally:
                call.cancel()

    async def _begin(self, method: ServerStream, request: bytes) -> tuple[Answer, pa.RecordBatch]:
        """Send the query; the stream and its first batch."""
        call = method(request)
        try:
            first = await self._next(call)
            if first is None:
                raise Unavailable("the server ended the stream of a query before it began")
        except BaseException:
            call.cancel()
            raise
        return call, first

    async def _next(self, call: Answer) -> pa.RecordBatch | None:
        """The next batch, however long the query takes: a server that works says so now and then."""
        while True:
            async with within(self._seconds, f"the server was silent for {self._seconds:g} s"):
                message = await read_message(call, writes=False)
            if message is None:
                return None
            rows = parse(pb.QueryResponse, message).ipc
            if rows:
                return from_stream(rows)


class RemoteCluster:
    """The verbs of an operator that system tables need; a server that is alone has none, and tells nothing."""

    def __init__(self, targets: str, settings: RemoteSettings, clock: Clock, chance: Chance) -> None:
        self._targets = targets
        self._settings = replace(settings, direct=False, service=OPERATOR)
        self._clock = clock
        self._chance = chance

    async def _ask(self, verb: Callable[[RemoteOperator], Awaitable[T]]) -> T | None:
        operator = RemoteOperator(self._targets, self._settings, clock=self._clock, chance=self._chance)
        try:
            return await verb(operator)
        except NoSuchMethod:
            return None
        finally:
            await operator.close()

    async def nodes(self) -> list[NodeState] | None:
        return await self._ask(lambda operator: operator.nodes())

    async def shards(
        self, queue: str = "", node: str = "", *, after: str = "", limit: int | None = None
    ) -> dict[str, list[Shard]] | None:
        return await self._ask(lambda operator: operator.shards(queue, node, after=after, limit=limit))


class QueryDesk:
    """Who answers the queries of a client: its server, or this process if it knows where the cold store is."""

    def __init__(self, store: RemoteStore, clock: Clock, chance: Chance) -> None:
        self._store = store
        self._clock = clock
        self._chance = chance
        self._local: dict[tuple[str, S3Settings | None], LocalQueries] = {}  # kept: they know blocks by then

    def choose(self, cold: str | None, s3: S3Settings | None) -> Queries:
        store, clock, chance = self._store, self._clock, self._chance
        if cold is None:
            if s3 is not None:
                raise InvalidInput("s3 says how to reach a cold store: give cold, too")
            return RemoteQueries(store.link, chance, store.settings.timeout_seconds)
        found = self._local.get((cold, s3))
        if found is None:
            cluster = RemoteCluster(",".join(store.link.targets), store.settings, clock, chance)
            found = LocalQueries(partial(open_history, cold, s3, clock, chance), store, cluster)
            self._local[cold, s3] = found
        return found

    def close(self) -> None:
        """Close what queries in this process have kept."""
        for queries in self._local.values():
            queries.close()
