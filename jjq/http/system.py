"""Routes about the server itself: health, figures, and what it can do.

    /healthz        200 while the process answers
    /readyz         200 if it takes requests; 503 while it starts, drains, or when its journal has failed
    /metrics        all figures, for Prometheus
    /openapi.json   every route, made from the routes and their types
    /docs           the same for people; one page that needs no network
    /, /console/…   the console (jjq/console); a fixed table of files, which a browser keeps by their ETag

Health is open to everybody, also where keys are needed: an orchestrator has none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from coldstore.shared.errors import Unavailable
from jjq.console.files import ConsoleFile, console_files
from jjq.http.openapi import describe_routes
from jjq.http.replies import BytesReply, Reply, document
from jjq.http.request import Request
from jjq.http.routing import HttpRoute, RouteTable

if TYPE_CHECKING:
    from prometheus_client.core import CollectorRegistry

_POLICY: Final = (
    b"content-security-policy",
    (  # blob: pictures that the console has loaded
        b"default-src 'self'; img-src 'self' blob:; object-src 'none'; "
        b"frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    ),
)
_REFERRER: Final = (b"referrer-policy", b"no-referrer")
_PAGES: Final = {
    "docs": ("docs.html", b"text/html; charset=utf-8"),
    "docs.js": ("docs.js", b"text/javascript; charset=utf-8"),
    "docs.css": ("docs.css", b"text/css; charset=utf-8"),
}


async def _health(request: Request) -> Reply:
    return BytesReply(b"ok\n", b"text/plain; charset=utf-8")


async def _ready(request: Request) -> Reply:
    backend = request.backend
    why = "the server is stopping" if backend.drain.stopping else backend.state()
    if why:
        raise Unavailable(f"not ready: {why}")
    return BytesReply(b"ready\n", b"text/plain; charset=utf-8")


async def _metrics(request: Request) -> Reply:
    """On a thread: a scrape waits for the store, which lives on the event loop."""
    text, kind = await asyncio.to_thread(_figures, request.backend.metrics.registry)
    return BytesReply(text, kind)


def _figures(registry: CollectorRegistry) -> tuple[bytes, bytes]:
    from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest  # with a server of its own

    return generate_latest(registry), CONTENT_TYPE_LATEST.encode()


def _console(file: ConsoleFile) -> Callable[[Request], Any]:
    """A file of the console. A browser asks each time, and gets 304 if its copy is the same."""
    kept = [_POLICY, _REFERRER, (b"cache-control", b"no-cache"), (b"vary", b"accept-encoding")]

    async def answer(request: Request) -> Reply:
        packed = "gzip" in (request.header("accept-encoding") or "")
        etag = file.etag.replace('"', '"g-', 1) if packed else file.etag
        headers = [*kept, (b"etag", etag.encode())]
        if etag in (request.header("if-none-match") or ""):
            return BytesReply(b"", file.media_type.encode(), 304, headers)
        if packed:
            headers.append((b"content-encoding", b"gzip"))
        return BytesReply(file.compressed if packed else file.body, file.media_type.encode(), 200, headers)

    return answer


def _page(name: str, media_type: bytes) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Reply:
        return BytesReply(_read_page(name), media_type, headers=[_POLICY, _REFERRER])

    return answer


@cache
def _read_page(name: str) -> bytes:
    return (files("jjq.http") / "pages" / name).read_bytes()


def system_routes(routes: Callable[[], RouteTable[HttpRoute]]) -> list[HttpRoute]:
    """The routes of this file; `routes` gives all routes that /openapi.json describes."""

    async def openapi(request: Request) -> Reply:
        return document(describe_routes(routes()))

    found = [
        HttpRoute(
            "GET",
            "/healthz",
            _health,
            "health",
            "Whether the process answers",
            scope="",
            gives=("text/plain",),
        ),
        HttpRoute(
            "GET", "/readyz", _ready, "ready", "Whether requests are taken", scope="", gives=("text/plain",)
        ),
        HttpRoute(
            "GET", "/metrics", _metrics, "metrics", "Figures for Prometheus", "any", gives=("text/plain",)
        ),
        HttpRoute("GET", "/openapi.json", openapi, "openapi", "This document", "any", reply=dict),
    ]
    for address, file in console_files().items():
        found.append(HttpRoute("GET", address, _console(file), "console", "Console", scope="", listed=False))
    for path, (name, media_type) in _PAGES.items():
        kind = (media_type.decode().partition(";")[0],)
        found.append(
            HttpRoute(
                "GET",
                f"/{path}",
                _page(name, media_type),
                path.replace(".", "_"),
                "Documentation",
                "",
                gives=kind,
            )
        )
    return found
