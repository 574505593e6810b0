"""A producer: single pushes become batches, many in flight, each written exactly once and in order.

    push → batcher.py → in flight ─ receipt ─→ done
                           └ failed → all others settle → again, one by one, in order → done

Every batch has an identity, (producer, sequence), so a batch whose outcome is unknown is sent again
until it is known or its deadline passes. The store takes the batches of a producer only in the order
of their sequences: after a failure it refuses the later ones in flight (`Conflict`), which is why
they are sent again, too.

A store that does not know a producer takes any sequence as its first. If it refused the first batch and
took the second, the first could never follow. So the first batch is sent alone. The same holds for the first
batch after a long silence, in which the store may have forgotten the producer.

When a batch fails for good, the producer goes on under a new identity. Batches of unknown outcome fail
together with it: under a new identity they could be written twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from types import TracebackType
from typing import Self

from coldstore.shared.backoff import Backoff
from coldstore.shared.chance import Chance
from coldstore.shared.clock import Clock
from coldstore.shared.deadline import within
from coldstore.shared.errors import Conflict, Exhausted, InvalidInput, JjqError, Unavailable
from hotstore.port import Receipt, Store
from jjq.client.batcher import Batcher, Headers, ProducerBatch, ProducerSettings, Value
from jjq.client.push_future import Pushed, wait_done, wake_future
from jjq.limits import BACKOFF_SECONDS, BACKOFF_SECONDS_MAX

_SILENCE_SECONDS = 600.0
_ATTEMPT_SECONDS = 5.0  # the least time for one attempt, also if the batch waited long before it


class _Sending:
    """A batch that is being sent, for the first time or again."""

    __slots__ = ("batch", "error", "sequence", "unknown")

    def __init__(self, batch: ProducerBatch, sequence: int) -> None:
        self.batch = batch
        self.sequence = sequence
        self.error: JjqError | None = None
        self.unknown = False  # it may have been written


class AsyncProducer:
    """Pushes to one queue. Make it with `Client.producer`; close it, or use it as a context manager."""

    def __init__(
        self,
        store: Store,
        queue: str,
        settings: ProducerSettings,
        clock: Clock,
        chance: Chance,
        on_close: Callable[[AsyncProducer], None],
    ) -> None:
        self._store = store
        self._queue = queue
        self._settings = settings
        self._clock = clock
        self._chance = chance
        self._on_close = on_close
        self._loop = asyncio.get_running_loop()
        self.batcher = Batcher(settings, clock.monotonic, self._wake)
        self._id = chance.token()
        self._sequence = 0
        self._proven = -_SILENCE_SECONDS  # when the store last took a batch: it knows the producer
        self._sendings: dict[
            ProducerBatch, _Sending
        ] = {}  # in order; those that failed stay until all settled
        self._running: set[asyncio.Task[None]] = set()
        self._failed = False  # something in flight failed: nothing new is sent until it was repeated
        self._flushed = -1.0  # batches born by then are due
        self._timer: asyncio.TimerHandle | None = None
        self._error: JjqError | None = None

    async def push(self, value: Value, key: Value | None = None, headers: Headers | None = None) -> Pushed:
        """Take one element; waits only while too many bytes are under way. Await the result for its receipt."""
        while (place := self.batcher.add(value, key, headers)) is None:
            room = self._loop.create_future()
            if self.batcher.when_room(partial(wake_future, room)):
                await room
        return Pushed(self.batcher, *place)

    async def flush(self) -> None:
        """Send what was pushed and wait until it is decided; raises the first error since the last flush."""
        batches = [*self._sendings, *self.batcher.waiting()]
        self._flushed = self._clock.monotonic()
        self._pump()
        for batch in batches:
            await wait_done(self.batcher, batch)
        error, self._error = self._error, None
        if error is not None:
            raise error

    async def close(self) -> None:
        """Flush, and take no more. Closing again does nothing."""
        self.batcher.close()
        try:
            await self.flush()
        finally:
            self._on_close(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except JjqError:
            if error is None:
                raise

    # Sending ----------------------------------------------------------------------------------------

    def _wake(self) -> None:
        """A batch was begun, by any thread."""
        self._loop.call_soon_threadsafe(self._pump)

    def _pump(self) -> None:
        """Send what is due, as far as the window allows; look again when the next one is."""
        while not self._failed and len(self._sendings) < self._window():
            now = self._clock.monotonic()
            batch = self.batcher.take(max(now - self._settings.linger, self._flushed))
            if batch is None:
                self._look_again(now)
                return
            self._send(batch)

    def _window(self) -> int:
        silent = self._clock.monotonic() - self._proven > _SILENCE_SECONDS
        return 1 if silent else self._settings.in_flight

    def _look_again(self, now: float) -> None:
        born = self.batcher.born()
        if born is not None and self._timer is None:
            self._timer = self._loop.call_later(
                max(0.0, born + self._settings.linger - now), self._linger_over
            )

    def _linger_over(self) -> None:
        self._timer = None
        self._pump()

    def _send(self, batch: ProducerBatch) -> None:
        sending = self._sendings[batch] = _Sending(batch, self._sequence)
        self._sequence += 1
        self._start(self._send_once(sending))

    async def _send_once(self, sending: _Sending) -> None:
        """One attempt, until the batch's deadline at most."""
        left = sending.batch.born + self._settings.deadline - self._clock.monotonic()
        try:
            silence = f"no answer within {self._settings.deadline:g} s; the outcome is unknown"
            async with within(max(left, _ATTEMPT_SECONDS), silence):
                receipt = await self._store.push(
                    self._queue,
                    sending.batch.payload(),
                    producer=self._id,
                    sequence=sending.sequence,
                    stage=self._settings.stage,
                )
        except JjqError as error:
            sending.error = error
            sending.unknown |= isinstance(error, Unavailable) and error.sent
            self._failed = True
        except Exception as error:  # noqa: BLE001 - somebody waits: a bug must not leave them waiting
            sending.error = JjqError(f"the push failed unexpectedly, its outcome is unknown: {error!r}")
            sending.unknown = self._failed = True
        else:
            self._proven = self._clock.monotonic()
            self._settle(sending, receipt, None)

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not self._failed:
            self._pump()
        elif not self._running and not task.cancelled():
            self._start(self._recover())

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._task_done)

    def _settle(self, sending: _Sending, receipt: Receipt | None, error: JjqError | None) -> None:
        batch = sending.batch
        batch.receipt, batch.error = receipt, error
        del self._sendings[batch]
        self._error = self._error or error or next(iter(batch.refused.values()), None)
        self.batcher.release(batch)

    # After a failure --------------------------------------------------------------------------------

    async def _recover(self) -> None:
        """Nothing is under way: send again what failed, one by one, in order."""
        for sending in list(self._sendings.values()):
            await self._repeat(sending)
        self._failed = False

    async def _repeat(self, sending: _Sending) -> None:
        deadline = sending.batch.born + self._settings.deadline
        backoff = Backoff(BACKOFF_SECONDS, BACKOFF_SECONDS_MAX, self._chance)
        behind = isinstance(sending.error, Conflict)  # refused because one before it had failed
        while not sending.batch.done:  # it is from the start if it was given up with one before it
            match sending.error:
                case Unavailable(reached=False):
                    again = False
                case Unavailable() | Exhausted() as error:
                    pause = error.retry_after if isinstance(error, Exhausted) else 0.0
                    again = await backoff.wait(self._clock, deadline, pause)
                case InvalidInput(position=int(position)) as error:
                    again = sending.batch.refuse(position, error)
                case _:
                    again, behind = behind, False
            if again:
                await self._send_once(sending)
            else:
                self._give_up(sending)

    def _give_up(self, sending: _Sending) -> None:
        """Fail a batch, and go on with the others under a new identity."""
        error = sending.error
        if sending.unknown and error is not None and not isinstance(error, Unavailable):
            error = Unavailable(f"{error.message} (an earlier attempt had no answer; the outcome is unknown)")
        self._settle(sending, None, error)
        if sending.unknown:
            for other in [other for other in self._sendings.values() if other.unknown]:
                self._settle(other, None, other.error)
        self._id, self._sequence = self._chance.token(), 0
        self._proven = -_SILENCE_SECONDS
        for other in self._sendings.values():
            other.sequence, other.unknown = self._sequence, False
            self._sequence += 1
