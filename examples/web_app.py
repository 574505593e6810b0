"""The log inside of your own web application, here one of Starlette: python examples/web_app.py [FOLDER]

The application pushes what its visitors do. Under /jjq it has the whole HTTP interface of jjq: replays, events, docs.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

import jjq

folder = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    async with jjq.aio.open(folder) as client:
        await client.create_queue("visits", content="json")
        app.state.jjq = client
        app.mount("/jjq", jjq.asgi(client))
        yield


async def home(request: Request) -> PlainTextResponse:
    receipt = await request.app.state.jjq.push("visits", [json.dumps({"page": request.url.path})])
    return PlainTextResponse(f"you are visitor {receipt.first_offset + 1}")


application = Starlette(routes=[Route("/", home)], lifespan=lifespan)


def visit(port: int) -> list[str]:
    """Two visits, and what the log knows of them."""
    said = []
    for path in ("/", "/", "/jjq/v1/queues/visits/elements"):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as reply:
            said += reply.read().decode().splitlines()
    return said


async def main() -> None:
    server = uvicorn.Server(uvicorn.Config(application, port=0, log_level="error"))
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    for line in await asyncio.to_thread(visit, port):
        print(line)
    server.should_exit = True
    await serving


asyncio.run(main())
