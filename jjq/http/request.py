"""One request as the routes see it: its path, query, headers and body, each checked when it is asked for.

Nothing is ignored silently: a parameter of the query that nobody asked for is refused, as is a header that occurs twice
and may occur once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import aclosing
from typing import Any, Final, TypeVar, cast
from urllib.parse import parse_qsl

import msgspec

from coldstore.shared.errors import Exhausted, InvalidInput
from coldstore.shared.limits import OFFSET_MAX, PART_BYTES
from jjq.access.keys import bearer
from jjq.http.backend import Backend
from jjq.http.direct import DirectReply, TakenBody
from jjq.http.problems import HttpRefusal
from jjq.http.strict_json import Suspect, explain, suspect_document
from jjq.limits import HTTP_BODY_BYTES_MAX, HTTP_INCOMING_BYTES_MAX, HTTP_REQUEST_BYTES_MAX, LARGE_BYTES
from jjq.server.incoming import LargePlace

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
T = TypeVar("T")

ABORT: Final = "jjq.abort"  # in the state of a request: ends its connection at once
PATIENT: Final = "jjq.patient"  # … gives its body so many seconds
TAKE_BODY: Final = "jjq.take_body"  # … gives the rest of its body to a thread
REPLY_DIRECTLY: Final = "jjq.reply_directly"  # … and the body of its reply
JSON: Final = "application/json"
_SINGLE: Final = frozenset(
    {b"authorization", b"content-type", b"content-length", b"content-encoding", b"idempotency-key",
     b"last-event-id", b"x-request-id", b"traceparent", b"origin"}
)  # fmt: skip
_EXPLAIN_BYTES: Final = 64 * 1024  # a longer text is explained on a thread


class ClientGone(Exception):
    """The client has hung up: nobody waits for the answer any more."""


class Request:
    """See the module's docstring."""

    def __init__(self, scope: Scope, receive: Receive, backend: Backend, number: str) -> None:
        self.scope = scope
        self.backend = backend
        self.id = number
        self.params: dict[str, str] = {}  # the variable parts of the path
        self.verify: Callable[[bytes], None] | None = None  # looks at the body before anybody decodes it
        self.answered = False  # a stream has begun: no other answer can be given any more
        self.plain_errors = False  # of the route
        self.subject: str | None = None  # the queue that the request is about
        self.most: int | None = None  # bytes of its body, where the queue has a limit of its own
        self.method: str = scope["method"]
        self.raw_query: bytes = scope.get("query_string", b"")
        self._receive = receive
        self._headers: dict[bytes, bytes] | None = None
        self._query: dict[str, str] | None = None
        self.received_bytes = 0  # of the body
        self._whole = False  # the body was received
        self._place: LargePlace | None = None  # of a body that is large

    # Headers ---------------------------------------------------------------------------------------------

    def header(self, name: str) -> str | None:
        """The value of a header, or None."""
        if self._headers is None:
            self._headers = self._read_headers()
        value = self._headers.get(name.encode())
        return None if value is None else value.decode("latin-1").strip()

    def _read_headers(self) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        for name, value in self.scope["headers"]:
            if name in found and (name in _SINGLE or name.startswith(b"jjq-")):
                raise HttpRefusal(400, f"the header {name.decode('latin-1')} occurs twice: send it once")
            found[name] = value if name not in found else found[name] + b"," + value
        return found

    @property
    def key(self) -> str | None:
        """The text of the key that is shown."""
        return bearer(self.header("authorization"))

    def require(self, rights: str, queue: str | None) -> None:
        """Return if the key has one of the rights on a queue that the path does not name; None: on all queues."""
        self.subject = queue
        if self.backend.keys is not None:
            self.backend.keys.require(self.key, rights, queue)

    def header_number(self, name: str, most: int = OFFSET_MAX) -> int | None:
        """The value of a header that is a whole number."""
        text = self.header(name)
        return None if text is None else _number(f"the header {name}", text, most)

    @property
    def media_type(self) -> str:
        """The Content-Type of the body, without parameters."""
        return (self.header("content-type") or "").partition(";")[0].strip().lower()

    def accepts(self, offered: tuple[str, ...]) -> str:
        """The media type to answer with: of those that the client likes best the first that is offered."""
        text = self.header("accept")
        if text is None or not text.strip():
            return offered[0]
        best, chosen = 0.0, ""
        wanted = [_preference(part) for part in text.split(",") if part.strip()]
        for kind in offered:
            matching = [pair for pair in wanted if _matches(pair[0], kind)]
            exact = sorted(matching, key=lambda pair: pair[0].count("*"))
            quality = exact[0][1] if exact else 0.0
            if quality > best:
                best, chosen = quality, kind
        if not chosen:
            raise HttpRefusal(406, f"Accept is {text[:100]!r}; this can be sent as {', '.join(offered)}")
        return chosen

    # Query -----------------------------------------------------------------------------------------------

    def query(self, *names: str) -> dict[str, str]:
        """The parameters of the query, which may only be these."""
        if self._query is None:
            try:
                pairs = parse_qsl(
                    self.raw_query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=64
                )
            except (ValueError, UnicodeError):
                raise HttpRefusal(
                    400, "the query of the address is malformed: encode it as UTF-8 and %XX"
                ) from None
            self._query = dict(pairs)
            if len(self._query) != len(pairs):
                raise HttpRefusal(400, "a parameter of the query occurs twice: send it once")
        for name in self._query:
            if name not in names:
                known = ", ".join(names) or "none"
                raise HttpRefusal(
                    400, f"the query has {name[:60]!r}, which is not known here; known are: {known}"
                )
        return self._query

    def number(self, name: str, default: int, most: int = OFFSET_MAX) -> int:
        """A parameter that is a whole number; `query` was called before."""
        text = (self._query or {}).get(name)
        return default if text is None else _number(name, text, most)

    def text(self, name: str) -> str:
        """A parameter that is text; empty: it was not given."""
        return (self._query or {}).get(name, "")

    def flag(self, name: str) -> bool:
        """A parameter that is true or false."""
        text = (self._query or {}).get(name, "false")
        if text not in {"true", "false"}:
            raise HttpRefusal(400, f"{name} is {text[:60]!r}: write true or false")
        return text == "true"

    def seconds(self, name: str) -> float | None:
        """A parameter that is a time in seconds, or None."""
        text = (self._query or {}).get(name)
        if text is None:
            return None
        try:
            return float(text)
        except ValueError:
            raise HttpRefusal(400, f"{name} is {text[:60]!r}: write a number of seconds") from None

    # Body ------------------------------------------------------------------------------------------------

    async def body(self, most: int = HTTP_BODY_BYTES_MAX) -> bytes:
        """All of it; refused while it is received if it is too large."""
        most = most if self.most is None else min(most, self.most)
        self._check_length(most)
        parts: list[bytes] = []
        size = 0
        backend = self.backend
        if int(self.header("content-length") or 0) >= LARGE_BYTES:
            self._place = await backend.large.enter(self._receive, int(self.header("content-length") or 0))
        try:
            while True:
                message = await self._receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone
                part = message.get("body", b"")
                size += len(part)
                backend.incoming_bytes += len(part)
                if size > most:
                    raise _too_large(most)
                if backend.incoming_bytes > HTTP_INCOMING_BYTES_MAX:
                    raise Exhausted("the server is receiving as much as it has memory for: retry")
                parts.append(part)
                if not message.get("more_body", False):
                    break
                if size >= LARGE_BYTES and self._place is None:  # in chunks, so nobody knew
                    self._place = await backend.large.enter(self._receive, most)
        finally:
            backend.incoming_bytes -= size
            self.received_bytes += size
            self.leave_place()
        if size >= LARGE_BYTES:
            self._place = backend.large.hold(size)
        self._whole = True
        backend.memory.used(size)
        whole = parts[0] if len(parts) == 1 else b"".join(parts)
        if self.verify is not None:
            self.verify(whole)
        return whole

    def leave_place(self) -> None:
        """The body is no longer worked on, if it was large."""
        if self._place is not None:
            self._place.leave()
            self._place = None

    async def pieces(self, most: int, step: int, at: int = 0) -> AsyncGenerator[bytes]:
        """The body in pieces of about `step` bytes. Also what came before the client hung up: `ClientGone` then.

        Of a large body a thread receives the rest, in whole parts of the object in which the body begins at `at`.
        """
        self._check_length(most)
        parts: list[bytes] = []
        size, more, gone = 0, True, False
        while more:
            if self.received_bytes and (body := self._taken_body()) is not None:
                if parts:
                    yield b"".join(parts)
                    parts, size = [], 0
                async with aclosing(body.pieces(PART_BYTES, at + self.received_bytes)) as found:
                    async for piece in found:
                        self.received_bytes += len(piece)
                        self.backend.memory.used(len(piece))
                        yield piece
                gone = not body.is_whole
                break
            message = await self._receive()
            gone = message["type"] == "http.disconnect"
            more = not gone and message.get("more_body", False)
            part = message.get("body", b"")
            size += len(part)
            self.received_bytes += len(part)
            if self.received_bytes > most:
                raise _too_large(most)
            parts.append(part)
            if size and (size >= step or not more):
                self.backend.memory.used(size)
                yield b"".join(parts)
                parts, size = [], 0
        self._whole = True
        if gone:
            raise ClientGone

    def _taken_body(self) -> TakenBody | None:
        take = (self.scope.get("state") or {}).get(TAKE_BODY)
        return None if take is None else cast("TakenBody | None", take(self.scope))

    def reply_directly(self) -> DirectReply | None:
        """The way for a reply past the event loop, where the server of the application has one."""
        reply = (self.scope.get("state") or {}).get(REPLY_DIRECTLY)
        return None if reply is None else cast("DirectReply | None", reply(self.scope))

    def allow_seconds(self, seconds: float) -> None:
        """The body may take so long, where the server of the application lets us say so."""
        allow = (self.scope.get("state") or {}).get(PATIENT)
        if allow is not None:
            allow(seconds)

    def _check_length(self, most: int) -> None:
        encoding = self.header("content-encoding")
        if encoding is not None and encoding.lower() != "identity":
            raise HttpRefusal(415, f"the body has Content-Encoding {encoding[:60]!r}: send it as it is")
        text = self.header("content-length")
        if text is None:
            if self.header("transfer-encoding") is None:
                raise HttpRefusal(411, "the request has no body: send one, with Content-Length or in chunks")
        elif int(text) > most:
            raise _too_large(most)

    @property
    def has_body(self) -> bool:
        length = self.header("content-length")
        return self.header("transfer-encoding") is not None or (length is not None and length != "0")

    async def decode(self, kind: type[T], most: int = HTTP_REQUEST_BYTES_MAX) -> T:
        """The body as a JSON document; where none is sent, an empty one."""
        if not self.has_body:
            return _fit(b"{}", kind)
        return await decode_json(await self.document(most), kind)

    async def document(self, most: int) -> bytes:
        """The body, whose content type is JSON."""
        if self.media_type != JSON:
            raise HttpRefusal(415, f"Content-Type is {self.media_type[:60]!r}: send {JSON}", Accept=JSON)
        return await self.body(most)

    async def while_connected(self, work: Awaitable[T]) -> T:
        """The result of `work`. If the client hangs up, the work is cancelled, and `ClientGone` raised."""
        task = asyncio.ensure_future(work)
        gone = asyncio.ensure_future(self._until_gone())
        try:
            await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise ClientGone
        finally:
            for each in (task, gone):
                if not each.done():
                    each.cancel()
            await asyncio.gather(task, gone, return_exceptions=True)

    async def _until_gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass


async def decode_json(raw: bytes, kind: type[T]) -> T:
    """A JSON document as what it must be."""
    await explain_all(suspect_document(raw))
    return _fit(raw, kind)


async def explain_all(suspects: list[Suspect]) -> None:
    """Raise what is wrong with the first text that is wrong. A long one does not hold up the event loop."""
    for suspect in suspects:
        if len(suspect.text) < _EXPLAIN_BYTES:
            explain(suspect)
        else:
            await asyncio.to_thread(explain, suspect)


def _fit(raw: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as error:
        raise HttpRefusal(422, f"the document does not fit: {error}") from None
    except msgspec.DecodeError as error:
        raise InvalidInput(f"the JSON is wrong: {error}") from None


def _too_large(most: int) -> HttpRefusal:
    advice = "send several, or a form without this limit" if most < LARGE_BYTES * 2 else "send several"
    return HttpRefusal(413, f"the body has more than {most} bytes: {advice}")


def _number(name: str, text: str, most: int) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > len(str(OFFSET_MAX)) or int(text) > most:
        raise HttpRefusal(400, f"{name} is {text[:60]!r}: write a whole number from 0 to {most}")
    return int(text)


def _preference(part: str) -> tuple[str, float]:
    kind, *parameters = (piece.strip().lower() for piece in part.split(";"))
    for parameter in parameters:
        if parameter.startswith("q="):
            try:
                return kind, float(parameter[2:])
            except ValueError:
                return kind, 0.0
    return kind, 1.0


def _matches(wanted: str, kind: str) -> bool:
    return wanted in {"*/*", kind} or (wanted.endswith("/*") and kind.startswith(wanted[:-1]))
