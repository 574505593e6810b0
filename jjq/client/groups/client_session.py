"""The session of a client: who takes its tasks.

It is attached at the first verb that needs it, and detached when the client closes. A session that nobody named
ends with its client: what it still holds is released at once. A session that was named outlives the client for its
ttr, so that another client may go on with its tasks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from coldstore.shared.chance import Chance
from coldstore.shared.errors import InvalidInput
from hotstore.groups.port import WorkStore
from hotstore.groups.values import SessionInfo
from jjq.limits import SESSION_CHARS_MAX, SESSION_SECONDS


class ClientSession:
    """One session at a time."""

    def __init__(self, work: Callable[[], WorkStore], chance: Chance) -> None:
        self._work = work
        self._chance = chance
        self._now: SessionInfo | None = None
        self._named = False
        self._lock = asyncio.Lock()  # while it changes

    async def id(self) -> str:
        """The session, attached."""
        if self._now is None:
            async with self._lock:
                if self._now is None:
                    self._now = await self._work().attach_session(self._new_name(), SESSION_SECONDS)
        return self._now.id

    async def replace(self, name: str | None, ttr: float) -> SessionInfo:
        """Another session from now on."""
        if name is not None and not 1 <= len(name) <= SESSION_CHARS_MAX:
            raise InvalidInput(
                f"the id of a session has 1 to {SESSION_CHARS_MAX} characters, not {len(name)}"
            )
        async with self._lock:
            found = await self._work().attach_session(self._new_name() if name is None else name, ttr)
            before, named, self._now, self._named = self._now, self._named, found, name is not None
            await self._detach(before, named)
            return found

    async def leave(self) -> None:
        """The client closes."""
        async with self._lock:
            before, self._now = self._now, None
            await self._detach(before, self._named)

    async def _detach(self, session: SessionInfo | None, named: bool) -> None:
        if session is None:
            return
        work = self._work()
        if not named:  # nobody can come back to it: no reason to wait for its ttr
            await work.attach_session(session.id, 0.0)
            await work.detach_session(session.id)
        await work.detach_session(session.id)

    def _new_name(self) -> str:
        return f"session-{self._chance.token()}"
