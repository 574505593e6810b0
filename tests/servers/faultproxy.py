"""A reverse proxy in front of an S3 server that injects faults, by method, key and count.

    with running_proxy(server.endpoint) as proxy:
        objects = server.at(proxy.endpoint).objects()
        proxy.fail(503, "SlowDown", method="PUT", times=2)       # the first two PUTs never arrive
        proxy.lose_reply(method="PUT", prefix="queues/", nth=3)  # the third takes effect, unheard
        held = proxy.hold(method="PUT")                          # arrives when held.release() says so
        with proxy.outage(): ...                                 # every connection breaks
        assert proxy.count(method="PUT", upstream=200) == 1      # what the real server accepted

Methods are HTTP's, and `LIST` for a listing, whose key is the prefix asked for. A prefix is compared
with the key in the bucket, so it includes that of the store. Every rule counts the requests it
matches and acts on those from the `nth` (from 1) for `times` (None: for ever); the first rule that
acts wins. Requests are forwarded with their `Host`, which is signed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypedDict, Unpack

from tests.servers.httpproxy import Exchange, ProxyServer, Response

Act = Callable[[Exchange], None]
Seconds = float

HOLD_SECONDS: Seconds = 60.0  # a forgotten hold ends here, not at the test's timeout


class When(TypedDict, total=False):
    """Which requests a rule acts on; by default the first of all."""

    method: str
    prefix: str
    nth: int
    times: int | None


@dataclass(frozen=True)
class Seen:
    """A request that came by."""

    method: str
    key: str
    upstream: int | None  # status that the real server gave; None: it was never asked
    answered: int | None  # status that the client got; None: the connection was broken


@dataclass
class Rule:
    """When to act, and how."""

    act: Act
    method: str | None
    prefix: str
    nth: int
    times: int | None
    matched: int = 0

    def fires(self, exchange: Exchange) -> bool:
        if self.method not in {None, exchange.method} or not exchange.key.startswith(self.prefix):
            return False
        self.matched += 1
        return self.matched >= self.nth and (self.times is None or self.matched < self.nth + self.times)


@dataclass
class Hold:
    """A request held back."""

    _arrived: threading.Event = field(default_factory=threading.Event)
    _released: threading.Event = field(default_factory=threading.Event)
    _done: threading.Event = field(default_factory=threading.Event)

    def wait_arrived(self, seconds: Seconds = 10.0) -> None:
        """Return once a request is held."""
        assert self._arrived.wait(seconds), "no request arrived to be held"

    def release(self) -> None:
        """Let it go on."""
        self._released.set()

    def wait_done(self, seconds: Seconds = 10.0) -> None:
        """Return once the released request was dealt with, whether or not its client still listens."""
        assert self._done.wait(seconds), "the held request was not dealt with"

    def done(self) -> None:
        self._done.set()

    def pause(self, seconds: Seconds = HOLD_SECONDS) -> None:
        self._arrived.set()
        self._released.wait(seconds)


class FaultProxy:
    """The proxy's controls. All may be used while requests are under way."""

    def __init__(self, server: ProxyServer) -> None:
        self.endpoint = server.endpoint
        self._lock = threading.Lock()
        self._rules: list[Rule] = []
        self._holds: list[Hold] = []
        self.lost_replies = 0
        self._seen: list[Seen] = []

    # Faults

    def fail(self, status: int, code: str = "InternalError", **when: Unpack[When]) -> None:
        """Answer with an error instead of the server, which is never asked."""
        self._add(lambda exchange: exchange.answer(Response.error(status, code)), **when)

    def fail_after(self, status: int, code: str = "InternalError", **when: Unpack[When]) -> None:
        """Let the server act, then answer with an error."""

        def act(exchange: Exchange) -> None:
            exchange.forward()
            exchange.answer(Response.error(status, code))

        self._add(act, **when)

    def lose_request(self, **when: Unpack[When]) -> None:
        """Break the connection; the server is never asked."""
        self._add(lambda exchange: exchange.drop(), **when)

    def lose_reply(self, **when: Unpack[When]) -> None:
        """Let the server act, then break the connection."""

        def act(exchange: Exchange) -> None:
            exchange.forward()
            self.lost_replies += 1
            exchange.drop()

        self._add(act, **when)

    def truncate(self, count: int, **when: Unpack[When]) -> None:
        """Promise the whole body, send only `count` bytes of it, break the connection."""
        self._add(lambda exchange: exchange.answer(exchange.forward(), only=count), **when)

    def hold(self, *, reply: bool = False, **when: Unpack[When]) -> Hold:
        """Hold a request back before it reaches the server, or with `reply` its answer."""
        held = Hold()

        def act(exchange: Exchange) -> None:
            try:
                if reply:
                    exchange.forward()
                held.pause()
                exchange.answer(exchange.forward())
            finally:
                held.done()

        with self._lock:
            self._holds.append(held)
        self._add(act, **when)
        return held

    def delay(self, seconds: Seconds, **when: Unpack[When]) -> None:
        """Let requests arrive so much later."""
        healed = Hold()

        def act(exchange: Exchange) -> None:
            healed.pause(seconds)
            exchange.answer(exchange.forward())

        with self._lock:
            self._holds.append(healed)
        self._add(act, **when)

    @contextmanager
    def outage(self) -> Iterator[None]:
        """Break every connection meanwhile."""
        rule = self._add(lambda exchange: exchange.drop(), first=True, times=None)
        try:
            yield
        finally:
            with self._lock:
                self._rules.remove(rule)

    def heal(self) -> None:
        """Forget every fault, and let go what is held."""
        with self._lock:
            self._rules.clear()
            for held in self._holds:
                held.release()
            self._holds.clear()

    def reset(self) -> None:
        """Heal, and forget what came by."""
        self.heal()
        with self._lock:
            self._seen.clear()

    # What came by

    @property
    def seen(self) -> list[Seen]:
        """Every request so far, in the order in which they were answered."""
        with self._lock:
            return list(self._seen)

    def count(
        self,
        *,
        method: str | None = None,
        prefix: str = "",
        upstream: int | None = None,
    ) -> int:
        """How many requests came by; with `upstream`, how many of them the server answered so."""
        return sum(
            method in {None, each.method}
            and each.key.startswith(prefix)
            and upstream in {None, each.upstream}
            for each in self.seen
        )

    def _add(
        self,
        act: Act,
        *,
        method: str | None = None,
        prefix: str = "",
        nth: int = 1,
        times: int | None = 1,
        first: bool = False,
    ) -> Rule:
        rule = Rule(act, method, prefix, nth, times)
        with self._lock:
            self._rules.insert(0 if first else len(self._rules), rule)
        return rule

    def handle(self, exchange: Exchange) -> None:
        """Deal with one request; called in a thread of its connection."""
        with self._lock:
            firing = [rule for rule in self._rules if rule.fires(exchange)]
        if firing:
            firing[0].act(exchange)
        else:
            exchange.answer(exchange.forward())

    def settled(self, exchange: Exchange) -> None:
        """Note what became of a request."""
        upstream = exchange.upstream.status if exchange.upstream else None
        with self._lock:
            self._seen.append(Seen(exchange.method, exchange.key, upstream, exchange.answered))


@contextmanager
def running_proxy(upstream: str) -> Iterator[FaultProxy]:
    """A proxy in front of `upstream` (http://HOST:PORT), healed and stopped in the end."""
    with ProxyServer(upstream) as server:
        proxy = FaultProxy(server)
        server.run(proxy.handle, proxy.settled)
        try:
            yield proxy
        finally:
            proxy.heal()
