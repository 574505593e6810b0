"""Keys over HTTP: one check for all routes, one for each WebSocket, and the routes of keys themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Annotated, Final, cast

from msgspec import Meta, Struct

from jjq.access.keyring import Keyring, Watched
from jjq.access.keys import ANY, AccessKey
from jjq.access.quotas import SPENDER, Quota
from jjq.http.replies import BytesReply, Reply, document
from jjq.http.request import Request
from jjq.http.routing import LATER, HttpRoute
from jjq.http.v1.documents import Sent
from jjq.limits import HTTP_BODY_BYTES_MAX

SCOPE_OF_NODES: Final = "nodes"  # of a route: it wants the key that nodes share


class KeyCheck:
    """Checks the key of a request against the keyring."""

    def __init__(self, ring: Keyring) -> None:
        self._ring = ring

    def admit(self, request: Request, route: HttpRoute) -> AbstractContextManager[object]:
        """Raise, or give what the work of the route is done in: where it waits, it ends when the right is lost."""
        if not route.scope:
            return nullcontext()
        text, queue = request.key, request.params.get(route.queue)
        request.subject = queue
        rights = ANY if route.queue == LATER else route.scope

        def check() -> None:
            self._ring.require(text, rights, queue)

        if route.scope == "push" and queue is not None:
            request.most = self._ring.request_bytes(queue)
        usage = self._ring.usage(self._ring.require(text, rights, queue))
        if usage is not None:
            SPENDER.set(usage)
            if route.scope == "push":
                usage.check()
        is_act = route.scope == "admin" and route.method != "GET"
        if usage is None and not route.waits and not is_act:
            return nullcontext()
        work = ExitStack()
        if usage is not None and route.streams:
            work.enter_context(usage.stream())
        if route.waits:
            work.enter_context(self._ring.watch(check))
        if is_act:
            work.enter_context(self._audited(request, route))
        return work

    @contextmanager
    def _audited(self, request: Request, route: HttpRoute) -> Iterator[None]:
        yield
        audit = request.backend.audit
        if audit is not None and self._ring.closed:
            audit.record(request.key, "http", route.name, request.subject, request.id)


class SocketAccess:
    """One WebSocket: whose it is, and what it may do. It is ended when what it used is no longer allowed."""

    def __init__(self, ring: Keyring | None, key: str | None) -> None:
        self.ring = ring
        self.key = key
        self._used: set[tuple[str | None, str]] = set()  # queues and rights, so far
        self._watched: Watched | None = None
        self._streams = ExitStack()  # that it counts as

    def require(self, rights: str, queue: str | None) -> None:
        """Return if its key has one of the rights on the queue; `NoKey` or `Denied` if not."""
        if self.ring is not None:
            self._check(queue, rights)
            self._used.add((queue, rights))

    def recheck(self) -> None:
        """Check again everything that was allowed so far. If that is nothing yet, the key only has to be known."""
        if self.ring is not None:
            if not self._used:
                self.ring.identify(self.key)
            for queue, rights in self._used:
                self._check(queue, rights)

    def _check(self, queue: str | None, rights: str) -> None:
        ring = cast("Keyring", self.ring)
        if rights == SCOPE_OF_NODES:
            ring.require_peer(self.key)
        else:
            ring.require(self.key, rights, queue)

    def watch(self, end: Callable[[str], object]) -> None:
        """Call `end`, with the reason, when a change of keys takes away what was used."""
        if self.ring is not None:
            self._watched = self.ring.attach(self.recheck, lambda: end(self._reason()))

    def count_stream(self) -> None:
        """The connection is a stream of its key until it is closed; `Exhausted` if the key has too many."""
        usage = None if self.ring is None else self.ring.usage(self.ring.identify(self.key))
        if usage is not None:
            self._streams.enter_context(usage.stream())

    def _reason(self) -> str:
        error = None if self._watched is None else self._watched.error
        return "" if error is None else error.message

    def close(self) -> None:
        self._streams.close()
        if self.ring is not None and self._watched is not None:
            self.ring.detach(self._watched)


class NewKeyOrder(Sent):
    """Scopes are RIGHT or RIGHT:PATTERN, as in push:orders-*. Limits of 0 are none; each node counts for itself."""

    scopes: Annotated[list[str], Meta(min_length=1)]
    name: str = ""
    elements_per_second: Annotated[float, Meta(ge=0)] = 0.0
    bytes_per_second: Annotated[float, Meta(ge=0)] = 0.0
    streams: Annotated[int, Meta(ge=0)] = 0
    queues: Annotated[int, Meta(ge=0)] = 0


class QueueLimit(Sent):
    """How large a push to a queue may be: the body of a request over HTTP, a message over gRPC."""

    request_bytes: Annotated[int, Meta(ge=1, le=HTTP_BODY_BYTES_MAX)]


class QueueLimitDocument(Struct):
    queue: str
    request_bytes: int | None


class KeyDocument(Struct):
    id: str
    name: str
    scopes: list[str]
    created: str
    elements_per_second: float
    bytes_per_second: float
    streams: int
    queues: int


class NewKeyDocument(Struct):
    """`text` is sent now, and never again."""

    key: KeyDocument
    text: str


class SignatureDocument(Struct):
    """`secret` is sent now, and never again."""

    queue: str
    secret: str


class KeyList(Struct):
    keys: list[KeyDocument]


def key_routes(ring: Keyring) -> list[HttpRoute]:
    """The routes of keys."""

    async def create(request: Request) -> Reply:
        wanted = await request.decode(NewKeyOrder)
        quota = Quota(wanted.elements_per_second, wanted.bytes_per_second, wanted.streams, wanted.queues)
        made = await ring.create(wanted.name, wanted.scopes, quota)
        secret = [(b"cache-control", b"no-store")]
        return document(NewKeyDocument(_document(made.key), made.text), 201, secret)

    async def sign(request: Request) -> Reply:
        secret = await ring.sign_queue(request.params["queue"])
        return document(
            SignatureDocument(request.params["queue"], secret), 200, [(b"cache-control", b"no-store")]
        )

    async def unsign(request: Request) -> Reply:
        await ring.unsign_queue(request.params["queue"])
        return BytesReply(b"", status=204)

    async def limit(request: Request) -> Reply:
        wanted = await request.decode(QueueLimit)
        await ring.limit_queue(request.params["queue"], wanted.request_bytes)
        return document(QueueLimitDocument(request.params["queue"], wanted.request_bytes))

    async def show_limit(request: Request) -> Reply:
        request.query()
        queue = request.params["queue"]
        return document(QueueLimitDocument(queue, ring.request_bytes(queue)))

    async def unlimit(request: Request) -> Reply:
        await ring.limit_queue(request.params["queue"], None)
        return BytesReply(b"", status=204)

    async def list_(request: Request) -> Reply:
        request.query()
        return document(KeyList([_document(key) for key in ring.every()]))

    async def revoke(request: Request) -> Reply:
        await ring.revoke(request.params["key"])
        return BytesReply(b"", status=204)

    return [
        HttpRoute("GET", "/v1/keys", list_, "list_keys", "All keys, without their secrets", reply=KeyList),
        HttpRoute(
            "POST", "/v1/keys", create, "create_key", "Make a key; the first one needs the scope admin",
            body=NewKeyOrder, reply=NewKeyDocument, status=201,
        ),
        HttpRoute(
            "PUT", "/v1/queues/{queue}/signature", sign, "sign_queue", "Pushes must be signed, with a new secret",
            queue="queue", reply=SignatureDocument,
        ),
        HttpRoute(
            "DELETE", "/v1/queues/{queue}/signature", unsign, "unsign_queue", "Pushes need not be signed any more",
            queue="queue", status=204,
        ),
        HttpRoute(
            "PUT", "/v1/queues/{queue}/limit", limit, "limit_queue", "Pushes have at most so many bytes",
            queue="queue", body=QueueLimit, reply=QueueLimitDocument,
        ),
        HttpRoute(
            "GET", "/v1/queues/{queue}/limit", show_limit, "queue_limit", "How large a push may be", "any", "queue",
            reply=QueueLimitDocument,
        ),
        HttpRoute(
            "DELETE", "/v1/queues/{queue}/limit", unlimit, "unlimit_queue", "Pushes may be as large as any",
            queue="queue", status=204,
        ),
        HttpRoute("DELETE", "/v1/keys/{key}", revoke, "revoke_key", "End a key", status=204),
    ]  # fmt: skip


def _document(key: AccessKey) -> KeyDocument:
    scopes, quota = [str(scope) for scope in key.scopes], key.quota
    return KeyDocument(
        key.id,
        key.name,
        scopes,
        key.created,
        quota.elements_per_second,
        quota.bytes_per_second,
        quota.streams,
        quota.queues,
    )
