"""Routes: which handler answers which method and path, what it needs and what it is called.

A path is matched part by part, on its raw bytes: an encoded slash, an empty part or a dot never changes which route
is meant. Other doors add their routes to the same table, in `serving.all_routes`; routes of WebSockets have a table of
their own (jjq/http/websocket/upgrade.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar
from urllib.parse import unquote_to_bytes

from coldstore.shared.bounded_dict import BoundedDict
from jjq.http.problems import HttpRefusal
from jjq.http.replies import Reply
from jjq.http.request import Request

LATER: Final = "?"  # in place of the part of a path that names a queue
_FOUND: Final = 1_000  # paths that are remembered with their routes: most requests are for a few of them
_FOUND_BYTES: Final = 256  # of such a path

Handler = Callable[[Request], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a query, or one header, as the documentation shows it."""

    name: str
    about: str
    kind: str = "string"  # integer, boolean, number
    place: str = "query"  # header


@dataclass(frozen=True, slots=True)
class HttpRoute:
    """One verb. `scope` is the right that a key needs for it; empty: everybody may."""

    method: str
    path: str
    handler: Handler
    name: str
    about: str
    scope: str = "admin"
    queue: str = (
        ""  # the part of the path that names a queue; empty: the right must be one for all queues; `LATER`:
    )
    # the path does not say which, and the handler asks `Request.require` when it knows
    body: Any = None  # type of the JSON document that is sent
    reply: Any = None  # … and of the one that is answered
    status: int = 200
    streams: bool = False  # what it answers may go on for long: it counts as an open stream of its key
    waits: bool = False  # it may take long, and changes nothing meanwhile: a key that is revoked ends it
    takes: tuple[str, ...] = ()  # media types of a body that is no such document
    gives: tuple[str, ...] = ()
    listed: bool = True  # in /openapi.json
    parameters: tuple[Parameter, ...] = ()
    codes: tuple[str, ...] = ()  # statuses that it has beside those of all routes
    plain_errors: bool = False  # errors are plain text instead of problems

    @property
    def parts(self) -> list[str]:
        return self.path.removeprefix("/").split("/")


class AnyRoute(Protocol):
    """What the table knows of a route."""

    @property
    def method(self) -> str: ...

    @property
    def parts(self) -> list[str]: ...


R = TypeVar("R", bound=AnyRoute)


class RouteTable(Generic[R]):
    """All routes of an application: those of requests, or those of WebSockets."""

    def __init__(self) -> None:
        self._known: dict[tuple[str | None, ...], dict[str, R]] = {}
        self._shapes: dict[int, list[tuple[str | None, ...]]] = {}
        self._found: BoundedDict[tuple[str, bytes], tuple[R, dict[str, str]]] = BoundedDict(_FOUND)

    def add(self, *routes: R) -> None:
        for route in routes:
            shape = tuple(None if part.startswith("{") else part for part in route.parts)
            if shape not in self._known:
                self._known[shape] = {}
                # Names before variables, so that /v1/queues/x never means two things.
                same = self._shapes.setdefault(len(shape), [])
                same.append(shape)
                same.sort(key=lambda each: [part is None for part in each])
            self._known[shape][route.method] = route

    def __iter__(self) -> Iterator[R]:
        for methods in self._known.values():
            yield from methods.values()

    def find(self, method: str, raw_path: bytes) -> tuple[R, dict[str, str]]:
        """The route of a request, and the variable parts of its path."""
        found = self._found.get((method, raw_path))
        if found is None:
            found = self._look(method, raw_path)
            if len(raw_path) <= _FOUND_BYTES:
                self._found[method, raw_path] = found
        return found[0], found[1].copy()

    def _look(self, method: str, raw_path: bytes) -> tuple[R, dict[str, str]]:
        parts = _split(raw_path)
        methods = self._match(parts)
        if methods is None:
            raise HttpRefusal(404, f"there is nothing at {shown(raw_path)}: /openapi.json lists all paths")
        route = methods.get("GET" if method == "HEAD" and "GET" in methods else method)
        if route is None:
            allowed = ", ".join(sorted(methods))
            raise HttpRefusal(405, f"{method} is not allowed for this path: use {allowed}", Allow=allowed)
        named = {
            name.strip("{}"): part
            for name, part in zip(route.parts, parts, strict=True)
            if name.startswith("{")
        }
        return route, named

    def _match(self, parts: list[str]) -> dict[str, R] | None:
        for shape in self._shapes.get(len(parts), ()):
            if all(want is None or want == part for want, part in zip(shape, parts, strict=True)):
                return self._known[shape]
        return None


def _split(raw_path: bytes) -> list[str]:
    """The parts of a path, decoded one by one."""
    if b"%" not in raw_path and raw_path.isascii():
        return raw_path.decode().removeprefix("/").split("/")
    try:
        return [unquote_to_bytes(part).decode() for part in raw_path.removeprefix(b"/").split(b"/")]
    except UnicodeDecodeError:
        raise HttpRefusal(400, f"the path {shown(raw_path)} is not UTF-8") from None


def shown(raw: bytes) -> str:
    """The beginning of a path, for an error."""
    text = raw.decode("latin-1")
    return repr(text if len(text) <= 100 else f"{text[:97]}...")
