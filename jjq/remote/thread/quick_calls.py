"""The first attempt of a push, a pop or a peek, in the thread that asks for it.

`None` says that nothing came of it, for certain, and the call is to be made in the ordinary way: no connection stands,
the request is large, other threads call at the same time, or the server has refused it for now. An error is as final as
the one of an ordinary attempt.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from coldstore.shared.errors import Exhausted, Fenced, Unavailable
from coldstore.shared.results import Popped
from jjq.limits import JOIN_CALLS, QUICK_BYTES_MAX, WAIT_SECONDS_MAX
from jjq.remote.settings import SocketPlace
from jjq.remote.store import RemoteStore, encode_push
from jjq.remote.thread.thread_socket import ThreadSocket
from jjq.v1 import jjq_pb2 as pb
from jjq.wire import convert
from jjq.wire.batches import decode, parse, queue_of
from jjq.wire.request import at_least_one, make_message

if TYPE_CHECKING:
    from coldstore.shared.chance import Chance
    from coldstore.shared.push import Push
    from coldstore.shared.results import Receipt
    from hotstore.port import Store

Later = Callable[..., object]  # has a function called on the event loop, soon


def quick_calls(store: Store, later: Later, chance: Chance) -> QuickCalls | None:
    """A way around the event loop, where the store is elsewhere and may be called over a WebSocket."""
    if not isinstance(store, RemoteStore) or store.settings.transport == "grpc":
        return None
    return QuickCalls(store, later, chance)


class QuickCalls:
    """For all threads of one client. `later` reaches the event loop that the store lives on."""

    def __init__(self, store: RemoteStore, later: Later, chance: Chance) -> None:
        self._link = store.link
        self._settings = store.settings
        self._later = later
        self._chance = chance
        self._pid = os.getpid()
        self._mine = threading.local()  # the sockets of each thread, by the server's address
        self._lock = threading.Lock()
        self._open: WeakSet[ThreadSocket] = WeakSet()
        self._calling = 0
        self._closed = False

    def push(self, push: Push) -> Receipt | None:
        """The receipt of a plain push."""
        is_large = push.payload.get_total_buffer_size() > QUICK_BYTES_MAX
        if is_large or not push.plain or push.timeout or push.stage == "cold":
            return None
        raw = self._attempt("Push", encode_push(push), push.queue, 0.0)
        if raw is None:
            return None
        reply = parse(pb.PushResponse, raw)
        self._learn(push.queue, reply.owner)
        return convert.receipt_in(reply.receipt)

    def pop(self, subscriber: str, rows: int, wait: float) -> Popped | None:
        """What a pop gives."""
        return self._take("Pop", pb.PopRequest, pb.PopResponse, subscriber, rows, wait)

    def peek(self, subscriber: str, rows: int, wait: float) -> Popped | None:
        """What a peek gives; one whose answer is lost may as well be made again."""
        try:
            return self._take("Peek", pb.PeekRequest, pb.PeekResponse, subscriber, rows, wait)
        except Unavailable:
            return None

    def close(self) -> None:
        """Hang up, but for those that are in use: they are closed when their call is over."""
        self._closed = True
        self._leave()

    def _take(
        self, method: str, asked: Any, replied: Any, subscriber: str, rows: int, wait: float
    ) -> Popped | None:
        if not 0 <= wait <= WAIT_SECONDS_MAX:
            return None  # the server says what is wrong with it
        request = make_message(
            asked, subscriber=subscriber, max=at_least_one(rows), wait_seconds=wait, form=pb.FORM_ARROW
        )
        queue = queue_of(request)
        raw = self._attempt(method, request.SerializeToString(), queue, wait)
        if raw is None:
            return None
        message, batch = decode(replied, raw)
        self._learn(queue, message.owner)
        return Popped(batch, message.position, message.next)

    def _attempt(self, method: str, request: bytes, queue: str, wait: float) -> bytes | None:
        if len(request) > QUICK_BYTES_MAX or os.getpid() != self._pid or self._closed:
            return None
        place = self._link.socket_place(queue, self._leave)
        if place is None:
            return None
        with self._lock:
            if self._calling >= JOIN_CALLS:
                return None
            self._calling += 1
        try:
            used = self._socket(place)
            if used is None:
                return None
            try:
                return used.call(method, request, self._settings.timeout_seconds + wait)
            finally:
                self._let_go(used)
        except (Exhausted, Fenced):
            return None
        finally:
            with self._lock:
                self._calling -= 1

    def _socket(self, place: SocketPlace) -> ThreadSocket | None:
        """The socket of this thread, its lock held; None if there can be none."""
        mine: dict[str, ThreadSocket] = self._mine.__dict__
        name = f"{place.host}:{place.port}"
        found = mine.get(name)
        if found is not None:
            found.lock.acquire()
            if found.place == place and found.is_fresh():
                return found
            found.close()
            found.lock.release()
        try:
            made = mine[name] = ThreadSocket(place, self._link.clock, self._chance)
        except OSError:
            return None
        made.lock.acquire()
        with self._lock:
            self._open.add(made)
        return made

    def _let_go(self, used: ThreadSocket) -> None:
        if self._closed:  # meanwhile
            used.close()
        used.lock.release()

    def _leave(self) -> None:
        """A server says goodbye: it need not wait for those that are not in use."""
        with self._lock:
            known = list(self._open)
        for each in known:
            if each.lock.acquire(blocking=False):
                try:
                    each.close()
                finally:
                    each.lock.release()

    def _learn(self, queue: str, owner: str) -> None:
        if owner and self._link.target(queue) != owner:
            self._later(self._link.learn, queue, owner)
