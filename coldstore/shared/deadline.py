"""Time runs out: what is the error then?

Whoever waits for an answer, and tries again after refusals that may pass, is cancelled when its time is up. If the
last answer was a certain refusal (`Exhausted`: the disk is full), and nothing was sent since, that refusal is what
the caller must hear: it names the reason, and it says that nothing was written. "The outcome is unknown" would be
true of neither.

The two sides meet in the cancellation: who is cancelled while it knows better leaves what it knows as the cause
(`broken_off`), and who set the time (`within`) raises that instead of its own sentence. Nothing is passed by if
no time is set: a cancellation stays one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NoReturn

from coldstore.shared.errors import JjqError, Unavailable


@asynccontextmanager
async def within(seconds: float, silence: str) -> AsyncIterator[None]:
    """Break off after `seconds`, with the refusal that was left as the cause; else `silence` is the error."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise _left_in(error) or Unavailable(silence) from None


def broken_off(refusal: JjqError | None) -> NoReturn:
    """Be cancelled, and leave what was known: nothing was written, for this reason."""
    if refusal is None:
        raise asyncio.CancelledError
    raise asyncio.CancelledError from refusal


def _left_in(error: TimeoutError) -> JjqError | None:
    """asyncio raises its timeout from the cancellation that it made of it."""
    cancelled = error.__cause__
    refusal = None if cancelled is None else cancelled.__cause__
    return refusal.copy() if isinstance(refusal, JjqError) else None


def settle(reply: asyncio.Future[Any], answer: object) -> None:
    """Set the result, or the exception if it is one. A caller that no longer waits gets nothing."""
    if reply.done():
        return
    if isinstance(answer, Exception):
        reply.set_exception(answer)
    else:
        reply.set_result(answer)
