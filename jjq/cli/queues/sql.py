"""`jjq sql`: ask in SQL. Queues are tables; docs/sql.md has examples."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from coldstore.shared.errors import InvalidInput
from jjq.cli.connection import Connection, Key, TlsCa, TlsCertificate, TlsKey, s3_settings
from jjq.cli.queues.sql_output import Format, open_output
from jjq.limits import CALL_SECONDS, PORT

if TYPE_CHECKING:
    from coldstore.objects.settings import S3Settings
    from jjq.blocking import SqlResult

Ask = Callable[[str, list[Any]], "SqlResult"]
_GROUP = "Connection"


@Parameter(name="*")
@dataclass(frozen=True)
class SqlPlace:
    """Who is asked, and where history is."""

    server: Annotated[str | None, Parameter(env_var="JJQ_SERVER", group=_GROUP)] = None
    """HOST:PORT of the server, or several, separated by commas [127.0.0.1:7575]."""

    data: Annotated[Path | None, Parameter(group=_GROUP)] = None
    """A data directory. Without a server: this process opens it, so no server may have it open."""

    cold: Annotated[str | None, Parameter(group=_GROUP)] = None
    """The cold store: a folder, or s3://BUCKET/PREFIX."""

    timeout: Annotated[float, Parameter(group=_GROUP)] = CALL_SECONDS
    """Seconds that a server may be silent."""

    tls_ca: TlsCa = None
    tls_certificate: TlsCertificate = None
    tls_key: TlsKey = None
    key: Key = None

    s3_endpoint: Annotated[str | None, Parameter(env_var="JJQ_S3_ENDPOINT", group=_GROUP)] = None
    """URL of an S3 server that is not AWS."""

    s3_region: Annotated[str | None, Parameter(env_var="JJQ_S3_REGION", group=_GROUP)] = None
    """Region of the bucket."""

    def connection(self) -> Connection:
        server = self.server or f"127.0.0.1:{PORT}"
        return Connection(server, self.timeout, self.tls_ca, self.tls_certificate, self.tls_key, self.key)

    def s3(self) -> S3Settings | None:
        return None if self.cold is None else s3_settings(self.s3_endpoint, self.s3_region)


_HERE = SqlPlace()


def sql(
    query: str | None = None,
    *,
    format: Format = "table",
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    param: Annotated[list[str] | None, Parameter(negative=())] = None,
    seconds: float | None = None,
    place: SqlPlace = _HERE,
) -> None:
    """Ask in SQL: every queue is a table with offset, timestamp, key, value and headers.

    ```
    jjq sql "SELECT count(*) FROM orders WHERE timestamp > now() - INTERVAL 1 HOUR"
    jjq sql "SELECT value->>'item' AS item, count(*) FROM orders GROUP BY ALL" --format csv -o items.csv
    jjq sql "FROM jjq.subscribers ORDER BY lag_seconds DESC"
    jjq sql --cold s3://bucket/jjq "SELECT max(offset) FROM orders"
    jjq sql
    ```

    Without a query, a shell reads queries at a terminal; elsewhere standard input is the query. A server runs a
    query in a process of its own. With --cold or --data, this process runs it and reads history itself; the newest
    elements come from the server, if one is given (--server or JJQ_SERVER). With --cold alone, only history is seen.

    Parameters
    ----------
    query
        One statement: SELECT, WITH, VALUES, DESCRIBE, SUMMARIZE, SHOW TABLES or EXPLAIN.
    format
        table for people; csv; json, one object a line; arrow (IPC stream); parquet.
    output
        File to write to. Default: standard output.
    param
        Value of $1; repeat it for $2, … It is text: cast it where SQL needs another type.
    seconds
        Stop the query after this many seconds. A server has a limit of its own.
    """
    with _asking(place, seconds) as ask:
        if query is None and sys.stdin.isatty():
            from jjq.cli.queues.sql_shell import run_shell

            run_shell(ask, format)
            return
        text = sys.stdin.read() if query is None else query
        with ask(text, list(param or ())) as rows, open_output(format, output) as write:
            write(rows)


@contextmanager
def _asking(place: SqlPlace, seconds: float | None) -> Iterator[Ask]:
    """Who is asked, as the options say."""
    data, cold = place.data, place.cold
    if data is not None and cold is not None:
        raise InvalidInput("give --data or --cold, not both: the cold store of --data is known")
    if data is not None and place.server is None:
        from jjq.blocking import open as open_store

        if not data.is_dir():
            raise InvalidInput(f"there is no data directory {data}: correct --data")
        with open_store(data) as client:
            yield lambda query, params: client.sql(query, params, timeout=seconds)
    elif cold is not None and place.server is None:
        yield _history(cold, place.s3(), seconds)
    else:
        history = str(data / "cold") if data is not None else cold
        with place.connection().open() as client:
            yield lambda query, params: client.sql(
                query, params, cold=history, s3=place.s3(), timeout=seconds
            )


def _history(cold: str, s3: S3Settings | None, seconds: float | None) -> Ask:
    """The cold store is asked, and no server."""
    from coldstore.shared.chance import SystemChance
    from coldstore.shared.clock import SystemClock
    from jjq.blocking import SqlResult
    from jjq.client.loop_thread import portal
    from jjq.client.sql_result import AsyncSqlResult
    from jjq.sql.local import LocalQueries, open_history
    from jjq.sql.query import make_query

    queries = LocalQueries(partial(open_history, cold, s3, SystemClock(), SystemChance()), None)

    def ask(query: str, params: list[Any]) -> SqlResult:
        return SqlResult(AsyncSqlResult(queries.run(make_query(query, params, seconds))), portal())

    return ask
