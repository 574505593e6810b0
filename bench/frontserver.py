"""A server for `frontend`, in a process of its own: `python -m bench.frontserver DIR LOOP`.

Prints the addresses of the service, of its metrics and of a bare echo beside it, then serves until its input closes.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import grpc
import structlog
import uvloop

from bench.hotstore import open_in
from jjq.server import memory, stalls
from jjq.server.server import serve
from jjq.server.settings import ServerSettings

ANYWHERE = "127.0.0.1:0"


async def echo_server() -> tuple[grpc.aio.Server, str]:
    """What grpc.aio does at best: bytes back as they came."""
    server = grpc.aio.server(options=ServerSettings(listen=ANYWHERE).options())

    async def echo(raw: bytes, context: object) -> bytes:
        return raw

    handlers: dict[str, Any] = {"Echo": grpc.unary_unary_rpc_method_handler(echo)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench", handlers),))
    port = server.add_insecure_port(ANYWHERE)
    await server.start()
    return server, f"127.0.0.1:{port}"


async def main(directory: Path) -> None:
    engine = await open_in(directory)
    server = await serve(engine.store, ServerSettings(listen=ANYWHERE, metrics=ANYWHERE))
    echo, address = await echo_server()
    metrics = f"127.0.0.1:{server.metrics_port}"
    print(json.dumps({"jjq": server.address, "echo": address, "metrics": metrics}), flush=True)
    with stalls.frozen():
        await asyncio.to_thread(sys.stdin.read)
    await server.stop(1.0)
    await echo.stop(None)
    await engine.close()


def run_on(loop: str, work: Coroutine[Any, Any, Any]) -> Any:
    return uvloop.run(work) if loop == "uvloop" else asyncio.run(work)


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())  # the output is for addresses
    memory.set_up()  # as `jjq serve` does
    run_on(sys.argv[2], main(Path(sys.argv[1])))
