"""Quotas: how much a key may push, how many streams it may hold open, and how many queues there may be for it.

Each node counts for itself, but for queues: there may be so many whose names the key has the right to create.

A token bucket fills with the rate that a key may have, up to what a second brings. What was pushed is taken out
afterwards, when its size is known, so a bucket may go below zero; the next push waits until it is above. A single push
is refused with the time to wait; a stream of pushes is read more slowly instead, which holds its sender back.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from coldstore.shared.clock import Clock
from coldstore.shared.errors import Exhausted, InvalidInput
from hotstore.port import Push, Store
from jjq.limits import QUEUE_QUOTA_SECONDS


@dataclass(frozen=True, slots=True)
class Quota:
    """Limits of a key; 0: none."""

    elements_per_second: float = 0.0
    bytes_per_second: float = 0.0
    streams: int = 0
    queues: int = 0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not 0 <= getattr(self, name) < float("inf"):
                raise InvalidInput(f"{name} must be a number from 0 (no limit) on, not {getattr(self, name)}")

    @property
    def is_set(self) -> bool:
        return self != _NONE


_NONE: Final = Quota()


class TokenBucket:
    """A rate, and what is left of it."""

    def __init__(self, rate: float, clock: Clock) -> None:
        self._rate = rate
        self._clock = clock
        self._left = rate
        self._at = clock.monotonic()

    def seconds(self) -> float:
        """How long to wait before more may be spent."""
        if not self._rate:
            return 0.0
        now = self._clock.monotonic()
        self._left = min(self._rate, self._left + (now - self._at) * self._rate)
        self._at = now
        return max(0.0, -self._left / self._rate)

    def spend(self, amount: float) -> None:
        if self._rate:
            self.seconds()
            self._left -= amount


class KeyUsage:
    """What a key has used of its quota, on this node."""

    def __init__(
        self, key: str, quota: Quota, clock: Clock, owns: Callable[[str], bool] = lambda queue: True
    ) -> None:
        """`owns` tells whether the key may create a queue of this name."""
        self.quota = quota
        self._key = key
        self._owns = owns
        self._creating = asyncio.Lock()
        self._elements = TokenBucket(quota.elements_per_second, clock)
        self._bytes = TokenBucket(quota.bytes_per_second, clock)
        self._streams = 0

    def seconds(self) -> float:
        """How long to wait before the next push."""
        return max(self._elements.seconds(), self._bytes.seconds())

    def check(self) -> None:
        """Refuse a push that has to wait."""
        seconds = self.seconds()
        if seconds > 0:
            raise Exhausted(
                f"key {self._key} has used up its quota of {self.quota.elements_per_second:g} elements and "
                f"{self.quota.bytes_per_second:g} bytes a second (0: any): wait {seconds:.3g} s",
                retry_after=seconds,
            )

    def spend(self, elements: int, nbytes: int) -> None:
        """So much was pushed."""
        self._elements.spend(elements)
        self._bytes.spend(nbytes)

    def spend_all(self, pushes: Iterable[Push]) -> None:
        """These were pushed together."""
        for push in pushes:
            self.spend(push.payload.num_rows, push.payload.nbytes)

    @contextmanager
    def stream(self) -> Iterator[None]:
        """Around a stream."""
        if self.quota.streams and self._streams >= self.quota.streams:
            raise Exhausted(f"key {self._key} has {self._streams} open streams, its limit: close one")
        self._streams += 1
        try:
            yield
        finally:
            self._streams -= 1

    @asynccontextmanager
    async def new_queue(self, store: Store, name: str) -> AsyncIterator[None]:
        """Around the creation of a queue. One that exists already is none more."""
        if not self.quota.queues:
            yield
            return
        async with self._creating:  # two at once would both find room
            names = [queue.name for queue in await store.list_queues()]
            count = sum(map(self._owns, names))
            if name not in names and count >= self.quota.queues:
                raise Exhausted(
                    f"key {self._key} may have {self.quota.queues} queues, and there are {count}: delete one, or use "
                    f"another key",
                    retry_after=QUEUE_QUOTA_SECONDS,
                )
            yield


def new_queue(store: Store, name: str) -> AbstractAsyncContextManager[None]:
    """Around the creation of a queue, for the call that the present task serves."""
    usage = SPENDER.get()
    return nullcontext() if usage is None else usage.new_queue(store, name)


# The usage of the key whose call the present task serves. Code that pushes for it looks here; most keys have no quota.
SPENDER: Final[ContextVar[KeyUsage | None]] = ContextVar("jjq-spender", default=None)
