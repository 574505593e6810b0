"""`jjq serve`: run a node until it is told to stop, or until its journal fails."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from jjq.cli import exits
from jjq.cli.lean import without_rich
from jjq.cli.output import note

if TYPE_CHECKING:
    from jjq.node.serving import NodeServer
    from jjq.node.settings import Settings

Level = Literal["debug", "info", "warning", "error"]
Plain = Literal["warn", "refuse", "allow"]


def _option(help: str, group: str = "Parameters") -> Parameter:
    return Parameter(help=help, group=group)


_S3, _TLS, _BUDGETS, _SQL = "S3", "TLS", "Budgets", "SQL"


def serve(
    *,
    config: Annotated[Path | None, Parameter(env_var="JJQ_CONFIG", help="A TOML file.")] = None,
    data: Annotated[Path | None, _option("Directory of journal and checkpoints [jjq-data].")] = None,
    listen: Annotated[str | None, _option("HOST:PORT; port 0 takes a free one [127.0.0.1:7575].")] = None,
    cold: Annotated[str | None, _option("History: a folder or s3://BUCKET/PREFIX [DATA/cold].")] = None,
    node: Annotated[str | None, _option("Name of this node among others [none: it is alone].")] = None,
    journal: Annotated[
        str | None, _option("Makes pushes durable: disk, or s3 (with history) [disk].")
    ] = None,
    journal_flush_seconds: Annotated[float | None, _option("Puts of that journal apart [0.05].")] = None,
    lease_seconds: Annotated[float | None, _option("Silent for so long, a node is dead [10].")] = None,
    advertise: Annotated[str | None, _option("HOST:PORT at which others reach this node.")] = None,
    http_listen: Annotated[str | None, _option("HOST:PORT of HTTP, or none [the next port].")] = None,
    http_origins: Annotated[str | None, _option("Web origins that may ask, with commas [none].")] = None,
    http_hosts: Annotated[str | None, _option("Names of this server beside localhost and addresses.")] = None,
    connect_create_queues: Annotated[bool | None, _option("/connect/ creates queues [yes].")] = None,
    metrics_listen: Annotated[str | None, _option("HOST:PORT of a page for Prometheus.")] = None,
    traces: Annotated[str | None, _option("Collector of OpenTelemetry, http://HOST:4318.")] = None,
    reflection: Annotated[bool | None, _option("Let anyone list the gRPC methods.")] = None,
    log: Annotated[Literal["text", "json"] | None, _option("Form of the log [text].")] = None,
    log_level: Annotated[Level | None, _option("Least level that is logged [info].")] = None,
    grace_seconds: Annotated[float | None, _option("Time for calls to end when stopping [10].")] = None,
    seal_on_close: Annotated[bool | None, _option("Write all to the cold store when stopping.")] = None,
    s3_endpoint: Annotated[str | None, _option("URL of an S3 server that is not AWS.", _S3)] = None,
    s3_region: Annotated[str | None, _option("Region of the bucket.", _S3)] = None,
    tls_certificate: Annotated[Path | None, _option("PEM file; turns TLS on.", _TLS)] = None,
    tls_key: Annotated[Path | None, _option("PEM file of the certificate's key.", _TLS)] = None,
    tls_client_ca: Annotated[Path | None, _option("PEM file of the authority of clients.", _TLS)] = None,
    plaintext: Annotated[Plain | None, _option("If others reach us without TLS [warn].", _TLS)] = None,
    segment_bytes: Annotated[str | None, _option("Size of a journal file [64MiB].", _BUDGETS)] = None,
    journal_bytes_max: Annotated[str | None, _option("Journal; full: no pushes [4GiB].", _BUDGETS)] = None,
    unsealed_bytes_max: Annotated[str | None, _option("Memory, not yet cold [1GiB].", _BUDGETS)] = None,
    pending_bytes_max: Annotated[str | None, _option("Pushes going to disk [64MiB].", _BUDGETS)] = None,
    hot_bytes_max: Annotated[str | None, _option("Memory for blocks being read [512MiB].", _BUDGETS)] = None,
    disk_free_bytes_min: Annotated[str | None, _option("Disk that is kept free [256MiB].", _BUDGETS)] = None,
    object_bytes_max: Annotated[str | None, _option("Size of a large object [5GiB].", _BUDGETS)] = None,
    queue_objects_bytes_max: Annotated[
        str | None, _option("Quota of a queue's objects [0].", _BUDGETS)
    ] = None,
    cache_bytes_max: Annotated[str | None, _option("Disk for S3's blocks; 0: none [4GiB].", _BUDGETS)] = None,
    outgoing_bytes_max: Annotated[
        str | None, _option("Memory for what clients did not read yet [96MiB].", _BUDGETS)
    ] = None,
    idle_seconds: Annotated[float | None, _option("Idle subscribers fall asleep [600].", _BUDGETS)] = None,
    producer_seconds: Annotated[
        float | None, _option("Idle producers are dropped [604800].", _BUDGETS)
    ] = None,
    sql_queries_max: Annotated[int | None, _option("Queries at the same time; 0: none [4].", _SQL)] = None,
    sql_seconds_max: Annotated[float | None, _option("Time of one query [60].", _SQL)] = None,
    sql_bytes_max: Annotated[str | None, _option("Memory of one query [1GiB].", _SQL)] = None,
) -> int:
    """Run a server. Settings come from flags, JJQ_* variables or a TOML file; flags win, then variables.

    ```
    jjq serve
    jjq serve --data /var/lib/jjq --cold s3://bucket/jjq
    jjq serve --listen 0.0.0.0:7575 --tls-certificate node.crt --tls-key node.key
    jjq serve --config jjq.toml
    ```

    Ends with 0 on SIGTERM or Ctrl-C, after finishing what is under way; acknowledged elements are
    durable in any case. Ends with 1 if the journal's disk fails.
    """
    flags = dict(locals())
    _prepare()
    from jjq.node.settings import Settings

    return run(Settings.load(flags, flags.pop("config")))


def _prepare() -> None:
    """Before anything large is imported."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # what it would say of our settings, we say in one line
    without_rich()
    gc.disable()  # what a start makes, stays: `stalls.frozen` goes on from there


def run(settings: Settings) -> int:
    """Serve until the end."""
    from coldstore.shared.failpoint import arm_from
    from jjq.node.logs import set_up_logs
    from jjq.open_files import allow_many
    from jjq.server import memory

    allow_many()
    set_up_logs(settings.log, settings.log_level)
    memory.set_up()
    arm_from(os.environ)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_serve(settings))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _serve(settings: Settings) -> int:
    from coldstore.shared.chance import SystemChance
    from coldstore.shared.clock import SystemClock
    from jjq.addresses import check_free
    from jjq.http.settings import SETTING, cannot_listen_for_http
    from jjq.node.serving import start_node
    from jjq.server import stalls

    check_free(settings.listen, "listen")  # before a data directory is made for nothing
    http = settings.http_settings()
    if http is not None:
        check_free(http.listen, SETTING, cannot_listen_for_http(http.listen))
    if settings.metrics_listen is not None:
        check_free(settings.metrics_listen, "metrics_listen")
    node = await start_node(
        settings.node_settings(),
        settings.server_settings(),
        settings.cluster_settings(),
        SystemClock(),
        SystemChance(),
        http,
    )
    try:
        _greet(settings, node)
        with stalls.frozen():
            failure = await _stopped(node.failed)
    finally:
        await node.close()
    return _ended(failure)


def _ended(failure: Exception | None) -> int:
    if failure is not None:
        note(f"jjq: nothing more can be acknowledged: {failure}; fix the cause and start again")
    return exits.OK if failure is None else exits.ERROR


def _greet(settings: Settings, node: NodeServer) -> None:
    server = node.server
    cold = settings.node_settings().cold_url
    metrics = "" if server.metrics_port is None else f", metrics on port {server.metrics_port}"
    http = "" if node.http is None else f", HTTP on {node.http.address}"
    data = f"data in {settings.data}, history in {cold}"
    print(f"jjq listens on {server.address}, {data}{http}{metrics}", flush=True)


async def _stopped(failed: asyncio.Future[Exception]) -> Exception | None:
    """Wait until someone wants the server to stop, or until the journal fails: then the reason."""
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()

    def ask() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)  # a second one ends the process at once
        asked.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ask)
    waiting: asyncio.Future[Any] = asyncio.create_task(asked.wait())
    await asyncio.wait([waiting, failed], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    return failed.result() if failed.done() else None
