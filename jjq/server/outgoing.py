"""Messages that clients have not read yet: one budget for all of them.

A message that a client does not read stays in memory, twice: our bytes and gRPC's copy of them. A stream makes its
next message when the last one is gone, so it holds one at a time; but thousands of streams that never read held
0.44 MB each. So all of them share a budget, in three steps:

    the less is free the smaller messages are made       half a megabyte, down to `STREAM_MESSAGE_BYTES_MIN`
    half of it is used: those who read slowest are closed    with RESOURCE_EXHAUSTED
    all of it is used: a message that is not small is not sent    its stream is closed in the same way

gRPC cannot take a message back. The message that a closed stream was sending stays, and counts, until its client reads
it and the error behind it, or hangs up. Everything else that the stream held is free at once: its batch, its place in a
block. A client that reads on later resumes where it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from coldstore.shared.clock import Clock
from coldstore.shared.errors import Exhausted
from jjq.limits import SLOW_SECONDS, STREAM_MESSAGE_BYTES, STREAM_MESSAGE_BYTES_MIN

_COPIES: Final = 2  # of a message in memory
_SHARE: Final = 64  # of what is free goes to the next message
_RETRY_SECONDS: Final = 1.0


class Write:
    """A message on its way.

    The coroutine that writes it must run to its end, even if its caller stops waiting. A task would do that, but would
    cost one more round of the loop for each message. So this class drives the coroutine itself. It waits for gRPC,
    nearly always once.
    """

    __slots__ = ("_done", "_writing", "began", "cost", "outcome")

    def __init__(
        self, writing: Coroutine[Any, Any, None], cost: int, began: float, done: Callable[[Write], None]
    ) -> None:
        self._writing = writing
        self._done = done
        self.cost = cost
        self.began = began
        self.outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def go_on(self, _waited: object = None) -> None:
        """Write until there is something to wait for."""
        try:
            waited = self._writing.send(None)
        except StopIteration:
            self._end(None)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - the caller that waits raises it
            self._end(error)
        else:
            if waited is None:  # only for the next round
                asyncio.get_running_loop().call_soon(self.go_on)
            else:
                waited._asyncio_future_blocking = False
                waited.add_done_callback(self.go_on)

    def _end(self, error: BaseException | None) -> None:
        self._done(self)
        if self.outcome.done():
            return  # its stream was closed, or its client has gone
        if error is None:
            self.outcome.set_result(None)
        elif isinstance(error, asyncio.CancelledError):
            self.outcome.cancel()
        else:
            self.outcome.set_exception(error)


class Outgoing:
    """The budget of one server."""

    def __init__(self, most: int, clock: Clock) -> None:
        self.most = most
        self.bytes = 0  # held now
        self.closed = 0  # streams so far
        self._clock = clock
        self._writes: dict[Write, None] = {}  # those that may be broken off, the oldest first
        self._held = 0  # by these alone

    def room(self) -> int:
        """How large the next message of a stream should be."""
        share = (self.most - self.bytes) // (_COPIES * _SHARE)
        return max(STREAM_MESSAGE_BYTES_MIN, min(STREAM_MESSAGE_BYTES, share))

    def check_room(self) -> None:
        """Refuse a request whose reply may be large, while there is no room for it."""
        if self.bytes >= self.most:
            raise Exhausted(
                f"the server holds {self.bytes} bytes for clients that do not read: retry",
                retry_after=_RETRY_SECONDS,
            )

    def hold(self, size: int) -> None:
        self.bytes += _COPIES * size

    def release(self, size: int) -> None:
        self.bytes -= _COPIES * size

    async def send(self, writing: Coroutine[Any, Any, None], size: int) -> None:
        """Await `writing`, the write of a message of `size` bytes; or `Exhausted`, and it goes on by itself.

        It is never cancelled: gRPC would not free what it had begun to send.
        """
        cost = _COPIES * size
        if size < STREAM_MESSAGE_BYTES_MIN:  # too small to be worth a place in the list
            self.bytes += cost
            try:
                await writing
            finally:
                self.bytes -= cost
            return
        if self.bytes + cost > self.most:
            writing.close()
            self.closed += 1
            raise self._exhausted("a message that is not small cannot be sent")
        write = Write(writing, cost, self._clock.monotonic(), self._done)
        self._writes[write] = None
        self.bytes += cost
        self._held += cost
        write.go_on()
        self._close_slow()
        await write.outcome

    def _done(self, write: Write) -> None:
        self.bytes -= write.cost
        self._drop(write)

    def _drop(self, write: Write) -> None:
        if write in self._writes:
            del self._writes[write]
            self._held -= write.cost

    def _close_slow(self) -> None:
        """End the streams whose message has waited longest, until the others hold half of the budget."""
        late = self._clock.monotonic() - SLOW_SECONDS
        while self._writes and self._held > self.most // 2:
            write = next(iter(self._writes))
            if write.began > late:
                return
            self._drop(write)
            if not write.outcome.done():
                self.closed += 1
                write.outcome.set_exception(self._exhausted("this one has not read for the longest time"))

    def _exhausted(self, why: str) -> Exhausted:
        return Exhausted(
            f"the server holds {self.bytes} bytes for clients that do not read, of {self.most}: {why}; "
            f"read faster, and resume where you were",
            retry_after=_RETRY_SECONDS,
        )
