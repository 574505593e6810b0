"""One connection of the command `sqew` to a server: JSON there, JSON back. Only the standard library is loaded."""

from __future__ import annotations

import http.client
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import quote, urlsplit

import orjson
from cyclopts import Parameter

from jjq.limits import CALL_SECONDS, SQEW_POLL_MS_MAX, SQEW_PORT

_GROUP: Final = "Connection"
_ANY_HOSTS: Final = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # where a server listens; whom to ask
_SECONDS: Final = CALL_SECONDS + SQEW_POLL_MS_MAX / 1_000
_LIMIT_CHARS: Final = 2_000  # of what a server says beside JSON


class SqewRefusal(Exception):
    """The server said no, or nothing; the text is for the user."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@Parameter(name="*")
@dataclass(frozen=True)
class SqewConnection:
    """Where the server is."""

    server: Annotated[str, Parameter(env_var=["SQEW_SERVER", "SQEW_BIND"], group=_GROUP)] = (
        f"127.0.0.1:{SQEW_PORT}"
    )
    """HOST:PORT of the server, or https://HOST:PORT."""

    key: Annotated[str | None, Parameter(env_var="JJQ_KEY", group=_GROUP)] = None
    """Key for a server that wants one. Better as JJQ_KEY: others on this machine can read a command line."""

    tls_ca: Annotated[Path | None, Parameter(env_var="JJQ_TLS_CA", group=_GROUP)] = None
    """PEM file of the certificate authority to trust."""

    def open(self) -> SqewClient:
        """A client; use it as a context manager."""
        address = self.server if "://" in self.server else f"http://{self.server}"
        parts = urlsplit(address)
        try:
            port = parts.port or SQEW_PORT
        except ValueError:
            port = 0
        if parts.scheme not in {"http", "https"} or not parts.hostname or not port or parts.path.strip("/"):
            raise SqewRefusal(0, f"--server is {self.server[:100]!r}: write HOST:PORT, or https://HOST:PORT")
        host = _ANY_HOSTS.get(parts.netloc.rpartition(":")[0], parts.hostname)
        connection: http.client.HTTPConnection
        if parts.scheme == "https":
            trust = ssl.create_default_context(cafile=None if self.tls_ca is None else str(self.tls_ca))
            connection = http.client.HTTPSConnection(host, port, timeout=_SECONDS, context=trust)
        else:
            connection = http.client.HTTPConnection(host, port, timeout=_SECONDS)
        return SqewClient(connection, f"{host}:{port}", self.key)


class SqewClient:
    """Requests, one after another."""

    def __init__(self, connection: http.client.HTTPConnection, place: str, key: str | None) -> None:
        self._connection = connection
        self._place = place
        self._headers = {} if key is None else {"Authorization": f"Bearer {key}"}

    def __enter__(self) -> SqewClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Any:
        """The document that the server answers; None if it answers none. `SqewRefusal` if it refuses."""
        text = self.text(method, path, body, **headers)
        return orjson.loads(text) if text else None

    def text(self, method: str, path: str, body: bytes | None = None, **headers: str) -> bytes:
        """The same, as it comes."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            named["Content-Type"] = "application/json"
        try:
            self._connection.request(method, path, body, self._headers | named)
            reply = self._connection.getresponse()
            said = reply.read()
        except (OSError, http.client.HTTPException) as error:
            raise SqewRefusal(
                0, f"cannot ask {self._place}: {error}; start `sqew serve`, or give --server HOST:PORT"
            ) from None
        if reply.status >= http.client.BAD_REQUEST:
            raise SqewRefusal(reply.status, _words(said))
        return said


def _words(said: bytes) -> str:
    """What a refusal says: plain text, or the problem that other routes answer."""
    try:
        return str(orjson.loads(said)["detail"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return said[:_LIMIT_CHARS].decode("utf-8", "replace")


def place(queue: str, *rest: str) -> str:
    """The path of a queue, or of a thing in it."""
    return "/".join(["/queues", quote(queue, safe=""), *rest])
