"""moto: AWS's S3 as its Python imitation sees it, in a thread of this process.

Requests are served one after the other: moto checks a condition and writes in two steps, so with
several at a time it would not be the atomic store that S3 is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

from tests.servers.s3 import S3Server
from tests.servers.waiting import wait_until

Application = Callable[[dict[str, Any], Any], Iterable[bytes]]


class Quiet(WSGIRequestHandler):
    """Keeps connections open, as real servers do, and says nothing about it."""

    protocol_version = "HTTP/1.1"

    def log(self, type: str, message: str, *args: object) -> None:
        """Nothing."""


def one_at_a_time(application: Application) -> Application:
    lock = threading.Lock()

    def serial(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        with lock:
            return list(application(environ, start_response))

    return serial


@contextmanager
def running_moto() -> Iterator[S3Server]:
    """A server with its bucket made; stopped in the end."""
    application = one_at_a_time(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=Quiet)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        found = S3Server(f"http://127.0.0.1:{server.server_port}")
        wait_until(found.make_bucket, "moto is ready", 30)
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
