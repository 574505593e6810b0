"""Sessions: who takes. A session lives while a connection of it is attached, and its ttr longer.

Several connections may share a session, and a client that reconnects in time goes on with its tasks. After a start or a
takeover, the sessions that the ledgers name have their ttr to attach again. A name that never attached is a name and
nothing else: its tasks are given back when their own time is over, or at the next start.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from coldstore.shared.clock import Clock
from coldstore.shared.errors import Conflict, InvalidInput, NotFound
from coldstore.shared.limits import NAME_CHARS_MAX
from hotstore.groups.options import check_seconds
from hotstore.groups.values import SessionInfo, Take

_SECOND_US = 1_000_000


class _Session:
    __slots__ = ("connections", "ends_us", "ttr")

    def __init__(self, ttr: float) -> None:
        self.ttr = ttr
        self.connections = 0
        self.ends_us = 0  # 0: not while a connection is attached


class Sessions:
    """The sessions of this node. `on_end` is called with each that has ended."""

    def __init__(self, clock: Clock, on_end: Callable[[str], None]) -> None:
        self._clock = clock
        self._on_end = on_end
        self._known: dict[str, _Session] = {}
        self._ending: list[tuple[int, str]] = []

    def ttr_of(self, session: str) -> float | None:
        """The ttr of a session that is attached, or was a moment ago; None for a mere name."""
        found = self._known.get(session)
        return None if found is None else found.ttr

    def is_known(self, session: str) -> bool:
        return session in self._known

    def attach(self, session: str, ttr: float) -> SessionInfo:
        """A connection begins. The ttr of the last one counts."""
        check_session(session)
        if not session:
            raise InvalidInput("a session needs an id: choose one that no other worker has")
        check_seconds("ttr", ttr)
        found = self._known.setdefault(session, _Session(ttr))
        found.ttr = float(ttr)
        found.connections += 1
        found.ends_us = 0
        return SessionInfo(session, found.ttr)

    def detach(self, session: str) -> None:
        """A connection ended."""
        found = self._known.get(session)
        if found is None or not found.connections:
            raise NotFound(f"session {session!r:.60} is not attached: its time may be over")
        found.connections -= 1
        if not found.connections:
            self._end_at(session, found, self._clock.now_us() + round(found.ttr * _SECOND_US))

    def expect(self, session: str, ttr: float) -> None:
        """After a start: this session holds tasks, and has its ttr to attach again."""
        if session not in self._known:
            found = self._known[session] = _Session(ttr)
            self._end_at(session, found, self._clock.now_us() + round(ttr * _SECOND_US))

    def _end_at(self, session: str, found: _Session, time_us: int) -> None:
        found.ends_us = time_us
        heapq.heappush(self._ending, (time_us, session))

    def advance(self) -> None:
        """End the sessions whose time is over."""
        now_us = self._clock.now_us()
        while self._ending and self._ending[0][0] <= now_us:
            time_us, session = heapq.heappop(self._ending)
            found = self._known.get(session)
            if found is not None and found.ends_us == time_us:
                del self._known[session]
                self._on_end(session)

    def next_us(self) -> int | None:
        return self._ending[0][0] if self._ending else None


def check_session(session: str) -> None:
    """Refuse what the ledger could not hold."""
    try:
        size = len(session.encode())
    except (AttributeError, UnicodeEncodeError):
        size = NAME_CHARS_MAX + 1
    if size > NAME_CHARS_MAX:
        raise InvalidInput(
            f"session {session!a:.60} is not allowed: use text of at most {NAME_CHARS_MAX} bytes in UTF-8"
        )


def session_ended(take: Take) -> Conflict:
    """Of a take that its session did not live to see."""
    return Conflict(f"session {take.session!r:.60} has ended: take as a session that is attached")
