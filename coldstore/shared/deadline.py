"""Which error a call raises when its time runs out.

A call that waits for an answer, and retries after refusals, is cancelled when its time is up. If the
last answer was a certain refusal (`Exhausted`: the disk is full), and nothing was sent since, that refusal is what
the caller must hear: it names the reason, and it says that nothing was written. "The outcome is unknown" would be
true of neither.

The two sides meet in the cancellation: a cancelled call that knows the refusal leaves it as the cause (`broken_off`),
and the caller that set the time (`within`) raises that instead of its own sentence. Nothing is passed by if no time is
set: a cancellation stays one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NoReturn

from coldstore.shared.errors import JjqError, Unavailable


@asynccontextmanager
async def within(seconds: float, silence: str) -> AsyncIterator[None]:
    """Cancel after `seconds`, and raise the refusal that was left as the cause; without one, raise `silence`."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise _left_in(error) or Unavailable(silence) from None


def broken_off(refusal: JjqError | None) -> NoReturn:
    """End as cancelled, and leave the reason as the cause: nothing was written."""
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
