"""Trying again: only what is safe, after growing pauses with jitter, within one budget of time.

Exhausted      nothing was written: any verb may be tried again, after the delay that it names
Fenced         nothing was written, the queue moves between nodes: any verb may be tried again
Unavailable    not `sent`: any verb may be tried again
Unavailable    the outcome is unknown: only verbs that may happen twice are tried again
anything else  is certain and final

When time runs out, the error is the last certain refusal, unless something was sent since then
(`LinkBackoff.verdict`). For this reason nothing is sent so late that it would be cut off before an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from coldstore.shared.backoff import Backoff
from coldstore.shared.chance import Chance
from coldstore.shared.errors import Exhausted, Fenced, JjqError, Unavailable
from jjq.limits import ATTEMPT_SECONDS, BACKOFF_SECONDS, BACKOFF_SECONDS_MAX
from jjq.remote.channels import Lane, Link
from jjq.wire.services import READING

T = TypeVar("T")
_CLOSE = 0.02  # seconds before the deadline at which an attempt that fails counts as cut off by it


class LinkBackoff:
    """Pauses between attempts over the servers of a link, and what to say when there is no time for another one."""

    def __init__(self, link: Link, chance: Chance) -> None:
        self._link = link
        self._backoff = Backoff(BACKOFF_SECONDS, BACKOFF_SECONDS_MAX, chance)
        self._refusal: JjqError | None = None  # the last answer, if it was a certain one
        self._doubt = False  # something was sent, and there was no answer
        self.attempts = 0

    def reset(self) -> None:
        self.attempts = 0
        self._refusal, self._doubt = None, False

    def verdict(self, error: JjqError, *, silent: bool, writes: bool = False) -> JjqError:
        """What to raise after `error`, the last of all.

        `silent` says that time ran out over it: then the last answer is the one before. A verb that `writes` may
        have done so meanwhile, so its caller hears of both.
        """
        if writes and self._doubt and not isinstance(error, Unavailable):
            return Unavailable(f"{error.message} (an earlier attempt had no answer; the outcome is unknown)")
        refusal = self._refusal
        if refusal is None or not silent or not isinstance(error, Unavailable):
            return error
        if writes and error.sent:
            return Unavailable(f"{error.message} (it was refused before that: {refusal.message})")
        return refusal.copy()

    def pause(self, error: JjqError) -> float:
        """Seconds before the next attempt. Servers not yet asked are asked at once."""
        self.attempts += 1
        if isinstance(error, Unavailable):
            self._refusal, self._doubt = None, self._doubt or error.sent
        else:
            self._refusal = error
        rounds, asked = divmod(self.attempts, len(self._link.targets))
        spread = self._backoff.pause_after(rounds + 1)
        if isinstance(error, Exhausted):
            return max(error.retry_after, spread)
        return 0.0 if asked else spread


class Caller:
    """Calls with one request and one reply."""

    def __init__(self, link: Link, chance: Chance) -> None:
        self._link = link
        self._chance = chance

    async def call(
        self,
        method: str,
        request: bytes,
        seconds: float,
        *,
        wait: float = 0.0,
        again: bool = True,
        done: type[JjqError] | None = None,
        queue: str = "",
    ) -> bytes:
        """The reply.

        `seconds` is the budget beside the `wait` that the request itself asks for; `again` says that
        the verb may happen twice. Where it may not, it is sent only over a connection that stands, so
        that failing to connect is certain and may be tried again. `done` is the error by which a retry
        tells that an earlier attempt, whose reply was lost, has succeeded. `queue` finds the server.
        """

        async def attempt(lane: Lane, limit: float) -> bytes:
            return await self.attempt(lane, method, request, limit)

        succeeded = None if done is None else (done, b"")
        writes = method not in READING
        return await self.insist(
            attempt, seconds, wait=wait, again=again, done=succeeded, queue=queue, writes=writes
        )

    async def insist(
        self,
        attempt: Callable[[Lane, float], Awaitable[T]],
        seconds: float,
        *,
        wait: float = 0.0,
        again: bool = True,
        done: tuple[type[JjqError], T] | None = None,
        queue: str = "",
        writes: bool = True,
    ) -> T:
        """What an attempt, given a connection and a number of seconds, comes to; see `call`."""
        clock, backoff = self._link.clock, LinkBackoff(self._link, self._chance)
        deadline = clock.monotonic() + wait + seconds
        while True:
            await self._link.meet()
            lane = self._link.lane(queue)
            began = clock.monotonic()
            try:
                if not again or lane.strict:
                    await lane.ready(deadline - clock.monotonic())
                many = len(self._link.targets) > 1
                left = deadline - clock.monotonic()
                limit = min(left, wait + ATTEMPT_SECONDS) if many else left
                return await attempt(lane, limit)
            except (Exhausted, Unavailable) as error:
                final = backoff.verdict(error, silent=clock.monotonic() >= deadline - _CLOSE, writes=writes)
                if isinstance(error, Unavailable):
                    if error.sent and not again:
                        raise final from None
                    self._link.failed(lane)
                pause = backoff.pause(error)
                took = 0.0 if isinstance(error, Unavailable) else clock.monotonic() - began
                late = clock.monotonic() + pause + took >= deadline
                if self._link.closed or not self._link.patient or late:
                    raise final from None
                await asyncio.sleep(pause)
            except Fenced as error:  # certain: nothing was written, and the queue is elsewhere
                pause = backoff.pause(error)
                if not self._link.follows or clock.monotonic() + pause >= deadline:
                    raise
                self._link.learn(queue, error.owner)
                await asyncio.sleep(pause)
            except JjqError as error:
                if backoff.attempts and done is not None and isinstance(error, done[0]):
                    return done[1]
                raise

    async def attempt(self, lane: Lane, method: str, request: bytes, seconds: float) -> bytes:
        """One call over this connection."""
        return await lane.call(method, request, seconds)
