"""`jjq serve`: run a node until a signal stops it, or until its journal fails."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from jjq.cli.lean import prepare_server

Level = Literal["debug", "info", "warning", "error"]
Plaintext = Literal["warn", "refuse", "allow"]


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
    plaintext: Annotated[Plaintext | None, _option("If others reach us without TLS [warn].", _TLS)] = None,
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
    prepare_server(os.environ)
    from jjq.cli.operate.running import run
    from jjq.node.settings import Settings

    return run(Settings.load(flags, flags.pop("config")))
