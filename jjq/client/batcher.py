"""Single pushes become batches: the part of a producer that any thread may call.

A push is an append to a list under a lock and nothing more; it returns the batch and the
index of the element in it. Everything else happens once per batch, on the event loop (producer.py).
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from coldstore.shared.batch import payload
from coldstore.shared.errors import Conflict, InvalidInput, JjqError
from coldstore.shared.headers import RESERVED, TASK_OPTIONS, is_reserved
from coldstore.shared.limits import (
    BATCH_ELEMENTS_MAX,
    ELEMENT_BYTES_MAX,
    KIB,
    MIB,
    PRODUCER_RECEIPTS_MAX,
)
from coldstore.shared.results import Receipt, Stage
from jjq.client.payload import advice_for

Value = bytes | bytearray | memoryview | str
Headers = Mapping[str, bytes | str]

_OPTIONS = frozenset(TASK_OPTIONS.values())  # reserved names that a user may give
_OVERHEAD_BYTES = (
    64  # what an element costs in memory beside its own bytes, and more than it adds to a message …
)
_HEADER_BYTES = 16  # … and each of its headers


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """How a producer gathers, and how much it may hold."""

    linger: float = 0.005  # seconds that a push may wait for company
    batch_bytes: int = 1 * MIB
    batch_elements: int = 10_000
    in_flight: int = 32  # batches; the store remembers the receipts of a few more, for retries
    memory_bytes: int = 64 * MIB  # pushes that wait or are in flight; further ones block
    deadline: float = 60.0  # seconds after which a push that could not be made fails
    stage: Stage = "synced"

    def __post_init__(self) -> None:
        most = PRODUCER_RECEIPTS_MAX - 1
        for holds, wrong in (
            (0 <= self.linger <= 60, f"linger must be between 0 and 60 seconds, not {self.linger}"),
            (
                1 <= self.batch_elements <= BATCH_ELEMENTS_MAX,
                f"batch_elements must be 1 to {BATCH_ELEMENTS_MAX}",
            ),
            (
                KIB <= self.batch_bytes <= ELEMENT_BYTES_MAX,
                f"batch_bytes must be 1024 to {ELEMENT_BYTES_MAX}",
            ),
            (1 <= self.in_flight <= most, f"in_flight must be 1 to {most}, not {self.in_flight}"),
            (
                self.memory_bytes >= self.batch_bytes,
                "memory_bytes must hold at least one batch of batch_bytes",
            ),
            (self.deadline > 0, f"deadline must be positive, not {self.deadline}"),
        ):
            if not holds:
                raise InvalidInput(wrong)


class ProducerBatch:
    """Pushes that travel together. Once `done`, nothing of it changes any more."""

    __slots__ = (
        "born",
        "bytes",
        "done",
        "error",
        "headers",
        "keys",
        "on_done",
        "receipt",
        "refused",
        "values",
    )

    def __init__(self, born: float) -> None:
        self.values: list[bytes | str] = []
        self.keys: list[Value | None] = []  # shorter than `values`, as are headers: the rest has none
        self.headers: list[Headers | None] = []
        self.bytes = 0
        self.born = born
        self.done = False
        self.receipt: Receipt | None = None
        self.error: JjqError | None = None
        self.refused: dict[int, JjqError] = {}  # elements that the queue cannot hold, by index
        self.on_done: list[Callable[[], object]] = []  # called on the event loop

    def label(self, index: int, key: Value | None, headers: Headers | None) -> None:
        """Note key and headers of the element at `index`, the last one; most batches have none."""
        if key is not None:
            self.keys += [None] * (index - len(self.keys)) + [key]
        if headers is not None:
            self.headers += [None] * (index - len(self.headers)) + [headers]

    def payload(self) -> pa.RecordBatch:
        """What is left to push."""
        count = len(self.values)
        labels: tuple[list[Any], ...] = (self.keys, self.headers)
        columns = [
            self.values,
            *([*label, *[None] * (count - len(label))] if label else [] for label in labels),
        ]
        if self.refused:
            kept = [index for index in range(count) if index not in self.refused]
            columns = [[column[index] for index in kept] if column else [] for column in columns]
        values, keys, headers = columns
        return payload("bytes", values, keys or None, headers or None)

    def refuse(self, position: int, error: JjqError) -> bool:
        """Leave out the element at `position` of the payload; False if none is left then."""
        kept = [index for index in range(len(self.values)) if index not in self.refused]
        self.refused[kept[position]] = error
        return len(kept) > 1

    def outcome(self, index: int) -> Receipt:
        """What became of one push of a batch that is done."""
        error = self.refused.get(index) or self.error
        if error is not None:
            raise error
        receipt = self.receipt
        if receipt is None:
            raise AssertionError("the batch is not done")
        offset = receipt.first_offset + index
        if self.refused:
            offset -= bisect_left(sorted(self.refused), index)
        return Receipt(offset, 1, receipt.timestamp_us, receipt.stage, receipt.duplicate)


class Batcher:
    """Batches being filled and filled, in order. All its methods may be called from any thread.

    `wake` must be safe to call from any thread; it is called once for each batch that is begun.
    """

    def __init__(
        self, settings: ProducerSettings, now: Callable[[], float], wake: Callable[[], None]
    ) -> None:
        self.lock = threading.Lock()
        self._room = threading.Condition(self.lock)
        self._on_room: list[Callable[[], object]] = []
        self._settings = settings
        self._now = now
        self._wake = wake
        self._bytes = 0
        self._waiting = 0
        self._filled: deque[ProducerBatch] = deque()
        self._open: ProducerBatch | None = None
        self._closed: JjqError | None = None

    def add(
        self, value: Value, key: Value | None, headers: Headers | None
    ) -> tuple[ProducerBatch, int] | None:
        """Where the push is now, or None if there is no room for it yet."""
        size = len(value) if type(value) is bytes else _size(value)
        labelled = key is not None or headers is not None
        if labelled:
            size += _label_size(key, headers)
        if size > ELEMENT_BYTES_MAX:
            _refuse_size(size)
        size += _OVERHEAD_BYTES if headers is None else _OVERHEAD_BYTES + _HEADER_BYTES * len(headers)
        with self.lock:
            held = self._bytes + size
            if held > self._settings.memory_bytes and self._bytes:
                return None
            batch = self._open
            if batch is None or self._is_full(batch, size):
                batch = self._begin()
            index = len(batch.values)
            batch.values.append(value if type(value) is bytes else _copy_of(value))
            batch.bytes += size
            self._bytes = held
            if labelled:
                batch.label(index, key, headers)
        return batch, index

    def add_waiting(
        self, value: Value, key: Value | None, headers: Headers | None
    ) -> tuple[ProducerBatch, int]:
        """As `add`, but block this thread until there is room."""
        while (place := self.add(value, key, headers)) is None:
            with self._room:
                if self._bytes and self._closed is None:
                    self._waiting += 1
                    try:
                        self._room.wait()
                    finally:
                        self._waiting -= 1
        return place

    def _is_full(self, batch: ProducerBatch, size: int) -> bool:
        settings = self._settings
        return batch.bytes + size > settings.batch_bytes or len(batch.values) >= settings.batch_elements

    def _begin(self) -> ProducerBatch:
        if self._closed is not None:
            raise self._closed
        if self._open is not None:
            self._filled.append(self._open)
        self._open = ProducerBatch(self._now())
        self._wake()
        return self._open

    def take(self, due: float | None) -> ProducerBatch | None:
        """The next batch to send: a filled one, or the open one if it was born by `due` (None: in any case)."""
        with self.lock:
            if self._filled:
                return self._filled.popleft()
            batch = self._open
            if batch is None or (due is not None and batch.born > due):
                return None
            self._open = None
            return batch

    def born(self) -> float | None:
        """When the oldest push that was not taken was made."""
        with self.lock:
            oldest = self._filled[0] if self._filled else self._open
            return None if oldest is None else oldest.born

    def waiting(self) -> list[ProducerBatch]:
        """All batches that were not taken."""
        with self.lock:
            return [*self._filled, *([self._open] if self._open is not None else [])]

    def release(self, batch: ProducerBatch) -> None:
        """The batch is done: its bytes make room, and those who wait for it are called."""
        with self.lock:
            batch.done = True
            self._bytes -= batch.bytes
            batch.values, batch.keys, batch.headers = [], [], []
            callbacks, batch.on_done = batch.on_done, []
            callbacks += self._on_room
            self._on_room = []
            if self._waiting:
                self._room.notify_all()
        for tell in callbacks:
            tell()

    def when_done(self, batch: ProducerBatch, tell: Callable[[], object]) -> bool:
        """Have `tell` called on the event loop when the batch is done; False if it is already."""
        with self.lock:
            if not batch.done:
                batch.on_done.append(tell)
            return not batch.done

    def when_room(self, tell: Callable[[], object]) -> bool:
        """Have `tell` called on the event loop when there is more room; False if there is no more to come."""
        with self.lock:
            if self._bytes:
                self._on_room.append(tell)
            return self._bytes > 0

    def close(self) -> None:
        """Take no more pushes. What was taken is not forgotten."""
        with self.lock:
            self._closed = Conflict("the producer is closed: make a new one")
            if self._open is not None:
                self._filled.append(self._open)
                self._open = None
            self._room.notify_all()


def _size(value: Value) -> int:
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, bytes | bytearray | memoryview):
        return memoryview(value).nbytes
    raise InvalidInput(f"push bytes or str, not {type(value).__name__}{advice_for(value)}")


def _copy_of(value: Value) -> bytes | str:
    """A copy of what its owner may change before it is sent."""
    return bytes(value) if isinstance(value, bytearray | memoryview) else value


def _label_size(key: Value | None, headers: Headers | None) -> int:
    size = 0 if key is None else _size(key)
    if headers is not None:
        if not isinstance(headers, Mapping):
            raise InvalidInput(f"headers are a mapping of names to bytes, not {type(headers).__name__}")
        size += sum(_size(name) + _size(value) for name, value in headers.items())
        for name in headers:
            if isinstance(name, str) and name.startswith(RESERVED) and name not in _OPTIONS:
                raise InvalidInput(f"the element cannot be pushed: {is_reserved(name)}")
    return size


def _refuse_size(size: int) -> None:
    raise InvalidInput(
        f"the element has {size} bytes; at most {ELEMENT_BYTES_MAX} are allowed "
        f"(push_file stores a larger one as an object)"
    )
