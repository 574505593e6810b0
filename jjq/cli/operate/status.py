"""`jjq ping`, `jjq status` and `jjq top`: is it there, how is it, what does it do."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from coldstore.shared.clock import Clock, SystemClock
from coldstore.shared.errors import InvalidInput, Unavailable
from jjq.cli import exits
from jjq.cli.connection import HERE, AsJson, Connection
from jjq.cli.operate.samples import (
    NODE_COLUMNS,
    QUEUE_COLUMNS,
    Sample,
    Sampler,
    busiest,
    node_json,
    node_row,
    queue_row,
)
from jjq.cli.output import note, print_json, print_table, table_of

if TYPE_CHECKING:
    from jjq.remote.settings import ClientTls

_PAUSE_SECONDS = 0.2  # between attempts of `ping --wait`
_SHOWN = 20  # queues


def ping(*, wait: float = 0.0, json: AsJson = False, at: Connection = HERE) -> int:
    """Check whether a server answers. Ends with 0 if it does, otherwise with 7.

    ```
    jjq ping
    jjq ping --wait 30 --server 127.0.0.1:7575 && ./start-the-application
    ```

    It asks the standard gRPC health service, so it also notices a server that is stopping. If you give several servers,
    all of them must serve.

    Parameters
    ----------
    wait
        Seconds to wait for a server that is not there yet.
    """
    from jjq.remote.settings import split_targets

    if wait < 0 or not at.timeout > 0:
        raise InvalidInput("--wait must be 0 or more seconds, and --timeout more than 0")
    clock = SystemClock()
    deadline = clock.monotonic() + wait
    found = [_ask_until(target, at, clock, deadline) for target in split_targets(at.server)]
    if json:
        print_json([{"server": target, "seconds": took, "error": error} for target, took, error in found])
    else:
        for target, took, error in found:
            if error is None:
                print(f"{target} serves, and answered in {took * 1000:.1f} ms")
    failed = [(target, error) for target, _, error in found if error is not None]
    for target, error in failed:
        note(f"jjq: {target} does not serve: {error}")
    return exits.UNAVAILABLE if failed else exits.OK


def _ask_until(target: str, at: Connection, clock: Clock, deadline: float) -> tuple[str, float, str | None]:
    """The server, how long its answer took, and why there is none; asked again until the deadline."""
    while True:
        left = max(0.0, deadline - clock.monotonic())
        began = clock.monotonic()
        error = _check(target, at.tls(), min(at.timeout, left) if left > _PAUSE_SECONDS else at.timeout)
        took = clock.monotonic() - began
        if error is None or clock.monotonic() + _PAUSE_SECONDS >= deadline:
            return target, took, error
        clock.sleep(_PAUSE_SECONDS)


def _check(target: str, tls: ClientTls | None, seconds: float) -> str | None:
    """Why a server does not serve; None: it does."""
    import grpc
    from grpc_health.v1 import health, health_pb2

    options = [("grpc.enable_retries", 0), ("grpc.use_local_subchannel_pool", 1)]
    if tls is None:
        channel = grpc.insecure_channel(target, options)
    else:
        channel = grpc.secure_channel(target, tls.credentials(), options)
    with channel:
        check = channel.unary_unary(
            f"/{health.SERVICE_NAME}/Check",
            health_pb2.HealthCheckRequest.SerializeToString,
            health_pb2.HealthCheckResponse.FromString,
        )
        try:
            answer = check(health_pb2.HealthCheckRequest(), timeout=seconds)
        except grpc.RpcError as error:
            return " ".join(str(error.details() or error.code().name).split())
    return None if answer.status == health_pb2.HealthCheckResponse.SERVING else "it is stopping"


def status(
    *,
    seconds: Annotated[float, Parameter(name="--seconds")] = 1.0,
    json: AsJson = False,
    at: Connection = HERE,
) -> int:
    """Show the state of a server, or of all nodes of its cluster, on one screen.

    ```
    jjq status
    jjq status --json | jq '.nodes[].figures.exposed_bytes'
    ```

    It shows version and uptime, queues and their rates, the subscriber that is furthest behind, the size of the
    journal, the exposed bytes (not in the cold store yet), and whether the cold store answers. Ends with 7 if a node or
    its cold store does not answer.

    Parameters
    ----------
    seconds
        How long to look, for the rates.
    """
    if not 0 <= seconds <= 3_600:
        raise InvalidInput(f"--seconds is {seconds:g}: give 0 to 3600")
    clock = SystemClock()
    with at.open() as client:
        sampler = Sampler(client, clock)
        sample = sampler.take()
        if seconds:
            clock.sleep(seconds)
            sample = sampler.take()
    if json:
        print_json(
            {"nodes": [node_json(n) for n in sample.nodes], "queues": [asdict(q) for q in sample.queues]}
        )
    else:
        for table in _tables(sample):
            print_table(*table)
        if len(sample.queues) > _SHOWN:
            note(f"… and {len(sample.queues) - _SHOWN} more queues: see `jjq queue list`")
    ill = any(node.error or node.cold_error for node in sample.nodes)
    return exits.UNAVAILABLE if ill else exits.OK


def _tables(sample: Sample) -> list[tuple[tuple[str, ...], list[tuple[object, ...]]]]:
    queues = [queue_row(queue) for queue in busiest(sample.queues, _SHOWN)]
    return [(NODE_COLUMNS, [node_row(node) for node in sample.nodes]), (QUEUE_COLUMNS, queues)]


def top(
    *,
    every: float = 1.0,
    count: Annotated[int | None, Parameter(name=["--count", "-n"])] = None,
    at: Connection = HERE,
) -> None:
    """Watch nodes and the busiest queues of a server, until Ctrl-C.

    ```
    jjq top
    jjq top --every 5
    ```

    Parameters
    ----------
    every
        Seconds between two looks.
    count
        How many looks; by default until Ctrl-C.
    """
    if not 0 < every <= 3_600 or (count is not None and count < 1):
        raise InvalidInput("--every must be more than 0 seconds, and --count 1 or more")
    clock = SystemClock()
    with at.open() as client:
        sampler = Sampler(client, clock)
        sampler.take()
        if sys.stdout.isatty():
            _live(sampler, clock, every, count)
            return
        for _ in range(count or sys.maxsize):
            clock.sleep(every)
            for table in _tables(sampler.take()):
                print_table(*table)
            sys.stdout.flush()


def _live(sampler: Sampler, clock: Clock, every: float, count: int | None) -> None:
    """On a screen of its own, drawn again at each look; a server that is away for a while comes back."""
    from rich.console import Group
    from rich.live import Live

    with Live(screen=True, auto_refresh=False) as live:
        for _ in range(count or sys.maxsize):
            clock.sleep(every)
            try:
                shown: list[Any] = [table_of(*table) for table in _tables(sampler.take())]
            except Unavailable as error:
                shown = [f"no answer: {error.message}"]
            live.update(Group(*shown), refresh=True)
