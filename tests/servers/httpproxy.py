"""The plain part of the fault proxy: HTTP in, HTTP out, one thread per connection."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

# Between two neighbours only; the body is passed on whole, with its length.
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "expect"}


@dataclass(frozen=True)
class Response:
    """An answer, the server's or ours."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    length: int  # as promised: that of HEAD has no body

    @classmethod
    def error(cls, status: int, code: str) -> Response:
        """An S3 error."""
        body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>injected</Message></Error>".encode()
        return cls(status, [("Content-Type", "application/xml")], body, len(body))


@dataclass
class Exchange:
    """One request, and what became of it."""

    method: str  # HTTP's, or LIST
    key: str
    send: Callable[[], Response] = field(repr=False)
    reply: Callable[[Response, int | None], None] = field(repr=False)
    settled: Callable[[Exchange], None] = field(repr=False)  # called before the client can know
    upstream: Response | None = None
    answered: int | None = None
    dropped: bool = False

    def forward(self) -> Response:
        """The server's answer; it is asked once."""
        if self.upstream is None:
            self.upstream = self.send()
        return self.upstream

    def answer(self, response: Response, only: int | None = None) -> None:
        """Answer the client, or begin to: with `only` so many bytes of the body."""
        self.answered = response.status
        self.dropped = only is not None
        self.settled(self)
        self.reply(response, only)

    def drop(self) -> None:
        """Break the connection without an answer."""
        self.dropped = True
        self.settled(self)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def _serve(self) -> None:
        body = self._body()
        method, key = self._what()
        exchange = Exchange(method, key, lambda: self._forward(body), self._reply, self.server.settled)
        self.server.handle(exchange)
        if exchange.dropped:
            self.close_connection = True

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _serve  # noqa: N815

    def _what(self) -> tuple[str, str]:
        parts = urlsplit(self.path)
        query = parse_qs(parts.query)
        if self.command == "GET" and "list-type" in query:
            return "LIST", query.get("prefix", [""])[0]
        return self.command, unquote(parts.path).removeprefix("/").partition("/")[2]

    def _body(self) -> bytes:
        if self.headers.get("Expect", "").lower() == "100-continue":
            self.send_response_only(100)
            self.end_headers()
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass  # trailers
        return b"".join(parts)

    def _forward(self, body: bytes) -> Response:
        host, port = self.server.upstream
        upstream = http.client.HTTPConnection(host, port, timeout=60)
        try:
            upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in HOP_BY_HOP:
                    upstream.putheader(name, value)
            upstream.putheader("Content-Length", str(len(body)))
            upstream.endheaders(body)
            reply = upstream.getresponse()
            headers = [(name, value) for name, value in reply.getheaders() if name.lower() not in HOP_BY_HOP]
            data = reply.read()
            length = int(reply.getheader("Content-Length") or 0) if self.command == "HEAD" else len(data)
            return Response(reply.status, headers, data, length)
        finally:
            upstream.close()

    def _reply(self, response: Response, only: int | None) -> None:
        with suppress(ConnectionError):  # the client may have given up
            self.send_response_only(response.status)
            for name, value in response.headers:
                self.send_header(name, value)
            if response.status != 204:
                self.send_header("Content-Length", str(response.length))
            self.end_headers()
            self.wfile.write(b"" if self.command == "HEAD" else response.body[:only])

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


class _Server(ThreadingHTTPServer):
    request_queue_size = 128
    upstream: tuple[str, int]
    handle: Callable[[Exchange], None]
    settled: Callable[[Exchange], None]

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._open: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients break connections, and so do we: nothing to tell."""

    def break_connections(self) -> None:
        for each in list(self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


class ProxyServer:
    """Listens from the start; answers once it is told how."""

    def __init__(self, upstream: str) -> None:
        parts = urlsplit(upstream)
        self._server = _Server()
        self._server.upstream = (parts.hostname or "", parts.port or 80)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    def run(self, handle: Callable[[Exchange], None], settled: Callable[[Exchange], None]) -> None:
        self._server.handle = handle
        self._server.settled = settled
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.break_connections()
        self._server.server_close()
        self._thread.join()
