"""The process of `jjq serve`: starts a node, says where it listens, and ends it when it is told to."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jjq.cli import exits
from jjq.cli.output import note

if TYPE_CHECKING:
    from jjq.node.serving import NodeServer
    from jjq.node.settings import Settings


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
