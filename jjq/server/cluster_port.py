"""Hints: what a server of a cluster tells clients about who owns a queue."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, runtime_checkable

from hotstore.port import Receipt, Store


class Hint(Protocol):
    """The address of the node to ask for a queue, or for its element at `offset`; empty: this one."""

    def __call__(self, queue: str, offset: int | None = None) -> str: ...


@runtime_checkable
class Clustered(Protocol):
    """A store that asks other nodes; `local_only` is what they may ask of this one, `local` its own store."""

    @property
    def node(self) -> str: ...

    @property
    def local_only(self) -> Store: ...

    @property
    def local(self) -> Store: ...

    def hint(self, queue: str, offset: int | None = None) -> str: ...

    def relay(
        self, queue: str, ordered: bool, message: bytes, push: Callable[[], Awaitable[Receipt]]
    ) -> asyncio.Future[Receipt] | None:
        """Pass on a push as it came to the node that has the queue; None: it has to be pushed."""
        ...


def no_hint(queue: str, offset: int | None = None) -> str:
    """Of a server that is alone."""
    return ""


def hints_of(store: Store) -> Hint:
    return store.hint if isinstance(store, Clustered) else no_hint
