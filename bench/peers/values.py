"""The elements that every system gets: JSON as an application has it, padded to a size with random text.

The pool is large enough that no compressor sees a repetition; making values costs no time while measuring.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import cycle, islice

import numpy as np

POOL_BYTES = 40_000_000
_LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_", np.uint8)


def pool(size: int, nbytes: int = POOL_BYTES) -> list[bytes]:
    """Different values of exactly `size` bytes."""
    chance = np.random.default_rng(size)
    count = nbytes // size
    users, cents = chance.integers(0, 10_000, count).tolist(), chance.integers(0, 100_000, count).tolist()
    noise = _LETTERS[chance.integers(0, 64, count + size, dtype=np.uint8)].tobytes()
    starts = chance.permutation(count).tolist()
    values = []
    for at, (user, price, start) in enumerate(zip(users, cents, starts, strict=True)):
        head = b'{"id":%d,"user":"user%d","cents":%d,"status":"open","note":"' % (at, user, price)
        values.append(head + noise[start : start + size - len(head) - 2] + b'"}')
    return values


class Timed:
    """Values until the time is over, and how many that were; looks at the clock at every `step` of them."""

    def __init__(self, values: list[bytes], seconds: float, step: int) -> None:
        self.count = 0
        self._values = cycle(values)
        self._seconds = seconds
        self._step = step

    def __iter__(self) -> Iterator[bytes]:
        deadline = time.perf_counter() + self._seconds
        while time.perf_counter() < deadline:
            yield from islice(self._values, self._step)
            self.count += self._step


def first(values: list[bytes], count: int) -> Iterator[bytes]:
    return islice(cycle(values), count)
